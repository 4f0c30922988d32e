//go:build linux

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
)

// calls are those that the drivers of a machine received.
type calls struct {
	mu            sync.Mutex
	list          []*wire.Call
	registrations []wire.Registration
}

func (c *calls) registered(r wire.Registration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.registrations = append(c.registrations, r)
}

func (c *calls) allRegistrations() []wire.Registration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.registrations)
}

func (c *calls) began(call wire.Call) (end func(error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	call.Began = time.Now()
	c.list = append(c.list, &call)
	return func(err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		call.Ended, call.Code = time.Now(), uint32(status.Code(err))
	}
}

func (c *calls) all() []wire.Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]wire.Call, 0, len(c.list))
	for _, call := range c.list {
		list = append(list, *call)
	}
	return list
}

func (c *calls) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = slices.DeleteFunc(c.list, func(call *wire.Call) bool { return !call.Ended.IsZero() })
}

// nodePlugin is the node service of a CSI driver, and its registrar. A volume is a
// tmpfs, or the file system of a disk where the driver has disks; a block volume is a
// loop device.
type nodePlugin struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	registration.UnimplementedRegistrationServer

	machine  wire.Machine
	driver   wire.Driver
	calls    *calls
	endpoint string

	mu        sync.Mutex
	faults    map[faultKey]wire.Fault
	changed   chan struct{} // closed once another fault is set
	info      wire.Info
	registrar *grpc.Server // nil: not registered
}

type faultKey struct {
	rpc    wire.RPC
	handle string
}

func startNodePlugin(machine wire.Machine, driver wire.Driver, calls *calls) (*nodePlugin, error) {
	dir := filepath.Join(machine.Root, "plugins", driverKey(driver))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	p := &nodePlugin{machine: machine, driver: driver, calls: calls, endpoint: filepath.Join(dir, "csi.sock"), faults: map[faultKey]wire.Fault{}, changed: make(chan struct{})}
	listener, err := net.Listen("unix", p.endpoint)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, p)
	csi.RegisterNodeServer(server, p)
	go func() { _ = server.Serve(listener) }() // it ends with the process
	return p, nil
}

// driverKey names the node plugin.
func driverKey(d wire.Driver) string { return cmp.Or(d.Plugin, d.Name) }

func (p *nodePlugin) setInfo(info wire.Info) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.info = info
}

func (p *nodePlugin) set(f wire.Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[faultKey{f.RPC, f.Handle}] = f
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *nodePlugin) socket() string {
	return filepath.Join(p.machine.Root, "plugins_registry", driverKey(p.driver)+"-reg.sock")
}

// register does what node-driver-registrar does when it starts.
func (p *nodePlugin) register() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.registrar != nil {
		return errors.New("the driver has its socket")
	}
	if err := os.MkdirAll(filepath.Dir(p.socket()), 0o755); err != nil {
		return err
	}
	listener, err := net.Listen("unix", p.socket())
	if err != nil {
		return err
	}
	p.registrar = grpc.NewServer()
	registration.RegisterRegistrationServer(p.registrar, p)
	go func() { _ = p.registrar.Serve(listener) }() // it ends with unregister
	return nil
}

// unregister does what it does when it is asked to end.
func (p *nodePlugin) unregister() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.registrar == nil {
		return errors.New("the driver has no socket")
	}
	p.registrar.Stop() // which removes the socket
	p.registrar = nil
	return nil
}

// GetInfo is the registrar's answer to the kubelet.
func (p *nodePlugin) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: p.driver.Name, Endpoint: p.endpoint, SupportedVersions: []string{"1.0.0"}}, nil
}

// NotifyRegistrationStatus takes note of the answer alone: a registrar that is refused
// would exit, and its container be started again.
func (p *nodePlugin) NotifyRegistrationStatus(_ context.Context, s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	p.calls.registered(wire.Registration{Plugin: driverKey(p.driver), Done: s.GetPluginRegistered(), Error: s.GetError()})
	return &registration.RegistrationStatusResponse{}, nil
}

// do makes one call: it fails or hangs where it is to, and acts otherwise.
func (p *nodePlugin) do(ctx context.Context, rpc wire.RPC, handle, target string, act func() error) error {
	call := wire.Call{Driver: p.driver.Name, RPC: rpc, Handle: handle}
	if m := podOfTarget.FindStringSubmatch(target); m != nil {
		call.Pod = types.UID(m[1])
	}
	end := p.calls.began(call)
	err := p.refuse(ctx, rpc, handle)
	if f, _ := p.fault(rpc, handle); err == nil && act != nil && !f.Nothing {
		err = act()
	}
	end(err)
	return err
}

// podOfTarget finds the pod in the path that the kubelet names.
var podOfTarget = regexp.MustCompile(`/([0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32})(?:/|$)`)

// refuse is the answer that the fault of the call makes; nil where it has none.
func (p *nodePlugin) refuse(ctx context.Context, rpc wire.RPC, handle string) error {
	for {
		f, changed := p.fault(rpc, handle)
		switch {
		case !f.Hang && f.Code == 0:
			return nil
		case !f.Hang:
			return status.Error(codes.Code(f.Code), f.Message)
		}
		select {
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-changed:
		}
	}
}

func (p *nodePlugin) fault(rpc wire.RPC, handle string) (f wire.Fault, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, ok := p.faults[faultKey{rpc, handle}]
	if !ok {
		f = p.faults[faultKey{rpc, ""}]
	}
	return f, p.changed
}

// GetPluginInfo is part of CSI's identity service.
func (p *nodePlugin) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: p.driver.Name, VendorVersion: "1"}, nil
}

