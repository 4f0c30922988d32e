//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/records"
)

// asWriter is the argument with which a kubelet starts a container.
const asWriter = "writer"

// writePause is the time between two records.
const writePause = 20 * time.Millisecond

// write is a container: it writes records to a volume until it is killed, or cannot.
func write(volume, written, name string) error {
	w, err := records.Open(volume, written, name)
	for ; err == nil; time.Sleep(writePause) {
		err = w.Write()
	}
	return fmt.Errorf("write to %s: %w", volume, err)
}

// startContainers starts one container for each volume that is mounted for the pod, unless
// it runs. It is a process of its own, which outlives the kubelet.
func (k *kubelet) startContainers(pod types.UID) error {
	if k.options.Written == "" {
		return nil
	}
	mounts, err := filepath.Glob(filepath.Join(k.host.GetPodsDir(), string(pod), "volumes", "kubernetes.io~csi", "*", "mount"))
	if err != nil {
		return err
	}
	for _, mount := range mounts {
		volume := filepath.Base(filepath.Dir(mount))
		pidFile := filepath.Join(k.containersDir(pod), volume)
		if _, err := os.Stat(pidFile); err == nil {
			continue
		}
		self, err := os.Executable()
		if err != nil {
			return err
		}
		cmd := exec.Command(self, asWriter, filepath.Join(mount, records.File), filepath.Join(k.options.Written, volume), k.options.Node+"/"+string(pod))
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("start the container of %s: %w", volume, err)
		}
		go func() { _ = cmd.Wait() }() // it is killed
		if err := os.MkdirAll(filepath.Dir(pidFile), 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(pidFile, []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// containersDir has a file with the process ID of each container of the pod.
func (k *kubelet) containersDir(pod types.UID) string {
	return filepath.Join(k.options.Root, wire.Containers, string(pod))
}

// stopContainers kills those of the pod, and returns once they are gone.
func (k *kubelet) stopContainers(pod types.UID) {
	files, _ := filepath.Glob(filepath.Join(k.containersDir(pod), "*"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			klog.ErrorS(err, "Failed to stop a container")
			continue
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		for err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil && !zombie(pid) {
			time.Sleep(10 * time.Millisecond)
		}
		_ = os.Remove(file)
	}
}

// zombie says that the process has ended and nobody has asked for its exit code.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "Z")
}

// stopOrphans kills the containers of pods that the API server does not have
// (HandlePodCleanups, pkg/kubelet/kubelet_pods.go).
func (k *kubelet) stopOrphans() {
	dirs, _ := filepath.Glob(filepath.Join(k.options.Root, wire.Containers, "*"))
	for _, dir := range dirs {
		if pod := types.UID(filepath.Base(dir)); !k.pods.exists(pod) {
			k.stopContainers(pod)
		}
	}
}
