// Package wire is what the comparison and the oracles of the releases say to
// each other: one Request and one Answer, each a line of JSON.
//
// It is compiled with the API types of each release in turn, so it must do with
// what all of them have. Fields of an object that a release does not know yet
// are dropped when that release reads it, as its API server would.
package wire

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Request is a cluster and how the controller's pass on it is run.
type Request struct {
	VolumeAttachments []*storagev1.VolumeAttachment
	Nodes             []*corev1.Node
	CSINodes          []*storagev1.CSINode
	CSIDrivers        []*storagev1.CSIDriver
	Volumes           []*corev1.PersistentVolume
	Claims            []*corev1.PersistentVolumeClaim
	Pods              []*corev1.Pod
	// Live are the nodes that a GET finds where the controller's cache, which is Nodes,
	// is behind; without any, Nodes are.
	Live []*corev1.Node `json:",omitempty"`

	DisableForceDetachOnTimeout bool
	// FeatureGates are the gates of kube-controller-manager that are not as its release has them.
	FeatureGates map[string]bool `json:",omitempty"`
	// SyncPeriod is --attach-detach-reconcile-sync-period, a minute where it is zero;
	// below zero the sync is off.
	SyncPeriod time.Duration `json:",omitempty"`
	Mode
	// History has the controller live through it, from the cluster on, instead of
	// one pass; Seed is what chance decides in it.
	History []Step `json:",omitempty"`
	Seed    uint64 `json:",omitempty"`
	// SELinux asks the controller that warns of SELinux conflicts instead.
	SELinux bool `json:",omitempty"`
}

// Mode says how the oracle's pass is run.
type Mode struct {
	// Free leaves to chance what upstream leaves to chance: node events may
	// arrive before or after the start-up population, and operations that call
	// nobody may end within the pass.
	Free bool
	// TimedOut runs the pass as if the time to wait for an unmount were over.
	TimedOut bool
}

// Answer is what the controller made of a Request.
type Answer struct {
	// Error says why there is no answer.
	Error string `json:",omitempty"`
	// Managed are the nodes that the controller cares for.
	Managed   []string
	Actual    []Actual
	Desired   []Desired
	Decisions []Decision
	// Status is each node's status.volumesAttached after the pass.
	Status map[string][]corev1.AttachedVolume
	// Skipped says why a pod volume or a VolumeAttachment is in no world, by
	// PodVolumeKey or AttachmentKey.
	Skipped map[string]string
	// Ended are the pods that the controller takes for terminated.
	Ended []string
	// Story answers a History, and nothing else does.
	Story *Story `json:",omitempty"`
	// SELinux and SELinuxMultiple answer a request for SELinux: the conflicts of pods
	// with one another, each from both sides, and those of one pod with itself.
	SELinux, SELinuxMultiple []string `json:",omitempty"`
}

// Pair is what the controller decides about.
type Pair struct{ Volume, Node string }

// Spec is what tells volume specs apart; the zero Spec is a nil one.
type Spec struct {
	// Source is the PV's name, or the pod's name for its volume.
	Source      string
	MultiAttach bool
	Migrated    bool
}

// Actual is a row of the actual state of the world.
type Actual struct {
	Pair
	State      string
	Spec       Spec
	DevicePath string
	Mounted    bool
	// MountedLater is Mounted once each node has been updated.
	MountedLater bool
}

// Desired is a row of the desired state of the world.
type Desired struct {
	Pair
	Spec Spec
	Pods []string
}

// Decision is what happened to a pair in the pass, in the words of package
// reconcile, which the oracles cannot import: it has one release's API types.
type Decision struct {
	Pair
	Verb, Reason     string
	VolumeAttachment string
	// Holders and Warned belong to a MultiAttach: the other nodes, and the pods
	// that got the event.
	Holders, Warned []string
	// Event is how the message of that event begins.
	Event string
	// Left is the state in which a detach leaves the pair whose VolumeAttachment
	// the API server does not delete.
	Left string
	// Updated is the verb of the next pass, after each node was updated.
	Updated string
}

// The verb and the reasons that only an oracle uses.
const (
	// Held is the verb where an operation of the volume that started before in
	// the same pass kept the pair's own detach from starting.
	Held = "Held"
	// TimedOut is the reason of a forced detach after the time-out.
	TimedOut = "TimedOut"
)

// PodVolumeKey names a volume of a pod in Answer.Skipped.
func PodVolumeKey(pod, volume string) string { return "pod " + pod + " volume " + volume }

// AttachmentKey names a VolumeAttachment in Answer.Skipped.
func AttachmentKey(name string) string { return "volumeattachment " + name }

// FlexCapabilities are the flexvolume drivers on the controller's host, by
// directory name, and whether they attach.
var FlexCapabilities = map[string]bool{"acme~disk": true, "acme~share": false, "plain": true}
