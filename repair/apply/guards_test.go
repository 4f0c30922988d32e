package apply

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// nearMiss changes a repairable world in one way that the guard alone must
// notice.
type nearMiss struct {
	name, guard string
	change      func(*memory)
}

var nearMisses = []nearMiss{
	{"pods not read", "complete", func(m *memory) { m.gaps = gap(snapshot.Pods, "") }},
	{"pods read in one namespace", "complete", func(m *memory) { m.gaps = gap(snapshot.Pods, "default") }},
	{"nodes not read", "complete", func(m *memory) { m.gaps = gap(snapshot.Nodes, "") }},
	{"claims not read", "complete", func(m *memory) { m.gaps = gap(snapshot.Claims, "") }},
	{"volumes not read", "complete", func(m *memory) { m.gaps = gap(snapshot.Volumes, "") }},
	{"attachments not read", "complete", func(m *memory) { m.gaps = gap(snapshot.VolumeAttachments, "") }},
	{"csinodes not read", "complete", func(m *memory) { m.gaps = gap(snapshot.CSINodes, "") }},
	{"csidrivers not read", "complete", func(m *memory) { m.gaps = gap(snapshot.CSIDrivers, "") }},
	{"new leader", "controller-settled", func(m *memory) {
		at := metav1.NewMicroTime(epoch.Add(-facts.ControllerGrace + time.Second))
		m.objects.Leases[0].Spec.AcquireTime = &at
	}},
	{"finding gone", "finding", func(m *memory) {
		at := ago(time.Second)
		m.pod().Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: at}}
	}},
	{"node made anew", "same-node", func(m *memory) { m.node("n1").UID = "another" }},
	{"node being deleted", "same-node", func(m *memory) { at := ago(0); m.node("n1").DeletionTimestamp = &at }},
	{"node not ready", "node-ready", func(m *memory) { m.node("n1").Status.Conditions[0].Status = corev1.ConditionUnknown }},
	{"node not managed", "node-managed", func(m *memory) { m.node("n1").Annotations = nil }},
	{"node out of service", "node-in-service", func(m *memory) {
		m.node("n1").Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService}}
	}},
	{"not in use", "in-use", func(m *memory) {
		m.node("n1").Status.VolumesInUse = []corev1.UniqueVolumeName{uniqueName("vol-0")}
	}},
	{"entry is there", "entry-missing", func(m *memory) {
		n := m.node("n1")
		n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: uniqueName("vol-1")})
	}},
	{"pod has ended", "wanted", func(m *memory) { m.pod().Status.Phase = corev1.PodSucceeded }},
	{"pod is going", "wanted", func(m *memory) {
		at := ago(0)
		m.pod().DeletionTimestamp = &at
		m.pod().Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	}},
	{"claim lost its volume", "wanted", func(m *memory) { m.volume("pv1").Spec.ClaimRef.UID = "another" }},
	{"attach not required", "attach-required", func(m *memory) { no := false; m.objects.CSIDrivers[0].Spec.AttachRequired = &no }},
	{"driver not on node", "driver-on-node", func(m *memory) { m.objects.CSINodes[0].Spec.Drivers[0].Name = "another" }},
	{"no csinode", "driver-on-node", func(m *memory) { m.objects.CSINodes = m.objects.CSINodes[1:] }},
	{"attachment missing", "attached", func(m *memory) { m.objects.VolumeAttachments = m.objects.VolumeAttachments[:1] }},
	{"attachment of another name", "attached", func(m *memory) { m.attachment().Name = "csi-by-hand" }},
	{"not attached", "attached", func(m *memory) { m.attachment().Status.Attached = false }},
	{"being detached", "attached", func(m *memory) { at := ago(0); m.attachment().DeletionTimestamp = &at }},
	{"another attacher", "attached", func(m *memory) { m.attachment().Spec.Attacher = "another" }},
	{"attachment for another node", "attached", func(m *memory) { m.attachment().Spec.NodeName = "n3" }},
	{"attachment for another volume", "attached", func(m *memory) { pv := "pv0"; m.attachment().Spec.Source.PersistentVolumeName = &pv }},
	{"attach error", "no-attach-error", func(m *memory) { m.attachment().Status.AttachError = &storagev1.VolumeError{Message: "boo"} }},
	{"detach error", "no-attach-error", func(m *memory) { m.attachment().Status.DetachError = &storagev1.VolumeError{Message: "boo"} }},
	{"attachment older than the node", "same-machine", func(m *memory) { m.attachment().CreationTimestamp = ago(49 * time.Hour) }},
	{"published to another machine", "node-id", func(m *memory) { m.attachment().Annotations[reconcile.NodeIDAnnotation] = "i-n2" }},
	{"attached elsewhere", "not-elsewhere", func(m *memory) { m.addAttachment("n2", "pv1", "csi-any-name") }},
	{"attaching elsewhere", "not-elsewhere", func(m *memory) { m.addAttachment("n2", "pv1", "csi-any-name").Status.Attached = false }},
	{"attached elsewhere, by an inline source", "not-elsewhere", func(m *memory) {
		va := m.addAttachment("n2", "", "csi-any-name")
		va.Spec.Source = storagev1.VolumeAttachmentSource{InlineVolumeSpec: &m.volume("pv1").DeepCopy().Spec}
	}},
	{"attached elsewhere, its volume gone", "not-elsewhere", func(m *memory) {
		m.addAttachment("n2", "pv-gone", reconcile.VolumeAttachmentName("vol-1", driver, "n2"))
	}},
	{"listed elsewhere", "not-elsewhere", func(m *memory) {
		m.node("n2").Status.VolumesAttached = []corev1.AttachedVolume{{Name: uniqueName("vol-1")}}
	}},
	{"in use elsewhere", "not-elsewhere", func(m *memory) {
		m.node("n2").Status.VolumesInUse = []corev1.UniqueVolumeName{uniqueName("vol-1")}
	}},
	{"shared to one claim, single to another", "not-elsewhere", func(m *memory) {
		m.volume("pv1").Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		twin := m.volume("pv1").DeepCopy()
		twin.Name, twin.Spec.AccessModes = "twin", []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		m.objects.Volumes = append(m.objects.Volumes, twin)
		m.node("n2").Status.VolumesInUse = []corev1.UniqueVolumeName{uniqueName("vol-1")}
	}},
	{"wanted elsewhere too", "controller-keeps-it", func(m *memory) {
		other := m.pod().DeepCopy()
		other.Name, other.UID, other.Spec.NodeName = "web-1", "uid-web-1", "n2"
		m.objects.Pods = append(m.objects.Pods, other)
	}},
	{"controller would detach", "controller-keeps-it", func(m *memory) { m.pod().Status.Phase = corev1.PodFailed }},
}

