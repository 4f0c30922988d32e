package trace

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// addNodes adds the nodes that have the volume by any object.
func (u *useTracer) addNodes() {
	v := u.PersistentVolume
	if v == nil {
		return
	}
	at := map[types.NodeName]*HavingNode{}
	have := func(name types.NodeName) *HavingNode {
		if at[name] == nil {
			at[name] = u.havingNode(name, v.reported())
		}
		return at[name]
	}
	for _, va := range u.vas {
		h := have(types.NodeName(va.Spec.NodeName))
		if h.VolumeAttachment == "" || va.Name == facts.AttachmentName(reconcile.VolumeNode{Volume: v.Volume, Node: h.Node}) {
			u.fillIn(h, va)
		}
	}
	if name := v.reported(); name != "" {
		for _, listed := range slices.Concat(u.ListedOn(name), u.InUseOn(name)) {
			if h := have(listed.Node); v.Driver == "" && h.InVolumesAttached == Yes {
				h.State = NodeHas // its plugin has no VolumeAttachments
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(at)) {
		u.Nodes = append(u.Nodes, *at[name])
	}
}

// reported is the volume's name in a node's status, also where its driver attaches nothing.
func (v *UsedVolume) reported() corev1.UniqueVolumeName {
	if v.Volume == "" && v.Driver != "" {
		return reconcile.CSIVolumeName(v.Driver, v.Handle)
	}
	return v.Volume
}

// havingNode is the volume in the node's own object.
func (u *useTracer) havingNode(name types.NodeName, volume corev1.UniqueVolumeName) *HavingNode {
	h := &HavingNode{Node: name, State: NodeReports, InVolumesAttached: Unknown, InVolumesInUse: Unknown}
	switch node := u.Snapshot.Node(name); {
	case node != nil:
		h.Ready = readyOf(node)
		h.InVolumesAttached, h.InVolumesInUse = answer(volume != "" && facts.Lists(node, volume)), answer(volume != "" && facts.InUse(node, volume))
	case u.knows(snapshot.Nodes, ""):
		h.Ready, h.InVolumesAttached, h.InVolumesInUse = "gone", No, No
	}
	return h
}

// readyOf is the status of the node's Ready condition; "Unknown" where it has none.
func readyOf(node *corev1.Node) string {
	if c := facts.ReadyCondition(node); c != nil {
		return string(c.Status)
	}
	return string(corev1.ConditionUnknown)
}

func answer(yes bool) Answer {
	if yes {
		return Yes
	}
	return No
}

// fillIn adds what the VolumeAttachment shows.
func (u *useTracer) fillIn(h *HavingNode, va *storagev1.VolumeAttachment) {
	h.VolumeAttachment, h.State, h.Since = va.Name, NodeAttaching, unlessZero(va.CreationTimestamp)
	failure, field := u.AttachError(va), "attachError"
	switch {
	case va.DeletionTimestamp != nil:
		h.State, h.Since = NodeDetaching, va.DeletionTimestamp
		failure, field = u.DetachError(va), "detachError"
	case va.Status.Attached:
		h.State, failure = NodeHas, nil
		if at := u.attachedAt(h.Node); at.After(va.CreationTimestamp.Time) {
			h.Since = &at
		}
	}
	if failure != nil {
		h.Said = []Said{driverSaid(va, field, failure)}
	}
}

// attachedAt is when the controller first reported to a pod on the node that the volume is
// attached; zero where it did not.
func (u *useTracer) attachedAt(node types.NodeName) metav1.Time {
	var at metav1.Time
	for _, p := range u.Pods {
		namespace, name, _ := strings.Cut(p.Pod, "/")
		pod := u.Snapshot.Pod(types.NamespacedName{Namespace: namespace, Name: name})
		if p.Node != node {
			continue
		}
		if e := u.AttachSucceeded(pod, u.pv.Name); e != nil && (at.IsZero() || snapshot.EventTime(e).Time.Before(at.Time)) {
			at = snapshot.EventTime(e)
		}
	}
	return at
}
