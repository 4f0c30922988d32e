package main

import (
	"archive/tar"
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

const epoch = "1700000000"

var platforms = []string{"amd64", "arm64"}

// programs are the programs of each image, as they are released.
var programs = []string{"kubectl-volume_doctor", "kubectl-volume_doctor-serve"}

// hello builds a program for a platform like those of a release, but for the commit, with
// further flags.
func hello(t *testing.T, name, arch string, flags ...string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), name+"_linux_"+arch)
	cmd := exec.Command("go", slices.Concat([]string{"build", "-trimpath", "-buildvcs=false"}, flags, []string{"-o", binary, "./testdata/hello"})...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS=linux", "GOARCH="+arch)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return binary
}

// root is a folder with the two files that go into the image beside the binary.
func root(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	for _, name := range []string{"LICENSE", "bin/NOTICES"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
	}
	return dir
}

func build(t *testing.T, epoch string, binaries []string) (out, digest string) {
	t.Helper()
	out = t.TempDir()
	var stdout bytes.Buffer
	must(t, run(given(out, root(t), epoch), binaries, &stdout))
	return out, strings.TrimSpace(stdout.String())
}

func given(out, root, epoch string) options {
	return options{out: out, root: root, version: "v9.9.9", revision: strings.Repeat("a", 40), epoch: epoch}
}

func both(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, arch := range platforms {
		for _, name := range slices.Backward(programs) {
			list = append(list, hello(t, name, arch))
		}
	}
	return list
}

// images are the images of the layout, in the order of platforms.
func images(t *testing.T, out string) (v1.ImageIndex, []v1.Image) {
	t.Helper()
	all, err := layout.ImageIndexFromPath(filepath.Join(out, "layout"))
	must(t, err)
	m, err := all.IndexManifest()
	must(t, err)
	if len(m.Manifests) != 1 {
		t.Fatalf("%d entries in the layout", len(m.Manifests))
	}
	index, err := all.ImageIndex(m.Manifests[0].Digest)
	must(t, err)
	m, err = index.IndexManifest()
	must(t, err)
	var list []v1.Image
	for i, d := range m.Manifests {
		if got, want := d.Platform.String(), "linux/"+platforms[i]; got != want {
			t.Errorf("entry %d is for %s, want %s", i, got, want)
		}
		image, err := index.Image(d.Digest)
		must(t, err)
		list = append(list, image)
	}
	return index, list
}

// TestSameBytes: two builds, from files with other times and modes and at another path, are
// the same, and the only time in them is SOURCE_DATE_EPOCH.
func TestSameBytes(t *testing.T) {
	one, two := both(t), both(t)
	for _, binary := range two {
		must(t, os.Chmod(binary, 0o700))
		must(t, os.Chtimes(binary, time.Unix(1, 0), time.Unix(1, 0)))
	}
	first, digest := build(t, epoch, one)
	second, again := build(t, epoch, two)
	if digest != again || !strings.HasPrefix(digest, "sha256:") {
		t.Errorf("the digests are %s and %s", digest, again)
	}
	a, err := os.ReadFile(filepath.Join(first, "image.tar"))
	must(t, err)
	b, err := os.ReadFile(filepath.Join(second, "image.tar"))
	must(t, err)
	if !bytes.Equal(a, b) {
		t.Error("the two archives differ")
	}
	if _, other := build(t, "1700000001", one); other == digest {
		t.Error("SOURCE_DATE_EPOCH changes nothing")
	}
	_, list := images(t, first)
	for _, image := range list {
		config, err := image.ConfigFile()
		must(t, err)
		want := time.Unix(1700000000, 0)
		if !config.Created.Equal(want) || !config.History[0].Created.Equal(want) {
			t.Errorf("made at %s and %s", config.Created, config.History[0].Created)
		}
	}
}

