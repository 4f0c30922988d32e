package diagnose_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// drawCluster crosses up to three cases of the corpus, whose objects share names and so get
// mixed up, and then changes a few facts. Most of the results are broken in ways that nobody
// has thought of.
func drawCluster(t *rapid.T, cases []*snapshot.Snapshot) *snapshot.Snapshot {
	s := rapid.SampledFrom(cases).Draw(t, "case")
	for range rapid.IntRange(0, 2).Draw(t, "more cases") {
		s = testcases.Cross(s, rapid.SampledFrom(cases).Draw(t, "case"))
	}
	o := cloned(s.Objects)
	for _, va := range o.VolumeAttachments {
		va.UID = types.UID("attachment-" + va.Name) // no two objects have one UID, but those of two cases may
	}
	for range rapid.IntRange(0, 5).Draw(t, "changes") {
		change(t, &o, s.TakenAt)
	}
	later := time.Duration(rapid.IntRange(0, 3).Draw(t, "later")) * 5 * time.Minute
	made := snapshot.New(s.TakenAt.Add(later), s.Source, o, slices.Clone(s.Gaps))
	made.Backends = s.Backends
	return made
}

// cloned is a deep copy: the cases are shared.
func cloned(o snapshot.Objects) snapshot.Objects {
	return testcases.Copy(o)
}

// change changes one random fact of the cluster.
func change(t *rapid.T, o *snapshot.Objects, now time.Time) {
	at := metav1.NewTime(now.Add(-time.Duration(rapid.IntRange(0, 20).Draw(t, "minutes ago")) * time.Minute))
	changes := []func(){
		func() { one(t, o.Nodes, func(n *corev1.Node) { n.Annotations = nil }) },
		func() {
			one(t, o.Nodes, func(n *corev1.Node) {
				n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastTransitionTime: at,
					Status: rapid.SampledFrom([]corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionUnknown}).Draw(t, "ready")}}
			})
		},
		func() {
			one(t, o.Nodes, func(n *corev1.Node) {
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeOutOfService})
			})
		},
		func() { one(t, o.Nodes, func(n *corev1.Node) { n.Status.VolumesAttached = nil }) },
		func() { one(t, o.Nodes, func(n *corev1.Node) { n.Status.VolumesInUse = nil }) },
		func() { // another node uses what one node lists
			one(t, o.Nodes, func(n *corev1.Node) {
				one(t, o.Nodes, func(other *corev1.Node) {
					for _, v := range other.Status.VolumesAttached {
						n.Status.VolumesInUse = append(n.Status.VolumesInUse, v.Name)
					}
				})
			})
		},
		func() {
			one(t, o.Nodes, func(n *corev1.Node) {
				one(t, o.Nodes, func(other *corev1.Node) { n.Status.VolumesAttached = slices.Clone(other.Status.VolumesAttached) })
			})
		},
		func() {
			one(t, o.VolumeAttachments, func(va *storagev1.VolumeAttachment) { va.Status.Attached = !va.Status.Attached })
		},
		func() {
			one(t, o.VolumeAttachments, func(va *storagev1.VolumeAttachment) { va.DeletionTimestamp = &at })
		},
		func() {
			one(t, o.VolumeAttachments, func(va *storagev1.VolumeAttachment) {
				va.Status.DetachError = &storagev1.VolumeError{Time: at, Message: "refused"}
			})
		},
		func() { // it is on another node, under the name for that node
			one(t, o.VolumeAttachments, func(va *storagev1.VolumeAttachment) {
				one(t, o.Nodes, func(n *corev1.Node) { va.Spec.NodeName = n.Name })
				one(t, o.Volumes, func(pv *corev1.PersistentVolume) {
					if csi := pv.Spec.CSI; csi != nil {
						va.Spec.Source.PersistentVolumeName = &pv.Name
						va.Name = reconcile.VolumeAttachmentName(csi.VolumeHandle, csi.Driver, types.NodeName(va.Spec.NodeName))
					}
				})
				o.VolumeAttachments = slices.DeleteFunc(o.VolumeAttachments, func(other *storagev1.VolumeAttachment) bool {
					return other != va && other.Name == va.Name
				})
			})
		},
		func() { one(t, o.Pods, func(p *corev1.Pod) { p.DeletionTimestamp = &at }) },
		func() { one(t, o.Pods, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }) },
		func() { one(t, o.Pods, func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }) },
		func() {
			one(t, o.Pods, func(p *corev1.Pod) {
				one(t, o.Nodes, func(n *corev1.Node) { p.Spec.NodeName = n.Name })
			})
		},
		func() { one(t, o.Claims, func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }) },
		func() { one(t, o.Claims, func(c *corev1.PersistentVolumeClaim) { c.UID += "-new" }) },
		func() {
			one(t, o.Volumes, func(pv *corev1.PersistentVolume) {
				pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
			})
		},
		func() { one(t, o.CSINodes, func(n *storagev1.CSINode) { n.Spec.Drivers = nil }) },
		func() { drop(t, &o.Nodes) },
		func() { drop(t, &o.Pods) },
		func() { drop(t, &o.Volumes) },
		func() { drop(t, &o.VolumeAttachments) },
		func() { drop(t, &o.Leases) },
	}
	changes[rapid.IntRange(0, len(changes)-1).Draw(t, "change")]()
}

