package chaos_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubelet"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubelettrace"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/records"
)

// storage holds the volumes of worlds with data: a disk for each, without fencing, and
// machines with the volume half of a real kubelet that mount it.
type storage struct {
	kubelet        kubelettrace.Kubelet
	disks, written string
}

// newStorage makes the storage in the folder, and has the driver attach its disks.
func newStorage(ctx context.Context, dir string, driver *csidriver.Driver) (*storage, error) {
	for _, program := range []string{"losetup", "mkfs.ext4", "e2fsck", "debugfs"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("install util-linux and e2fsprogs: %w", err)
		}
	}
	k, err := kubelettrace.Build(ctx, kubelettrace.Newest, os.Stderr)
	if err != nil {
		return nil, err
	}
	s := &storage{kubelet: k, disks: filepath.Join(dir, "disks"), written: filepath.Join(dir, "written")}
	if err := errors.Join(os.Mkdir(s.disks, 0o755), os.Mkdir(s.written, 0o755)); err != nil {
		return nil, err
	}
	driver.Cables(s.disks)
	return s, nil
}

// whyNoData says why no data can be written here; "" where it can.
func whyNoData() string {
	switch {
	case runtime.GOOS != "linux":
		return "a machine with loop devices and mounts of its own runs on Linux alone"
	case os.Getuid() != 0:
		return "loop devices, and mounts in a namespace of its own, need root"
	default:
		return ""
	}
}

// image is the file of a volume's disk.
func (s *storage) image(handle string) string { return filepath.Join(s.disks, handle+".img") }

// diskSize is the size of a volume, in bytes.
const diskSize = 8 << 20

func (s *storage) makeDisk(handle string) error {
	file, err := os.Create(s.image(handle))
	if err != nil {
		return err
	}
	return errors.Join(file.Truncate(diskSize), file.Close())
}

// writers is the condition that so many containers have written to the volume.
func (s *storage) writers(persistentVolume string, n int) fixture.Condition {
	return fixture.Condition{What: fmt.Sprintf("%d containers to have written", n), Check: func(context.Context) (bool, []k8sruntime.Object, error) {
		written, err := os.ReadFile(filepath.Join(s.written, persistentVolume))
		if err != nil && !os.IsNotExist(err) {
			return false, nil, err
		}
		return len(records.Writers(bytes.NewReader(written))) >= n, nil, nil
	}}
}

// verdict returns the faults in a volume's data, and the number of its records. All machines
// must be off.
func (s *storage) verdict(handle, persistentVolume string) (wrong []string, count int, err error) {
	image := s.image(handle)
	if err := awaitFree(image); err != nil {
		return nil, 0, err
	}
	written, err := os.ReadFile(filepath.Join(s.written, persistentVolume))
	if os.IsNotExist(err) {
		return nil, 0, nil // nobody has written to it
	}
	if err != nil {
		return nil, 0, err
	}
	if out, err := exec.Command("e2fsck", "-f", "-n", image).CombinedOutput(); err != nil {
		wrong = append(wrong, fmt.Sprintf("the file system is broken: %v: %s", err, bytes.ReplaceAll(bytes.TrimSpace(out), []byte("\n"), []byte("; "))))
	}
	volume, err := exec.Command("debugfs", "-R", "cat /"+records.File, image).Output()
	if err != nil {
		return nil, 0, fmt.Errorf("read the records of %s: %w", handle, err)
	}
	broken, count := records.Check(bytes.NewReader(volume), bytes.NewReader(written))
	return append(wrong, broken...), count, nil
}

// awaitFree waits until no device holds the image: the kernel removes a mount when the last
// process of its namespace is gone.
func awaitFree(image string) error {
	end := time.Now().Add(20 * time.Second)
	for {
		files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
		held := ""
		for _, file := range files {
			if backing, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(backing), image) {
				held = file
			}
		}
		switch {
		case held == "":
			return nil
		case time.Now().After(end):
			return fmt.Errorf("%s still holds %s", held, image)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// machine is a node with data.
type machine struct {
	storage *storage
	client  kubernetes.Interface
	options wire.Machine
	on      *kubelettrace.Machine // nil: switched off
	runs    bool                  // whether its kubelet runs
}

// Start starts the kubelet, and first boots the machine where it is off.
func (m *machine) Start(ctx context.Context) error {
	if m.on == nil {
		on, err := kubelettrace.StartMachine(m.storage.kubelet, m.options)
		if err != nil {
			return err
		}
		m.on, m.runs = on, true
		if _, err := on.Ask(wire.Request{Do: wire.Register, Driver: csidriver.Name}); err != nil {
			return err
		}
	}
	if !m.runs {
		if _, err := m.on.Ask(wire.Request{Do: wire.Start}); err != nil {
			return err
		}
		m.runs = true
	}
	return kubelet.ClearTaints(ctx, m.client, m.options.Node)
}

// Stop kills the kubelet. Containers continue.
func (m *machine) Stop() {
	if m.on != nil && m.runs {
		_, _ = m.on.Ask(wire.Request{Do: wire.Kill}) // it fails where the machine does not run either
		m.runs = false
	}
}

// StopHeartbeat does the same as Stop, and marks the node as lost.
func (m *machine) StopHeartbeat(ctx context.Context) error {
	m.Stop()
	return kubelet.MarkUnreachable(ctx, m.client, m.options.Node)
}

// off switches the machine off.
func (m *machine) off() {
	if m.on != nil {
		m.on.Stop()
		m.on, m.runs = nil, false
	}
}

// bootMachine makes the machine of a node, and boots it.
func (w *world) bootMachine(ctx context.Context, node string) (*machine, error) {
	kubeconfig, err := w.cluster.KubeconfigFor(controlplane.UserKubelet)
	if err != nil {
		return nil, err
	}
	m := &machine{storage: w.storage, client: w.client, options: wire.Machine{
		Node: node, Kubeconfig: kubeconfig, Written: w.storage.written,
		Drivers: []wire.Driver{{Name: csidriver.Name, Stages: true, Disks: w.storage.disks}},
	}}
	return m, m.Start(ctx)
}
