// Package scope says which objects have to be read: to diagnose one pod, and of the kinds
// that are seldom needed whether they are.
package scope

import (
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	csitranslation "k8s.io/csi-translation-lib"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Part is a part of the objects of a kind: those that the API's own selectors
// give, and of them those that Keep wants.
type Part struct {
	Kind snapshot.Kind
	// Namespace is the one to read; "" is all of them.
	Namespace string
	// Fields is the field selector.
	Fields fields.Set
	// Keep is nil where all are wanted. It may look at an object's name, an attachment's
	// node and source, a volume's CSI source, a claim's volume, the lists of a node's
	// status, and at anything of a pod or a lease.
	Keep func(metav1.Object) bool
}

// Scope computes the smallest set of objects that shows of one pod what the whole
// cluster would show. It is enough only if the pod shares no volume and all its volumes
// are attached to its node; diagnose.Suffices says whether it was.
//
// Others that may use the pod's volumes are looked for in the whole cluster: in all
// VolumeAttachments, in the lists of all nodes, among all volumes, and among all pods
// that could use its claims. Only those are kept.
type Scope struct {
	// EveryClaim adds every claim that names one of the pod's volumes. A trace reports
	// all that is wrong with a volume, even if it harms only another claim.
	EveryClaim bool

	pod     types.NamespacedName
	waves   int
	node    string
	claims  sets.Set[string]
	volumes sets.Set[string]
	disks   []disk
	objects snapshot.Objects
}

// disk is what a driver calls a volume.
type disk struct{ driver, handle string }

// OfPod is the scope of the pod with the name.
func OfPod(pod types.NamespacedName) *Scope { return &Scope{pod: pod} }

// Next takes the objects of the parts that it returned before, and returns the parts
// to read next: none once all are read, or once it is clear that they are not enough.
// They may be read side by side. Pods come last, as in every reading (see
// snapshot.Kinds): the pod that is read first only shows what else to read.
func (r *Scope) Next(got snapshot.Objects) []Part {
	r.waves++
	switch r.waves {
	case 1:
		return []Part{named(snapshot.Pods, r.pod)}
	case 2:
		if len(got.Pods) != 1 || got.Pods[0].Spec.NodeName == "" {
			return nil
		}
		r.node, r.claims = got.Pods[0].Spec.NodeName, facts.ClaimNames(got.Pods[0])
		return []Part{{Kind: snapshot.Claims, Namespace: r.pod.Namespace, Keep: func(o metav1.Object) bool { return r.claims.Has(o.GetName()) }}}
	case 3:
		r.objects.Claims, r.volumes = got.Claims, sets.New[string]()
		var parts []Part
		for _, claim := range got.Claims {
			if name := claim.Spec.VolumeName; name != "" && !r.volumes.Has(name) {
				r.volumes.Insert(name)
				parts = append(parts, named(snapshot.Volumes, types.NamespacedName{Name: name}))
			}
		}
		if len(got.Claims) != len(r.claims) || len(parts) > 0 {
			return parts
		}
		r.waves++ // a pod without claims has no volumes to look for
		fallthrough
	case 4:
		for _, pv := range got.Volumes {
			if pv.Spec.CSI == nil {
				return nil
			}
			r.disks = append(r.disks, disk{pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle})
		}
		parts := []Part{
			{Kind: snapshot.VolumeAttachments, Keep: r.keepAttachment},
			{Kind: snapshot.Nodes, Keep: r.keepNode},
			{Kind: snapshot.Volumes, Keep: r.keepVolume},
			named(snapshot.CSINodes, types.NamespacedName{Name: r.node}),
			{Kind: snapshot.CSIDrivers},
			{Kind: snapshot.Leases, Keep: r.keepLease},
		}
		if r.EveryClaim {
			parts = append(parts, Part{Kind: snapshot.Claims, Keep: r.keepClaim})
		}
		return parts
	case 5:
		got.Claims = distinct(append(got.Claims, r.objects.Claims...))
		r.objects = got
		return []Part{
			{Kind: snapshot.Events, Namespace: r.pod.Namespace, Fields: fields.Set{"involvedObject.name": r.pod.Name}},
			{Kind: snapshot.Pods, Namespace: r.pod.Namespace, Keep: r.keepSharer},
			{Kind: snapshot.Pods, Fields: fields.Set{"spec.nodeName": r.node}, Keep: keepNeighbour},
		}
	case 6:
		r.objects.Events, r.objects.Pods = got.Events, distinct(got.Pods)
	}
	return nil
}

// Objects are what was read, once Next has nothing more to read.
func (r *Scope) Objects() snapshot.Objects { return r.objects }

func named(kind snapshot.Kind, name types.NamespacedName) Part {
	return Part{Kind: kind, Namespace: name.Namespace, Fields: fields.Set{"metadata.name": name.Name}}
}

// keepAttachment keeps what may be for one of the disks: by its volume, by what
// it carries in itself, or by its name, whatever has become of its volume.
func (r *Scope) keepAttachment(o metav1.Object) bool {
	va, ok := o.(*storagev1.VolumeAttachment)
	return ok && (va.Spec.Source.InlineVolumeSpec != nil || r.volumes.Has(facts.VolumeName(va)) || slices.ContainsFunc(r.disks, func(d disk) bool {
		return va.Spec.Attacher == d.driver && va.Name == reconcile.VolumeAttachmentName(d.handle, d.driver, types.NodeName(va.Spec.NodeName))
	}))
}

func (r *Scope) keepNode(o metav1.Object) bool {
	node, ok := o.(*corev1.Node)
	return ok && (node.Name == r.node || slices.ContainsFunc(r.disks, func(d disk) bool {
		name := d.uniqueName()
		return facts.InUse(node, name) || facts.Lists(node, name)
	}))
}

func (d disk) uniqueName() corev1.UniqueVolumeName {
	return reconcile.CSIVolumeName(d.driver, d.handle)
}

// keepVolume keeps those that are one of the disks, or may be by another name.
func (r *Scope) keepVolume(o metav1.Object) bool {
	pv, ok := o.(*corev1.PersistentVolume)
	return ok && (pv.Spec.CSI == nil || r.volumes.Has(pv.Name) ||
		slices.Contains(r.disks, disk{pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle}))
}

func (r *Scope) keepClaim(o metav1.Object) bool {
	claim, ok := o.(*corev1.PersistentVolumeClaim)
	return ok && r.volumes.Has(claim.Spec.VolumeName)
}

func (r *Scope) keepLease(o metav1.Object) bool {
	lease, ok := o.(*coordinationv1.Lease)
	return ok && (lease.Namespace == metav1.NamespaceSystem && lease.Name == reconcile.ControllerManager ||
		lease.Namespace == corev1.NamespaceNodeLease && lease.Name == r.node ||
		strings.HasPrefix(lease.Name, reconcile.AttacherLeasePrefix))
}

func (r *Scope) keepSharer(o metav1.Object) bool {
	pod, ok := o.(*corev1.Pod)
	return ok && (pod.Name == r.pod.Name || carriesDisk(pod) || facts.ClaimNames(pod).HasAny(r.claims.UnsortedList()...))
}

// keepNeighbour keeps, of the pods on the node, those that matter to one of whose
// claims they know nothing.
func keepNeighbour(o metav1.Object) bool {
	pod, ok := o.(*corev1.Pod)
	return ok && (pod.DeletionTimestamp != nil || carriesDisk(pod) || len(facts.SocketDirectories(pod)) > 0)
}

// carriesDisk says that the pod names a disk in itself, without a claim, which may
// be anybody's.
func carriesDisk(pod *corev1.Pod) bool { return slices.ContainsFunc(pod.Spec.Volumes, isDisk) }

func isDisk(v corev1.Volume) bool {
	return reconcile.CanBeAttached(&v) && v.PersistentVolumeClaim == nil && v.Ephemeral == nil && v.CSI == nil && v.NFS == nil
}

// distinct are the objects without those that are there twice.
func distinct[O metav1.Object](list []O) []O {
	seen := sets.New[types.NamespacedName]()
	return slices.DeleteFunc(list, func(o O) bool {
		name := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
		defer seen.Insert(name)
		return seen.Has(name)
	})
}

// MayBeInline says that an in-tree inline volume of any pod may be this disk, wanted on
// another node. Findings about the volume and their repairs depend on that, and only
// the list of all pods shows it.
func MayBeInline(volume corev1.UniqueVolumeName) bool {
	driver, _, ok := reconcile.ParseCSI(volume)
	return ok && csitranslation.New().IsMigratedCSIDriverByName(driver)
}

// SharesNothing says that no other pod uses the pod's volumes, that its node is healthy,
// and that each of its volumes is attached there and nowhere else.
func SharesNothing(p *facts.View, pod *corev1.Pod) bool {
	node := p.Snapshot.Node(facts.NodeOf(pod))
	if node == nil || node.DeletionTimestamp != nil || !reconcile.NodeReady(node) || reconcile.OutOfService(node) || facts.Virtual(node) ||
		!p.World.Managed.Has(facts.NodeName(node)) || pod.DeletionTimestamp != nil || reconcile.PodTerminated(pod) ||
		len(p.Snapshot.Nodes) > 1 { // another lists one of the disks
		return false
	}
	claims := facts.ClaimNames(pod).UnsortedList()
	if slices.ContainsFunc(p.Snapshot.Pods, func(other *corev1.Pod) bool {
		return other != pod && (other.Namespace == pod.Namespace && facts.ClaimNames(other).HasAny(claims...) || carriesDisk(other))
	}) {
		return false
	}
	return !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return !ownVolume(p, pod, &v, node) })
}

