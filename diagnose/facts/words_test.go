package facts

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

func TestMachineNotFound(t *testing.T) {
	for message, want := range map[string]bool{
		"rpc error: code = NotFound desc = instance i-n1 not found":                               true,
		`node "n1" has no NodeID annotation`:                                                      true,
		"CSINode n1 does not contain driver ebs.csi.aws.com":                                      true,
		"rpc error: code = Internal desc = failed to find VirtualMachine for node:\"n1\"":         true,
		"InvalidInstanceID.NotFound: the instance ID 'i-1' does not exist":                        true,
		"rpc error: code = NotFound desc = server not found":                                      true,
		"could not find node n1":                                                                  true,
		"no such host: storage.example.com":                                                       false,
		"rpc error: code = NotFound desc = volume vol-1 not found":                                false,
		"node n1: volume vol-1 not found":                                                         false,
		"the server could not find the requested resource":                                        false,
		"node secret \"publish\" not found":                                                       false,
		"rpc error: code = Internal desc = volume is still in use":                                false,
		"rpc error: code = DeadlineExceeded desc = context deadline exceeded":                     false,
		"rpc error: code = Internal desc = DetachVolume failed on node n1: UnauthorizedOperation": false,
		"rpc error: code = Unavailable desc = connection to the server could not be established":  false,
		"persistentvolume \"pv-1\" not found":                                                     false,
	} {
		if got := MachineNotFound("driver.example.com", message); got != want {
			t.Errorf("%q: %v", message, got)
		}
	}
}

// TestWordsOfADriver: the table's entries for a driver prevail over the plain meaning of a
// message.
func TestWordsOfADriver(t *testing.T) {
	for _, c := range []struct {
		driver, message string
		machine, held   bool
	}{
		{"cinder.csi.openstack.org", "Resource not found: [GET https://nova/v2.1/servers/5887bc6d/os-volume_attachments]", true, false},
		{"driver.example.com", "Resource not found: [GET https://nova/v2.1/servers/5887bc6d/os-volume_attachments]", false, false},
		{"csi-powerstore.dellemc.com", "rpc error: code = NotFound desc = host with k8s node ID 'csi-node-1' not found", true, false},
		{"csi.hetzner.cloud", "rpc error: code = Internal desc = volume is already attached to a server, please detach it first (service_error)", false, true},
		{"driver.example.com", "rpc error: code = FailedPrecondition desc = n1 has it", false, true},
		{"driver.example.com", "rpc error: code = Internal desc = n1 has it", false, false},
		{"csi.hetzner.cloud", "rpc error: code = FailedPrecondition desc = failed to publish volume: server is locked", false, false},
	} {
		if got := MachineNotFound(c.driver, c.message); got != c.machine {
			t.Errorf("%s: %q: the machine is not found: %v", c.driver, c.message, got)
		}
		if got := HeldElsewhere(c.driver, c.message); got != c.held {
			t.Errorf("%s: %q: another machine has it: %v", c.driver, c.message, got)
		}
	}
}

// TestMountFailures: kubelets have named the volume in two ways.
func TestMountFailures(t *testing.T) {
	view := &View{Snapshot: snapshot.New(time.Time{}, snapshot.Source{}, snapshot.Objects{}, nil)}
	for _, message := range []string{
		`MountVolume.SetUp failed for volume "pv-1" : no route to host`,
		`(combined from similar events): MountVolume.SetUp failed for volume "pv-1" : no route to host`,
		`MountVolume.SetUp failed for volume "kubernetes.io/iscsi/49440e67-pv-1" (spec.Name: "pv-1") pod "49440e67" (UID: "49440e67") with: no route to host`,
	} {
		events := []*corev1.Event{{Reason: "FailedMount", Message: message}, {Reason: "Pulled", Message: message}}
		got := view.MountFailuresIn(events, &corev1.Pod{}, "data", "pv-1")
		if len(got) != 1 || got[0].Step != "MountVolume.SetUp failed" || got[0].Reason != "no route to host" {
			t.Errorf("%q: %+v", message, got)
		}
		if got := view.MountFailuresIn(events, &corev1.Pod{}, "pv-2"); len(got) > 0 {
			t.Errorf("%q is about pv-2: %+v", message, got)
		}
	}
}

// TestNodeNamed: an advice names the finding's node, once. Words for another node stay.
func TestNodeNamed(t *testing.T) {
	for advice, want := range map[string]string{
		"{check} check on the node that the device has appeared":    "{check} check on n1 that the device has appeared",
		"{check} see whether the volume is attached to this node":   "{check} see whether the volume is attached to n1",
		"cordon the node and {reboot-node}":                         "cordon n1 and {reboot-node}",
		"{check} see lsblk on the node; log in on the node":         "{check} see lsblk on n1; log in on the node",
		"see that it is unmounted on the node that its label names": "see that it is unmounted on the node that its label names",
		"the node's log, the nodes":                                 "the node's log, the nodes",
	} {
		if got := nodeNamed(advice, "n1"); got != want {
			t.Errorf("%q", got)
		}
		if got := nodeNamed(advice, ""); got != advice {
			t.Errorf("a finding about no node: %q", got)
		}
	}
}
