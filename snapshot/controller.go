package snapshot

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Controller is what the log of kube-controller-manager proves about the memory of its
// attach/detach controller. It describes the last controller in the log at the time of the log's
// last line.
type Controller struct {
	// Release is kube-controller-manager's own release; "" if the log does not show it.
	Release string `json:"release,omitempty"`
	// Identity is the name under which it acquired its lease; "" if the log does not show it.
	Identity string `json:"identity,omitempty"`
	// Started is nil if the log does not show the start of the controller. The controller may then
	// also remember pairs that the log does not mention.
	Started *time.Time `json:"started,omitempty"`
	// First and Last are the times of the first and the last line that were used.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// Verbose reports whether the log has the lines of --v=1, for example those about forgotten
	// attachments.
	Verbose bool `json:"verbose,omitempty"`
	// Flags are the settings of kube-controller-manager that change a decision, by name.
	Flags map[string]string `json:"flags,omitempty"`
	// Pairs are sorted by volume and node. The log does not mention a pair that is missing.
	Pairs []RememberedPair `json:"pairs,omitempty"`
	// BackOffs are sorted by volume and node.
	BackOffs []BackOff `json:"backOffs,omitempty"`
	// Unclear are the volumes that a line names without their node; sorted.
	Unclear []corev1.UniqueVolumeName `json:"unclear,omitempty"`
}

// Sort puts the lists into the order in which they are searched.
func (c *Controller) Sort() {
	slices.SortFunc(c.Pairs, func(a, b RememberedPair) int {
		return cmp.Or(cmp.Compare(a.Volume, b.Volume), cmp.Compare(a.Node, b.Node))
	})
	slices.SortFunc(c.BackOffs, func(a, b BackOff) int {
		return cmp.Or(cmp.Compare(a.Volume, b.Volume), cmp.Compare(a.Node, b.Node))
	})
	slices.Sort(c.Unclear)
}

// Remembered is the state of a volume on a node in the controller's memory.
type Remembered string

// The states of a pair in the controller's memory.
const (
	RememberedAbsent    Remembered = "Absent" // the controller has no record of the pair
	RememberedUncertain Remembered = "Uncertain"
	RememberedAttached  Remembered = "Attached"
)

// Operation is an operation of the controller on a pair.
type Operation string

// The operations.
const (
	AttachOperation Operation = "attach"
	DetachOperation Operation = "detach"
)

// RememberedPair is what the log proves about a volume on a node.
type RememberedPair struct {
	Volume corev1.UniqueVolumeName `json:"volume"`
	Node   types.NodeName          `json:"node"`
	// States are the states that are possible according to the log; empty if all three are.
	States []Remembered `json:"states,omitempty"`
	// Since is the time from which States hold; nil if States is empty.
	Since *time.Time `json:"since,omitempty"`
	// Running is the operation that has started and not yet ended.
	Running      Operation  `json:"running,omitempty"`
	RunningSince *time.Time `json:"runningSince,omitempty"`
	// LastError is the error of the last operation; "" if it succeeded.
	LastError   string     `json:"lastError,omitempty"`
	LastErrorAt *time.Time `json:"lastErrorAt,omitempty"`
}

// BackOff is a failed operation that the controller does not retry before Until.
type BackOff struct {
	Volume corev1.UniqueVolumeName `json:"volume"`
	// Node is "" if the operation has to wait on every node.
	Node      types.NodeName `json:"node,omitempty"`
	Operation Operation      `json:"operation"`
	Until     time.Time      `json:"until"`
	// Doubtful reports whether an operation on another node may have ended the back-off.
	Doubtful bool `json:"doubtful,omitempty"`
}
