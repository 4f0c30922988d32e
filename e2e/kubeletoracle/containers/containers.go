// Package containers is how a machine of package kubeletoracle finds its containers
// again: each is a process that outlives its kubelet, with a file that has its number.
package containers

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// File is the one of the container that writes to the volume for the pod, on the machine
// with that root. The command line of a container has the root in it.
func File(root string, pod types.UID, volume string) string {
	return filepath.Join(root, "containers", string(pod), volume)
}

// Pods are those that have containers, or had some.
func Pods(root string) (pods []types.UID) {
	dirs, _ := filepath.Glob(File(root, "*", ""))
	for _, dir := range dirs {
		pods = append(pods, types.UID(filepath.Base(dir)))
	}
	return pods
}

// Start starts the process as the container that writes to the volume for the pod. It
// returns once the kernel shows its command line, which is a moment after the start, for
// Stop goes by that.
func Start(container *exec.Cmd, root string, pod types.UID, volume string) error {
	file := File(root, pod, volume)
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return err
	}
	if err := container.Start(); err != nil {
		return fmt.Errorf("start the container of %s: %w", volume, err)
	}
	ended := make(chan struct{})
	go func() {
		_ = container.Wait() // it is killed, or cannot write
		close(ended)
	}()
	number := container.Process.Pid
	for over := false; !over && len(commandLine(number)) == 0; {
		select {
		case <-ended:
			over = true
		case <-time.After(time.Millisecond):
		}
	}
	return os.WriteFile(file, []byte(strconv.Itoa(number)), 0o600)
}

// Stop kills the containers of the pod, and returns once they are gone.
func Stop(root string, pod types.UID) error {
	files, _ := filepath.Glob(File(root, pod, "*"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		number, err := strconv.Atoi(string(text))
		if err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		process, err := os.FindProcess(number)
		if err != nil {
			return err
		}
		for runs(root, number) {
			_ = process.Kill() // it may have ended meanwhile
			time.Sleep(10 * time.Millisecond)
		}
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	return nil
}

// runs reports whether the process is a container of the machine: one that has ended has no
// command line, and another one may have its number by now.
func runs(root string, process int) bool {
	return bytes.Contains(commandLine(process), []byte(root+"/"))
}

// commandLine is empty where there is no such process.
func commandLine(process int) []byte {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", process))
	return line
}
