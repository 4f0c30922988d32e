package apply

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// stuck: the driver was asked for an hour to detach vol-1 from n1, was nudged, and says that
// the volume is not attached.
func stuck(t testing.TB) *memory {
	m := healthy(t)
	m.addVolume("n1", "pv1", "vol-1", "web-0")
	m.objects.Pods = m.objects.Pods[:1]
	at, va := ago(time.Hour), m.attachment()
	va.DeletionTimestamp, va.Finalizers = &at, []string{ebsFinalizer}
	va.CreationTimestamp = ago(2 * time.Hour)
	va.Status.DetachError = &storagev1.VolumeError{Message: "rpc error: code = NotFound desc = volume vol-1 is not attached to node i-n1", Time: ago(time.Minute)}
	va.Annotations[repair.MarkAnnotation] = "nudge for VD103 va-stuck-deleting at " + ago(10*time.Minute).UTC().Format(time.RFC3339)
	m.consent.Allow = []repair.Kind{repair.StripFinalizer}
	return m
}

// machineGone is stuck with the node gone, and its machine unknown to the driver.
func machineGone(t testing.TB) *memory {
	m := stuck(t)
	m.objects.Nodes, m.objects.CSINodes = m.objects.Nodes[1:], m.objects.CSINodes[1:]
	m.objects.Pods = nil
	va := m.attachment()
	va.Status.DetachError.Message = "rpc error: code = NotFound desc = instance i-n1 not found"
	va.Annotations[repair.MarkAnnotation] = "nudge for VD115 attach-to-deleted-node-detach-fails at " + ago(10*time.Minute).UTC().Format(time.RFC3339)
	m.consent.Fenced = []types.NodeName{"n1"}
	return m
}

// volumeGone is stuck with the persistent volume gone: the attacher cannot ask the driver.
func volumeGone(t testing.TB) *memory {
	m := stuck(t)
	m.objects.Volumes, m.objects.Claims = m.objects.Volumes[:1], m.objects.Claims[:1]
	m.attachment().Status.DetachError.Message = `persistentvolume "pv1" not found`
	m.consent.Detached = []string{m.attachment().Name}
	return m
}

// flipped is stuck with a driver that no longer attaches anything and has no attacher.
func flipped(t testing.TB) *memory {
	m := stuck(t)
	no := false
	m.objects.CSIDrivers[0].Spec.AttachRequired = &no
	m.objects.CSIDrivers[0].CreationTimestamp = ago(90 * time.Minute)
	m.objects.Leases = m.objects.Leases[:1]
	m.objects.VolumeAttachments = m.objects.VolumeAttachments[1:]
	m.attachment().Status.DetachError = nil
	m.consent.Detached = []string{m.attachment().Name}
	return m
}

// detachedMisses are the near misses for the codes where the driver has not said that nothing
// is attached.
var detachedMisses = []nearMiss{
	{"nobody has seen it detached", repair.GuardDetached, func(m *memory) { m.consent.Detached = nil }},
	{"another was seen detached", repair.GuardDetached, func(m *memory) { m.consent.Detached = []string{"csi-another"} }},
}

// useStale has a pod run on n1 with pv1. Its claim leads to pv1, which does not point back.
func (m *memory) useStale() {
	m.addVolume("n1", "pv2", "vol-2", "web-0")
	m.objects.VolumeAttachments = slices.DeleteFunc(m.objects.VolumeAttachments, func(va *storagev1.VolumeAttachment) bool {
		return *va.Spec.Source.PersistentVolumeName == "pv2"
	})
	m.objects.Claims[len(m.objects.Claims)-1].Spec.VolumeName = "pv1"
	m.pod().Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{running}}
}

// says changes the driver's last error.
func says(message string) func(*memory) {
	return func(m *memory) { m.attachment().Status.DetachError.Message = message }
}

