// Package release compares the files of a release with each other and with the tools that
// will read them: goreleaser's configuration, krew's manifest, the Makefile and the
// workflows.
package release

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/goreleaser/goreleaser/v2/pkg/config"
)

const (
	root   = "../.."
	binary = "kubectl-volume_doctor"
	// serve is the program of the command serve, which is released beside the plug-in.
	serve = "kubectl-volume_doctor-serve"
	tag   = "v9.9.9"
)

// TestGoreleaser: goreleaser reads its file strictly, and makes for every platform of the
// Makefile the same binary as the Makefile.
func TestGoreleaser(t *testing.T) {
	project := goreleaser(t)
	if got, want := platforms(project), strings.Fields(variable(t, "PLATFORMS")); !slices.Equal(got, want) {
		t.Errorf("goreleaser builds for %v, and the Makefile for %v", got, want)
	}
	for i, name := range []string{binary, serve} {
		testBuild(t, project.Builds[i], name)
	}
	if project.Archives[0].BuildsInfo.MTime == "" || len(project.Archives[0].IDs) > 0 {
		t.Errorf("the archives are not the same from one day to the next, or lack a program: %+v", project.Archives[0])
	}
	if len(project.SBOMs) != 1 || project.SBOMs[0].Artifacts != "archive" || project.Checksum.Disable {
		t.Error("an archive has no bill of materials, or no checksum")
	}
	for _, file := range project.Archives[0].Files {
		if file.Info.MTime == "" {
			t.Errorf("%s goes into the archives with the time of its checkout", file.Source)
		}
		if _, err := os.Stat(filepath.Join(root, file.Source)); err != nil && file.Source != "bin/NOTICES" {
			t.Error(err)
		}
	}
}

// testBuild compares one program of goreleaser with what the Makefile makes.
func testBuild(t *testing.T, build config.Build, name string) {
	t.Helper()
	if main := strings.TrimPrefix(build.Main, "./"); build.Binary != name || build.ModTimestamp == "" || main != "" && path.Base(main) != name {
		t.Errorf("%s is not built, or not the same from one day to the next: %+v", name, build)
	}
	for _, system := range []string{"linux", "darwin", "windows"} {
		if !slices.Contains(build.Goos, system) {
			t.Errorf("%s is not built for %s", name, system)
		}
	}
	flags := slices.Concat(build.Flags, []string{"-ldflags='" + strings.Join(build.Ldflags, " ") + "'"})
	if got, want := strings.Join(flags, " "), variable(t, "RELEASE_FLAGS"); got != want {
		t.Errorf("goreleaser builds with %s, and the Makefile with %s", got, want)
	}
	env := append(slices.Clone([]string(build.Env)), "GOAMD64="+strings.Join(build.Goamd64, " "), "GOARM64="+strings.Join(build.Goarm64, " "))
	if got, want := strings.Join(env, " "), variable(t, "RELEASE_ENV"); got != want {
		t.Errorf("goreleaser builds in %s, and the Makefile in %s", got, want)
	}
}

// TestKrewManifest: the manifest has each archive of goreleaser once, and krew's own
// validation passes it.
func TestKrewManifest(t *testing.T) {
	project := goreleaser(t)
	manifest, asked := manifest(t, func(string) string { return strings.Repeat("a", 64) })
	var want []string
	for _, platform := range platforms(project) {
		want = append(want, "https://github.com/volume-doctor/kubectl-volume-doctor/releases/download/"+tag+"/"+archive(t, project, platform))
	}
	slices.Sort(want)
	slices.Sort(asked)
	if !slices.Equal(asked, want) {
		t.Errorf("krew asks for %v, and goreleaser makes %v", asked, want)
	}
	if out, err := validate(t, manifest); err != nil {
		t.Errorf("krew refuses it: %v\n%s", err, out)
	}
}

