package reconcile

import (
	"cmp"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	csitranslation "k8s.io/csi-translation-lib"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/index"
)

// DefaultMaxWaitForUnmount is how long the controller waits for a node that is
// not Ready to unmount before it detaches by force. It is compiled into
// kube-controller-manager (DefaultTimerConfig).
const DefaultMaxWaitForUnmount = 6 * time.Minute

// Options are the settings of kube-controller-manager that change a decision
// and that no API object shows.
type Options struct {
	// MaxWaitForUnmount is DefaultMaxWaitForUnmount where it is zero.
	MaxWaitForUnmount time.Duration
	// DisableForceDetachOnTimeout is --disable-force-detach-on-timeout, and
	// without effect in a release that does not know it.
	DisableForceDetachOnTimeout bool
	// FlexAttachable are the attachable flexvolume drivers on the controller's
	// host, as "vendor/driver".
	FlexAttachable []string
	// VerifySync is --attach-detach-reconcile-sync-period; VerifySyncPeriod where it is
	// zero. Below zero the sync is off (--disable-attach-detach-reconcile-sync).
	VerifySync time.Duration
	// FeatureGates are the gates that are set, as ParseGates returns them.
	FeatureGates map[string]bool
	// Ahead are behaviours that no release has yet and that this controller has all the same.
	Ahead []Behaviour
	// LiveNodes are the nodes as the API server has them, where the controller's caches,
	// which are the snapshot, are behind; nil where they are not.
	LiveNodes map[types.NodeName]*corev1.Node
}

// VolumeNode is the pair of volume and node that the controller decides about.
type VolumeNode struct {
	Volume corev1.UniqueVolumeName
	Node   types.NodeName
}

func (p VolumeNode) compare(q VolumeNode) int {
	if c := strings.Compare(string(p.Volume), string(q.Volume)); c != 0 {
		return c
	}
	return strings.Compare(string(p.Node), string(q.Node))
}

// VolumeToAttach is one row of the desired state of the world.
type VolumeToAttach struct {
	VolumeNode
	Spec *VolumeSpec
	// Pods want the volume on the node; sorted.
	Pods []types.NamespacedName

	// users are the pods that reach the volume, as in World.LivePods, and also those that
	// have ended; in the order of the snapshot.
	users []*corev1.Pod
}

// Skipped is a pod volume that does not reach the desired state of the world,
// or a VolumeAttachment that does not reach the actual one.
type Skipped struct {
	// Pod and PodVolume, or VolumeAttachment, name what was skipped.
	Pod              types.NamespacedName
	PodVolume        string
	VolumeAttachment string
	Node             types.NodeName
	Reason           SkipReason
	Message          string
}

// World is what the controller believes once it has read the snapshot.
type World struct {
	Actual  *index.Set[VolumeNode, *AttachedVolume]
	Desired *index.Set[VolumeNode, *VolumeToAttach]
	// Managed are the nodes that carry the controller's annotation.
	Managed sets.Set[types.NodeName]
	// Skipped are the volumes and attachments that are in neither world, with the reasons;
	// sorted.
	Skipped []Skipped

	// Behaviours are the behaviours of the snapshot's server version.
	Behaviours Behaviours
	// Memory is what the controller's log proves; nil without a log.
	Memory *Memory

	snapshot *snapshot.Snapshot
	options  Options
	plugins  plugins
	resolver resolver
	volumes  volumesByName
	// recovered has the volume that a VolumeAttachment of each PV is about, in the order of
	// the snapshot; byPV finds the places in it.
	recovered []resolvedVolume
	byPV      map[string][]placed
	// resolved has the result of resolving each volume of a pod. Every check asks for it,
	// most of them for every pod, and the answer is the same each time.
	resolved map[*corev1.Volume]*resolvedVolume
	// podVolumes are the volumes in resolved, in the order of the snapshot.
	podVolumes []podVolume
	// others has the users of the pairs that are not in Desired; a pair in Desired has its
	// users in its row.
	others  map[VolumeNode][]*corev1.Pod
	orphans []*storagev1.VolumeAttachment
}

