// Package csidriver is a CSI driver whose storage backend is a table in
// memory: which volume is published on which node. It serves the Identity and
// Controller services on a unix socket, so that the real csi-attacher can talk
// to it, and it fails and delays on demand.
//
// The driver never refuses a request on its own account, unless it is told to with
// [Driver.OneAtATime]. A volume for a single node that is asked for on a second one
// is published there as well and noted as a [Violation]: the damage that the
// attach/detach controller exists to prevent, and that no repair may cause.
package csidriver

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
)

// Name is the name the driver registers under: spec.csi.driver of its volumes,
// spec.attacher of its VolumeAttachments.
const Name = "disk.volume-doctor.test"

// Driver is a running CSI driver. All methods may be called at any time and
// from any goroutine.
type Driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer

	name   string
	socket string
	server *grpc.Server
	served chan struct{}

	mu            sync.Mutex
	published     map[string]map[string]bool // volume -> nodes
	singleNode    map[string]bool            // volumes last published with a single-node access mode
	history       []Call
	violations    []Violation
	oneAtATime    map[string]bool
	failPublish   faults
	failUnpublish faults
	delay         map[string]time.Duration // by volume; "" stands for every volume
	held          map[string]chan struct{} // by volume, see HoldPublish
	cables        string                   // see Cables
}

// Start serves the driver on a unix socket at the given path.
func Start(socket string) (*Driver, error) { return StartAs(Name, socket) }

// StartAs is Start for a driver of another name.
func StartAs(name, socket string) (*Driver, error) {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("listen for CSI calls: %w", err)
	}
	d := &Driver{
		name:          name,
		socket:        socket,
		server:        grpc.NewServer(),
		served:        make(chan struct{}),
		published:     map[string]map[string]bool{},
		singleNode:    map[string]bool{},
		oneAtATime:    map[string]bool{},
		failPublish:   faults{},
		failUnpublish: faults{},
		delay:         map[string]time.Duration{},
		held:          map[string]chan struct{}{},
	}
	csi.RegisterIdentityServer(d.server, d)
	csi.RegisterControllerServer(d.server, d)
	go func() {
		defer close(d.served)
		// Serve ends with an error only if the listener breaks, which the
		// attacher then reports as a lost connection.
		_ = d.server.Serve(listener)
	}()
	return d, nil
}

// Stop closes the socket and every connection to it. The csi-attacher exits
// when that happens, so stop it first.
func (d *Driver) Stop() {
	d.server.Stop()
	<-d.served
	_ = os.Remove(d.socket) // normally gone with the listener
}

// Name is the name that the driver registers under.
func (d *Driver) Name() string { return d.name }

// Socket is the path of the unix socket.
func (d *Driver) Socket() string { return d.socket }

// FailPublish makes ControllerPublishVolume fail with err, for the given
// volume handles or, without any, for every volume. A nil err ends that. An
// err without a gRPC status is sent as Internal.
func (d *Driver) FailPublish(err error, volumes ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failPublish.set(err, volumes)
}

// FailUnpublish is FailPublish for ControllerUnpublishVolume.
func (d *Driver) FailUnpublish(err error, volumes ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failUnpublish.set(err, volumes)
}

// Delay makes publish and unpublish calls take at least this long, for the given
// volume handles or, without any, for every volume. A call whose caller gives up
// earlier changes nothing.
func (d *Driver) Delay(delay time.Duration, volumes ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(volumes) == 0 {
		clear(d.delay) // what is said of every volume replaces what was said of some
		volumes = []string{""}
	}
	for _, v := range volumes {
		d.delay[v] = delay
	}
}

// HoldPublish keeps publish calls for the volume waiting until release is called. A call
// whose caller gives up earlier changes nothing.
func (d *Driver) HoldPublish(volume string) (release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	held := make(chan struct{})
	d.held[volume] = held
	return sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.held, volume)
		close(held)
	})
}

// AttachByHand publishes a volume on a node past the cluster, as a person does
// at the console of the storage system. It is no call and no violation.
func (d *Driver) AttachByHand(volume, node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.published[volume] == nil {
		d.published[volume] = map[string]bool{}
	}
	d.published[volume][node] = true
	if err := d.cable(volume, node); err != nil {
		panic(err) // the folder of the test is gone
	}
}

// GetPluginInfo tells the driver's name.
func (d *Driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.name, VendorVersion: "1.0.0"}, nil
}

// GetPluginCapabilities tells that there is a controller service.
func (d *Driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{{
		Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{
			Type: csi.PluginCapability_Service_CONTROLLER_SERVICE,
		}},
	}}}, nil
}

// Probe tells that the driver is ready, which it is as soon as it listens.
func (d *Driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

// ControllerGetCapabilities tells that volumes are attached and detached.
func (d *Driver) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	return &csi.ControllerGetCapabilitiesResponse{Capabilities: []*csi.ControllerServiceCapability{{
		Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{
			Type: csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		}},
	}}}, nil
}

// ControllerPublishVolume attaches a volume to a node.
func (d *Driver) ControllerPublishVolume(ctx context.Context, req *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	if err := d.wait(ctx, req.GetVolumeId()); err != nil {
		return nil, err
	}
	d.mu.Lock()
	held := d.held[req.GetVolumeId()]
	d.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err := d.publish(req.GetVolumeId(), req.GetNodeId(), singleNode(req.GetVolumeCapability())); err != nil {
		return nil, err
	}
	return &csi.ControllerPublishVolumeResponse{}, nil
}

// ControllerUnpublishVolume detaches a volume from a node; a volume that is not
// there counts as detached.
func (d *Driver) ControllerUnpublishVolume(ctx context.Context, req *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	if err := d.wait(ctx, req.GetVolumeId()); err != nil {
		return nil, err
	}
	if err := d.unpublish(req.GetVolumeId(), req.GetNodeId()); err != nil {
		return nil, err
	}
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

// wait holds a call back for the delay that was asked for.
func (d *Driver) wait(ctx context.Context, volume string) error {
	d.mu.Lock()
	delay, ok := d.delay[volume]
	if !ok {
		delay = d.delay[""]
	}
	d.mu.Unlock()
	if delay == 0 {
		return nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// singleNode reports whether a capability allows one node at a time.
func singleNode(capability *csi.VolumeCapability) bool {
	switch capability.GetAccessMode().GetMode() {
	case csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY,
		csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER,
		csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER:
		return false
	default:
		return true
	}
}