// TestKrewRefuses: krew's validation can fail.
func TestKrewRefuses(t *testing.T) {
	good, _ := manifest(t, func(string) string { return strings.Repeat("a", 64) })
	for _, tc := range []struct{ name, old, new, want string }{
		{"checksum", strings.Repeat("a", 64), "abc", "`sha256` value abc is not valid"},
		{"version", "version: " + tag, "version: newest", "failed to parse plugin version"},
		{"name", "name: volume-doctor", "name: volume-nurse", "plugin should be named"},
		{"two of a platform", "arch: arm64", "arch: amd64", "overlapping"},
		{"no such platform", "os: windows", "os: plan9", "doesn't match any supported platforms"},
	} {
		bad := strings.Replace(good, tc.old, tc.new, 1)
		if out, err := validate(t, bad); err == nil || !strings.Contains(out, tc.want) {
			t.Errorf("%s: %v, %s", tc.name, err, out)
		}
	}
}

// TestKrewInstalls: krew accepts each platform's archive, and what it installs for this
// platform is the plug-in.
func TestKrewInstalls(t *testing.T) {
	project := goreleaser(t)
	dir := t.TempDir()
	here := runtime.GOOS + "/" + runtime.GOARCH
	krew := filepath.Join(dir, "krew")
	command(t, ".", nil, "go", "build", "-o", krew, "sigs.k8s.io/krew/cmd/krew")
	plugin, standing := filepath.Join(dir, binary), filepath.Join(dir, serve)
	command(t, root, []string{"CGO_ENABLED=0"}, "go", "build", "-trimpath", "-o", plugin, ".")
	command(t, root, []string{"CGO_ENABLED=0"}, "go", "build", "-trimpath", "-o", standing, "./standing/"+serve)
	for _, platform := range platforms(project) {
		system, machine, _ := strings.Cut(platform, "/")
		content := map[string]string{binary: plugin, serve: standing}
		if system == "windows" {
			content = map[string]string{binary + ".exe": plugin, serve + ".exe": standing}
		}
		for _, file := range project.Archives[0].Files {
			content[path.Base(file.Source)] = filepath.Join(root, "LICENSE") // any text will do
		}
		packed := filepath.Join(dir, archive(t, project, platform))
		pack(t, packed, content)
		sum := fmt.Sprintf("%x", sha256.Sum256(contents(t, packed)))
		text, _ := manifest(t, func(uri string) string {
			if path.Base(uri) == filepath.Base(packed) {
				return sum
			}
			return strings.Repeat("a", 64)
		})
		file := filepath.Join(t.TempDir(), "volume-doctor.yaml")
		write(t, file, text)
		home := t.TempDir()
		command(t, ".", []string{"KREW_ROOT=" + home, "KREW_OS=" + system, "KREW_ARCH=" + machine, "KREW_NO_UPGRADE_CHECK=1"},
			krew, "install", "--manifest="+file, "--archive="+packed)
		if _, err := os.Stat(filepath.Join(home, "store", "volume-doctor", tag, "LICENSE")); err != nil {
			t.Errorf("%s: %v", platform, err)
		}
		if platform == here {
			out := command(t, ".", nil, filepath.Join(home, "bin", binary), "version")
			if !strings.HasPrefix(out, "kubectl volume-doctor ") {
				t.Errorf("what krew installed says %q", out)
			}
			// krew puts only the plug-in on PATH, and the plug-in finds the program beside
			// it.
			if out := command(t, ".", nil, filepath.Join(home, "bin", binary), "serve", "--help"); !strings.Contains(out, "--leader-elect") {
				t.Errorf("what krew installed does not serve: %q", out)
			}
		}
	}
}

// TestWorkflows: actionlint accepts them, the actions that they call are pinned, they make
// what the Makefile has, and their goreleaser is the one of this test.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob(root + "/.github/workflows/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	command(t, ".", nil, "go", slices.Concat([]string{"tool", "actionlint", "-shellcheck=", "-pyflakes="}, files)...)
	makefile := string(contents(t, root+"/Makefile"))
	version := strings.TrimSpace(command(t, ".", nil, "go", "list", "-m", "-f", "{{.Version}}", "github.com/goreleaser/goreleaser/v2"))
	pinned := regexp.MustCompile(`^[\w./-]+@[0-9a-f]{40} # v\d`)
	for _, file := range files {
		for line := range strings.Lines(string(contents(t, file))) {
			line = strings.TrimPrefix(strings.TrimSpace(line), "- ")
			key, value, _ := strings.Cut(line, ": ")
			switch {
			case key == "uses" && !pinned.MatchString(value):
				t.Errorf("%s: %s is not pinned", file, value)
			case key == "version" && value != version:
				t.Errorf("%s: goreleaser %s, and the test reads its file with %s", file, value, version)
			case key == "run" && strings.HasPrefix(value, "make "):
				for _, target := range strings.Fields(value)[1:] {
					if !strings.Contains(makefile, "\n"+target+":") {
						t.Errorf("%s: the Makefile has no target %s", file, target)
					}
				}
			}
		}
	}
}

