package chaos_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/invariant"
	"github.com/volume-doctor/kubectl-volume-doctor/repair/apply"
)

// undoing is the prefix of the names of sessions in which undo runs under attack.
const undoing = "undoing"

// undo takes the journal's writes back, first under attack and then undisturbed, and compares
// its report with the objects.
func (r *round) undo(ctx context.Context) error {
	left := r.leftAttachment(ctx)
	if !r.attack.undo && left == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(r.folder(), journal)); err != nil {
		return nil // killed before the journal existed
	}
	if r.attack.takenOver {
		if err := r.takeOver(ctx); err != nil {
			return err
		}
	}
	if r.attack.renamed {
		session := r.session("elsewhere", journal, nil)
		session.Renamed = true
		if _, err := r.doctor(ctx, session, undoArgs()...); err != nil {
			return err
		}
	}
	for i, a := range r.attack.undoing {
		if _, err := r.doctor(ctx, r.session(fmt.Sprint(undoing, i), journal, newTally(a)), undoArgs()...); err != nil {
			return err
		}
	}
	listed, err := r.listed(ctx)
	if err != nil {
		return err
	}
	entries, err := readJournal(filepath.Join(r.folder(), journal))
	if err != nil {
		return err
	}
	run, err := r.doctor(ctx, r.session("undo", journal, nil), undoArgs()...)
	if err != nil {
		return err
	}
	if r.story == orphan && run.Code == 0 && left != "" { // without our attachment the orphan stays
		return fixture.AwaitFor(ctx, patience, r.podRuns())
	}
	if r.story != lostEntry || len(r.attack.undoing) > 0 {
		return nil
	}
	rerun := invariant.Rerun{Name: run.Name + " after " + r.attack.String(), Code: run.Code, Said: run.Said}
	var want string
	switch {
	case len(entries) == 0:
		want = "the journal lists nothing that could be taken back"
	case listed:
		// The entry must stay: the kubelet reports the volume in use.
		rerun.Unless = []string{"reports the volume in use", "own-list"}
	default:
		want = "cut short"
	}
	if listed && len(entries) > 0 && run.Code == 0 || !strings.Contains(run.Said, want) {
		rerun.Findings = 1 // a false report about what was written
	}
	r.reruns = append(r.reruns, rerun)
	return nil
}

// takeOver has an admin take over the doctor's taint by removing the mark.
func (r *round) takeOver(ctx context.Context) error {
	_, err := r.client.CoreV1().Nodes().Patch(ctx, r.name, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"`+markAnnotation+`":null}}}`), metav1.PatchOptions{})
	return err
}

func undoArgs() []string { return []string{"undo", journal, "--yes"} }

// left are the objects that a run which ended well should have removed or restored, and did
// not.
func (r *round) left(ctx context.Context, undone bool) ([]string, error) {
	var left []string
	if name := r.leftAttachment(ctx); name != "" {
		left = append(left, "VolumeAttachment "+name)
	}
	if !undone || len(r.standing()) == 0 {
		return left, nil
	}
	node, err := r.client.CoreV1().Nodes().Get(ctx, r.name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	listed, err := r.listed(ctx)
	if err != nil {
		return nil, err
	}
	switch r.story {
	case lostEntry:
		if listed {
			left = append(left, "the entry in volumesAttached")
		}
	case phantom:
		if !listed {
			left = append(left, "the gap in volumesAttached")
		}
	case stuckPod:
		if slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService }) {
			left = append(left, "the taint")
		}
	case refusedDetach:
		va, err := r.client.StorageV1().VolumeAttachments().Get(ctx, r.volume.AttachmentName(r.name), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return left, nil
		}
		if err != nil {
			return nil, err
		}
		if va.Annotations[markAnnotation] != "" {
			left = append(left, "the annotation")
		}
	}
	return left, nil
}

// markAnnotation is the annotation on every object that the command has written.
const markAnnotation = "volume-doctor/last-repair"

// leftAttachment is the VolumeAttachment that a doctor has made to have it deleted again, if
// it still exists although no pod uses it, else "".
func (r *round) leftAttachment(ctx context.Context) string {
	if r.story != orphan {
		return ""
	}
	va, err := r.client.StorageV1().VolumeAttachments().Get(ctx, r.volume.AttachmentName(r.other()), metav1.GetOptions{})
	if err != nil || va.DeletionTimestamp != nil || va.Annotations[markAnnotation] == "" {
		return ""
	}
	if p, err := r.client.CoreV1().Pods(r.name).Get(ctx, pod, metav1.GetOptions{}); err == nil && p.Spec.NodeName == r.other() {
		return "" // it belongs to the pod now
	}
	return va.Name
}

// standing are the numbers of the journal's writes that were or may have been made.
func (r *round) standing() []int {
	var writes []int
	for _, j := range r.journals(journal) {
		for _, e := range j.Entries {
			switch {
			case e.Type == apply.Intent && e.Undoes == 0:
				writes = append(writes, e.Write)
			case e.Outcome == apply.NotWritten:
				writes = slices.DeleteFunc(writes, func(w int) bool { return w == e.Write })
			}
		}
	}
	return writes
}