func gap(kind snapshot.Kind, namespace string) []snapshot.Gap {
	return []snapshot.Gap{{Kind: kind, Namespace: namespace, Reason: snapshot.ReasonForbidden}}
}

func TestGuardAlonePrevents(t *testing.T) { guardsAlone(t, lostEntry, nearMisses) }

// guardsAlone checks that each near miss is prevented by its guard alone, that without any
// guard the write is made, and that every guard of the world's one repair has a near miss.
func guardsAlone(t *testing.T, world func(testing.TB) *memory, misses []nearMiss) {
	t.Helper()
	covered := map[string]bool{}
	for _, miss := range misses {
		t.Run(miss.name, func(t *testing.T) {
			covered[miss.guard] = true
			apply := func(keep func(repair.Guard) bool) (Result, int) {
				m := world(t)
				r := m.only()
				r.Guards = slices.DeleteFunc(r.Guards, func(g repair.Guard) bool { return !keep(g) })
				miss.change(m)
				a, _ := m.applier()
				a.HoldFor = 0
				results, err := a.Apply(t.Context(), []repair.Repair{r})
				if err != nil || len(results) != 1 {
					t.Fatalf("%v, %v", results, err)
				}
				return results[0], len(m.stored)
			}
			alone, writes := apply(func(g repair.Guard) bool { return g.Name == miss.guard })
			if alone.Outcome != Skipped || alone.Guard != miss.guard || alone.Detail == "" || writes != 0 {
				t.Errorf("with the guard alone: %d writes, %+v", writes, alone)
			}
			if all, writes := apply(func(repair.Guard) bool { return true }); all.Outcome != Skipped || writes != 0 {
				t.Errorf("with all guards: %d writes, %+v", writes, all)
			}
			if none, writes := apply(func(repair.Guard) bool { return false }); writes == 0 {
				t.Errorf("without guards: %d writes, %+v", writes, none)
			}
		})
	}
	namesItsKinds(t, world, misses)
	for _, guard := range world(t).only().Guards {
		if !covered[guard.Name] {
			t.Errorf("guard %s has no near miss", guard.Name)
		}
	}
}