// stripMisses are the near misses for the guards that are the same for every code.
var stripMisses = []nearMiss{
	{"attached at the storage system", "storage-let-go", listed("i-n1")},
	{"attached to a machine that is no node", "storage-let-go", listed("i-none")},
	{"pods not read", repair.GuardComplete, func(m *memory) { m.gaps = gap(snapshot.Pods, "") }},
	{"volumes not read", repair.GuardComplete, func(m *memory) { m.gaps = gap(snapshot.Volumes, "") }},
	{"leases not read", repair.GuardComplete, func(m *memory) { m.gaps = gap(snapshot.Leases, "") }},
	{"new leader", repair.GuardController, func(m *memory) {
		at := metav1.NewMicroTime(epoch.Add(-time.Second))
		m.objects.Leases[0].Spec.AcquireTime = &at
	}},
	{"just asked for", repair.GuardFinding, func(m *memory) {
		at := ago(time.Second)
		va := m.attachment()
		if va.DeletionTimestamp, va.CreationTimestamp = &at, at; va.Status.DetachError != nil {
			va.Status.DetachError.Time = at
		}
	}},
	{"made anew", "same-attachment", func(m *memory) { m.attachment().UID = "another" }},
	{"no longer deleted", "being-deleted", func(m *memory) { m.attachment().DeletionTimestamp = nil }},
	{"somebody's finalizer", "only-finalizer", func(m *memory) {
		m.attachment().Finalizers = append(m.attachment().Finalizers, "example.com/mover")
	}},
	{"pod runs with a stale claim", "no-live-pod", (*memory).useStale},
	{"not allowed", repair.GuardAllowed, func(m *memory) { m.consent.Allow = nil }},
	{"another kind allowed", repair.GuardAllowed, func(m *memory) { m.consent.Allow = []repair.Kind{repair.DeleteAttachment} }},
}

// wantedMiss is the near miss for the codes whose volume the controller can want.
var wantedMiss = nearMiss{"pod has come back", "not-wanted", func(m *memory) {
	m.addVolume("n1", "pv-1", "vol-x", "web-0")
	m.objects.VolumeAttachments = m.objects.VolumeAttachments[:len(m.objects.VolumeAttachments)-1]
	m.volume("pv1").Spec.ClaimRef = m.volume("pv-1").Spec.ClaimRef
	m.objects.Claims[len(m.objects.Claims)-1].Spec.VolumeName = "pv1"
}}

// livesMisses are the near misses for a node that is alive.
var livesMisses = []nearMiss{
	{"node falls silent", "node-lives", func(m *memory) { m.node("n1").Status.Conditions[0].Status = corev1.ConditionUnknown }},
	{"in use", "not-in-use", func(m *memory) {
		n := m.node("n1")
		n.Status.VolumesInUse = append(n.Status.VolumesInUse, uniqueName("vol-1"))
	}},
}

func TestStripFinalizerGuards(t *testing.T) {
	t.Run("VD103", func(t *testing.T) {
		guardsAlone(t, stuck, slices.Concat(stripMisses, livesMisses, []nearMiss{
			wantedMiss,
			{"busy", "driver-says-detached", says("volume vol-1 is busy")},
			{"nothing said", "driver-says-detached", func(m *memory) { m.attachment().Status.DetachError = nil }},
		}))
	})
	t.Run("VD115", func(t *testing.T) {
		guardsAlone(t, machineGone, append(slices.Clone(stripMisses),
			nearMiss{"busy", "driver-says-no-machine", says("volume vol-1 is in use by instance i-n1")},
			nearMiss{"the node is back", "driver-says-no-machine", func(m *memory) { m.addNode("n1") }},
			nearMiss{"the node is back", "not-alive", func(m *memory) { m.addNode("n1") }},
			nearMiss{"the node is back, with a pod", "not-wanted", func(m *memory) { m.addNode("n1"); wantedMiss.change(m) }},
			nearMiss{"not said to be off", repair.GuardFenced, func(m *memory) { m.consent.Fenced = nil }},
		))
	})
	t.Run("VD119", func(t *testing.T) {
		guardsAlone(t, volumeGone, slices.Concat(stripMisses, livesMisses, detachedMisses, []nearMiss{
			{"the volume is back", "volume-gone", func(m *memory) { m.addVolume("n2", "pv1", "vol-1", "other") }},
			{"another volume has the disk", "volume-gone", func(m *memory) { m.addVolume("n2", "imported", "vol-1", "other") }},
			{"wanted through another volume", "not-wanted", func(m *memory) {
				m.addVolume("n1", "imported", "vol-1", "web-0")
				m.objects.VolumeAttachments = m.objects.VolumeAttachments[:2] // only one of the name remains
				n := m.node("n1")
				n.Status.VolumesInUse = append(n.Status.VolumesInUse, uniqueName("vol-1"))
			}},
		}))
	})
	t.Run("VD108", func(t *testing.T) {
		guardsAlone(t, flipped, slices.Concat(stripMisses, livesMisses, detachedMisses, []nearMiss{
			{"the driver attaches again", "nothing-to-detach", func(m *memory) { m.objects.CSIDrivers[0].Spec.AttachRequired = nil }},
			{"the driver attaches again, for a pod", "not-wanted", func(m *memory) { m.objects.CSIDrivers[0].Spec.AttachRequired = nil; wantedMiss.change(m) }},
			{"an attacher is seen", "no-attacher", func(m *memory) {
				m.objects.Leases = append(m.objects.Leases, healthy(t).objects.Leases[1])
			}},
		}))
	})
}