// ownVolume says that the volume needs no attachment, or that it is attached to the
// pod's node as the controller does it.
func ownVolume(p *facts.View, pod *corev1.Pod, v *corev1.Volume, node *corev1.Node) bool {
	if reconcile.ClaimName(pod, v) == "" {
		return !isDisk(*v)
	}
	pv := p.BoundVolume(pod, v)
	if pv == nil || pv.DeletionTimestamp != nil || pv.Spec.CSI == nil || len(p.ClaimsNaming(pv.Name)) > 1 ||
		!ownDisk(p, pv) || !served(p, pv.Spec.CSI.Driver, node) {
		return false
	}
	d := disk{pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle}
	pair := reconcile.VolumeNode{Volume: d.uniqueName(), Node: facts.NodeName(node)}
	vas := slices.DeleteFunc(slices.Clone(p.Snapshot.VolumeAttachments), func(va *storagev1.VolumeAttachment) bool { return !mayBeFor(va, pv) })
	if !p.AttachRequired(d.driver) {
		return len(vas) == 0
	}
	if len(vas) != 1 || p.World.Desired.Find(pair) == nil || !facts.InUse(node, pair.Volume) {
		return false
	}
	va := vas[0]
	running := facts.RunningSince(pod)
	return facts.Holds(va) && va.Name == facts.AttachmentName(pair) && va.Spec.NodeName == node.Name && va.Spec.Attacher == d.driver && facts.VolumeName(va) == pv.Name &&
		!va.CreationTimestamp.Before(&node.CreationTimestamp) && (running.IsZero() || !running.Before(&va.CreationTimestamp))
}

