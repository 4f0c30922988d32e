package history

import (
	"time"

	"google.golang.org/grpc/codes"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/driver"
)

// Story is a history with a name, and what the tool has to say of it.
type Story struct {
	Name  string
	Steps []Step
	// Code must be among those of warning or worse; "" is a healthy world, in which none may
	// be.
	Code string
}

// drained moves the pod of the claim web0 to another node, just after minute 2.
func drained(breaks ...Step) []Step {
	return append(breaks, Step{At: 2*time.Minute + 10*time.Second, Do: "drain", Node: "@web0", For: 25 * time.Minute})
}

// broken is a fault of the driver for web0 from minute 2 on.
func broken(f driver.Fault, lasts time.Duration) Step {
	return Step{At: 2 * time.Minute, Do: "break", Claim: "web0", Fault: f, For: lasts}
}

// Stories are the histories that every release is told. The times of their answers stand
// on the page.
var Stories = []Story{
	{"the driver refuses to detach for 13 minutes", drained(broken(driver.Fault{Call: driver.Detach, Words: "the disk is busy", Code: codes.Internal}, 13*time.Minute)), "VD103"},
	{"the driver hangs in a detach", drained(broken(driver.Fault{Call: driver.Detach, Hangs: true}, 0)), "VD103"},
	{"the driver refuses to attach for 10 minutes", drained(broken(driver.Fault{Call: driver.Attach, Words: "the pool is offline", Code: codes.Internal}, 10*time.Minute)), "VD409"},
	{"the driver hangs in an attach", drained(broken(driver.Fault{Call: driver.Attach, Hangs: true}, 0)), "VD410"},
	{"the driver attaches on all nodes but one", []Step{
		{At: 2 * time.Minute, Do: "break", Node: "n0", Fault: driver.Fault{Call: driver.Attach, Words: "the node has no adapter", Code: codes.Internal}, For: 25 * time.Minute},
		{At: 3 * time.Minute, Do: "drain", Node: "n1", For: 20 * time.Minute},
		{At: 3 * time.Minute, Do: "drain", Node: "n2", For: 20 * time.Minute},
	}, "VD409"},
	{"the driver refuses to unstage", drained(broken(driver.Fault{Call: driver.Unstage, Words: "the target is busy", Code: codes.Internal}, 20*time.Minute)), "VD104"},
	{"the driver refuses to stage", drained(broken(driver.Fault{Call: driver.Stage, Words: "mount failed: exit status 32", Code: codes.Internal}, 10*time.Minute)), "VD411"},
	{"a node is lost, with a Deployment", []Step{{At: 2 * time.Minute, Do: "switch off", Node: "@web0"}}, "VD102"},
	{"a node is lost, with a StatefulSet", []Step{{At: 2 * time.Minute, Do: "switch off", Node: "@data-db0-0"}}, "VD403"},
	{"a node is lost for ten minutes", []Step{{At: 2 * time.Minute, Do: "stop the kubelet", Node: "@web0", For: 10 * time.Minute}}, "VD102"},
	{"a node is lost, and tainted out-of-service", []Step{
		{At: 2 * time.Minute, Do: "switch off", Node: "@web0", For: 20 * time.Minute},
		{At: 10 * time.Minute, Do: "taint out-of-service", Node: "@web0", For: 11 * time.Minute},
	}, "VD102"},
	{"nobody controls, and a pod is deleted", []Step{{At: 2 * time.Minute, Do: "stop the manager"}, {At: 3 * time.Minute, Do: "delete the pod", Claim: "web0"}}, ""},
	{"nobody attaches", []Step{{At: 2 * time.Minute, Do: "stop the attacher"}, {At: 3 * time.Minute, Do: "drain", Node: "@web0", For: 20 * time.Minute}}, "VD604"},
	{"a pod runs on past its grace, beside one that waits", []Step{{At: 2 * time.Minute, Do: "keep the containers", Claim: "web0", For: 20 * time.Minute}}, "VD417"},
	{"a VolumeAttachment is deleted under a running pod", []Step{{At: 2 * time.Minute, Do: "delete the attachment", Claim: "web0"}}, "VD122"},
	{"an entry is dropped from volumesAttached", []Step{{At: 2 * time.Minute, Do: "drop the entry", Claim: "web0"}}, "VD301"},
	{"a claim is deleted, and nobody makes it again", []Step{{At: 2 * time.Minute, Do: "remake the claim", Claim: "web0"}}, "VD409"},

	{"healthy: nothing happens", nil, ""},
	// The driver is not asked to detach, and the controller makes the attachment again.
	{"healthy: a VolumeAttachment is stripped under a running pod", []Step{{At: 2 * time.Minute, Do: "strip the attachment", Claim: "web0"}}, ""},
	{"healthy: three drains", []Step{
		{At: 2 * time.Minute, Do: "drain", Node: "n0", For: 4 * time.Minute}, {At: 8 * time.Minute, Do: "drain", Node: "n1", For: 4 * time.Minute}, {At: 14 * time.Minute, Do: "drain", Node: "n2", For: 4 * time.Minute},
	}, ""},
	{"healthy: detaches take 40 seconds", []Step{
		{At: time.Minute, Do: "break", Fault: driver.Fault{Call: driver.Detach, After: 14 * time.Second}},
		{At: 2 * time.Minute, Do: "drain", Node: "@web0", For: 4 * time.Minute}, {At: 8 * time.Minute, Do: "drain", Node: "@data-db0-0", For: 4 * time.Minute},
	}, ""},
	{"healthy: a node restarts", []Step{{At: 2 * time.Minute, Do: "switch off", Node: "@web0", For: 2 * time.Minute}}, ""},
	{"healthy: the controller restarts during a drain", []Step{
		{At: 2 * time.Minute, Do: "drain", Node: "@web0", For: 4 * time.Minute}, {At: 2*time.Minute + 5*time.Second, Do: "stop the manager", For: time.Second},
	}, ""},
	{"healthy: the attacher restarts during a drain", []Step{
		{At: 2 * time.Minute, Do: "drain", Node: "@web0", For: 4 * time.Minute}, {At: 2*time.Minute + 5*time.Second, Do: "stop the attacher", For: time.Second},
	}, ""},
	{"healthy: all watches break, again and again", []Step{
		{At: 2 * time.Minute, Do: "cut all watches"}, {At: 2*time.Minute + 3*time.Second, Do: "drain", Node: "@web0", For: 4 * time.Minute}, {At: 2*time.Minute + 5*time.Second, Do: "cut all watches"}, {At: 2*time.Minute + 20*time.Second, Do: "cut all watches"},
	}, ""},
	{"healthy: a claim of a StatefulSet is made again", []Step{{At: 2 * time.Minute, Do: "remake the claim", Claim: "data-db0-0"}}, ""},
	{"healthy: pods are deleted", []Step{
		{At: 2 * time.Minute, Do: "delete the pod", Claim: "web0"}, {At: 3 * time.Minute, Do: "delete the pod", Claim: "data-db0-0"}, {At: 5 * time.Minute, Do: "delete the pod", Claim: "data-db0-0"}, {At: 7 * time.Minute, Do: "force-delete the pod", Claim: "data-db0-1"},
	}, ""},
}