// NodeGetInfo is asked when the driver registers.
func (p *nodePlugin) NodeGetInfo(ctx context.Context, _ *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	if err := p.do(ctx, wire.GetInfo, "", "", nil); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &csi.NodeGetInfoResponse{NodeId: cmp.Or(p.info.NodeID, p.machine.Node), MaxVolumesPerNode: p.info.Room}
	if p.info.Topology != nil {
		r.AccessibleTopology = &csi.Topology{Segments: p.info.Topology}
	}
	return r, nil
}

// NodeGetCapabilities tells the kubelet whether volumes are staged.
func (p *nodePlugin) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	if !p.driver.Stages {
		return &csi.NodeGetCapabilitiesResponse{}, nil
	}
	return &csi.NodeGetCapabilitiesResponse{Capabilities: []*csi.NodeServiceCapability{{Type: &csi.NodeServiceCapability_Rpc{
		Rpc: &csi.NodeServiceCapability_RPC{Type: csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME},
	}}}}, nil
}

// NodeStageVolume mounts the volume for the machine.
func (p *nodePlugin) NodeStageVolume(ctx context.Context, r *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	return &csi.NodeStageVolumeResponse{}, p.do(ctx, wire.Stage, r.GetVolumeId(), "", func() error {
		if r.GetVolumeCapability().GetBlock() != nil {
			return nil
		}
		if p.driver.Disks != "" {
			return p.mountDisk(r.GetVolumeId(), r.GetStagingTargetPath())
		}
		return mountTmpfs(r.GetStagingTargetPath())
	})
}

// NodeUnstageVolume takes it from the machine.
func (p *nodePlugin) NodeUnstageVolume(ctx context.Context, r *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	return &csi.NodeUnstageVolumeResponse{}, p.do(ctx, wire.Unstage, r.GetVolumeId(), "", func() error {
		return errors.Join(unmount(r.GetStagingTargetPath()), p.removeDevice(r.GetVolumeId()))
	})
}

// NodePublishVolume mounts the volume for one pod.
func (p *nodePlugin) NodePublishVolume(ctx context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	target := r.GetTargetPath()
	return &csi.NodePublishVolumeResponse{}, p.do(ctx, wire.Publish, r.GetVolumeId(), target, func() error {
		switch {
		case r.GetVolumeCapability().GetBlock() != nil:
			return p.publishDevice(r.GetVolumeId(), target)
		case r.GetStagingTargetPath() == "":
			return mountTmpfs(target)
		default:
			if err := os.MkdirAll(target, 0o750); err != nil || mounted(target) {
				return err
			}
			return unix.Mount(r.GetStagingTargetPath(), target, "", unix.MS_BIND, "")
		}
	})
}

// publishDevice binds a loop device, of a file of the volume, to the path.
func (p *nodePlugin) publishDevice(handle, target string) error {
	if mounted(target) {
		return nil
	}
	dir := filepath.Dir(p.deviceFile(handle))
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	device, err := os.ReadFile(p.deviceFile(handle))
	if os.IsNotExist(err) {
		file := filepath.Join(dir, handle+".img")
		if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
			return err
		}
		if device, err = exec.Command("losetup", "--find", "--show", file).Output(); err == nil {
			device = bytes.TrimSpace(device)
			err = os.WriteFile(p.deviceFile(handle), device, 0o600)
		}
	}
	if err != nil {
		return fmt.Errorf("make the device of %s: %w", handle, err)
	}
	if err := os.WriteFile(target, nil, 0o600); err != nil {
		return err
	}
	return unix.Mount(string(device), target, "", unix.MS_BIND, "")
}

// deviceFile has the name of the volume's device.
func (p *nodePlugin) deviceFile(handle string) string {
	return filepath.Join(filepath.Dir(p.endpoint), "devices", handle)
}

// removeDevice gives the volume's device back; none is fine.
func (p *nodePlugin) removeDevice(handle string) error {
	device, err := os.ReadFile(p.deviceFile(handle))
	if os.IsNotExist(err) {
		return nil
	}
	if err == nil {
		err = exec.Command("losetup", "--detach", string(device)).Run()
	}
	return errors.Join(err, os.Remove(p.deviceFile(handle)))
}

// NodeUnpublishVolume takes it from the pod.
func (p *nodePlugin) NodeUnpublishVolume(ctx context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	target := r.GetTargetPath()
	return &csi.NodeUnpublishVolumeResponse{}, p.do(ctx, wire.Unpublish, r.GetVolumeId(), target, func() error {
		if err := unmount(target); err != nil {
			return err
		}
		if err := os.Remove(target); err != nil && !os.IsNotExist(err) {
			return err
		}
		return nil
	})
}

func mountTmpfs(path string) error {
	if err := os.MkdirAll(path, 0o750); err != nil || mounted(path) {
		return err
	}
	if err := unix.Mount("tmpfs", path, "tmpfs", 0, "size=4m"); err != nil {
		return fmt.Errorf("mount %s: %w", path, err)
	}
	return nil
}

// mounted reports whether something is mounted there: its device is not its parent's, as all
// that a driver mounts here is a file system of its own.
func mounted(path string) bool {
	var here, above unix.Stat_t
	return unix.Stat(path, &here) == nil && unix.Stat(filepath.Dir(path), &above) == nil && here.Dev != above.Dev
}

// unmount takes away all that is mounted there; nothing is fine, as CSI wants it. A directory of
// the machine's own file system may be there more than once: mounted does not see it.
func unmount(path string) error {
	for {
		switch err := unix.Unmount(path, 0); {
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
			return nil
		case err != nil:
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
}
