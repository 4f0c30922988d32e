package facts_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestKeptVolumes: the command that gives a volume's data away is offered only where the volume
// is free. The command that keeps its disk is offered first, wherever the disk may be deleted.
func TestKeptVolumes(t *testing.T) {
	const give, keep, save = "give", "keep", "save"
	want := map[string][]string{
		"vd101-near-used-through-stale-claim": {keep},                                                                          // its pod runs with it
		"vd104-near-other-claim":              {keep}, "vd411-near-claim-made-again": {keep}, "vd501-bound-to-another": {keep}, // two claims name it
		"vd501-delete": {keep, give}, "vd501-restored-claim": {give}, "vd501-unscheduled-pod": {give},
		"vd501-pod-just-came": {keep}, "vd501-residual-r15": {keep}, "vd501-still-bound": {keep}, "vd504-near-stale-claimref": {keep},
		"vd512-kept": {give}, "vd512-kept-and-class": {give}, "vd512-kept-for-consumer": {give},
		"vd512-kept-deleting": {keep, give}, "vd512-kept-failed": {keep, give}, "vd512-kept-terminating": {save, keep}, "vd512-kept-attached-terminating": {save, keep},
	}
	got := map[string][]string{}
	for _, c := range corpus(t) {
		for _, f := range diagnose.Diagnose(clusterOf(t, c), diagnose.Options{Reconcile: c.Settings}).Findings {
			if f.Code == "VD501" || f.Code == "VD512" {
				got[c.Name] = append(got[c.Name], keptCommands(f)...)
			}
		}
	}
	maps.DeleteFunc(got, func(_ string, commands []string) bool { return len(commands) == 0 })
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}

// keptCommands are the kinds of the finding's commands about a kept volume.
func keptCommands(f finding.Finding) []string {
	var kinds []string
	for _, command := range f.AdviceCommands {
		switch {
		case strings.Contains(command, "/spec/claimRef"):
			kinds = append(kinds, "give")
		case strings.Contains(command, "Retain"):
			kinds = append(kinds, "keep")
		case strings.Contains(command, "get pv/"):
			kinds = append(kinds, "save")
		}
	}
	return kinds
}

// TestKeptVolumeInUse: a case that offers to give a volume away no longer does where the
// volume's disk is in use under another name, or where the volume is Terminating, attached or
// named by another claim. The disk of a volume that may be deleted is always kept first.
func TestKeptVolumeInUse(t *testing.T) {
	changes := map[string]func(s *snapshot.Snapshot, pv *corev1.PersistentVolume){
		"another name is bound": func(s *snapshot.Snapshot, pv *corev1.PersistentVolume) {
			again := pv.DeepCopy()
			again.Name, again.UID, again.DeletionTimestamp = "pv-again", "pv-again", nil
			again.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: "other", UID: "claim-other"}
			again.Status.Phase = corev1.VolumeBound
			s.Volumes = append(slices.Clone(s.Volumes), again)
		},
		"another name is attached": func(s *snapshot.Snapshot, pv *corev1.PersistentVolume) {
			again := pv.DeepCopy()
			again.Name, again.UID, again.Spec.ClaimRef, again.Status.Phase = "pv-again", "pv-again", nil, corev1.VolumeAvailable
			s.Volumes = append(slices.Clone(s.Volumes), again)
			s.VolumeAttachments = append(slices.Clone(s.VolumeAttachments), attachmentOf(again.Name))
		},
		"Terminating": func(_ *snapshot.Snapshot, pv *corev1.PersistentVolume) { pv.DeletionTimestamp = &pv.CreationTimestamp },
		"attached": func(s *snapshot.Snapshot, pv *corev1.PersistentVolume) {
			s.VolumeAttachments = append(slices.Clone(s.VolumeAttachments), attachmentOf(pv.Name))
		},
		"named by another claim": func(s *snapshot.Snapshot, pv *corev1.PersistentVolume) {
			other := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "other", UID: "claim-other"}}
			other.Spec.VolumeName, other.Status.Phase = pv.Name, corev1.ClaimPending
			s.Claims = append(slices.Clone(s.Claims), other)
		},
		"may be deleted": func(_ *snapshot.Snapshot, pv *corev1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		},
	}
	tried := 0
	for _, c := range corpus(t) {
		for _, f := range diagnose.Diagnose(clusterOf(t, c), diagnose.Options{Reconcile: c.Settings}).Findings {
			if !slices.Contains(keptCommands(f), "give") {
				continue
			}
			tried++
			for what, change := range changes {
				s := clusterOf(t, c)
				change(s, s.Volume(f.PersistentVolume))
				changed := diagnose.Diagnose(remade(s, s.Objects), diagnose.Options{Reconcile: c.Settings})
				i := slices.IndexFunc(changed.Findings, func(g finding.Finding) bool { return g.Code == f.Code })
				if i < 0 {
					t.Errorf("%s, %s: %s is not found", c.Name, what, f.Code)
					continue
				}
				commands := keptCommands(changed.Findings[i])
				if what != "may be deleted" && slices.Contains(commands, "give") {
					t.Errorf("%s, %s: the data is given away: %s", c.Name, what, changed.Findings[i].Advice)
				}
				if what == "may be deleted" && !slices.Equal(commands, []string{"keep", "give"}) {
					t.Errorf("%s, %s: the disk is not kept first: %v", c.Name, what, commands)
				}
			}
		}
	}
	if tried < 8 {
		t.Errorf("%d cases offer it", tried)
	}
}

func attachmentOf(volume string) *storagev1.VolumeAttachment {
	va := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-again"}}
	va.Spec.Attacher, va.Spec.NodeName, va.Spec.Source.PersistentVolumeName = "ebs.csi.aws.com", "n2", &volume
	va.Status.Attached = true
	return va
}

// TestOldDiskInUse: where the node still reports the old disk in use, the advice is to detach
// it at the storage system only once the node no longer does.
func TestOldDiskInUse(t *testing.T) {
	tried := 0
	for _, c := range corpus(t) {
		if !strings.HasPrefix(c.Name, "vd121-") {
			continue
		}
		for _, f := range diagnose.Diagnose(clusterOf(t, c), diagnose.Options{Reconcile: c.Settings}).Findings {
			if f.Code != "VD121" {
				continue
			}
			s := clusterOf(t, c)
			node, va := s.Node(f.Node), s.VolumeAttachment(f.VolumeAttachment)
			if node == nil {
				continue
			}
			tried++
			for _, old := range []corev1.UniqueVolumeName{"kubernetes.io/csi/ebs.csi.aws.com^vol-1", "kubernetes.io/csi/ebs.csi.aws.com^vol-old"} {
				if _, handle, _ := reconcile.ParseCSI(old); va.Name != reconcile.VolumeAttachmentName(handle, va.Spec.Attacher, f.Node) {
					continue
				}
				node.Status.VolumesInUse = append(slices.Clone(node.Status.VolumesInUse), old)
				again := diagnose.Diagnose(remade(s, s.Objects), diagnose.Options{Reconcile: c.Settings})
				i := slices.IndexFunc(again.Findings, func(g finding.Finding) bool { return g.Code == "VD121" })
				if i < 0 || !strings.Contains(again.Findings[i].Advice, "no longer reports the old disk in use") || !strings.Contains(again.Findings[i].Advice, "only then detach") {
					t.Errorf("%s: %+v", c.Name, again.Findings)
				}
			}
		}
	}
	if tried < 4 {
		t.Errorf("tried %d", tried)
	}
}
