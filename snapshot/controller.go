package snapshot

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Controller is what the log of kube-controller-manager proves of what its
// attach/detach controller remembers. It is of the last controller that the log
// shows, and of the time of the log's last line.
type Controller struct {
	// Release is kube-controller-manager's own, "" where the log does not say.
	Release string `json:"release,omitempty"`
	// Identity is the name under which it took its lease, "" where the log does not say.
	Identity string `json:"identity,omitempty"`
	// Started is nil where the log does not show how the controller starts: then what
	// it does not mention may be remembered all the same.
	Started *time.Time `json:"started,omitempty"`
	// First and Last are the times of the first and the last line that counted.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// Verbose says that the log has the lines of --v=1, such as those about
	// attachments that are forgotten.
	Verbose bool `json:"verbose,omitempty"`
	// Flags are settings of kube-controller-manager that change a decision, by name.
	Flags map[string]string `json:"flags,omitempty"`
	// Pairs are sorted by volume and node. One that is missing was not mentioned.
	Pairs []RememberedPair `json:"pairs,omitempty"`
	// BackOffs are sorted by volume and node.
	BackOffs []BackOff `json:"backOffs,omitempty"`
	// Unclear are volumes that a line names without saying for which node; sorted.
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

// Remembered is for what the controller takes a volume on a node.
type Remembered string

// The states of a pair in the controller's memory.
const (
	RememberedAbsent    Remembered = "Absent" // it has no record of it
	RememberedUncertain Remembered = "Uncertain"
	RememberedAttached  Remembered = "Attached"
)

// Operation is something that the controller does for a pair.
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
	// States are those that the log leaves possible; none says that it leaves all three.
	States []Remembered `json:"states,omitempty"`
	// Since is when the States came to be so, nil where they are all that there are.
	Since *time.Time `json:"since,omitempty"`
	// Running is the operation that has begun and not ended.
	Running      Operation  `json:"running,omitempty"`
	RunningSince *time.Time `json:"runningSince,omitempty"`
	// LastError is the error of the last operation; "" if it went well.
	LastError   string     `json:"lastError,omitempty"`
	LastErrorAt *time.Time `json:"lastErrorAt,omitempty"`
}

// BackOff is a failed operation that the controller does not try again before Until.
type BackOff struct {
	Volume corev1.UniqueVolumeName `json:"volume"`
	// Node is "" where the operation has to wait on every node.
	Node      types.NodeName `json:"node,omitempty"`
	Operation Operation      `json:"operation"`
	Until     time.Time      `json:"until"`
	// Doubtful says that an operation on another node may have ended it.
	Doubtful bool `json:"doubtful,omitempty"`
}
