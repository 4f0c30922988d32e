package repair

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Near names the few objects that decide which pods a write hits: its nodes, the pods there,
// and the VolumeAttachments of its volume there. Reading them takes no longer in a large
// cluster than in a small one, so they are read again right before the write.
type Near struct {
	Nodes       []types.NodeName
	Attachments []string
}

// Nearby are the objects of a Near, just read.
type Nearby struct {
	Near
	Nodes       []*corev1.Node
	Attachments []*storagev1.VolumeAttachment
	Pods        []*corev1.Pod
}

// Near names the objects of the write, by the view on which it was worked out.
func (w *Write) Near(v *View) Near {
	var near Near
	node := func(name types.NodeName) {
		if name != "" && !slices.Contains(near.Nodes, name) {
			near.Nodes = append(near.Nodes, name)
		}
	}
	target := w.Do.Target
	switch snapshot.Kind(Resource(target.Kind)) {
	case snapshot.Nodes:
		node(types.NodeName(target.Name))
	case snapshot.Pods:
		if pod := v.Snapshot.Pod(types.NamespacedName{Namespace: target.Namespace, Name: target.Name}); pod != nil {
			node(types.NodeName(pod.Spec.NodeName))
		}
	case snapshot.VolumeAttachments:
		near.Attachments = append(near.Attachments, target.Name)
		va := v.Snapshot.VolumeAttachment(target.Name)
		if va == nil { // it is created
			va = &storagev1.VolumeAttachment{}
			_ = json.Unmarshal(w.Do.Object, va) // this package made it
		}
		node(types.NodeName(va.Spec.NodeName))
	default: // not on a node
	}
	if w.Finding == nil {
		return near
	}
	node(types.NodeName(w.Finding.Node))
	if driver, handle, ok := reconcile.ParseCSI(corev1.UniqueVolumeName(w.Finding.Volume)); ok {
		for _, name := range near.Nodes {
			if va := reconcile.VolumeAttachmentName(handle, driver, name); !slices.Contains(near.Attachments, va) {
				near.Attachments = append(near.Attachments, va)
			}
		}
	}
	return near
}

// Over is the snapshot with these objects in place of its own copies. changed reports whether
// any of them differs.
func (n Nearby) Over(s *snapshot.Snapshot) (fresh *snapshot.Snapshot, changed bool) {
	objects := s.Objects
	objects.Nodes = replaced(s.Nodes, n.Nodes, func(node *corev1.Node) bool { return slices.Contains(n.Near.Nodes, facts.NodeName(node)) }, &changed)
	objects.VolumeAttachments = replaced(s.VolumeAttachments, n.Attachments, func(va *storagev1.VolumeAttachment) bool {
		return slices.Contains(n.Near.Attachments, va.Name)
	}, &changed)
	objects.Pods = replaced(s.Pods, n.Pods, func(pod *corev1.Pod) bool {
		return slices.Contains(n.Near.Nodes, types.NodeName(pod.Spec.NodeName))
	}, &changed)
	if !changed {
		return s, false
	}
	return s.With(objects), true
}

// replaced is the list with the fresh objects in place of those for which about is true and
// of those that have the same names.
func replaced[O metav1.Object](list, fresh []O, about func(O) bool, changed *bool) []O {
	type name = types.NamespacedName
	nameOf := func(o O) name { return name{Namespace: o.GetNamespace(), Name: o.GetName()} }
	now := make(map[name]O, len(fresh))
	for _, o := range fresh {
		now[nameOf(o)] = o
	}
	kept, same := make([]O, 0, len(list)+len(fresh)), 0
	for _, o := range list {
		other, there := now[nameOf(o)]
		switch {
		case there && equality.Semantic.DeepEqual(o, other):
			same++
		case there || about(o):
			*changed = true
		default:
			kept = append(kept, o)
		}
	}
	if same < len(fresh) {
		*changed = true
	}
	return append(kept, fresh...)
}

// Unexplained refuses where a pod has come since the view, and its claim is not bound in the
// view: it may use any volume.
func (n Nearby) Unexplained(v *View) *Refusal {
	for _, pod := range n.Pods {
		before := v.Snapshot.Pod(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
		if reconcile.PodTerminated(pod) || before != nil && before.UID == pod.UID && before.Spec.NodeName == pod.Spec.NodeName {
			continue
		}
		for i := range pod.Spec.Volumes {
			claim := reconcile.ClaimName(pod, &pod.Spec.Volumes[i])
			if claim == "" {
				continue
			}
			known := v.Snapshot.Claim(types.NamespacedName{Namespace: pod.Namespace, Name: claim})
			if known == nil || known.Spec.VolumeName == "" || v.Snapshot.Volume(known.Spec.VolumeName) == nil {
				return completeGuard(nil).refuse(fmt.Errorf("pod %s/%s has come to node %s, and what volume its claim %s has was not known when the claims were read",
					pod.Namespace, pod.Name, pod.Spec.NodeName, claim))
			}
		}
	}
	return nil
}

// hitBy names the pods that use the volume of a VolumeAttachment on its node although it has just
// been written to; "" for none. The guards refuse such pods, so these came since.
func hitBy(v *View, va *storagev1.VolumeAttachment) string {
	pods := livePods(v, va)
	if len(pods) == 0 {
		return ""
	}
	first := pods[0]
	since, verb := facts.RunningSince(first), "runs"
	if since.IsZero() {
		since, verb = facts.BoundAt(first), "is"
	}
	text := fmt.Sprintf("pod %s/%s %s on node %s with the volume", first.Namespace, first.Name, verb, va.Spec.NodeName)
	if !since.IsZero() {
		text += " since " + since.UTC().Format("15:04:05Z")
	}
	if more := len(pods) - 1; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text + ": it came while this was written, and the volume may be taken from it"
}
