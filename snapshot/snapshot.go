// Package snapshot holds one immutable picture of a cluster's objects, and reads and writes its
// files. It is the only input of every later stage.
//
// The first word of a file's name says which step of reading it belongs to:
//
//	read, folder   take a text, an archive or a directory
//	bundle         knows the files that support tools write
//	text           gets the objects out of one text
//	collect        gathers the objects of all texts
//	times          finds out when the objects were read
//	missing        finds signs that objects of a kind are missing, which makes the kind a gap
//	own, write     have the format of our own files
package snapshot

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/backend"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/index"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Kind names a list of objects as the API does: plural and lower case.
type Kind string

// StorageList is the kind of a gap that a list given with --backend leaves.
const StorageList Kind = "backend"

// The kinds that a snapshot can hold.
const (
	VolumeAttachments Kind = "volumeattachments"
	Nodes             Kind = "nodes"
	CSINodes          Kind = "csinodes"
	CSIDrivers        Kind = "csidrivers"
	StorageClasses    Kind = "storageclasses"
	Volumes           Kind = "persistentvolumes"
	Claims            Kind = "persistentvolumeclaims"
	Leases            Kind = "leases"
	Events            Kind = "events"
	Pods              Kind = "pods"
	Deployments       Kind = "deployments"
)

// Source says where a snapshot came from. Either Path or Server is set.
type Source struct {
	Path          string `json:"path,omitempty"`
	Context       string `json:"context,omitempty"`
	Server        string `json:"server,omitempty"`
	ServerVersion string `json:"serverVersion,omitempty"`
}

// Gap is a list that is missing or incomplete: an object's absence from it proves nothing.
type Gap struct {
	Kind Kind `json:"resource"`
	// Namespace names the namespaces that were read completely, separated by commas; "" if there
	// are none.
	Namespace string `json:"namespace,omitempty"`
	// Reason is one of the Gap reasons.
	Reason string `json:"reason"`
	// Detail is the message of the API server or of the decoder.
	Detail string `json:"detail,omitempty"`
	// Context is the cluster, in a report on several clusters.
	Context string `json:"context,omitempty"`
}

// ofNamespaces joins the names of namespaces that were read completely.
func ofNamespaces(names []string) string {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.Contains(name, ",") })
	for i := range names {
		names[i] = plain(names[i])
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ",")
}

// Namespaces returns the namespaces that were read completely.
func (g Gap) Namespaces() []string {
	if g.Namespace == "" {
		return nil
	}
	return strings.Split(g.Namespace, ",")
}

// Hides reports whether objects of the namespace may be missing. The namespace "" stands for all
// namespaces, and for objects that have none.
func (g Gap) Hides(namespace string) bool {
	return namespace == "" || !slices.Contains(g.Namespaces(), namespace)
}

// The reasons why a list is missing or incomplete.
const (
	ReasonForbidden   = "Forbidden"   // the user may not list the kind
	ReasonNotInFile   = "NotInFile"   // the file has no object of the kind and does not say that there are none
	ReasonNotInBundle = "NotInBundle" // the bundle lacks the kind, or lacks some of its namespaces
	ReasonUndecodable = "Undecodable" // an object of the kind could not be read
	ReasonTruncated   = "Truncated"   // the list ended early
	ReasonOtherTime   = "OtherTime"   // the list is of another time than the rest of the input
	ReasonNotGiven    = "NotGiven"    // nobody gave the storage system's list
	ReasonUnavailable = "Unavailable" // the API server does not serve the kind, or failed
)

// Objects are the lists from which a snapshot is made.
type Objects struct {
	VolumeAttachments []*storagev1.VolumeAttachment
	Nodes             []*corev1.Node
	CSINodes          []*storagev1.CSINode
	CSIDrivers        []*storagev1.CSIDriver
	StorageClasses    []*storagev1.StorageClass
	Volumes           []*corev1.PersistentVolume
	Claims            []*corev1.PersistentVolumeClaim
	Leases            []*coordinationv1.Lease
	Events            []*corev1.Event
	Pods              []*corev1.Pod
	Deployments       []*appsv1.Deployment
}

