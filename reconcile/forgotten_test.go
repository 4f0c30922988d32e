package reconcile

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestForgottenNamesWhatMemoryHolds has a controller start on a random cluster whose claims,
// volumes and nodes then change. Each pair that this controller still wants, because it
// looked it up at its start, and that a fresh controller does not want, must be among the
// Forgotten, with its pod, as long as the cluster still shows that the pair is attached or
// asked for.
func TestForgottenNamesWhatMemoryHolds(t *testing.T) {
	held, detached := 0, 0
	one := func(t *rapid.T) {
		o, options := drawObjects(t), drawOptions(t)
		at := func(minute int) metav1.Time { return metav1.NewTime(time.Unix(int64(60*minute), 0)) }
		for _, pv := range o.Volumes {
			pv.CreationTimestamp = at(1)
		}
		for _, claim := range o.Claims {
			claim.CreationTimestamp = at(1)
		}
		for _, pod := range o.Pods {
			pod.CreationTimestamp = at(2)
		}
		then := NewWorld(snapshotOf(cloneObjects(o)), options)
		for _, row := range then.Desired.Items() { // it attaches what it wants
			if pv := row.Spec.PV; pv.Spec.CSI != nil && !slices.ContainsFunc(o.VolumeAttachments, attaches(pv.Name, row.Node)) {
				o.VolumeAttachments = append(o.VolumeAttachments, newAttachment(pv.Name, string(row.Node)))
			}
			for _, node := range o.Nodes {
				if node.Name == string(row.Node) && rapid.Bool().Draw(t, "listed") && !slices.ContainsFunc(node.Status.VolumesAttached, func(a corev1.AttachedVolume) bool { return a.Name == row.Volume }) {
					lists(row.Volume)(node)
				}
			}
		}
		changeUnderneath(t, &o, at(3))
		w := NewWorld(snapshotOf(cloneObjects(o)), options)
		forgotten, plan := w.Forgotten(), w.Reconcile()
		for _, row := range then.Desired.Items() {
			fresh := w.Desired.Find(row.VolumeNode)
			for _, pod := range row.Pods {
				if fresh != nil {
					continue // it does not want it for this pod any more, and keeps it all the same
				}
				known := w.Actual.Find(row.VolumeNode) != nil
				// Where the PersistentVolume is gone or replaced, only its attachment is left
				// to show the volume.
				at := slices.IndexFunc(o.VolumeAttachments, attaches(row.Spec.PV.Name, row.Node))
				asked := at >= 0
				if !known && !asked {
					continue // nothing shows the volume
				}
				held++
				if known {
					detached++
					promisesNothing(t, plan, row.VolumeNode)
				}
				named := slices.ContainsFunc(forgotten, func(f Forgotten) bool {
					return f.Node == row.Node && slices.Contains(f.Pods, pod) && (f.Volume == row.Volume || asked && f.VolumeAttachment == o.VolumeAttachments[at].Name)
				})
				if !named {
					t.Fatalf("%s wants %s on %s, which a fresh controller does not, and it is not among %+v", pod, row.Volume, row.Node, forgotten)
				}
			}
		}
		for _, f := range forgotten {
			if f.Volume != "" && w.Desired.Find(f.VolumeNode) != nil {
				t.Fatalf("a fresh controller wants %+v", f)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		for range 25 { // few of them have such a wish
			one(t)
		}
	})
	if held < 20 || detached < 10 {
		t.Errorf("%d wishes were only remembered, %d of them attached: hardly anything was tried", held, detached)
	}
}

// promisesNothing checks that no latest moment is promised for a controller that still wants
// the pair: neither for the pair itself nor for a node that waits for that node to let go of
// it.
func promisesNothing(t *rapid.T, plan *Plan, pair VolumeNode) {
	for _, d := range plan.OfVolume(pair.Volume) {
		if d.Node != pair.Node && !slices.Contains(d.Holders, pair.Node) {
			continue
		}
		for _, row := range d.Until {
			if _, bound := row.Running(d); bound > 0 && row.Event != Backoff {
				t.Fatalf("the controller keeps %s, and is to do so by %s: %+v", pair, bound, d)
			}
		}
	}
}

// changeUnderneath changes the objects that pods' volumes lead to, as of the time.
func changeUnderneath(t *rapid.T, o *snapshot.Objects, now metav1.Time) {
	coin := func(label string) bool { return rapid.IntRange(0, 2).Draw(t, label) == 0 }
	var gone []string
	for i := range o.Claims {
		claim := o.Claims[i].DeepCopy()
		switch {
		case coin("the claim is made again, for nothing yet"):
			claim.UID, claim.CreationTimestamp, claim.Spec.VolumeName, claim.Status.Phase = "new", now, "", corev1.ClaimPending
		case coin("the claim is made again, for another volume"):
			claim.UID, claim.CreationTimestamp = "newer", now
			other := newPV("other-" + claim.Name)
			other.CreationTimestamp, other.Spec.ClaimRef.Name, other.Spec.ClaimRef.UID = now, claim.Name, claim.UID
			claim.Spec.VolumeName, claim.Status.Phase = other.Name, corev1.ClaimBound
			o.Volumes = append(o.Volumes, other)
		case coin("the claim goes"):
			gone = append(gone, claim.Name)
		}
		o.Claims[i] = claim
	}
	o.Claims = slices.DeleteFunc(o.Claims, func(c *corev1.PersistentVolumeClaim) bool { return slices.Contains(gone, c.Name) })
	o.Volumes = slices.DeleteFunc(o.Volumes, func(*corev1.PersistentVolume) bool { return coin("the volume goes") })
	for i, pv := range o.Volumes {
		if pv = pv.DeepCopy(); coin("the volume is another claim's") {
			pv.Spec.ClaimRef.UID, pv.Spec.ClaimRef.Name = "another", "another"
		} else if coin("a volume of the name is made again") && pv.Spec.CSI != nil {
			pv.Spec.CSI.VolumeHandle, pv.CreationTimestamp = "again-"+pv.Name, now
		}
		o.Volumes[i] = pv
	}
	for i, node := range o.Nodes {
		if coin("the annotation goes") {
			o.Nodes[i] = node.DeepCopy()
			unmanaged(o.Nodes[i])
		}
	}
	if coin("a node goes") {
		o.Nodes = o.Nodes[1:]
	}
}

// attaches returns a test whether a VolumeAttachment is the PersistentVolume's on the node.
func attaches(pv string, node types.NodeName) func(va *storagev1.VolumeAttachment) bool {
	return func(va *storagev1.VolumeAttachment) bool {
		return *va.Spec.Source.PersistentVolumeName == pv && va.Spec.NodeName == string(node)
	}
}

func TestForgottenNearMisses(t *testing.T) {
	cluster := func(edit func(*snapshot.Objects)) []Forgotten {
		o := snapshot.Objects{
			Nodes:  []*corev1.Node{newNode("n1", lists(unique("v1"))), newNode("n2")},
			Claims: []*corev1.PersistentVolumeClaim{newClaim("v1")},
			Pods:   []*corev1.Pod{newPod("p1", "n1", []string{"v1"})},
		}
		o.VolumeAttachments = append(o.VolumeAttachments, newAttachment("v1", "n1"))
		edit(&o)
		return NewWorld(snapshotOf(o), Options{}).Forgotten()
	}
	if got := cluster(func(*snapshot.Objects) {}); len(got) != 1 || got[0].Volume != unique("v1") || got[0].PersistentVolume != "v1" || len(got[0].Pods) != 1 {
		t.Fatalf("the volume is deleted under the pod: %+v", got)
	}
	for name, edit := range map[string]func(*snapshot.Objects){
		"the volume is there":  func(o *snapshot.Objects) { o.Volumes = append(o.Volumes, newPV("v1")) },
		"the pod has ended":    func(o *snapshot.Objects) { o.Pods[0].Status.Phase = corev1.PodSucceeded },
		"the pod is elsewhere": func(o *snapshot.Objects) { o.Pods[0].Spec.NodeName = "n2" },
		"the pod is not bound": func(o *snapshot.Objects) { o.Pods[0].Spec.NodeName = "" },
		"the pod has only a secret": func(o *snapshot.Objects) {
			o.Pods[0].Spec.Volumes = nil
			inline(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}})(o.Pods[0])
		},
		"the pod mounts NFS": func(o *snapshot.Objects) {
			o.Pods[0].Spec.Volumes = nil
			inline(corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}})(o.Pods[0])
		},
		"its own volume is detached": func(o *snapshot.Objects) { o.VolumeAttachments = nil; o.Nodes[0].Status.VolumesAttached = nil },
		"its claim leads to another": func(o *snapshot.Objects) {
			o.Volumes, o.Claims = append(o.Volumes, newPV("v1"), newPV("v2")), append(o.Claims, newClaim("v2"))
			o.Pods[0] = newPod("p1", "n1", []string{"v2"})
		},
	} {
		if got := cluster(edit); len(got) != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
