// Command publish lists what a release still needs from a person, each with how that was
// checked. It changes nothing. Its exit code is 1 while something is missing, or is unknown
// because nothing answered.
//
//	go run ./publish [FOLDER of the repository]
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

const (
	repository = "volume-doctor/kubectl-volume-doctor"
	module     = "github.com/" + repository
	image      = "volume-doctor/volume-doctor"
	chart      = "volume-doctor/charts/volume-doctor"
	workflow   = "https://" + module + "/.github/workflows/release.yaml"
	issuer     = "https://token.actions.githubusercontent.com"

	// patience is how long one check may take.
	patience = 30 * time.Second
	// maxPage is how much of an answer is read.
	maxPage = 1 << 20
)

// world has the places in which publish looks.
type world struct {
	folder                              string // of the repository
	github, api, raw, modules, registry string
	// run returns the output of a command.
	run func(ctx context.Context, name string, args ...string) (string, error)
}

// check is one thing that a release needs.
type check struct {
	what string
	// how is the request or the command.
	how string
	// needs says what a person must do where it is missing.
	needs string
	try   func(context.Context) error
}

func main() {
	folder := ".."
	if len(os.Args) > 1 {
		folder = os.Args[1]
	}
	ready, err := report(context.Background(), world{
		folder: folder,
		github: "https://github.com", api: "https://api.github.com", raw: "https://raw.githubusercontent.com",
		modules: "https://proxy.golang.org", registry: "ghcr.io",
		run: run,
	}, os.Stdout)
	if err != nil {
		fmt.Fprintf(os.Stderr, "publish: %v\n", err)
	}
	if err != nil || !ready {
		os.Exit(1)
	}
}

func run(ctx context.Context, name string, args ...string) (string, error) {
	text, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil && len(text) > 0 {
		err = fmt.Errorf("%w: %s", err, firstLine(string(text)))
	}
	return string(text), err
}

// report writes a line for each thing, and reports whether all of them are there.
func report(ctx context.Context, w world, out io.Writer) (ready bool, err error) {
	text, err := os.ReadFile(filepath.Join(w.folder, "deploy", "chart", "Chart.yaml"))
	if err != nil {
		return false, err
	}
	version := regexp.MustCompile(`(?m)^appVersion: (v\S+)$`).FindSubmatch(text)
	if version == nil {
		return false, errors.New("deploy/chart/Chart.yaml has no appVersion")
	}
	tag := string(version[1])
	missing, unknown := 0, 0
	for _, c := range checks(w, tag) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		err := c.try(ctx)
		cancel()
		if err == nil {
			fmt.Fprintf(out, "ready    %s\n         checked by: %s\n", c.what, c.how)
			continue
		}
		state := "UNKNOWN"
		if isNo(err) {
			state = "MISSING"
			missing++
		} else {
			unknown++
		}
		fmt.Fprintf(out, "%s  %s\n         checked by: %s\n         found: %s\n         needs: %s\n", state, c.what, c.how, firstLine(err.Error()), c.needs)
	}
	if missing+unknown > 0 {
		fmt.Fprintf(out, "\n%s: %d missing, %d unknown.\n", tag, missing, unknown)
		return false, nil
	}
	fmt.Fprintf(out, "\n%s is published.\n", tag)
	return true, nil
}

func checks(w world, tag string) []check {
	get := func(what, url, needs, want string) check {
		return check{what, "GET " + url, needs, func(ctx context.Context) error { return has(ctx, url, want) }}
	}
	command := func(what, needs string, want string, args ...string) check {
		return check{what, strings.Join(args, " "), needs, func(ctx context.Context) error {
			text, err := w.run(ctx, args[0], args[1:]...)
			if err == nil && !strings.Contains(text, want) {
				err = no(fmt.Sprintf("%q is not in what it says", strings.TrimSpace(want)))
			}
			return err
		}}
	}
	pulled := func(what, repository, tag, needs string) check {
		reference := w.registry + "/" + repository + ":" + tag
		return check{what, "HEAD " + reference + ", without a login", needs, func(ctx context.Context) error {
			parsed, err := name.ParseReference(reference)
			if err != nil {
				return err
			}
			_, err = remote.Head(parsed, remote.WithContext(ctx))
			return err
		}}
	}
	released := w.registry + "/" + image + ":" + tag
	return []check{
		get("the repository, public", w.github+"/"+repository+"/info/refs?service=git-upload-pack",
			"create it, push main, and make it public", "git-upload-pack"),
		command("the tag "+tag+" on this commit", "a signed tag of this commit, pushed: its workflow makes the draft of a release", tag+"\n",
			"git", "-C", w.folder, "tag", "--points-at", "HEAD"),
		get("the release "+tag, w.api+"/repos/"+repository+"/releases/tags/"+tag,
			"read the draft and publish it: that pushes the image and the chart, and tells krew", `"tag_name"`),
		get("the module, for go install", w.modules+"/"+module+"/@v/"+tag+".info",
			"nothing but the public tag; the proxy reads it when it is first asked for", tag),
		get("private reports of vulnerabilities", w.api+"/repos/"+repository+"/private-vulnerability-reporting",
			"switch them on in the repository's settings, as SECURITY.md says", `"enabled":true`),
		pulled("the image", image, tag, "make the package public in the organisation's settings after its first push"),
		command("the image's signature", "the job image of the release workflow signs it; a person needs cosign here to check", "",
			"cosign", "verify", "--certificate-identity", workflow+"@refs/tags/"+tag, "--certificate-oidc-issuer", issuer, released),
		command("where the image comes from", "the same job attests it; a person needs gh, logged in, to check", "",
			"gh", "attestation", "verify", "oci://"+released, "--repo", repository, "--predicate-type", "https://slsa.dev/provenance/v1"),
		command("what is in the image", "as above", "",
			"gh", "attestation", "verify", "oci://"+released, "--repo", repository, "--predicate-type", "https://spdx.dev/Document/v2.3"),
		pulled("the chart", chart, strings.TrimPrefix(tag, "v"), "make the package public in the organisation's settings after its first push"),
		get("the plug-in in krew's index", w.raw+"/kubernetes-sigs/krew-index/master/plugins/volume-doctor.yaml",
			"the first release goes into the index by a pull request of a person; the workflow's bot raises it from then on", "version: "+tag),
	}
}

// no is the error for a clear answer: the thing is not there.
type no string

func (n no) Error() string { return string(n) }

// isNo reports whether the error is a clear answer that the thing is missing: a command that
// ran and failed, and a registry that does not have it or does not show it, have answered.
func isNo(err error) bool {
	var answer no
	var exit *exec.ExitError
	var refused *transport.Error
	if errors.As(err, &refused) {
		return slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound}, refused.StatusCode)
	}
	return errors.As(err, &answer) || errors.As(err, &exit)
}

// has fetches a page, and fails where the page is missing or lacks the text.
func has(ctx context.Context, url, want string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusGone:
		// GitHub answers 401 for a page that does not exist or is not public
		return no(response.Status)
	default:
		return errors.New(response.Status)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxPage))
	if err == nil && !strings.Contains(string(text), want) {
		err = no(fmt.Sprintf("%q is not in the answer", want))
	}
	return err
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