// NewWorld rebuilds both worlds. It never fails: a volume or an attachment that it cannot
// place goes to Skipped, as upstream drops it with a log line.
func NewWorld(s *snapshot.Snapshot, options Options) *World {
	if options.MaxWaitForUnmount == 0 {
		options.MaxWaitForUnmount = DefaultMaxWaitForUnmount
	}
	if options.VerifySync == 0 {
		options.VerifySync = VerifySyncPeriod
	}
	behaviours := BehavioursOf(s.Source.ServerVersion)
	behaviours.gated(s.Source.ServerVersion, options.FeatureGates)
	for _, name := range options.Ahead {
		behaviours[name] = sets.Empty{}
	}
	if !behaviours.Has(ForceDetachSwitch) {
		options.DisableForceDetachOnTimeout = false
	}
	w := &World{
		Behaviours: behaviours,
		Memory:     MemoryOf(s),
		Desired:    index.NewSet(len(s.VolumeAttachments), func(row *VolumeToAttach) VolumeNode { return row.VolumeNode }),
		Managed:    sets.New[types.NodeName](),
		snapshot:   s,
		options:    options,
		plugins:    plugins{csiDriver: s.CSIDriver, flex: options.FlexAttachable, behaviours: behaviours},
		resolver:   resolver{snapshot: s, translator: csitranslation.New(), behaviours: behaviours},
		volumes:    volumesByName{all: s.Volumes, places: make(map[corev1.UniqueVolumeName]int32, len(s.Volumes))},
	}
	// These run side by side: none reads or writes what another one writes.
	var pods, wanted sync.WaitGroup
	w.indexVolumes()
	pods.Go(w.resolvePodVolumes)
	actual := newActualState(s, !behaviours.Has(MountsNotAssumed))
	w.populateActual(actual)
	pods.Wait()
	wanted.Go(func() {
		w.populateDesired(w.podVolumes)
		w.indexUsers(w.podVolumes)
	})
	w.refreshSpecs(actual, w.podVolumes)
	w.Actual = actual.rows(s)
	w.orphans = actual.orphans
	slices.SortFunc(w.orphans, func(a, b *storagev1.VolumeAttachment) int { return strings.Compare(a.Name, b.Name) })
	wanted.Wait()
	slices.SortFunc(w.Skipped, func(a, b Skipped) int {
		return cmp.Or(cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name),
			cmp.Compare(a.PodVolume, b.PodVolume), cmp.Compare(a.VolumeAttachment, b.VolumeAttachment))
	})
	return w
}

// VerifySync is the pause between two looks of the controller at what is attached, below
// zero where it never looks.
func (w *World) VerifySync() time.Duration { return w.options.VerifySync }

// populateActual mirrors populateActualStateOfWorld and processVolumeAttachments, in their
// order: first the entries of the node statuses, then the VolumeAttachments that no status
// mentions.
func (w *World) populateActual(actual *actualState) {
	for _, node := range w.snapshot.Nodes {
		name := types.NodeName(node.Name)
		for _, v := range node.Status.VolumesAttached {
			if v.Name == "" {
				continue // AddVolumeNode refuses a nameless volume without a spec
			}
			actual.add(VolumeNode{v.Name, name}, Attached, nil, v.DevicePath)
		}
		if _, managed := node.Annotations[ManagedAnnotation]; managed {
			w.Managed.Insert(name)
		}
	}
	for i, va := range w.snapshot.VolumeAttachments {
		name, spec, err := w.attachmentVolume(va)
		if err != nil {
			w.skip(Skipped{VolumeAttachment: va.Name, Node: types.NodeName(va.Spec.NodeName)}, err)
			actual.orphans = append(actual.orphans, va)
			continue
		}
		pair := VolumeNode{name, types.NodeName(va.Spec.NodeName)}
		row := actual.attached.Find(pair)
		if row == nil {
			row = actual.add(pair, Uncertain, spec, "")
		}
		if row.attachments == nil {
			row.attachments = w.snapshot.VolumeAttachments[i : i+1 : i+1] // mostly the only one
		} else {
			row.attachments = append(row.attachments, va)
		}
	}
}

// attachmentVolume returns the volume that a VolumeAttachment is about, as
// processVolumeAttachments reads it: through the PV alone. The object's own name, attacher
// and status are never looked at.
func (w *World) attachmentVolume(va *storagev1.VolumeAttachment) (corev1.UniqueVolumeName, *VolumeSpec, error) {
	pvName := va.Spec.Source.PersistentVolumeName
	if pvName == nil {
		return "", nil, skipf(InlineVolumeSpecified, "it carries an inline volume: the controller does not recover it when it starts")
	}
	v := w.recoveredFrom(*pvName)
	if v == nil {
		return "", nil, skipf(VolumeNotFound, "persistent volume %q does not exist", *pvName)
	}
	return v.name, v.spec, v.err
}

// recoveredName is the unique name of a VolumeAttachment's volume. The plugin of a migrated
// volume is found by its name, so that the driver's attachRequired is not asked.
func (w *World) recoveredName(spec *VolumeSpec) (corev1.UniqueVolumeName, error) {
	if spec.Migrated {
		return uniqueName(CSIPlugin, spec)
	}
	return w.nameOf(spec)
}

// populateDesired mirrors podAdd and ProcessPodVolumes for every pod.
func (w *World) populateDesired(podVolumes []podVolume) {
	for i := range podVolumes {
		v := &podVolumes[i]
		if v.node == "" || !CanBeAttached(v.volume) {
			continue
		}
		w.want(v)
	}
}

