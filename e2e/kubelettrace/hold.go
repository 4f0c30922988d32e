package kubelettrace

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// hold is a program on a node that keeps a volume busy, and is not part of Kubernetes.
type hold struct {
	of  Volume
	how holding
}

// holding is the way in which a volume is kept busy.
type holding string

// The ways to keep a volume busy.
const (
	open             holding = "tmpfs busy"
	subPathOpen      holding = "subPath busy"
	mountedElsewhere holding = "mounted elsewhere"
)

// elsewherePath is the path, below the kubelet's root, at which another program has mounted
// the volume.
func elsewherePath(handle string) string { return "/elsewhere/" + handle }

// Hold keeps the pod's volume busy until release is called. Where no mount exists that could
// be kept busy, it does nothing.
func (m *Machine) Hold(pod types.UID, h hold) (release func(), err error) {
	inside := fmt.Sprintf("/proc/%d/root%s", m.cmd.Process.Pid, m.root)
	switch h.how {
	case open:
		return holdOpen(filepath.Join(inside, "pods", string(pod), "volumes", "*", h.of.Spec))
	case subPathOpen:
		return holdOpen(filepath.Join(inside, "pods", string(pod), "volume-subpaths", h.of.Spec, "*", "*"))
	default:
		staged := filepath.Join("plugins", "kubernetes.io", "csi", h.of.Driver, fmt.Sprintf("%x", sha256.Sum256([]byte(h.of.Handle))), "globalmount")
		if _, err := os.Stat(filepath.Join(inside, staged)); err != nil {
			return func() {}, nil
		}
		to := m.root + elsewherePath(h.of.Handle)
		if err := os.MkdirAll(to, 0o750); err != nil {
			return nil, err
		}
		return func() { _ = m.mount("umount", to) }, m.mount("mount", "--bind", filepath.Join(m.root, staged), to)
	}
}

// holdOpen opens the files that match the pattern.
func holdOpen(pattern string) (release func(), err error) {
	paths, err := filepath.Glob(pattern)
	var files []*os.File
	for _, path := range paths {
		f, openErr := os.Open(path)
		if err = errors.Join(err, openErr); openErr == nil {
			files = append(files, f)
		}
	}
	return func() {
		for _, f := range files {
			_ = f.Close() // it was only read
		}
	}, err
}

// mount runs a program in the machine's mount namespace.
func (m *Machine) mount(program string, args ...string) error {
	cmd := exec.Command("nsenter", append([]string{fmt.Sprintf("--target=%d", m.cmd.Process.Pid), "--mount", program}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v on %s: %w: %s", program, args, m.Node, err, out)
	}
	return nil
}

// mounts are the mounts of the machine, by the path below the kubelet's root, with the
// device.
func (m *Machine) mounts() (map[string]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", m.cmd.Process.Pid))
	if err != nil {
		return nil, err
	}
	mounts := map[string]string{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if path, found := strings.CutPrefix(fields[4], m.root); found {
			mounts[path] = fields[2]
		}
	}
	return mounts, nil
}