// one applies f to a random element of the list, if there is one.
func one[T any](t *rapid.T, list []*T, f func(*T)) {
	if len(list) > 0 {
		f(rapid.SampledFrom(list).Draw(t, fmt.Sprintf("%T", list)))
	}
}

func drop[T any](t *rapid.T, list *[]*T) {
	one(t, *list, func(object *T) { *list = slices.DeleteFunc(*list, func(o *T) bool { return o == object }) })
}

func corpusSnapshots(t *testing.T) []*snapshot.Snapshot {
	var snapshots []*snapshot.Snapshot
	for _, c := range corpus(t) {
		if s := c.snapshot(t); len(s.Gaps) == 0 {
			snapshots = append(snapshots, s)
		}
	}
	return snapshots
}

func drawSettings(t *rapid.T) diagnose.Options {
	return diagnose.Options{Reconcile: reconcile.Options{DisableForceDetachOnTimeout: rapid.Bool().Draw(t, "no force")}}
}

// TestGapsOfRandomClusters: reading less of any kinds never shows more, for any check and on
// any cluster.
func TestGapsOfRandomClusters(t *testing.T) {
	long.Test(t)
	cases := corpusSnapshots(t)
	found := map[finding.Code]int{}
	property := func(t *rapid.T) {
		s, settings := drawCluster(t, cases), drawSettings(t)
		kinds := rapid.SliceOfNDistinct(rapid.SampledFrom(append(snapshot.Kinds(), snapshot.Deployments)), 1, 3, rapid.ID).Draw(t, "kinds")
		if slices.Contains(kinds, snapshot.Events) {
			s = withoutSilencingEvents(s)
		}
		whole := diagnose.Diagnose(s, settings)
		for _, f := range whole.Findings {
			found[f.Code]++
		}
		less := s
		for _, kind := range kinds {
			keep := none
			if rapid.Bool().Draw(t, "in part") {
				kept := rapid.SliceOfN(rapid.Bool(), 16, 16).Draw(t, string(kind))
				keep = func(i int) bool { return kept[i%len(kept)] }
			}
			less = fewer(less, kind, keep)
		}
		subset(t, "random cluster", whole, diagnose.Diagnose(less, settings))
	}
	for range 20 {
		rapid.Check(t, property)
	}
	t.Logf("findings: %v", found)
	if checks := len(diagnose.Checks()); len(found) < checks*3/4 {
		t.Errorf("the random clusters have %d failure modes of %d", len(found), checks)
	}
}

// withoutSilencingEvents removes events that can keep a check silent although no check needs
// them. VD301 waits as long as an attach goes on failing and, where it cannot see that, for 10
// minutes (AttachGraceUnseen). A kubelet that has created the sandbox has mounted the volumes,
// whatever a list has lost since; only its event shows that.
func withoutSilencingEvents(s *snapshot.Snapshot) *snapshot.Snapshot {
	o := s.Objects
	o.Events = slices.DeleteFunc(slices.Clone(o.Events), func(e *corev1.Event) bool {
		return e.Reason == "FailedAttachVolume" || e.Reason == "FailedCreatePodSandBox"
	})
	return remade(s, o, s.Gaps)
}

// TestFingerprintsOfRandomClusters: each finding of a report has its own fingerprint, and keeps
// it after every object was written to.
func TestFingerprintsOfRandomClusters(t *testing.T) {
	cases := corpusSnapshots(t)
	rapid.Check(t, func(t *rapid.T) {
		s, settings := drawCluster(t, cases), drawSettings(t)
		before := fingerprintSet(t, diagnose.Diagnose(s, settings))
		o := cloned(s.Objects)
		lists := reflect.ValueOf(o)
		for i := range lists.NumField() {
			for j := range lists.Field(i).Len() {
				object := lists.Field(i).Index(j).Interface().(metav1.Object)
				object.SetResourceVersion(fmt.Sprint(1000*i + j))
				object.SetGeneration(object.GetGeneration() + 1)
			}
		}
		after := fingerprintSet(t, diagnose.Diagnose(remade(s, o, s.Gaps), settings))
		if !reflect.DeepEqual(before, after) {
			t.Errorf("%v became %v", before, after)
		}
	})
}

func fingerprintSet(t *rapid.T, r *finding.Report) map[string]finding.Code {
	set := map[string]finding.Code{}
	for _, f := range r.Findings {
		if code, twice := set[f.Fingerprint]; twice || f.Fingerprint == "" {
			t.Errorf("%s and %s share the fingerprint %q: %s", code, f.Code, f.Fingerprint, f.Message)
		}
		set[f.Fingerprint] = f.Code
	}
	return set
}

// TestRandomClustersAreNotWrittenTo: a diagnosis does not change its snapshot.
func TestRandomClustersAreNotWrittenTo(t *testing.T) {
	cases := corpusSnapshots(t)
	rapid.Check(t, func(t *rapid.T) {
		s, settings := drawCluster(t, cases), drawSettings(t)
		before := cloned(s.Objects)
		diagnose.Diagnose(s, settings)
		if !reflect.DeepEqual(before, cloned(s.Objects)) {
			t.Error("the objects have changed")
		}
	})
}
