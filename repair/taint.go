package repair

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var (
	outOfServiceTaint = rung{
		kind:     OutOfServiceTaint,
		codes:    []diagnose.Code{"VD102", "VD111", "VD114", "VD117", "VD403"},
		detaches: true,
		needs:    []Permission{patchNode("")},
		propose:  proposeTaint,
		undo:     undoTaint,
	}
	removeTaint = rung{
		kind:    RemoveOutOfServiceTaint,
		codes:   []diagnose.Code{"VD110"},
		needs:   []Permission{patchNode("")},
		propose: proposeUntaint,
	}
)

const taintsPath = "/spec/taints"

var taintReads = []snapshot.Kind{snapshot.Nodes, snapshot.Pods, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments}

// proposeTaint says to the cluster that a node is out of service: the pods that
// are being deleted there go, and the controller detaches their volumes without
// waiting for a kubelet to unmount them.
func proposeTaint(v *View, f diagnose.Finding) (Repair, error) {
	node := v.Snapshot.Node(f.Node)
	if node == nil {
		return Repair{}, fmt.Errorf("node %q: %w", f.Node, ErrNotFound)
	}
	if reconcile.OutOfService(node) {
		return Repair{}, fmt.Errorf("node %s carries the taint already", node.Name)
	}
	want := append(slices.Clone(node.Spec.Taints), corev1.Taint{
		Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute,
	})
	after := node.DeepCopy()
	after.Spec.Taints, after.ResourceVersion = want, ""
	undo := nodePatch(after, dropTaint(after)...)
	return Repair{
		Summary:  fmt.Sprintf("set taint %s=nodeshutdown:NoExecute on node %s", corev1.TaintNodeOutOfService, node.Name),
		Risk:     RiskHigh,
		Do:       nodePatch(node, append(addTaint(node, want[len(want)-1]), mark(node.ObjectMeta, markOf(OutOfServiceTaint, f.Code, f.Check))...)...),
		Undo:     &undo,
		PreImage: taintImage(node),
		Guards: []Guard{
			completeGuard(taintReads),
			findingGuard,
			{"same-node", checkSameNode},
			{"release", checkTaintKnown},
			notAliveGuard,
			allowedGuard(OutOfServiceTaint),
			fencedGuard,
		},
		Needs:   []Permission{patchNode(node.Name)},
		reads:   taintReads,
		again:   func(v *View) (Repair, error) { return proposeTaint(v, f) },
		stands:  func(v *View) bool { return hasTaint(v, node, true) },
		version: func(v *View) string { return nodeVersion(v, f.Node) },
		check:   func(object json.RawMessage) error { return checkTaints(object, want) },
	}, nil
}

// proposeUntaint takes the taint off a node that lives. Where volumes have been
// detached under their mounts already, only a reboot makes that safe.
func proposeUntaint(v *View, f diagnose.Finding) (Repair, error) {
	node := v.Snapshot.Node(f.Node)
	if node == nil {
		return Repair{}, fmt.Errorf("node %q: %w", f.Node, ErrNotFound)
	}
	want := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
	return Repair{
		Summary:  fmt.Sprintf("take taint %s off node %s", corev1.TaintNodeOutOfService, node.Name),
		Risk:     RiskMedium,
		Do:       nodePatch(node, append(dropTaint(node), mark(node.ObjectMeta, markOf(RemoveOutOfServiceTaint, f.Code, f.Check))...)...),
		WhyNot:   "on a node that lives the taint lets volumes be detached under their mounts",
		PreImage: taintImage(node),
		Guards: []Guard{
			completeGuard(taintReads),
			findingGuard,
			{"same-node", checkSameNode},
			{"node-ready", checkNodeReady},
			{"no-stale-mount", checkNoStaleMount},
		},
		Needs:   []Permission{patchNode(node.Name)},
		reads:   taintReads,
		again:   func(v *View) (Repair, error) { return proposeUntaint(v, f) },
		stands:  func(v *View) bool { return hasTaint(v, node, false) },
		version: func(v *View) string { return nodeVersion(v, f.Node) },
		check:   func(object json.RawMessage) error { return checkTaints(object, want) },
	}, nil
}

func patchNode(name string) Permission {
	return Permission{Verb: VerbPatch, Resource: "nodes", Name: name}
}

func nodePatch(node *corev1.Node, ops ...patchOp) Operation {
	op := nodeStatusPatch(node, ops...)
	op.Subresource = ""
	return op
}

func addTaint(node *corev1.Node, taint corev1.Taint) []patchOp {
	if len(node.Spec.Taints) == 0 {
		return []patchOp{{"test", taintsPath, compact(nil)}, {"add", taintsPath, compact([]corev1.Taint{taint})}}
	}
	return []patchOp{{"test", taintsPath, compact(node.Spec.Taints)}, {"add", taintsPath + "/-", compact(taint)}}
}

