package history

import (
	"time"

	"google.golang.org/grpc/codes"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/driver"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// Story is a history with a name, and what the tool has to say of it.
type Story struct {
	Name  string
	Steps []Step
	// Code must be among those of warning or worse; "" is a healthy world, in which none may
	// be.
	Code string
	// Proven is when the objects prove that a wait does not end by itself; 0 is when the
	// driver first fails the call that it is told to fail, and never that they prove nothing.
	Proven time.Duration
}

// drained moves the pod of the claim web0 to another node, just after minute 2.
func drained(breaks ...Step) []Step {
	return append(breaks, Step{At: 2*time.Minute + 10*time.Second, Do: "drain", Node: "@web0", For: 25 * time.Minute})
}

// broken is a fault of the driver for web0 from minute 2 on.
func broken(f driver.Fault, lasts time.Duration) Step {
	return Step{At: 2 * time.Minute, Do: "break", Claim: "web0", Fault: f, For: lasts}
}

// lostPod is when the pods of a node that is switched off at minute 2 are told to go, and
// others wait for their volumes: it is not Ready after 50 s, and evicted after five minutes.
const lostPod = 7*time.Minute + 55*time.Second

const (
	// never is for what no object proves: a kubelet that fails to unmount says so only in its log.
	never time.Duration = -1
	// noAnswer is when the controller gives up its wait of two minutes for the attacher: at 02:21 it
	// deletes the VolumeAttachment of a drained pod, or makes the next one. A call that has timed out
	// may still succeed.
	noAnswer = 2*time.Minute + 21*time.Second + reconcile.CSITimeout
	// noEnd is when the kubelet's call to the container runtime ends that is to stop the containers of a
	// pod which was deleted at minute 2 (runtimeRequestTimeout, on top of the grace period).
	noEnd = 2*time.Minute + facts.DefaultTerminationGrace + facts.KillTakes
)

// Stories are the histories that every release is told. The times of their answers stand
// on the page.
var Stories = []Story{
	{"the driver refuses to detach for 13 minutes", drained(broken(driver.Fault{Call: driver.Detach, Words: "the disk is busy", Code: codes.Internal}, 13*time.Minute)), "VD103", 0},
	{"the driver hangs in a detach", drained(broken(driver.Fault{Call: driver.Detach, Hangs: true}, 0)), "VD103", noAnswer},
	// Until the detach ends at 03:50 it is in flight. Then no object shows whether the driver would still
	// refuse the attach that the attacher tries again at 04:44.
	{"the driver hangs in a detach for almost two minutes", drained(broken(driver.Fault{Call: driver.Detach, Hangs: true}, 110*time.Second)), "VD410", noAnswer},
	{"the driver refuses to attach for 10 minutes", drained(broken(driver.Fault{Call: driver.Attach, Words: "the pool is offline", Code: codes.Internal}, 10*time.Minute)), "VD409", 0},
	{"the driver hangs in an attach", drained(broken(driver.Fault{Call: driver.Attach, Hangs: true}, 0)), "VD410", noAnswer},
	{"the driver attaches on all nodes but one", []Step{
		{At: 2 * time.Minute, Do: "break", Node: "n0", Fault: driver.Fault{Call: driver.Attach, Words: "the node has no adapter", Code: codes.Internal}, For: 25 * time.Minute},
		{At: 3 * time.Minute, Do: "drain", Node: "n1", For: 20 * time.Minute},
		{At: 3 * time.Minute, Do: "drain", Node: "n2", For: 20 * time.Minute},
	}, "VD409", 0},
	{"the driver refuses to unstage", drained(broken(driver.Fault{Call: driver.Unstage, Words: "the target is busy", Code: codes.Internal}, 20*time.Minute)), "VD104", never},
	{"the driver refuses to stage", drained(broken(driver.Fault{Call: driver.Stage, Words: "mount failed: exit status 32", Code: codes.Internal}, 10*time.Minute)), "VD411", 0},
	{"a node is lost, with a Deployment", []Step{{At: 2 * time.Minute, Do: "switch off", Node: "@web0"}}, "VD102", lostPod},
	{"a node is lost, with a StatefulSet", []Step{{At: 2 * time.Minute, Do: "switch off", Node: "@data-db0-0"}}, "VD403", lostPod},
	{"a node is lost for ten minutes", []Step{{At: 2 * time.Minute, Do: "stop the kubelet", Node: "@web0", For: 10 * time.Minute}}, "VD102", lostPod},
	{"a node is lost, and tainted out-of-service", []Step{
		{At: 2 * time.Minute, Do: "switch off", Node: "@web0", For: 20 * time.Minute},
		{At: 10 * time.Minute, Do: "taint out-of-service", Node: offNode, For: 11 * time.Minute},
	}, "VD102", lostPod},
	{"a machine is off for twenty minutes", []Step{{At: 2 * time.Minute, Do: "switch off", Node: "@web0", For: 20 * time.Minute}}, "VD102", lostPod},
	{"nobody controls, and a pod is deleted", []Step{{At: 2 * time.Minute, Do: "stop the manager"}, {At: 3 * time.Minute, Do: "delete the pod", Claim: "web0"}}, "", 0},
	{"nobody attaches", []Step{{At: 2 * time.Minute, Do: "stop the attacher"}, {At: 3 * time.Minute, Do: "drain", Node: "@web0", For: 20 * time.Minute}}, "VD604", 3*time.Minute + 10*time.Second},
	{"a pod runs on past its grace, beside one that waits", []Step{{At: 2 * time.Minute, Do: "keep the containers", Claim: "web0", For: 20 * time.Minute}}, "VD417", noEnd},
	{"a VolumeAttachment is deleted under a running pod", []Step{{At: 2 * time.Minute, Do: "delete the attachment", Claim: "web0"}}, "VD122", 2 * time.Minute},
	{"an entry is dropped from volumesAttached", []Step{{At: 2 * time.Minute, Do: "drop the entry", Claim: "web0"}}, "VD301", 2 * time.Minute},
	{"a claim is deleted, and nobody makes it again", []Step{{At: 2 * time.Minute, Do: "remake the claim", Claim: "web0"}}, "VD409", 2*time.Minute + 10*time.Second},

	{"the driver refuses to publish", drained(broken(driver.Fault{Call: driver.Publish, Words: "permission denied", Code: codes.PermissionDenied}, 10*time.Minute)), "VD411", 0},
	{"the driver hangs in a stage", drained(broken(driver.Fault{Call: driver.Stage, Hangs: true}, 0)), "VD411", 0},
	{"the driver refuses to attach, in words that nobody knows", drained(broken(driver.Fault{Call: driver.Attach, Words: "the third gate does not open", Code: codes.Unknown}, 0)), "VD409", 0},
	{"the driver does not find the volume", drained(broken(driver.Fault{Call: driver.Attach, Words: "could not find volume", Code: codes.NotFound}, 0)), "VD410", 0},
	{"nobody controls, and a pod waits", []Step{{At: 2 * time.Minute, Do: "drain", Node: "@web0", For: 20 * time.Minute}, {At: 2*time.Minute + 4*time.Second, Do: "stop the manager"}}, "VD622", 2*time.Minute + 19*time.Second},
	{"the attacher is away for six minutes", []Step{{At: 2 * time.Minute, Do: "stop the attacher", For: 6 * time.Minute}, {At: 3 * time.Minute, Do: "drain", Node: "@web0", For: 20 * time.Minute}}, "VD604", 3*time.Minute + 10*time.Second},
	// The conflict of which an event tells is over when the detach ends: the controller has to act.
	{"a detach ends while nobody controls", []Step{
		{At: 2 * time.Minute, Do: "stop the attacher", For: 3 * time.Minute}, {At: 2*time.Minute + 10*time.Second, Do: "drain", Node: "@web0", For: 20 * time.Minute}, {At: 4 * time.Minute, Do: "stop the manager", For: 8 * time.Minute},
	}, "VD622", 4*time.Minute + 15*time.Second},
	{"a machine goes off while it unmounts, and nobody controls", []Step{
		{At: 2 * time.Minute, Do: "stop the manager", For: 8 * time.Minute}, {At: 3 * time.Minute, Do: "drain", Node: "@data-db0-0", For: 8 * time.Minute}, {At: 3*time.Minute + 3500*time.Millisecond, Do: "switch off", Node: "@data-db0-0", For: 5 * time.Minute},
	}, "VD104", 0},
	{"a VolumeAttachment is stripped while the driver hangs in its detach", []Step{
		broken(driver.Fault{Call: driver.Detach, Hangs: true}, 0),
		{At: 2*time.Minute + 10*time.Second, Do: "drain", Node: "@web0", For: 25 * time.Minute},
		{At: 3 * time.Minute, Do: "strip the attachment", Claim: "web0"},
	}, "VD410", 0},
	{"a second pod wants a volume for one node, and the first runs on", []Step{{At: 2 * time.Minute, Do: "run a second pod", Claim: "web0", For: 20 * time.Minute}}, "VD203", 2 * time.Minute},
	{"a second pod waits for a volume for one node, and its access modes are edited", []Step{
		{At: 2 * time.Minute, Do: "run a second pod", Claim: "web0", For: 20 * time.Minute}, {At: 6 * time.Minute, Do: "edit the access modes", Claim: "web0", For: 10 * time.Minute},
	}, "VD409", 2 * time.Minute},
	{"a node is deleted and comes back while nobody controls", []Step{
		{At: 2 * time.Minute, Do: "delete the node", Node: "@data-db0-0", For: 5 * time.Minute}, {At: 3*time.Minute + 40*time.Second, Do: "stop the manager", For: 9 * time.Minute},
	}, "VD622", 3*time.Minute + 55*time.Second},
	{"a VolumeAttachment is deleted while its volume cannot be unstaged, and the next mount takes long", []Step{
		broken(driver.Fault{Call: driver.Unstage, Words: "the target is busy", Code: codes.Internal}, 20*time.Minute), broken(driver.Fault{Call: driver.Stage, After: 100 * time.Second}, 20*time.Minute),
		{At: 2*time.Minute + 10*time.Second, Do: "drain", Node: "@web0", For: 25 * time.Minute}, {At: 4 * time.Minute, Do: "delete the attachment", Claim: "web0"},
	}, "VD116", 4 * time.Minute},

	{"a claimRef is edited under a pod, and mended after ten minutes", []Step{{At: 2 * time.Minute, Do: "edit the claimRef", Claim: "web0", For: 10 * time.Minute}}, "VD501", 0},
	{"a node loses its annotation under a pod, and the controller restarts", []Step{
		{At: 2 * time.Minute, Do: "take the annotation", Node: "@web0", For: 12 * time.Minute}, {At: 4 * time.Minute, Do: "stop the manager", For: time.Second},
	}, "VD408", 0},
	{"a claim goes before its pod", []Step{{At: 2 * time.Minute, Do: "delete the claim", Claim: "web0"}, {At: 6 * time.Minute, Do: "delete the pod", Claim: "web0"}}, "VD514", 0},
	{"a volume goes before its pod", []Step{{At: 2 * time.Minute, Do: "delete the volume", Claim: "data-db0-0"}, {At: 6 * time.Minute, Do: "delete the pod", Claim: "data-db0-0"}}, "VD504", 0},

	{"healthy: nothing happens", nil, "", 0},
	// The driver is not asked to detach, and the controller makes the attachment again.
	{"healthy: a VolumeAttachment is stripped under a running pod", []Step{{At: 2 * time.Minute, Do: "strip the attachment", Claim: "web0"}}, "", 0},
	{"healthy: three drains", []Step{
		{At: 2 * time.Minute, Do: "drain", Node: "n0", For: 4 * time.Minute}, {At: 8 * time.Minute, Do: "drain", Node: "n1", For: 4 * time.Minute}, {At: 14 * time.Minute, Do: "drain", Node: "n2", For: 4 * time.Minute},
	}, "", 0},
	{"healthy: detaches take 40 seconds", []Step{
		{At: time.Minute, Do: "break", Fault: driver.Fault{Call: driver.Detach, After: 14 * time.Second}},
		{At: 2 * time.Minute, Do: "drain", Node: "@web0", For: 4 * time.Minute}, {At: 8 * time.Minute, Do: "drain", Node: "@data-db0-0", For: 4 * time.Minute},
	}, "", 0},
	{"healthy: a node restarts", []Step{{At: 2 * time.Minute, Do: "switch off", Node: "@web0", For: 2 * time.Minute}}, "", 0},
	{"healthy: the controller restarts during a drain", []Step{
		{At: 2 * time.Minute, Do: "drain", Node: "@web0", For: 4 * time.Minute}, {At: 2*time.Minute + 5*time.Second, Do: "stop the manager", For: time.Second},
	}, "", 0},
	{"healthy: the attacher restarts during a drain", []Step{
		{At: 2 * time.Minute, Do: "drain", Node: "@web0", For: 4 * time.Minute}, {At: 2*time.Minute + 5*time.Second, Do: "stop the attacher", For: time.Second},
	}, "", 0},
	{"healthy: all watches break, again and again", []Step{
		{At: 2 * time.Minute, Do: "cut all watches"}, {At: 2*time.Minute + 3*time.Second, Do: "drain", Node: "@web0", For: 4 * time.Minute}, {At: 2*time.Minute + 5*time.Second, Do: "cut all watches"}, {At: 2*time.Minute + 20*time.Second, Do: "cut all watches"},
	}, "", 0},
	{"healthy: a claim of a StatefulSet is made again", []Step{{At: 2 * time.Minute, Do: "remake the claim", Claim: "data-db0-0"}}, "", 0},
	{"healthy: pods are deleted", []Step{
		{At: 2 * time.Minute, Do: "delete the pod", Claim: "web0"}, {At: 3 * time.Minute, Do: "delete the pod", Claim: "data-db0-0"}, {At: 5 * time.Minute, Do: "delete the pod", Claim: "data-db0-0"}, {At: 7 * time.Minute, Do: "force-delete the pod", Claim: "data-db0-1"},
	}, "", 0},
	{"healthy: attaches take ten seconds", []Step{
		{At: time.Minute, Do: "break", Fault: driver.Fault{Call: driver.Attach, After: 10 * time.Second}}, {At: 2 * time.Minute, Do: "drain", Node: "@web0", For: 4 * time.Minute},
	}, "", 0},
	{"healthy: mounts take a minute", []Step{
		{At: time.Minute, Do: "break", Fault: driver.Fault{Call: driver.Stage, After: time.Minute}}, {At: 2 * time.Minute, Do: "drain", Node: "@web0", For: 4 * time.Minute},
	}, "", 0},
	{"healthy: unmounts take half a minute", []Step{
		{At: time.Minute, Do: "break", Fault: driver.Fault{Call: driver.Unstage, After: 30 * time.Second}}, {At: 2 * time.Minute, Do: "drain", Node: "@web0", For: 4 * time.Minute},
	}, "", 0},
	{"healthy: the driver is throttled for twenty seconds", drained(broken(driver.Fault{Call: driver.Attach, Words: "rate limit exceeded", Code: codes.ResourceExhausted}, 30*time.Second)), "", 0},
	{"healthy: a kubelet restarts", []Step{{At: 2 * time.Minute, Do: "stop the kubelet", Node: "@web0", For: 20 * time.Second}, {At: 3 * time.Minute, Do: "drain", Node: "@web0", For: 4 * time.Minute}}, "", 0},
	{"healthy: a kubelet is cut off for four minutes while it mounts", drained(
		broken(driver.Fault{Call: driver.Stage, After: time.Minute}, 20*time.Minute), broken(driver.Fault{Call: driver.Publish, After: 30 * time.Second}, 20*time.Minute),
		Step{At: 2*time.Minute + 45*time.Second, Do: "stop the kubelet", Node: "@web0", For: 4 * time.Minute},
	), "", 0},
	{"healthy: another controller takes the lease over during a drain", []Step{
		{At: 2 * time.Minute, Do: "drain", Node: "@web0", For: 4 * time.Minute}, {At: 2*time.Minute + 5*time.Second, Do: "stop the manager", For: 20 * time.Second},
	}, "", 0},
	{"healthy: pods are evicted for pressure", []Step{
		{At: 2 * time.Minute, Do: "evict for pressure", Claim: "web0"}, {At: 3 * time.Minute, Do: "evict for pressure", Claim: "data-db0-0"}, {At: 5 * time.Minute, Do: "evict for pressure", Claim: "web0"},
	}, "", 0},
	{"healthy: jobs complete", []Step{
		{At: 2 * time.Minute, Do: "run a job", For: 2 * time.Minute}, {At: 3 * time.Minute, Do: "run a job", For: 5 * time.Minute}, {At: 6 * time.Minute, Do: "run a job", For: 10 * time.Minute},
	}, "", 0},
	{"healthy: a budget refuses the evictions of a drain for eight minutes", []Step{
		{At: 100 * time.Second, Do: "refuse evictions", Claim: "web0", For: 8 * time.Minute}, {At: 2 * time.Minute, Do: "drain", Node: "@web0", For: 12 * time.Minute},
	}, "", 0},
	{"healthy: requests take up to three seconds, and some answers are lost", []Step{
		{At: 100 * time.Second, Do: "slow requests", For: 15 * time.Minute}, {At: 2 * time.Minute, Do: "drain", Node: "@web0", For: 4 * time.Minute}, {At: 8 * time.Minute, Do: "drain", Node: "@data-db0-0", For: 4 * time.Minute},
	}, "", 0},
	{"healthy: a node is deleted, and its volumes follow by force", []Step{{At: 2 * time.Minute, Do: "delete the node", Node: "@web0"}}, "", 0},
	// Until its node is seen to be lost, the kubelet has to unmount; then the volume follows by force.
	{"healthy: the pod of a machine that has just gone off is force-deleted", []Step{
		{At: 110 * time.Second, Do: "refuse evictions", Claim: "web0", For: 12 * time.Minute}, {At: 115 * time.Second, Do: "drain", Node: "@web0", For: 12 * time.Minute},
		{At: 2 * time.Minute, Do: "switch off", Node: "@web0", For: 20 * time.Minute}, {At: 2*time.Minute + 26*time.Second, Do: "force-delete the pod", Claim: "web0"},
	}, "", 0},
	{"healthy: the access modes of a volume are edited under its pod, which moves", []Step{
		{At: 2 * time.Minute, Do: "edit the access modes", Claim: "web0", For: 20 * time.Minute}, {At: 3 * time.Minute, Do: "drain", Node: "@web0", For: 4 * time.Minute},
	}, "", 0},
	{"healthy: the CSIDriver is replaced while pods run, and while one moves", []Step{
		{At: 2 * time.Minute, Do: "delete the CSIDriver", For: 2 * time.Second}, {At: 4 * time.Minute, Do: "drain", Node: "@web0", For: 4 * time.Minute}, {At: 4*time.Minute + 3*time.Second, Do: "delete the CSIDriver", For: 2 * time.Second},
	}, "", 0},
}