func goreleaser(t *testing.T) config.Project {
	t.Helper()
	project, err := config.Load(root + "/.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(project.Builds) != 2 || len(project.Archives) != 1 {
		t.Fatalf("%d builds, %d archives", len(project.Builds), len(project.Archives))
	}
	return project
}

func platforms(project config.Project) []string {
	var all []string
	for _, system := range project.Builds[0].Goos {
		for _, machine := range project.Builds[0].Goarch {
			all = append(all, system+"/"+machine)
		}
	}
	return all
}

// archive is goreleaser's name of a platform's archive.
func archive(t *testing.T, project config.Project, platform string) string {
	t.Helper()
	a := project.Archives[0]
	system, machine, _ := strings.Cut(platform, "/")
	name := render(t, a.NameTemplate, nil, map[string]string{"ProjectName": project.ProjectName, "Os": system, "Arch": machine})
	formats := a.Formats
	for _, override := range a.FormatOverrides {
		if override.Goos == system {
			formats = override.Formats
		}
	}
	if len(formats) != 1 {
		t.Fatalf("%s is packed as %v", platform, formats)
	}
	return name + "." + formats[0]
}

// manifest fills in .krew.yaml as krew-release-bot does, and lists the addresses that were
// requested.
func manifest(t *testing.T, sum func(uri string) string) (text string, asked []string) {
	t.Helper()
	values := map[string]string{"TagName": tag}
	text = render(t, string(contents(t, root+"/.krew.yaml")), template.FuncMap{
		"addURIAndSha": func(address, _ string) string {
			uri := render(t, address, nil, values)
			asked = append(asked, uri)
			return "uri: " + uri + "\n    sha256: " + sum(uri)
		},
	}, values)
	return text, asked
}

// validate runs krew's own validation of a manifest.
func validate(t *testing.T, manifest string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "volume-doctor.yaml")
	write(t, file, manifest)
	out, err := exec.Command("go", "tool", "validate-krew-manifest", "-skip-install", "-manifest", file).CombinedOutput()
	return string(out), err
}

func render(t *testing.T, text string, functions template.FuncMap, values map[string]string) string {
	t.Helper()
	parsed, err := template.New("").Option("missingkey=error").Funcs(functions).Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := parsed.Execute(&b, values); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// variable is the value of one of the Makefile's variables.
func variable(t *testing.T, name string) string {
	t.Helper()
	for line := range strings.Lines(string(contents(t, root+"/Makefile"))) {
		if key, value, found := strings.Cut(line, " := "); found && key == name {
			return strings.TrimSpace(value)
		}
	}
	t.Fatalf("the Makefile has no %s", name)
	return ""
}

// pack writes an archive in the format that its name shows.
func pack(t *testing.T, file string, content map[string]string) {
	t.Helper()
	var b bytes.Buffer
	var add func(name string, text []byte) error
	var finish []io.Closer
	if strings.HasSuffix(file, ".zip") {
		z := zip.NewWriter(&b)
		finish = []io.Closer{z}
		add = func(name string, text []byte) error {
			w, err := z.Create(name)
			if err == nil {
				_, err = w.Write(text)
			}
			return err
		}
	} else {
		g := gzip.NewWriter(&b)
		w := tar.NewWriter(g)
		finish = []io.Closer{w, g}
		add = func(name string, text []byte) error {
			err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(text)), Mode: 0o755})
			if err == nil {
				_, err = w.Write(text)
			}
			return err
		}
	}
	for name, source := range content {
		if err := add(name, contents(t, source)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range finish {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write(t, file, b.String())
}

func command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	c := exec.Command(name, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func contents(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