func mayBeFor(va *storagev1.VolumeAttachment, pv *corev1.PersistentVolume) bool {
	csi, inline := pv.Spec.CSI, va.Spec.Source.InlineVolumeSpec
	return facts.VolumeName(va) == pv.Name || va.Name == reconcile.VolumeAttachmentName(csi.VolumeHandle, csi.Driver, types.NodeName(va.Spec.NodeName)) ||
		inline != nil && inline.CSI != nil && inline.CSI.Driver == csi.Driver && inline.CSI.VolumeHandle == csi.VolumeHandle
}

// ownDisk says that no other volume is the same disk, by whatever name.
func ownDisk(p *facts.View, pv *corev1.PersistentVolume) bool {
	d := disk{pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle}
	return len(p.World.Volumes(d.uniqueName())) <= 1 && !slices.ContainsFunc(p.Snapshot.Volumes, func(other *corev1.PersistentVolume) bool {
		return other != pv && other.Spec.CSI != nil && d == disk{other.Spec.CSI.Driver, other.Spec.CSI.VolumeHandle}
	})
}

// served says that the driver is registered on the node and a node plugin of it is
// ready there. Where no pod runs a node plugin, no pod may be terminating on the node
// either, because a missing plugin would be what keeps it.
func served(p *facts.View, driver string, node *corev1.Node) bool {
	plugins := p.Plugins()[driver][facts.NodeName(node)]
	return facts.Registers(p.Snapshot.CSINode(facts.NodeName(node)), driver) && (slices.ContainsFunc(plugins, facts.Ready) ||
		len(plugins) == 0 && !slices.ContainsFunc(p.Snapshot.PodsOnNode(facts.NodeName(node)), func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }))
}
