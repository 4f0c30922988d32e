package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

const tag = "v9.9.9"

// published is a world in which everything is there except what the test removes.
func published(t *testing.T, without string) world {
	t.Helper()
	pages := map[string]string{
		"/volume-doctor/kubectl-volume-doctor/info/refs":                             "001e# service=git-upload-pack\n",
		"/repos/volume-doctor/kubectl-volume-doctor/releases/tags/" + tag:            `{"tag_name":"` + tag + `"}`,
		"/repos/volume-doctor/kubectl-volume-doctor/private-vulnerability-reporting": `{"enabled":true}`,
		"/github.com/volume-doctor/kubectl-volume-doctor/@v/" + tag + ".info":        `{"Version":"` + tag + `"}`,
		"/kubernetes-sigs/krew-index/master/plugins/volume-doctor.yaml":              "spec:\n  version: " + tag + "\n",
	}
	delete(pages, without)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, found := pages[r.URL.Path]
		if !found {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	images := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(images.Close)
	host := strings.TrimPrefix(images.URL, "http://")
	for _, pushed := range []string{image + ":" + tag, chart + ":9.9.9"} {
		if pushed != without {
			reference, err := name.ParseReference(host + "/" + pushed)
			must(t, err)
			must(t, remote.Write(reference, empty.Image))
		}
	}
	folder := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(folder, "deploy", "chart"), 0o755))
	must(t, os.WriteFile(filepath.Join(folder, "deploy", "chart", "Chart.yaml"), []byte("version: 9.9.9\nappVersion: "+tag+"\n"), 0o600))
	return world{
		folder: folder, github: server.URL, api: server.URL, raw: server.URL, modules: server.URL, registry: host,
		run: func(_ context.Context, name string, args ...string) (string, error) {
			line := name + " " + strings.Join(args, " ")
			switch {
			case without != "" && strings.Contains(line, without):
				return "", no("no")
			case name == "git":
				return "other\n" + tag + "\n", nil
			}
			return "ok", nil
		},
	}
}

// TestPublished: where everything is there, nothing is requested.
func TestPublished(t *testing.T) {
	var out strings.Builder
	ready, err := report(t.Context(), published(t, ""), &out)
	must(t, err)
	if !ready || strings.Contains(out.String(), "MISSING") || strings.Count(out.String(), "ready ") != len(checks(world{}, tag)) {
		t.Errorf("%v\n%s", ready, &out)
	}
}

// TestMissing: only the missing thing is named, with how it was checked and what a person
// must do.
func TestMissing(t *testing.T) {
	for without, what := range map[string]string{
		"/volume-doctor/kubectl-volume-doctor/info/refs": "the repository, public",
		"git -C": "the tag " + tag,
		"/repos/volume-doctor/kubectl-volume-doctor/releases/tags/" + tag:            "the release " + tag,
		"/repos/volume-doctor/kubectl-volume-doctor/private-vulnerability-reporting": "private reports",
		"/github.com/volume-doctor/kubectl-volume-doctor/@v/" + tag + ".info":        "the module",
		"cosign verify":  "the image's signature",
		"slsa.dev":       "where the image comes from",
		"spdx.dev":       "what is in the image",
		chart + ":9.9.9": "the chart",
		"/kubernetes-sigs/krew-index/master/plugins/volume-doctor.yaml": "the plug-in in krew's index",
	} {
		var out strings.Builder
		ready, err := report(t.Context(), published(t, without), &out)
		must(t, err)
		if ready || strings.Count(out.String(), "MISSING") != 1 || !strings.Contains(out.String(), "MISSING  "+what) {
			t.Errorf("without %s: %v\n%s", without, ready, &out)
		}
		_, after, _ := strings.Cut(out.String(), "MISSING")
		for _, label := range []string{"checked by: ", "found: ", "needs: "} {
			if !strings.Contains(after, label) {
				t.Errorf("without %s: no %q", without, label)
			}
		}
	}
}

// TestNoImage: the same for the image, whose name also stands in the commands of its
// attestations.
func TestNoImage(t *testing.T) {
	w := published(t, image+":"+tag)
	var out strings.Builder
	ready, err := report(t.Context(), w, &out)
	must(t, err)
	if ready || strings.Count(out.String(), "MISSING") != 4 {
		t.Errorf("%v\n%s", ready, &out)
	}
}

// TestOtherVersion: things of another version do not count.
func TestOtherVersion(t *testing.T) {
	w := published(t, "")
	must(t, os.WriteFile(filepath.Join(w.folder, "deploy", "chart", "Chart.yaml"), []byte("appVersion: v10.0.0\n"), 0o600))
	var out strings.Builder
	ready, err := report(t.Context(), w, &out)
	must(t, err)
	for _, what := range []string{"the tag v10.0.0", "the release v10.0.0", "the module", "the image\n", "the chart", "the plug-in in krew's index"} {
		if ready || !strings.Contains(out.String(), "MISSING  "+what) {
			t.Errorf("%s is not missing:\n%s", what, &out)
		}
	}
}

// TestNobodyAnswers: a thing that cannot be checked is neither ready nor reported as missing.
func TestNobodyAnswers(t *testing.T) {
	w := published(t, "")
	server := httptest.NewServer(nil)
	w.github, w.api, w.raw, w.modules, w.registry = server.URL, server.URL, server.URL, server.URL, strings.TrimPrefix(server.URL, "http://")
	server.Close()
	w.run = func(context.Context, string, ...string) (string, error) { return "", fmt.Errorf("not installed") }
	var out strings.Builder
	ready, err := report(t.Context(), w, &out)
	must(t, err)
	if ready || strings.Contains(out.String(), "ready ") || strings.Contains(out.String(), "MISSING") {
		t.Errorf("%v\n%s", ready, &out)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