// Snapshot is one picture of the objects, each list sorted by namespace and name. Nothing may
// modify it or the objects that it points to.
type Snapshot struct {
	// TakenAt is the "now" for every age that is computed from the snapshot.
	TakenAt time.Time
	Source  Source
	Gaps    []Gap
	Objects
	// OtherPods is the number of pods that were read and are not in Pods, because nothing
	// asks about them.
	OtherPods int
	// Controller is nil if no log of the controller was given.
	Controller *Controller
	// Manager is nil if kube-controller-manager was not asked.
	Manager *ControllerManager
	// Backends are the given lists of volumes from the storage systems.
	Backends []*backend.List
	// Followed is nil if the objects were read once and not watched.
	Followed *Followed
	// NamesHashed reports whether the names of nodes, pods and others are replaced by hashes.
	NamesHashed bool

	index indexes
}

type indexes struct {
	nodes       map[string][]*corev1.Node
	pods        map[types.NamespacedName][]*corev1.Pod
	podsOnNode  map[types.NodeName][]*corev1.Pod
	claims      map[types.NamespacedName][]*corev1.PersistentVolumeClaim
	volumes     map[string][]*corev1.PersistentVolume
	attachments map[string][]*storagev1.VolumeAttachment
	csiNodes    map[string][]*storagev1.CSINode
	csiDrivers  map[string][]*storagev1.CSIDriver
	deployments map[types.NamespacedName][]*appsv1.Deployment
	leases      map[types.NamespacedName][]*coordinationv1.Lease
	events      map[types.UID][]*corev1.Event
	eventsNamed map[corev1.ObjectReference][]*corev1.Event // by kind, namespace and name: their UID was taken away
	attaching   sets.Set[string]                           // needed if a CSIDriver may be missing
}

// New sorts and indexes the objects, and removes secrets from the gaps' details. It takes ownership
// of the lists: the caller must not use them afterwards.
func New(takenAt time.Time, source Source, objects Objects, gaps []Gap) *Snapshot {
	s := &Snapshot{TakenAt: takenAt, Source: source, Objects: objects, Gaps: gaps}
	for _, r := range resources {
		r.sort(&s.Objects)
	}
	for i := range s.Gaps {
		s.Gaps[i].Detail = safetext.Redact(s.Gaps[i].Detail)
	}
	slices.SortFunc(s.Gaps, func(a, b Gap) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace))
	})

	s.index = indexes{
		nodes:       byName(s.Nodes),
		volumes:     byName(s.Volumes),
		attachments: byName(s.VolumeAttachments),
		csiNodes:    byName(s.CSINodes),
		csiDrivers:  byName(s.CSIDrivers),
		pods:        byNamespacedName(s.Pods),
		claims:      byNamespacedName(s.Claims),
		deployments: byNamespacedName(s.Deployments),
		leases:      byNamespacedName(s.Leases),
		podsOnNode:  map[types.NodeName][]*corev1.Pod{},
		events:      map[types.UID][]*corev1.Event{},
		eventsNamed: map[corev1.ObjectReference][]*corev1.Event{},
	}
	for _, pod := range s.Pods {
		node := types.NodeName(pod.Spec.NodeName)
		s.index.podsOnNode[node] = append(s.index.podsOnNode[node], pod)
	}
	for _, event := range s.Events {
		if of := event.InvolvedObject; of.UID != "" {
			s.index.events[of.UID] = append(s.index.events[of.UID], event)
		} else {
			name := corev1.ObjectReference{Kind: of.Kind, Namespace: of.Namespace, Name: of.Name}
			s.index.eventsNamed[name] = append(s.index.eventsNamed[name], event)
		}
	}
	if !s.Complete(CSIDrivers) {
		s.index.attaching = s.attaching(s.Complete(CSINodes))
	}
	return s
}

// With returns the snapshot with other objects, of the same time and from the same sources. It
// takes ownership of the lists that are not its own.
func (s *Snapshot) With(objects Objects) *Snapshot {
	other := New(s.TakenAt, s.Source, objects, slices.Clone(s.Gaps))
	other.Controller, other.Manager, other.Backends, other.Followed = s.Controller, s.Manager, s.Backends, s.Followed
	return other
}

// object is the part of an API object that indexing needs.
type object interface {
	GetNamespace() string
	GetName() string
}

func byName[O object](list []O) map[string][]O { return index.New(list, O.GetName) }