func TestStripFinalizer(t *testing.T) {
	for name, world := range map[string]func(testing.TB) *memory{"VD103": stuck, "VD115": machineGone, "VD119": volumeGone, "VD108": flipped} {
		t.Run(name, func(t *testing.T) {
			m := world(t)
			a, sink := m.applier()
			r := m.only()
			if string(r.Finding.Code) != name || r.Kind != repair.StripFinalizer || r.Risk != repair.RiskHigh || r.Undo != nil || r.WhyNot == "" ||
				r.RestsOnFencing() != (name == "VD115") {
				t.Fatalf("%+v", r)
			}
			steps := `[{"op":"test","path":"/metadata/uid","value":"` + string(m.attachment().UID) + `"},` +
				`{"op":"test","path":"/metadata/finalizers/0","value":"` + ebsFinalizer + `"},{"op":"remove","path":"/metadata/finalizers/0"}]`
			if got := r.Do.Kubectl(); got != "kubectl patch volumeattachment "+m.attachment().Name+" --type=json -p '"+steps+"'" {
				t.Error(got)
			}
			results, err := a.Apply(t.Context(), []repair.Repair{r})
			if err != nil || results[0].Outcome != Repaired {
				t.Errorf("%+v, %v", results, err)
			}
			if m.attachmentOrNil() != nil {
				t.Error("the VolumeAttachment is still there")
			}
			if undone := m.undo(a, sink); undone[0].Guard != "reversible" || !strings.Contains(undone[0].Detail, "strip-finalizer cannot be taken back") {
				t.Errorf("undo: %+v", undone)
			}
		})
	}
}

func (m *memory) attachmentOrNil() *storagev1.VolumeAttachment {
	for _, va := range m.objects.VolumeAttachments {
		if *va.Spec.Source.PersistentVolumeName == "pv1" {
			return va
		}
	}
	return nil
}

// letGo: pv1 is being deleted, nothing is attached, and its attacher, which is
// at work, has left its finalizer on it.
func letGo(t testing.TB) *memory {
	m := healthy(t)
	m.addVolume("n1", "pv1", "vol-1", "web-0")
	m.objects.Pods, m.objects.Claims, m.objects.VolumeAttachments = m.objects.Pods[:1], m.objects.Claims[:1], m.objects.VolumeAttachments[:1]
	pv, at := m.volume("pv1"), ago(time.Hour)
	pv.DeletionTimestamp, pv.Finalizers, pv.ResourceVersion = &at, []string{ebsFinalizer}, "50"
	return m
}

