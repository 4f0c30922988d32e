package csidriver

import (
	"context"
	"maps"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// DetachByHand is the opposite of [Driver.AttachByHand].
func (d *Driver) DetachByHand(volume, node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.published[volume], node)
	if err := d.cable(volume, node); err != nil {
		panic(err) // the folder of the test is gone
	}
}

// OneAtATime has the driver refuse to publish the volume to a node while another
// has it, and name that, as most storage systems do.
func (d *Driver) OneAtATime(volume string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.oneAtATime[volume] = true
}

// ListVolumes is the publish table: each volume that was ever published, with the
// machines that have it. The driver does not announce that it can list, so that the
// attacher never asks, as with most drivers.
func (d *Driver) ListVolumes(context.Context, *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := &csi.ListVolumesResponse{}
	for _, volume := range slices.Sorted(maps.Keys(d.published)) {
		list.Entries = append(list.Entries, &csi.ListVolumesResponse_Entry{
			Volume: &csi.Volume{VolumeId: volume},
			Status: &csi.ListVolumesResponse_VolumeStatus{PublishedNodeIds: slices.Sorted(maps.Keys(d.published[volume]))},
		})
	}
	return list, nil
}