func byNamespacedName[O object](list []O) map[types.NamespacedName][]O {
	return index.New(list, func(o O) types.NamespacedName {
		return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
	})
}

// named returns the last object with the name, or nil.
func named[K comparable, O object](objects map[K][]O, name K) (o O) {
	if all := objects[name]; len(all) > 0 {
		o = all[len(all)-1]
	}
	return o
}

// Complete reports whether every object of the kind was read, so that absence proves something.
func (s *Snapshot) Complete(kind Kind) bool {
	return !slices.ContainsFunc(s.Gaps, func(g Gap) bool { return g.Kind == kind })
}

// CompleteIn reports whether every object of the kind in the namespace was read.
func (s *Snapshot) CompleteIn(kind Kind, namespace string) bool {
	return !slices.ContainsFunc(s.Gaps, func(g Gap) bool { return g.Kind == kind && g.Hides(namespace) })
}

// Counts returns the number of objects of each of Kinds that were read.
func (s *Snapshot) Counts() map[Kind]int {
	counts := map[Kind]int{}
	for _, r := range resources {
		if !r.Optional {
			counts[r.Kind] = r.count(&s.Objects)
		}
	}
	counts[Pods] += s.OtherPods
	return counts
}

// Node returns the node, or nil if there is none.
func (s *Snapshot) Node(name types.NodeName) *corev1.Node { return named(s.index.nodes, string(name)) }

// Pod returns the pod, or nil if there is none.
func (s *Snapshot) Pod(name types.NamespacedName) *corev1.Pod {
	return named(s.index.pods, name)
}

// PodsOnNode returns the pods bound to the node, sorted; for "", the pods that are bound to no
// node.
func (s *Snapshot) PodsOnNode(node types.NodeName) []*corev1.Pod { return s.index.podsOnNode[node] }

// Claim returns the claim, or nil if there is none.
func (s *Snapshot) Claim(name types.NamespacedName) *corev1.PersistentVolumeClaim {
	return named(s.index.claims, name)
}

// Volume returns the volume, or nil if there is none.
func (s *Snapshot) Volume(name string) *corev1.PersistentVolume { return named(s.index.volumes, name) }

// VolumeAttachment returns the object, or nil if there is none.
func (s *Snapshot) VolumeAttachment(name string) *storagev1.VolumeAttachment {
	return named(s.index.attachments, name)
}

// CSINode returns the object, or nil if there is none.
func (s *Snapshot) CSINode(node types.NodeName) *storagev1.CSINode {
	return named(s.index.csiNodes, string(node))
}

// CSIDriver returns the object, or nil if there is none.
func (s *Snapshot) CSIDriver(name string) *storagev1.CSIDriver {
	return named(s.index.csiDrivers, name)
}

// Deployment returns the object, or nil if there is none or none were read. Deployments only add
// evidence; their absence is no Gap.
func (s *Snapshot) Deployment(name types.NamespacedName) *appsv1.Deployment {
	return named(s.index.deployments, name)
}

// Lease returns the lease, or nil if there is none.
func (s *Snapshot) Lease(namespace, name string) *coordinationv1.Lease {
	return named(s.index.leases, types.NamespacedName{Namespace: namespace, Name: name})
}

// EventsOf returns the events about the object with the UID.
func (s *Snapshot) EventsOf(uid types.UID) []*corev1.Event { return s.index.events[uid] }

// EventsAbout returns the events about the object of the kind.
func (s *Snapshot) EventsAbout(kind string, o metav1.Object) []*corev1.Event {
	own := s.EventsOf(o.GetUID())
	if named := s.index.eventsNamed[corev1.ObjectReference{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}]; len(named) > 0 {
		return slices.Concat(own, named)
	}
	return own
}

// EventsOfPod returns the events about the pod. A kubelet's events about a static pod have the UID
// of the kubelet's own copy, which is the hash of the pod's file.
func (s *Snapshot) EventsOfPod(pod *corev1.Pod) []*corev1.Event {
	own, static := s.EventsAbout("Pod", pod), pod.Annotations[corev1.MirrorPodAnnotationKey]
	if static == "" || types.UID(static) == pod.UID {
		return own
	}
	return slices.Concat(own, s.EventsOf(types.UID(static)))
}