// namesItsKinds checks that no guard answers otherwise without the objects of a kind that it
// does not name, in the world and in its near misses; and that a guard which named no kind
// would be caught.
func namesItsKinds(t *testing.T, world func(testing.TB) *memory, misses []nearMiss) {
	t.Helper()
	caught := map[string]bool{}
	for _, miss := range append([]nearMiss{{"nothing", "", func(*memory) {}}}, misses...) {
		m := world(t)
		r := m.only()
		miss.change(m)
		see := func(hidden ...snapshot.Kind) *repair.View {
			m.failing = func(int) []snapshot.Kind { return hidden }
			s, err := m.Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return repair.Look(s, narrow(r.Finding.Code), m.consent)
		}
		v := see()
		for _, kind := range lists {
			hidden := see(kind)
			for _, g := range r.Guards {
				if g.Name == repair.GuardComplete || g.Name == repair.GuardFinding || (g.Check(v, &r) == nil) == (g.Check(hidden, &r) == nil) {
					continue
				}
				caught[g.Name] = true
				if !slices.Contains(g.Kinds, kind) {
					t.Errorf("%s: guard %s rests on the %s, and names only %v", miss.name, g.Name, kind, g.Kinds)
				}
			}
		}
	}
	for _, g := range world(t).only().Guards {
		// These rest on the word of a cloud or of a storage system, which no world here has:
		// see the corpus.
		if len(g.Kinds) > 0 && !caught[g.Name] && g.Name != repair.GuardComplete && g.Name != repair.GuardFenced && g.Name != "storage-lacks-it" {
			t.Errorf("nothing shows what guard %s rests on, of %v", g.Name, g.Kinds)
		}
	}
}

// only is the world's one repair, which no guard refuses.
func (m *memory) only() repair.Repair {
	m.t.Helper()
	v, repairs := m.view()
	if len(repairs) != 1 {
		for _, f := range v.Report.Findings {
			m.t.Logf("%s %s %+v", f.Code, f.Message, f.Repair)
		}
		m.t.Fatalf("%d repairs proposed", len(repairs))
	}
	return repairs[0]
}

// TestGuardsLetPass: changes that concern no guard.
func TestGuardsLetPass(t *testing.T) {
	for name, change := range map[string]func(*memory){
		"no lease to be seen": func(m *memory) { m.objects.Leases = nil },
		"events not read":     func(m *memory) { m.gaps = gap(snapshot.Events, "") },
		"no csidriver":        func(m *memory) { m.objects.CSIDrivers = nil },
		"no note of node id":  func(m *memory) { m.attachment().Annotations = nil },
		"shared volume, also elsewhere": func(m *memory) {
			m.volume("pv1").Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
			m.addAttachment("n2", "pv1", reconcile.VolumeAttachmentName("vol-1", driver, "n2"))
			m.node("n2").Status.VolumesInUse = []corev1.UniqueVolumeName{uniqueName("vol-1")}
		},
		"another volume elsewhere": func(m *memory) { m.addVolume("n2", "pv2", "vol-2", "web-2") },
	} {
		t.Run(name, func(t *testing.T) {
			m := lostEntry(t)
			change(m)
			repairs := m.propose()
			if len(repairs) != 1 {
				t.Fatalf("%d repairs proposed", len(repairs))
			}
			a, _ := m.applier()
			results, err := a.Apply(t.Context(), repairs)
			if err != nil || results[0].Outcome != Repaired {
				t.Errorf("%+v, %v", results, err)
			}
		})
	}
}

// TestFindingGoneSaysWhy: the refusal says what has become of the finding.
func TestFindingGoneSaysWhy(t *testing.T) {
	m := lostEntry(t)
	repairs := m.propose()
	m.rewrite("n1", "kube-controller-manager", func(n *corev1.Node) {
		n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: uniqueName("vol-1")})
	})
	a, _ := m.applier()
	results, err := a.Apply(t.Context(), repairs)
	if err != nil {
		t.Fatal(err)
	}
	want := "it is no longer found: volumesAttached of node n1 lists the volume"
	if r := results[0]; r.Outcome != Skipped || r.Guard != "finding" || r.Detail != want || !r.Moot || r.LeftUndone() {
		t.Errorf("%+v", r)
	}
}