// dropTaint takes every out-of-service taint off, the last first, so that the
// indexes of the others hold.
func dropTaint(node *corev1.Node) []patchOp {
	ops := []patchOp{{"test", taintsPath, compact(node.Spec.Taints)}}
	for i, taint := range slices.Backward(node.Spec.Taints) {
		if taint.Key == corev1.TaintNodeOutOfService {
			ops = append(ops, patchOp{Op: "remove", Path: fmt.Sprintf("%s/%d", taintsPath, i)})
		}
	}
	return ops
}

// taintFields are those of a node that a repair of its taints writes.
type taintFields struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations,omitempty"`
	} `json:"metadata,omitzero"`
	Spec struct {
		Taints []corev1.Taint `json:"taints"`
	} `json:"spec"`
}

func taintImage(node *corev1.Node) json.RawMessage {
	var image taintFields
	if before, marked := node.Annotations[markAnnotation]; marked {
		image.Metadata.Annotations = map[string]string{markAnnotation: before}
	}
	image.Spec.Taints = append([]corev1.Taint{}, node.Spec.Taints...)
	return compact(image)
}

func checkTaints(object json.RawMessage, want []corev1.Taint) error {
	var after taintFields
	if err := json.Unmarshal(object, &after); err != nil {
		return fmt.Errorf("read the API server's answer: %w", err)
	}
	same := slices.EqualFunc(after.Spec.Taints, want, func(a, b corev1.Taint) bool { return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect })
	if !same {
		return fmt.Errorf("the API server would store the taints %v, not %v", after.Spec.Taints, want)
	}
	return nil
}

func hasTaint(v *View, written *corev1.Node, wanted bool) bool {
	node := v.Snapshot.Node(nodeName(written))
	return node != nil && node.UID == written.UID && reconcile.OutOfService(node) == wanted
}

// checkTaintKnown: the oldest release that is modelled is also the first that
// has NodeOutOfServiceVolumeDetach on by default.
func checkTaintKnown(v *View, _ *Repair) error {
	if release := v.Snapshot.Source.ServerVersion; reconcile.TooOld(release) {
		return fmt.Errorf("release %s does not heed the taint, or not by default: releases do from %s", release, reconcile.OldestModelled)
	}
	return nil
}

// checkNoStaleMount: once the taint is gone, pods come back and find the mount
// of a device that the node no longer has.
func checkNoStaleMount(v *View, r *Repair) error {
	node := nodeOf(v, r)
	for _, volume := range node.Status.VolumesInUse {
		attached := slices.ContainsFunc(v.World.Attachments(reconcile.VolumeNode{Volume: volume, Node: r.Finding.Node}), func(va *storagev1.VolumeAttachment) bool {
			return va.Status.Attached && va.DeletionTimestamp == nil
		})
		if !attached && entryIndex(node, volume) < 0 {
			return fmt.Errorf("node %s still has %s in use, which has been detached: cordon it, reboot it, and take the taint off then", node.Name, volume)
		}
	}
	return nil
}

func undoTaint(w written) (*reversal, error) {
	var image taintFields
	if err := json.Unmarshal(w.intent.PreImage, &image); err != nil {
		return nil, fmt.Errorf("read what was there before: %w", err)
	}
	target := w.intent.Operation.Target
	name := types.NodeName(target.Name)
	if name == "" || target.UID == "" {
		return nil, errors.New("it does not say which node was written to")
	}
	r := &Repair{}
	r.Finding.Node = name
	return &reversal{
		summary: fmt.Sprintf("take taint %s off node %s", corev1.TaintNodeOutOfService, name),
		needs:   []Permission{patchNode(target.Name)},
		undone: func(v *View) bool {
			node := v.Snapshot.Node(name)
			return node == nil || node.UID != target.UID || !reconcile.OutOfService(node)
		},
		prepare: func(v *View) (*write, error) {
			node := v.Snapshot.Node(name)
			if node == nil || node.UID != target.UID || !reconcile.OutOfService(node) {
				return nil, &Refusal{guardGone, "the taint is gone already, or the node with it"}
			}
			if err := complete(v.Snapshot, taintReads); err != nil {
				return nil, &Refusal{guardComplete, err.Error()}
			}
			if err := checkNoStaleMount(v, r); err != nil {
				return nil, &Refusal{"no-stale-mount", err.Error()}
			}
			ops := append(dropTaint(node), unmark(node.ObjectMeta, markOf(w.intent.Repair, w.intent.Finding.Code, w.intent.Finding.Check),
				image.Metadata.Annotations[markAnnotation])...)
			want := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
			return &write{
				op:      nodePatch(node, ops...),
				intent:  Entry{PreImage: taintImage(node)},
				check:   func(after json.RawMessage) error { return checkTaints(after, want) },
				version: func(v *View) string { return nodeVersion(v, name) },
			}, nil
		},
	}, nil
}