// TestDockerfile: the Dockerfile puts the same files at the same paths, and starts the same
// program as the same user.
func TestDockerfile(t *testing.T) {
	out, _ := build(t, epoch, both(t))
	text, err := os.ReadFile("../../Dockerfile")
	must(t, err)
	says := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if key, value, found := strings.Cut(strings.TrimSpace(line), " "); found && !strings.HasPrefix(key, "#") {
			says[key] = append(says[key], value)
		}
	}
	_, list := images(t, out)
	for i, image := range list {
		config, err := image.ConfigFile()
		must(t, err)
		c := config.Config
		if got := says["USER"]; !slices.Equal(got, []string{c.User}) {
			t.Errorf("the Dockerfile says USER %v, and the image %s", got, c.User)
		}
		if got, want := says["ENTRYPOINT"], `["`+strings.Join(c.Entrypoint, `", "`)+`"]`; !slices.Equal(got, []string{want}) {
			t.Errorf("the Dockerfile says ENTRYPOINT %v, and the image %s", got, want)
		}
		var want []string
		for _, line := range says["COPY"] {
			fields := strings.Fields(line)
			to := fields[len(fields)-1]
			for _, from := range fields[:len(fields)-1] {
				path := to
				if strings.HasSuffix(to, "/") {
					path = to + filepath.Base(from)
				}
				want = append(want, strings.TrimPrefix(path, "/"))
			}
		}
		if got := paths(t, image); !slices.Equal(got, want) {
			t.Errorf("the Dockerfile has %v, and the image %v", want, got)
		}
		if !slices.Equal(says["FROM"], []string{"scratch"}) || config.Architecture != platforms[i] || len(c.Env)+len(c.Cmd) != 0 {
			t.Errorf("FROM %v; %s, %v, %v", says["FROM"], config.Architecture, c.Env, c.Cmd)
		}
		for _, label := range []string{"title", "description", "source", "licenses", "version", "revision", "created"} {
			if c.Labels["org.opencontainers.image."+label] == "" {
				t.Errorf("the label %s is missing", label)
			}
		}
	}
}

// paths are the files of the image; it checks that each belongs to root and nobody may write
// it.
func paths(t *testing.T, image v1.Image) []string {
	t.Helper()
	content := mutate.Extract(image)
	defer func() { _ = content.Close() }()
	var list []string
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if err == io.EOF {
			return list
		}
		must(t, err)
		if h.Uid != 0 || h.Gid != 0 || h.Mode&0o222 != 0 {
			t.Errorf("%s: owner %d:%d, mode %o", h.Name, h.Uid, h.Gid, h.Mode)
		}
		list = append(list, h.Name)
	}
}

// TestPush: the command of the release workflow pushes the index, with an image for each
// platform, and prints the digest that is then signed.
func TestPush(t *testing.T) {
	out, digest := build(t, epoch, both(t))
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	to := strings.TrimPrefix(server.URL, "http://") + "/volume-doctor"
	crane := func(args ...string) string {
		text, err := exec.Command("go", append([]string{"tool", "crane", "--insecure"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("crane %v: %v: %s", args, err, text)
		}
		return strings.TrimSpace(string(text))
	}
	if got := crane("push", filepath.Join(out, "layout"), to+":v9.9.9"); !strings.HasSuffix(got, to+"@"+digest) {
		t.Errorf("crane push says %s; the digest is %s", got, digest)
	}
	for _, arch := range platforms {
		if got := crane("config", "--platform=linux/"+arch, to+":v9.9.9"); !strings.Contains(got, `"architecture":"`+arch+`"`) {
			t.Errorf("linux/%s: %s", arch, got)
		}
	}
}

// TestRefuses: a binary that would not run in an empty image, or is built from another commit
// than the labels name, is refused.
func TestRefuses(t *testing.T) {
	other := filepath.Join(t.TempDir(), "text")
	must(t, os.WriteFile(other, []byte("#!/bin/sh\n"), 0o700))
	good := hello(t, programs[0], "amd64")
	for _, test := range []struct{ name, binary, epoch, want string }{
		{"no program of Go's", other, epoch, "unrecognized file format"},
		{"another commit", stamped(t), epoch, "and not from aaaa"},
		{"paths of the machine", hello(t, programs[0], "amd64", "-trimpath=false"), epoch, `-trimpath=""`},
		{"nothing to start", hello(t, programs[1], "amd64"), epoch, "there is no /kubectl-volume_doctor to start"},
		{"no time", good, "", "SOURCE_DATE_EPOCH"},
	} {
		err := run(given(t.TempDir(), root(t), test.epoch), []string{test.binary}, io.Discard)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	if err := run(given(t.TempDir(), t.TempDir(), epoch), []string{good}, io.Discard); err == nil || !strings.Contains(err.Error(), "LICENSE") {
		t.Errorf("without a licence: %v", err)
	}
}

// stamped is a program that records the commit from which it is built: that of a repository
// made for it.
func stamped(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile("testdata/hello/main.go")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "main.go"), text, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module hello\n"), 0o600))
	for _, command := range []string{"git init -q", "git add .", "git -c user.name=a -c user.email=a@b commit -q -m hello", "go build -trimpath -buildvcs=true -o hello ."} {
		fields := strings.Fields(command)
		cmd := exec.Command(fields[0], fields[1:]...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS=linux", "GOARCH=amd64")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command, err, text)
		}
	}
	return filepath.Join(dir, "hello")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
