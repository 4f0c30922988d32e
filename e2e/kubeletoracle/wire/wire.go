// Package wire is what a test and a machine of package kubeletoracle say to each
// other: one JSON value a line, a request and its answer in turns.
package wire

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Machine describes a machine; it is the first line that one reads.
type Machine struct {
	// Node is the name of its node.
	Node string `json:"node"`
	// Release is the kubelet's, as its node reports it: "v1.37.2".
	Release string `json:"release"`
	// Labels are the node's.
	Labels map[string]string `json:"labels,omitempty"`
	// Root is the kubelet's root directory. Sockets are made in it: it must be short.
	Root string `json:"root"`
	// Kubeconfig is the path of the kubelet's.
	Kubeconfig string `json:"kubeconfig"`
	// Drivers are the CSI drivers whose node plugin runs there.
	Drivers []Driver `json:"drivers"`
	// Written is the folder in which the containers of the machine note each record that
	// they have written to a volume (see package records); "": they write none.
	Written string `json:"written,omitempty"`
	// Hollow is the whole kubelet that the machine runs; nil: its volume half.
	Hollow *Hollow `json:"hollow,omitempty"`
}

// Hollow is a whole kubelet without containers below it (package hollowkubelet).
type Hollow struct {
	// Program is the path of its program, and Runtime the endpoint of its CRI runtime.
	Program string `json:"program"`
	Runtime string `json:"runtime"`
	// Address and Port are those of its server, which the API server has to reach, and
	// ClientCA is the file of the authority whose clients it believes.
	Address  string `json:"address"`
	Port     int32  `json:"port"`
	ClientCA string `json:"clientCA"`
}

// Driver is the node plugin of a CSI driver.
type Driver struct {
	Name string `json:"name"`
	// Stages reports whether it takes NodeStageVolume.
	Stages bool `json:"stages"`
	// Disks is the folder of the disks of its volumes, HANDLE.img, each attached to the
	// machines of which there is a file HANDLE@NODE. Where it is empty a volume is a tmpfs
	// of the machine's own.
	Disks string `json:"disks,omitempty"`
	// Plugin tells two node plugins of one driver apart; "" is the driver's name. Requests
	// name it.
	Plugin string `json:"plugin,omitempty"`
}

// Info is what a driver says of the machine when it is asked.
type Info struct {
	// NodeID is its name for the machine; "" is that of the node.
	NodeID string `json:"nodeID,omitempty"`
	// Topology is where the machine is, and Room how many volumes it takes; 0: no limit.
	Topology map[string]string `json:"topology,omitempty"`
	Room     int64             `json:"room,omitempty"`
}

// Registration is an answer of the kubelet to a registrar.
type Registration struct {
	Plugin string `json:"plugin"`
	Done   bool   `json:"done"`
	Error  string `json:"error,omitempty"`
}

// Request asks a machine for one thing.
type Request struct {
	Do Action `json:"do"`
	// Driver is the driver of Register, Unregister and Fault.
	Driver string `json:"driver,omitempty"`
	// Fault replaces that of the same call and volume.
	Fault Fault `json:"fault"`
	// Info is what the driver says from SetInfo on.
	Info Info `json:"info"`
	// Volumes are those of which Look is to say whether they are attached.
	Volumes []corev1.UniqueVolumeName `json:"volumes,omitempty"`
	// Families are the families of the kubelet's metrics that Look is to have samples of.
	Families []string `json:"families,omitempty"`
}

// Action is what a request asks for.
type Action string

// The actions.
const (
	Look       Action = "look"
	SetFault   Action = "fault"
	SetInfo    Action = "info"
	Register   Action = "register"   // the driver's registrar makes its socket
	Unregister Action = "unregister" // and takes it away
	Kill       Action = "kill"       // the kubelet
	Start      Action = "start"      // the kubelet, after Kill
	Forget     Action = "forget"     // the calls that have ended
	NoNetwork  Action = "noNetwork"  // the kubelet begins with no pod
	Network    Action = "network"    // and does again
)

// RPC is a call of the CSI node service, by the name of its method.
type RPC string

// The calls that fail on demand.
const (
	Stage     RPC = "NodeStageVolume"
	Publish   RPC = "NodePublishVolume"
	Unpublish RPC = "NodeUnpublishVolume"
	Unstage   RPC = "NodeUnstageVolume"
	GetInfo   RPC = "NodeGetInfo"
)

// Fault is how a driver answers one call for one volume. Without a code, Hang and Nothing
// it does what it is asked for.
type Fault struct {
	RPC RPC `json:"rpc,omitempty"`
	// Handle is the driver's name for the volume; "" stands for all.
	Handle string `json:"handle,omitempty"`
	// Code is the code of gRPC, and Message what goes with it.
	Code    uint32 `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// Hang keeps the call until its caller gives up, or another fault takes its place.
	Hang bool `json:"hang,omitempty"`
	// Nothing has the driver answer well without doing what it is asked for.
	Nothing bool `json:"nothing,omitempty"`
}

// Answer is what a machine says to a request.
type Answer struct {
	Error string `json:"error,omitempty"`
	// Calls are all that the drivers received, oldest first.
	Calls []Call `json:"calls,omitempty"`
	// Registrations are the kubelet's answers to the registrars, oldest first.
	Registrations []Registration `json:"registrations,omitempty"`
	// Kubelet is nil where none runs.
	Kubelet *Kubelet `json:"kubelet,omitempty"`
}

// Call is one call of the CSI node service.
type Call struct {
	Driver string    `json:"driver"`
	RPC    RPC       `json:"rpc"`
	Handle string    `json:"handle"`
	Pod    types.UID `json:"pod,omitempty"` // of a publish or an unpublish
	Began  time.Time `json:"began"`
	// Ended is zero while it runs.
	Ended time.Time `json:"ended,omitzero"`
	Code  uint32    `json:"code"`
}

// Kubelet is what the volume manager of a node knows at one moment.
type Kubelet struct {
	// InUse is GetVolumesInUse, and Reported what the API server last accepted of it.
	InUse    []corev1.UniqueVolumeName `json:"inUse"`
	Reported []corev1.UniqueVolumeName `json:"reported"`
	// Attached are those of the request's volumes that its asw has.
	Attached []corev1.UniqueVolumeName `json:"attached"`
	Pods     map[types.UID]Pod         `json:"pods"`
	// Samples are of the request's families.
	Samples []Sample `json:"samples,omitempty"`
}

// Sample is one value of the kubelet's metrics; that of a histogram is how often it was
// observed.
type Sample struct {
	Family string            `json:"family"`
	Labels map[string]string `json:"labels,omitempty"`
	Value  float64           `json:"value"`
}

// Pod is what the kubelet knows of one pod.
type Pod struct {
	// Mounted are the volumes of GetMountedVolumesForPod, by the pod's own names.
	Mounted []string `json:"mounted"`
	// Possibly is HasPossiblyMountedVolumesForPod.
	Possibly bool `json:"possibly"`
	// Wait is the error of the last WaitForAttachAndMount; "" where that did not fail.
	Wait string `json:"wait,omitempty"`
	// Ready reports whether WaitForAttachAndMount has succeeded.
	Ready bool `json:"ready"`
	// Terminating reports whether the pod is being stopped, or has been.
	Terminating bool `json:"terminating"`
}
