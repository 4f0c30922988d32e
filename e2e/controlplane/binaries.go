package controlplane

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
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"
)

// KubernetesVersion is the release of the API server and the controller, which
// the API server reports and the tests' nodes name as their kubelet's.
const KubernetesVersion = "v1.37.2"

const module = "github.com/volume-doctor/kubectl-volume-doctor/e2e"

// The components of the control plane, by the name of their binary.
const (
	etcd              = "etcd"
	apiServer         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	attacher          = "csi-attacher"
)

// mainPackages are the components in the order in which they are built, each
// a tool directive of go.mod.
var mainPackages = []struct{ binary, pkg string }{
	{etcd, "go.etcd.io/etcd/server/v3"},
	{apiServer, "k8s.io/kubernetes/cmd/kube-apiserver"},
	{controllerManager, "k8s.io/kubernetes/cmd/kube-controller-manager"},
	{attacher, "github.com/kubernetes-csi/external-attacher/v4/cmd/csi-attacher"},
}

// Build compiles the components into the module's bin folder and returns that
// folder. It does nothing when go.mod, go.sum and the Go release are those of
// the last build. It must be called from inside the e2e module, as go test and
// go run do.
func Build(ctx context.Context, log io.Writer) (bin string, err error) {
	root, err := goCommand(ctx, "", "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return "", fmt.Errorf("find the e2e module: %w", err)
	}
	bin = filepath.Join(root, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", fmt.Errorf("build the control plane: %w", err)
	}
	// Test binaries of several packages start at the same time; one builds.
	unlock, err := lockedfile.MutexAt(filepath.Join(bin, "lock")).Lock()
	if err != nil {
		return "", fmt.Errorf("build the control plane: %w", err)
	}
	defer unlock()

	want, err := buildStamp(root)
	if err != nil {
		return "", fmt.Errorf("build the control plane: %w", err)
	}
	stamp := filepath.Join(bin, "stamp")
	if got, err := os.ReadFile(stamp); err == nil && string(got) == want && allPresent(bin) {
		return bin, nil
	}
	_, _ = fmt.Fprintf(log, "building %d programs from source into %s, once: a quarter of an hour on two processors\n", len(mainPackages), bin)
	for i, m := range mainPackages {
		done := tell(log, fmt.Sprintf("building %s, %d of %d", m.binary, i+1, len(mainPackages)))
		ldflags := "-s -w -X k8s.io/component-base/version.gitVersion=" + KubernetesVersion
		_, err := goCommand(ctx, root, "build", "-ldflags", ldflags, "-o", filepath.Join(bin, m.binary), m.pkg)
		done()
		if err != nil {
			return "", fmt.Errorf("build %s: %w", m.binary, err)
		}
	}
	if err := os.WriteFile(stamp, []byte(want), 0o644); err != nil {
		return "", fmt.Errorf("build the control plane: %w", err)
	}
	return bin, nil
}

// tell says what is going on, and again twice a minute until done is called.
func tell(log io.Writer, what string) (done func()) {
	began, ticker, over := time.Now(), time.NewTicker(30*time.Second), make(chan struct{})
	_, _ = fmt.Fprintln(log, what)
	var told sync.WaitGroup
	told.Go(func() {
		defer ticker.Stop()
		for {
			select {
			case <-over:
				return
			case <-ticker.C:
				_, _ = fmt.Fprintf(log, "%s: %s so far\n", what, time.Since(began).Round(time.Second))
			}
		}
	})
	return func() { close(over); told.Wait() }
}

// buildStamp identifies what the binaries are built from.
func buildStamp(root string) (string, error) {
	hash := sha256.New()
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return "", err
		}
		hash.Write(content)
	}
	return fmt.Sprintf("%s %s/%s %x\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, hash.Sum(nil)), nil
}

func allPresent(bin string) bool {
	for _, m := range mainPackages {
		if _, err := os.Stat(filepath.Join(bin, m.binary)); err != nil {
			return false
		}
	}
	return true
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
