package csidriver

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// start serves a driver and connects to it as the attacher does.
func start(t *testing.T) (*Driver, csi.ControllerClient) {
	t.Helper()
	d, err := Start(filepath.Join(t.TempDir(), "csi.sock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Stop)
	conn, err := grpc.NewClient("unix://"+d.Socket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return d, csi.NewControllerClient(conn)
}

func publish(t *testing.T, c csi.ControllerClient, node string, mode csi.VolumeCapability_AccessMode_Mode) error {
	t.Helper()
	_, err := c.ControllerPublishVolume(t.Context(), &csi.ControllerPublishVolumeRequest{
		VolumeId: "vol", NodeId: node,
		VolumeCapability: &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode}},
	})
	return err
}

func unpublish(t *testing.T, c csi.ControllerClient, node string) error {
	t.Helper()
	_, err := c.ControllerUnpublishVolume(t.Context(), &csi.ControllerUnpublishVolumeRequest{VolumeId: "vol", NodeId: node})
	return err
}

func TestViolations(t *testing.T) {
	const (
		one  = csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
		many = csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	)
	tests := []struct {
		name  string
		calls func(t *testing.T, c csi.ControllerClient) error
		want  int
	}{
		{"one node twice", func(t *testing.T, c csi.ControllerClient) error {
			return errors.Join(publish(t, c, "n1", one), publish(t, c, "n1", one))
		}, 0},
		{"moved", func(t *testing.T, c csi.ControllerClient) error {
			return errors.Join(publish(t, c, "n1", one), unpublish(t, c, "n1"), publish(t, c, "n2", one))
		}, 0},
		{"shared", func(t *testing.T, c csi.ControllerClient) error {
			return errors.Join(publish(t, c, "n1", many), publish(t, c, "n2", many))
		}, 0},
		{"two nodes", func(t *testing.T, c csi.ControllerClient) error {
			return errors.Join(publish(t, c, "n1", one), publish(t, c, "n2", one))
		}, 1},
		{"single-node first, shared later", func(t *testing.T, c csi.ControllerClient) error {
			return errors.Join(publish(t, c, "n1", one), publish(t, c, "n2", many))
		}, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d, client := start(t)
			if err := test.calls(t, client); err != nil {
				t.Fatal(err)
			}
			if got := d.Violations(); len(got) != test.want {
				t.Errorf("violations are %v, want %d", got, test.want)
			}
		})
	}
}

func TestFailuresOnDemand(t *testing.T) {
	d, client := start(t)
	const mode = csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER

	d.FailPublish(errors.New("no room"), "other", "vol")
	if err := publish(t, client, "n1", mode); status.Code(err) != codes.Internal || status.Convert(err).Message() != "no room" {
		t.Errorf("publish: error is %v, want Internal, no room", err)
	}
	d.FailPublish(nil)
	if err := publish(t, client, "n1", mode); err != nil {
		t.Errorf("publish after healing: %v", err)
	}

	d.FailUnpublish(status.Error(codes.FailedPrecondition, "device is busy"))
	if err := unpublish(t, client, "n1"); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("unpublish: error is %v, want FailedPrecondition", err)
	}
	if nodes := d.PublishedOn("vol"); !slices.Equal(nodes, []string{"n1"}) {
		t.Errorf("after a failed unpublish the volume is published on %v, want n1", nodes)
	}
	d.FailUnpublish(nil)
	if err := unpublish(t, client, "n1"); err != nil {
		t.Errorf("unpublish after healing: %v", err)
	}
	if calls := d.History("vol"); len(calls) != 4 {
		t.Errorf("history is %v, want two failures and two successes", calls)
	}
}

func TestDelayByVolume(t *testing.T) {
	d, client := start(t)
	const mode = csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	inTime := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := client.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{
			VolumeId: "vol", NodeId: "n1",
			VolumeCapability: &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode}},
		})
		return err
	}
	d.Delay(time.Hour, "other")
	if err := inTime(); err != nil {
		t.Errorf("the delay of another volume: %v", err)
	}
	d.Delay(time.Hour, "vol")
	if err := inTime(); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("its own delay: error is %v, want DeadlineExceeded", err)
	}
	d.Delay(0)
	if err := inTime(); err != nil {
		t.Errorf("after the end of all delays: %v", err)
	}
	release := d.HoldPublish("vol")
	if err := inTime(); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("held back: error is %v, want DeadlineExceeded", err)
	}
	release()
	if err := inTime(); err != nil {
		t.Errorf("no longer held back: %v", err)
	}
}

func TestAttachByHand(t *testing.T) {
	d, client := start(t)
	d.AttachByHand("vol", "n1")
	if err := publish(t, client, "n2", csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER); err != nil {
		t.Fatal(err)
	}
	if nodes := d.PublishedOn("vol"); !slices.Equal(nodes, []string{"n1", "n2"}) || len(d.Violations()) != 1 {
		t.Errorf("the volume is published on %v, with violations %v", nodes, d.Violations())
	}
}

// TestOneAtATime: a second node is refused with the name of the first, and served
// once that has let go.
func TestOneAtATime(t *testing.T) {
	d, client := start(t)
	d.OneAtATime("vol")
	d.AttachByHand("vol", "n1")
	const one = csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	if err := publish(t, client, "n2", one); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "already attached to node n1") {
		t.Errorf("the second node: %v", err)
	}
	if err := errors.Join(publish(t, client, "n1", one), unpublish(t, client, "n1"), publish(t, client, "n2", one)); err != nil {
		t.Error(err)
	}
	if got := d.PublishedOn("vol"); !slices.Equal(got, []string{"n2"}) || len(d.Violations()) > 0 {
		t.Errorf("published on %v, violations %v", got, d.Violations())
	}
}
