package wire

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Loop is the pause between two passes of a controller that lives through a
// History. All its other timers are those of a real one.
const Loop = time.Second

// Step is one thing that happens in a History.
type Step struct {
	Do Action
	// Node, Volume and Pod are what it happens to, by name, as far as the action
	// asks for them.
	Node, Volume, Pod string `json:",omitempty"`
	// Mode is how the driver does its work from now on.
	Mode DriverMode `json:",omitempty"`
	// Then is the time until the next step.
	Then time.Duration
}

// Action is a kind of Step.
type Action string

// The actions.
const (
	RunPod     Action = "RunPod"     // a pod that wants the volume runs on the node
	EndPod     Action = "EndPod"     // its containers end
	RemovePod  Action = "RemovePod"  // it is deleted
	SyncNode   Action = "SyncNode"   // the kubelet mounts, unmounts and reports
	Silence    Action = "Silence"    // the node is heard of no more
	Return     Action = "Return"     // it is heard of again
	DropNode   Action = "DropNode"   // the Node is deleted
	AddNode    Action = "AddNode"    // a Node of that name appears, with nothing attached
	Taint      Action = "Taint"      // out of service
	Untaint    Action = "Untaint"    // and back in service
	Attaching  Action = "Attaching"  // how the driver attaches from now on
	Detaching  Action = "Detaching"  // how it detaches
	DeleteVA   Action = "DeleteVA"   // somebody deletes a VolumeAttachment
	StripVA    Action = "StripVA"    // and takes its finalizers off
	CreateVA   Action = "CreateVA"   // somebody restores one
	Unlist     Action = "Unlist"     // somebody takes the volume off the node's volumesAttached
	List       Action = "List"       // or puts it there
	LosePatch  Action = "LosePatch"  // the next patches of a node's status fail
	BreakWatch Action = "BreakWatch" // the controller hears of nothing until the next step
	Restart    Action = "Restart"    // another controller takes over
	Nothing    Action = "Nothing"    // time passes
)

// DriverMode is how a driver, and the API server before it, does its work.
type DriverMode string

// The modes.
const (
	Works   DriverMode = "Works"
	Refuses DriverMode = "Refuses" // it answers with an error
	Hangs   DriverMode = "Hangs"   // it does not answer
	Forbids DriverMode = "Forbids" // the API server does not let the controller ask it
)

// Moment is what there was after something had changed, and before the
// controller's next pass.
type Moment struct {
	// At is counted from the start of the history, as Started is, at which the
	// controller that is at work took over.
	At, Started time.Duration
	// Step is how many steps were done.
	Step int

	// Objects counts how often the objects have changed: moments with the same
	// number have the same objects, and differ in what the controller remembers.
	Objects           int
	VolumeAttachments []*storagev1.VolumeAttachment
	Nodes             []*corev1.Node
	Pods              []*corev1.Pod

	// Actual, Desired and Operations are the controller's memory.
	Actual     []Actual
	Desired    []Desired
	Operations []Operation
	// Blind reports whether the controller hears of no change.
	Blind bool
	// Losing reports whether patches of node statuses fail.
	Losing bool
	// Touched reports whether somebody but the controller and its driver has written to a
	// VolumeAttachment or a volumesAttached since the controller took over.
	Touched bool
}

// Operation is one that runs, or has failed and is not tried again before Until.
type Operation struct {
	Pair
	Name    string
	Pending bool
	Until   time.Duration
}

// Deed is something that the controller did about a pair.
type Deed struct {
	Pair
	At time.Duration
	// Verb is Attach, Detach, ForceDetach, or Forgotten.
	Verb string
}

// Forgotten is the Verb of a Deed of the verify sync.
const Forgotten = "Forgotten"

// Story is what came of a History.
type Story struct {
	// Began is what the clock of the objects showed then.
	Began   time.Time
	Moments []Moment
	Deeds   []Deed
	// Ended is when it was over.
	Ended time.Duration
	// Log is what the controllers logged until then, one after the other, as
	// kube-controller-manager writes it at --v=2.
	Log string
}
