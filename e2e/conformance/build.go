package conformance

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"
)

// Release is a Kubernetes release whose controller is compared.
type Release string

// Releases are all releases with a module file in the oracle's folder, oldest first: each end
// of each behaviour of package reconcile, and the supported minors. For 1.27, 1.31 and 1.32 a
// module that the controller needs is not on the Go module proxy.
var Releases = []Release{
	"v1.26.9", "v1.26.15", "v1.28.15", "v1.29.15", "v1.30.14", "v1.33.13", "v1.34.4", "v1.35.4", "v1.36.3", "v1.37.0",
}

// Newest is the last of Releases.
var Newest = Releases[len(Releases)-1]

// Minor is the minor version, as 30 for v1.30.14.
func (r Release) Minor() (n int) {
	_, _ = fmt.Sscanf(string(r), "v1.%d.", &n)
	return n
}

// tags are the build constraints that hold for the release: those for "up to" its own minor
// and for "up to" any later one.
func (r Release) tags() string {
	var tags []string
	for minor := r.Minor(); minor <= Newest.Minor(); minor++ {
		tags = append(tags, fmt.Sprintf("upto_v1_%d", minor))
	}
	return strings.Join(tags, ",")
}

// Build compiles the oracle of the release into the module's bin folder and returns its path.
// It does nothing where the oracle's sources have not changed. It must be called from inside
// the e2e module, as go test does.
func (r Release) Build(ctx context.Context, log io.Writer) (string, error) {
	return r.BuildPatched(ctx, log, "")
}

// BuildPatched is Build with a change applied to the release: one of Patches, or "".
func (r Release) BuildPatched(ctx context.Context, log io.Writer, patch string) (string, error) {
	binary, err := r.build(ctx, log, "oracle", patch)
	if err != nil {
		return "", fmt.Errorf("build the oracle of %s: %w", r.with(patch), err)
	}
	return binary, nil
}

// BuildKubelet compiles the machine with the volume half of the release's kubelet, as Build
// compiles the oracle. They share the module file.
func (r Release) BuildKubelet(ctx context.Context, log io.Writer) (string, error) {
	binary, err := r.build(ctx, log, "kubeletoracle", "")
	if err != nil {
		return "", fmt.Errorf("build the kubelet of %s: %w", r, err)
	}
	return binary, nil
}

// BuildOwn compiles a program of this module, named by its folder, with the module's own
// versions and further flags, and returns its path. It must be called from inside the module.
func BuildOwn(ctx context.Context, program string, flags ...string) (string, error) {
	root, bin, unlock, err := lockBin(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	binary := filepath.Join(bin, program)
	if _, err := goCommand(ctx, root, slices.Concat([]string{"build", "-o", binary}, flags, []string{"./" + program})...); err != nil {
		return "", fmt.Errorf("build %s: %w", program, err)
	}
	return binary, nil
}

// lockBin returns the module's root and the folder for binaries, in which no other process
// builds until unlock is called.
func lockBin(ctx context.Context) (root, bin string, unlock func(), err error) {
	mod, err := goCommand(ctx, "", "env", "GOMOD")
	if err != nil {
		return "", "", nil, err
	}
	root = filepath.Dir(mod)
	bin = filepath.Join(root, "bin", "oracle")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", "", nil, err
	}
	unlock, err = lockedfile.MutexAt(filepath.Join(bin, "lock")).Lock()
	return root, bin, unlock, err
}

// build compiles the program in the folder of that name.
func (r Release) build(ctx context.Context, log io.Writer, program, patch string) (string, error) {
	root, bin, unlock, err := lockBin(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()

	name := r.with(patch)
	if program != "oracle" {
		name = program + "-" + name
	}
	binary, stamp := filepath.Join(bin, name), filepath.Join(bin, name+".stamp")
	want, err := r.stamp(root, program)
	if err != nil {
		return "", err
	}
	want += Patches[patch]
	if _, err := os.Stat(binary); err == nil {
		if got, err := os.ReadFile(stamp); err == nil && string(got) == want {
			return binary, nil
		}
	}
	start := time.Now()
	modfile := filepath.Join("oracle", string(r)+".mod")
	args := []string{"build", "-modfile=" + modfile, "-tags=" + r.tags(), "-o", binary}
	if patch != "" {
		if args, err = r.patched(ctx, root, patch, args); err != nil {
			return "", err
		}
	}
	if _, err := goCommand(ctx, root, append(args, "./"+program)...); err != nil {
		return "", err
	}
	_, _ = fmt.Fprintf(log, "built the %s of %s in %s\n", program, name, time.Since(start).Round(time.Second))
	return binary, os.WriteFile(stamp, []byte(want), 0o644)
}

// stamp identifies the sources of the program: its folder, its subfolders, and the format of
// the containers' records.
func (r Release) stamp(root, program string) (string, error) {
	files := []string{filepath.Join(root, "oracle", string(r)+".mod"), filepath.Join(root, "oracle", string(r)+".sum")}
	for _, dir := range []string{program, filepath.Join(program, "*"), "records"} {
		sources, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil {
			return "", err
		}
		files = append(files, sources...)
	}
	hash := sha256.New()
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		hash.Write(content)
	}
	return fmt.Sprintf("%s %s/%s %x\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, hash.Sum(nil)), nil
}

// goCommand runs the go tool and returns its trimmed standard output.
func goCommand(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return "", fmt.Errorf("go %s: %w\n%s", args[0], err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}
