//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/mount-utils"
	utilexec "k8s.io/utils/exec"
)

// mountDisk mounts the file system of a volume that is attached to the machine, and makes
// one where the disk has none. The storage does not fence: what is mounted stays so when
// the volume is detached, and each machine has a device and a cache of its own.
func (p *nodePlugin) mountDisk(handle, path string) error {
	if err := os.MkdirAll(path, 0o750); err != nil || mounted(path) {
		return err
	}
	if _, err := os.Stat(filepath.Join(p.driver.Disks, handle+"@"+p.machine.Node)); err != nil {
		return status.Errorf(codes.NotFound, "the disk of %s is not attached to %s", handle, p.machine.Node)
	}
	out, err := exec.Command("losetup", "--find", "--show", filepath.Join(p.driver.Disks, handle+".img")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("make the device of %s: %w: %s", handle, err, out)
	}
	device := strings.TrimSpace(string(out))
	mounter := mount.NewSafeFormatAndMount(mount.New(""), utilexec.New())
	failed := mounter.FormatAndMount(device, path, "ext4", nil)
	// From here on the device goes with its mount.
	if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
		return fmt.Errorf("give the device of %s back: %w: %s", handle, err, out)
	}
	return failed
}
