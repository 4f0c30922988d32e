package cluster

import (
	"cmp"
	"context"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fieldselector "k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/scope"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/trim"
)

// kinds has how each of snapshot.Resources is read: as a whole list, as the few objects of a
// selector, and as a watch. Pods are read and watched last; see snapshot.Kinds.
var kinds = []kind{
	&kindOf[storagev1.VolumeAttachment, *storagev1.VolumeAttachment]{kind: snapshot.VolumeAttachments},
	&kindOf[corev1.Node, *corev1.Node]{kind: snapshot.Nodes},
	&kindOf[storagev1.CSINode, *storagev1.CSINode]{kind: snapshot.CSINodes},
	&kindOf[storagev1.CSIDriver, *storagev1.CSIDriver]{kind: snapshot.CSIDrivers},
	&kindOf[storagev1.StorageClass, *storagev1.StorageClass]{kind: snapshot.StorageClasses, neededBy: scope.AsksForStorageClasses},
	&kindOf[corev1.PersistentVolume, *corev1.PersistentVolume]{kind: snapshot.Volumes},
	&kindOf[corev1.PersistentVolumeClaim, *corev1.PersistentVolumeClaim]{kind: snapshot.Claims},
	// The lease that prevents false alarms is in kube-system.
	&kindOf[coordinationv1.Lease, *coordinationv1.Lease]{kind: snapshot.Leases, within: metav1.NamespaceSystem,
		choice: choice[*coordinationv1.Lease]{keep: keepLease}, same: sameHolder},
	&kindOf[corev1.Event, *corev1.Event]{kind: snapshot.Events, choice: choice[*corev1.Event]{fields: notFrequent(), keep: trim.KeepsEvent}},
	&kindOf[appsv1.Deployment, *appsv1.Deployment]{kind: snapshot.Deployments, neededBy: scope.AsksForDeployments},
	&kindOf[corev1.Pod, *corev1.Pod]{kind: snapshot.Pods, narrow: podsOfUse},
}

// kind is a kindOf of any type.
type kind interface {
	name() snapshot.Kind
	// isNeeded reports whether the objects that were read make the kind necessary; true for
	// those that are always read.
	isNeeded(*snapshot.Objects) bool
	isAlwaysNeeded() bool
	list(*reading) source
	few(r *reading, selected fieldselector.Set, since string, into *snapshot.Objects) source
	follow(*Watch) *following
}

// kindOf describes how one kind is read.
type kindOf[T any, P interface {
	*T
	object
	runtime.Object
}] struct {
	kind snapshot.Kind
	// within is the namespace that is read where the kind may not be listed in all; "" is the
	// command's own, for kinds that have namespaces.
	within string
	// choice decides which objects are kept, in lists and watches alike.
	choice choice[P]
	// narrow is the choice for a whole list, where it depends on objects that were read
	// before.
	narrow func(Options, facts.PodNeeds) choice[P]
	// neededBy is nil for kinds that are always read.
	neededBy func(*snapshot.Objects) bool
	// same reports whether two versions differ only in a renewal's time, for which no new
	// report is needed; nil for kinds without renewals.
	same func(before, now P) bool
}

func (k *kindOf[T, P]) name() snapshot.Kind { return k.kind }

func (k *kindOf[T, P]) isAlwaysNeeded() bool { return k.neededBy == nil }

func (k *kindOf[T, P]) isNeeded(o *snapshot.Objects) bool { return k.neededBy == nil || k.neededBy(o) }

// list is the source of the whole list.
func (k *kindOf[T, P]) list(r *reading) source {
	chosen := k.chosen(r.options, facts.NeedsOf(&r.objects))
	s := from[T, P](r.Cluster, k.kind, snapshot.ListOf[P](&r.objects), chosen)
	s.fallback, s.optional = k.fallback(r.Cluster), snapshot.ResourceOf(k.kind).Optional
	if k.kind == snapshot.Pods && chosen.spool == nil {
		read := s.read
		s.read = func(ctx context.Context, namespace string) (int, error) {
			seen, err := read(ctx, namespace)
			r.otherPods = seen - len(r.objects.Pods)
			return seen, err
		}
	}
	return s
}

// chosen is the choice of what is kept of a whole list, and of each of its objects.
func (k *kindOf[T, P]) chosen(o Options, needs facts.PodNeeds) choice[P] {
	if k.narrow != nil {
		return k.narrow(o, needs)
	}
	return k.choice
}

// added is a source whose objects are added to a list.
func (k *kindOf[T, P]) added(r *reading, chosen choice[P], into *snapshot.Objects) source {
	var own []P
	all := from[T, P](r.Cluster, k.kind, &own, chosen)
	return source{kind: k.kind, read: func(ctx context.Context, namespace string) (int, error) {
		objects, err := all.read(ctx, namespace)
		r.mu.Lock()
		defer r.mu.Unlock()
		list := snapshot.ListOf[P](into)
		*list = append(*list, own...)
		return objects, err
	}}
}

// few is the source of the objects of the whole list that the server selects; the same parts
// of them are kept and decoded. They are added to those of the other selections.
func (k *kindOf[T, P]) few(r *reading, selected fieldselector.Set, since string, into *snapshot.Objects) source {
	chosen := k.chosen(r.options, facts.NeedsOf(&r.objects))
	chosen.fields, chosen.since, chosen.spool = fieldselector.SelectorFromSet(selected).String(), since, nil
	return k.added(r, chosen, into)
}

func (k *kindOf[T, P]) fallback(c *Cluster) string {
	if !snapshot.ResourceOf(k.kind).Namespaced {
		return ""
	}
	return cmp.Or(k.within, c.options.Namespace)
}

// podsOfUse keeps the pods that matter by themselves or because of the needs, and those that
// the command is about.
func podsOfUse(o Options, needs facts.PodNeeds) choice[*corev1.Pod] {
	if o.All {
		return choice[*corev1.Pod]{spool: o.Spool}
	}
	asked := func(pod *corev1.Pod) bool { return o.Asked != nil && o.Asked(pod) }
	return choice[*corev1.Pod]{
		peek: new(podPeeker).peek,
		keep: func(pod *corev1.Pod) bool { return needs.OfUse(pod) || asked(pod) },
	}
}

// keepLease reports whether the lease belongs to a node, the controller, an attacher or a resizer.
func keepLease(l *coordinationv1.Lease) bool {
	return l.Namespace == corev1.NamespaceNodeLease ||
		l.Namespace == metav1.NamespaceSystem && l.Name == reconcile.ControllerManager ||
		strings.HasPrefix(l.Name, reconcile.AttacherLeasePrefix) || strings.HasPrefix(l.Name, reconcile.ResizerLeasePrefix)
}

// notFrequent excludes, on the server, the reasons that most events have. A field selector
// can say "not this and not that" but not "this or that".
func notFrequent() string {
	var terms []string
	for _, reason := range []string{"Scheduled", "Pulled", "Created", "Started", "Killing", "BackOff", "Unhealthy", "SuccessfulCreate", "SuccessfulDelete"} {
		terms = append(terms, "reason!="+reason)
	}
	return strings.Join(terms, ",")
}

func kindNamed(name snapshot.Kind) kind {
	return kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name() == name })]
}
