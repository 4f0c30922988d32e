//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/containers"
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
// an earlier kubelet has. It is a process of its own, which outlives the kubelet.
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
		file := containers.File(k.options.Root, pod, volume)
		if _, err := os.Stat(file); err == nil {
			continue
		}
		self, err := os.Executable()
		if err != nil {
			return err
		}
		cmd := exec.Command(self, asWriter, filepath.Join(mount, records.File), filepath.Join(k.options.Written, volume), k.options.Node+"/"+string(pod))
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := containers.Start(cmd, k.options.Root, pod, volume); err != nil {
			return err
		}
	}
	return nil
}

// stopOrphans kills the containers of pods that the API server does not have
// (HandlePodCleanups, pkg/kubelet/kubelet_pods.go).
func (k *kubelet) stopOrphans() error {
	for _, pod := range containers.Pods(k.options.Root) {
		if !k.pods.exists(pod) {
			if err := containers.Stop(k.options.Root, pod); err != nil {
				return err
			}
		}
	}
	return nil
}