// syncs makes an attacher look at a volume when it changes.
func (m *memory) syncs() {
	m.after = func(op repair.Operation, dryRun bool) error {
		if op.Target.Kind == "PersistentVolume" && !dryRun {
			m.objects.Volumes = slices.DeleteFunc(slices.Clone(m.objects.Volumes), func(pv *corev1.PersistentVolume) bool { return pv.DeletionTimestamp != nil })
		}
		return nil
	}
}

func TestTouchVolumeGuards(t *testing.T) {
	guardsAlone(t, letGo, []nearMiss{
		{"volumes not read", repair.GuardComplete, func(m *memory) { m.gaps = gap(snapshot.Volumes, "") }},
		{"attachments not read", repair.GuardComplete, func(m *memory) { m.gaps = gap(snapshot.VolumeAttachments, "") }},
		{"leases not read", repair.GuardComplete, func(m *memory) { m.gaps = gap(snapshot.Leases, "") }},
		{"finding gone", repair.GuardFinding, func(m *memory) { at := ago(0); m.volume("pv1").DeletionTimestamp = &at }},
		{"made anew", "same-volume", func(m *memory) { m.volume("pv1").UID = "another" }},
		{"not being deleted", "volume-deleting", func(m *memory) { m.volume("pv1").DeletionTimestamp = nil }},
		{"attached", "no-attachment", func(m *memory) { m.addAttachment("n2", "pv1", "by-hand") }},
		{"attached by another volume", "no-attachment", func(m *memory) { m.addVolume("n2", "imported", "vol-1", "other") }},
		{"protected", "only-finalizer", func(m *memory) {
			m.volume("pv1").Finalizers = append(m.volume("pv1").Finalizers, "kubernetes.io/pv-protection")
		}},
		{"attacher away", "attacher-at-work", func(m *memory) { m.lease("external-attacher-leader-ebs-csi-aws-com") }},
		{"touched before", "not-touched-yet", func(m *memory) {
			m.volume("pv1").Annotations = map[string]string{repair.MarkAnnotation: "touch-volume for VD503 pv-finalizer-without-va"}
		}},
	})
}

func TestTouchVolume(t *testing.T) {
	m := letGo(t)
	m.syncs()
	a, sink := m.applier()
	r := m.only()
	if r.Finding.Code != "VD503" || r.Kind != repair.TouchVolume || r.Risk != repair.RiskLow || r.Undo == nil {
		t.Fatalf("%+v", r)
	}
	want := `kubectl patch persistentvolume pv1 --type=merge -p '{"metadata":{"annotations":{"volume-doctor/last-repair":"touch-volume for VD503 pv-finalizer-without-va"},"uid":"uid-pv1"}}'`
	if got := r.Do.Kubectl(); got != want {
		t.Error(got)
	}
	if results, err := a.Apply(t.Context(), []repair.Repair{r}); err != nil || results[0].Outcome != Repaired {
		t.Errorf("%+v, %v", results, err)
	}
	if undone := m.undo(a, sink); len(undone) != 1 || undone[0].Outcome != Skipped || !undone[0].Moot {
		t.Errorf("%+v", undone)
	}
}

// TestTouchInVain: no attacher reacts; undo leaves the volume as it was.
func TestTouchInVain(t *testing.T) {
	for _, before := range []map[string]string{nil, {"a": "b"}, {repair.MarkAnnotation: "nudge"}} {
		m := letGo(t)
		m.volume("pv1").Annotations = before
		a, sink := m.applier()
		results, err := a.Apply(t.Context(), []repair.Repair{m.only()})
		if err != nil || results[0].Outcome != Unverified || results[0].Detail != "the finding is still there" {
			t.Fatalf("%+v, %v", results, err)
		}
		undone := m.undo(a, sink)
		if len(undone) != 1 || undone[0].Outcome != Undone || fmt.Sprint(m.volume("pv1").Annotations) != fmt.Sprint(before) {
			t.Errorf("%+v %v", undone, m.volume("pv1").Annotations)
		}
		if m.volume("pv1").DeletionTimestamp == nil || !slices.Equal(m.volume("pv1").Finalizers, []string{ebsFinalizer}) {
			t.Errorf("%+v", m.volume("pv1"))
		}
	}
}