func (w *World) want(v *podVolume) {
	node, podName := v.node, namespaced(v.pod.Namespace, v.pod.Name)
	skipped := Skipped{Pod: podName, PodVolume: v.volume.Name, Node: node}
	if !w.Managed.Has(node) {
		if w.snapshot.Node(node) == nil {
			w.skip(skipped, skipf(NodeNotFound, "node %q does not exist", node))
		} else {
			w.skip(skipped, skipf(NodeNotManaged, "node %q lacks the annotation %s", node, ManagedAnnotation))
		}
		return
	}
	if v.err != nil {
		w.skip(skipped, v.err)
		return
	}
	if PodTerminated(v.pod) && !w.keepsTerminated(node) {
		w.skip(skipped, skipf(PodEnded, "the pod has ended: it no longer wants its volumes"))
		return
	}
	pair := VolumeNode{v.name, node}
	row := w.Desired.Find(pair)
	if row == nil {
		// The first pod's spec stays, as in AddPod; upstream the order of pods
		// is random.
		row = &VolumeToAttach{VolumeNode: pair, Spec: v.spec}
		w.Desired.Put(row)
	}
	if !slices.Contains(row.Pods, podName) {
		row.Pods = append(row.Pods, podName)
	}
}

// refreshSpecs mirrors the second half of populateDesiredStateOfWorld: any pod, also one that
// has ended or whose node is not managed, gives its volume's spec to an attached row.
func (w *World) refreshSpecs(actual *actualState, podVolumes []podVolume) {
	for i := range podVolumes {
		v := &podVolumes[i]
		if v.err != nil || !CanBeAttached(v.volume) {
			continue
		}
		pair := VolumeNode{v.name, v.node}
		if actual.state(pair) != Attached {
			continue
		}
		for _, listed := range w.snapshot.Node(v.node).Status.VolumesAttached {
			if listed.Name == v.name {
				actual.add(pair, Attached, v.spec, listed.DevicePath)
				break
			}
		}
	}
}

// PodVolume returns the unique name and the spec that a pod's volume has for the controller.
// The error says why the controller does not attach it.
func (w *World) PodVolume(pod *corev1.Pod, volume *corev1.Volume) (corev1.UniqueVolumeName, *VolumeSpec, error) {
	v, known := w.resolved[volume]
	if !known {
		v = w.podVolume(pod, volume)
	}
	return v.name, v.spec, v.err
}

// Mounts are the volumes that the controller knows, each with a pod that has it, on whatever
// node or none, in the order of the snapshot.
func (w *World) Mounts() iter.Seq2[corev1.UniqueVolumeName, *corev1.Pod] {
	return func(yield func(corev1.UniqueVolumeName, *corev1.Pod) bool) {
		for i := range w.podVolumes {
			if v := &w.podVolumes[i]; v.err == nil && !yield(v.name, v.pod) {
				return
			}
		}
	}
}

// MountedVolume returns the persistent volume that a kubelet mounts for a pod's volume,
// whether or not it has to be attached first. The error says why there is none, or that this
// package does not know its kind.
func (w *World) MountedVolume(pod *corev1.Pod, volume *corev1.Volume) (corev1.UniqueVolumeName, *VolumeSpec, error) {
	if v := w.resolved[volume]; v != nil && v.err == nil {
		return v.name, v.spec, inlineError(v.spec)
	}
	pv, err := w.resolver.boundVolume(pod, volume)
	if err != nil {
		return "", nil, err
	}
	spec, err := w.resolver.podVolume(pod, volume, pv)
	if err == nil {
		err = inlineError(spec)
	}
	if err != nil {
		return "", nil, err
	}
	plugin, err := w.plugins.bySpec(spec)
	if err != nil {
		return "", nil, err
	}
	name, err := uniqueName(plugin, spec)
	return name, spec, err
}

func inlineError(spec *VolumeSpec) error {
	if spec.PV == nil {
		return skipf(NotPersistent, "the volume is the pod's own")
	}
	return nil
}

func (w *World) podVolume(pod *corev1.Pod, volume *corev1.Volume) *resolvedVolume {
	if hasNoPlugin(volume) {
		return ofNoPlugin
	}
	pv, err := w.resolver.boundVolume(pod, volume)
	if err != nil {
		return &resolvedVolume{err: err}
	}
	if pv != nil && !inTreeSource(pv, nil) {
		if v := w.recoveredFrom(pv.Name); v.err == nil {
			return v // the same for every pod and on every node
		}
	}
	spec, err := w.resolver.podVolume(pod, volume, pv)
	if err != nil {
		return &resolvedVolume{err: err}
	}
	plugin, err := w.plugins.attachable(spec)
	if err != nil {
		return &resolvedVolume{err: err}
	}
	name, err := uniqueName(plugin, spec)
	return &resolvedVolume{name, spec, err}
}

func (w *World) skip(s Skipped, err error) {
	var why *skip
	if errors.As(err, &why) {
		s.Reason, s.Message = why.reason, why.message
	}
	w.Skipped = append(w.Skipped, s)
}
