package repair

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var (
	outOfServiceTaint = action{
		kind:     OutOfServiceTaint,
		risk:     RiskHigh,
		codes:    []finding.Code{"VD102", "VD111", "VD114", "VD117", "VD403"},
		detaches: true,
		needs:    []Permission{RightTo(VerbPatch, snapshot.Nodes, "")},
		guards: []Guard{
			findingGuard,
			sameNodeGuard,
			taintKnownGuard,
			notAliveGuard,
			disksStayGuard,
			allowedGuard(OutOfServiceTaint),
			fencedGuard,
		},
		propose:    onNode(proposeTaint),
		undo:       undoTaint,
		undoGuards: []Guard{noStaleMountGuard},
	}
	removeTaint = action{
		kind:  RemoveOutOfServiceTaint,
		risk:  RiskMedium,
		codes: []finding.Code{"VD110"},
		needs: []Permission{RightTo(VerbPatch, snapshot.Nodes, "")},
		guards: []Guard{
			findingGuard,
			sameNodeGuard,
			nodeReadyGuard,
			noStaleMountGuard,
		},
		propose: onNode(proposeUntaint),
	}
)

const taintsPath = "/spec/taints"

// proposeTaint marks a node as out of service: the pods that are being deleted there go, and
// the controller detaches their volumes without waiting for a kubelet to unmount them.
func proposeTaint(v *View, f finding.Finding, node *corev1.Node) (Repair, error) {
	if reconcile.OutOfService(node) {
		return Repair{}, fmt.Errorf("node %s carries the taint already", node.Name)
	}
	if !v.World.Behaviours.Has(reconcile.OutOfServiceDetaches) {
		return Repair{}, errors.New("kube-controller-manager runs with --feature-gates=NodeOutOfServiceVolumeDetach=false: the taint makes it detach nothing")
	}
	if v.Facts.ControllerDown() != nil {
		return Repair{}, errors.New("no kube-controller-manager leads, and nobody else acts on the taint: bring it back first")
	}
	do, undo, want := settingTaint(node, markOf(OutOfServiceTaint, f.Code, f.Check))
	return Repair{
		SoThat:   "its pods end and their volumes are detached without its kubelet",
		Do:       do,
		Undo:     &undo,
		WhyNot:   "ended pods stay away",
		PreImage: taintImage(node),
		stands:   func(v *View) bool { now := sameNode(v, node); return now != nil && reconcile.OutOfService(now) },
		check:    answered(func(after *image) error { return after.checkTaints(want) }),
	}, nil
}

// proposeUntaint takes the taint off a node that is alive. Where volumes have already been
// detached under their mounts, only a reboot makes that safe.
func proposeUntaint(v *View, f finding.Finding, node *corev1.Node) (Repair, error) {
	want := slices.DeleteFunc(slices.Clone(node.Spec.Taints), outOfService)
	return Repair{
		Do:       nodePatch(node, "", append(dropTaint(node, outOfService), mark(node.ObjectMeta, markOf(RemoveOutOfServiceTaint, f.Code, f.Check))...)...),
		WhyNot:   "on a node that lives the taint lets volumes be detached under their mounts",
		ByHand:   true,
		PreImage: taintImage(node),
		stands:   func(v *View) bool { now := sameNode(v, node); return now != nil && !reconcile.OutOfService(now) },
		check:    answered(func(after *image) error { return after.checkTaints(want) }),
	}, nil
}

// ownTaint is the taint that this package sets.
var ownTaint = corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}

func isOwnTaint(t corev1.Taint) bool { return sameTaint(t, ownTaint) }

// sameTaint reports whether two taints are equal but for the time at which they were added.
func sameTaint(a, b corev1.Taint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
}

func outOfService(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService }

// settingTaint returns the write that sets the taint on the node, its inverse, and the node's
// taints after it.
func settingTaint(node *corev1.Node, value string) (do, undo Operation, want []corev1.Taint) {
	want = append(slices.Clone(node.Spec.Taints), ownTaint)
	after := laterNode(node)
	after.Spec.Taints = want
	do = nodePatch(node, "", append(appendTo(taintsPath, node.Spec.Taints, ownTaint), mark(node.ObjectMeta, value)...)...)
	return do, nodePatch(after, "", dropTaint(after, outOfService)...), want
}

// dropTaint takes off the taints for which such is true, the last first, so that the indexes
// of the others stay right.
func dropTaint(node *corev1.Node, such func(corev1.Taint) bool) []patchOp {
	ops := []patchOp{{"test", taintsPath, Compact(node.Spec.Taints)}}
	for i, taint := range slices.Backward(node.Spec.Taints) {
		if such(taint) {
			ops = append(ops, patchOp{Op: "remove", Path: fmt.Sprintf("%s/%d", taintsPath, i)})
		}
	}
	return ops
}

func taintImage(node *corev1.Node) json.RawMessage {
	i := imageOf(node)
	i.Spec.Taints = append([]corev1.Taint{}, node.Spec.Taints...)
	return Compact(i)
}

func (i *image) checkTaints(want []corev1.Taint) error {
	if got := i.Spec.Taints; !slices.EqualFunc(got, want, sameTaint) {
		return fmt.Errorf("the API server would store the taints %v, not %v", got, want)
	}
	return nil
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
	for _, volume := range v.Facts.UnlistedInUse(node) {
		if !slices.ContainsFunc(v.World.Attachments(reconcile.VolumeNode{Volume: volume, Node: r.Finding.Node}), facts.Holds) {
			return fmt.Errorf("node %s still has %s in use, which has been detached", node.Name, volume)
		}
	}
	return nil
}

// undoTaint takes off the one taint that was set, and no other with its key.
func undoTaint(w Written) (*Reversal, error) {
	written, err := nodeBefore(w)
	if err != nil {
		return nil, err
	}
	if written.Name == "" || written.UID == "" || written.Name != w.Operation.Target.Name {
		return nil, errors.New("it does not say which node was written to")
	}
	mark := markOf(w.Repair, w.Finding.Code, w.Finding.Check)
	do, inverse, _ := settingTaint(written, mark)
	r := &Repair{}
	r.Finding.Node = facts.NodeName(written)
	return &Reversal{
		Summary: fmt.Sprintf("take taint %s off node %s", corev1.TaintNodeOutOfService, written.Name),
		do:      do, inverse: &inverse,
		gone: func(v *View) string {
			if node := sameNode(v, written); node == nil || !slices.ContainsFunc(node.Spec.Taints, isOwnTaint) {
				return "the taint is gone already, or the node with it"
			}
			return ""
		},
		ours: func(v *View) error {
			if got := sameNode(v, written).Annotations[MarkAnnotation]; got != mark {
				return fmt.Errorf("node %s does not have the annotation %s: %s, by which the taint is known, but %q", written.Name, MarkAnnotation, mark, got)
			}
			return nil
		},
		prepare: func(v *View) (*Write, error) {
			node := sameNode(v, written)
			if err := checkNoStaleMount(v, r); err != nil {
				return nil, noStaleMountGuard.refuse(err)
			}
			ops := append(dropTaint(node, isOwnTaint), unmark(node.ObjectMeta, mark, written.Annotations[MarkAnnotation])...)
			want := slices.DeleteFunc(slices.Clone(node.Spec.Taints), isOwnTaint)
			return &Write{
				Do:       nodePatch(node, "", ops...),
				PreImage: taintImage(node),
				Check:    answered(func(after *image) error { return after.checkTaints(want) }),
			}, nil
		},
	}, nil
}
