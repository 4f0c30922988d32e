package apply

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// worlds has a world for each kind of repair, in which that repair is the only one to make.
var worlds = []func(testing.TB) *memory{
	lostEntry, comingBack, phantom, idle, deviceMissing, failedPod, orphan, lostStatefulSet, tainted,
	dangling, byHand, lostNode, stuck, machineGone, volumeGone, flipped, letGo,
	letGo, dangling, lostNode, stuck, machineGone, volumeGone, flipped,
}

// healthy has vol-0 on n1 in use by web-x, and no fault.
func healthy(t testing.TB) *memory {
	m := lostEntry(t)
	m.objects.VolumeAttachments = m.objects.VolumeAttachments[:1]
	m.objects.Pods = m.objects.Pods[:1]
	m.objects.Volumes, m.objects.Claims = m.objects.Volumes[:1], m.objects.Claims[:1]
	n := m.node("n1")
	n.Status.VolumesInUse = []corev1.UniqueVolumeName{uniqueName("vol-0")}
	m.objects.Pods[0].Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{running}}
	renewed := metav1.NewMicroTime(epoch.Add(-5 * time.Second))
	m.objects.Leases = append(m.objects.Leases, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "csi", Name: "external-attacher-leader-ebs-csi-aws-com"},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &renewed},
	})
	return m
}

var running = corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}

// comingBack: web-0 has come back to n1 while vol-1 is being detached from it, and the driver
// has refused.
func comingBack(t testing.TB) *memory {
	m := healthy(t)
	m.addVolume("n1", "pv1", "vol-1", "web-0")
	at, failed := ago(10*time.Minute), ago(2*time.Minute)
	va := m.attachment()
	va.DeletionTimestamp, va.Finalizers = &at, []string{"external-attacher/ebs-csi-aws-com"}
	va.Status.DetachError = &storagev1.VolumeError{Message: "internal error", Time: failed}
	n := m.node("n1")
	n.Status.VolumesInUse = append(n.Status.VolumesInUse, uniqueName("vol-1"))
	return m
}

// started makes the waiting pod run.
func (m *memory) started() {
	m.pod().Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{running}}
}

var nudgeMisses = []nearMiss{
	{"pods not read", repair.GuardComplete, func(m *memory) { m.gaps = gap(snapshot.Pods, "") }},
	{"attachments not read", repair.GuardComplete, func(m *memory) { m.gaps = gap(snapshot.VolumeAttachments, "") }},
	{"finding gone", repair.GuardFinding, func(m *memory) { m.objects.Pods = m.objects.Pods[:1] }},
	{"made anew", "same-attachment", func(m *memory) { m.attachment().UID = "another" }},
	{"no longer deleted", "being-deleted", func(m *memory) { m.attachment().DeletionTimestamp = nil }},
	{"its pod runs", "not-mounted", func(m *memory) {
		m.pod().Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{running}}
	}},
	{"mounted by nobody's leave", "not-mounted", func(m *memory) { m.objects.Pods = m.objects.Pods[:1] }},
	{"nudged, and refused within the second", "not-in-vain", func(m *memory) {
		m.attachment().Annotations[repair.MarkAnnotation] = "nudge for VD401 reuse-while-detaching at " + ago(2*time.Minute).UTC().Format(time.RFC3339)
	}},
	{"nudged before, and refused since", "not-in-vain", func(m *memory) {
		m.attachment().Annotations[repair.MarkAnnotation] = "nudge for VD401 reuse-while-detaching at " + ago(5*time.Minute).UTC().Format(time.RFC3339)
	}},
}

func TestNudgeGuards(t *testing.T) { guardsAlone(t, comingBack, nudgeMisses) }

// TestNudge: the attacher tries again, and the person is shown the driver's answer to that.
func TestNudge(t *testing.T) {
	for name, test := range map[string]struct {
		attempt func(m *memory)
		outcome Outcome
		detail  string
	}{
		"it helps": {func(m *memory) {
			m.objects.VolumeAttachments = m.objects.VolumeAttachments[:1]
			m.addAttachment("n1", "pv1", reconcile.VolumeAttachmentName("vol-1", driver, "n1")).UID = "another"
			n := m.node("n1")
			n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: uniqueName("vol-1")})
		}, Repaired, ""},
		"it does not": {func(m *memory) {
			va := m.attachment().DeepCopy()
			va.Status.DetachError = &storagev1.VolumeError{Message: "still broken", Time: metav1.NewTime(m.now.Add(time.Second))}
			m.objects.VolumeAttachments[1] = va
		}, Unverified, "the driver was asked again and still refuses: still broken"},
		"nobody comes": {func(*memory) {}, Unverified, "the attacher has not tried again"},
	} {
		t.Run(name, func(t *testing.T) {
			m := comingBack(t)
			a, sink := m.applier()
			m.now = m.now.Add(time.Minute) // the write is worked out anew, with its own time
			m.looking = func(n int) error {
				if n == 3 {
					test.attempt(m)
				}
				return nil
			}
			r := m.only()
			if r.Kind != repair.Nudge || len(r.Lower) != 1 || r.Lower[0].Kind != "wait" {
				t.Fatalf("%+v", r)
			}
			m.looks = 0
			results, err := a.Apply(t.Context(), []repair.Repair{r})
			if err != nil || results[0].Outcome != test.outcome || results[0].Detail != test.detail {
				t.Fatalf("%+v, %v", results, err)
			}
			if name != "nobody comes" {
				return
			}
			m.looking = nil
			if undone := m.undo(a, sink); len(undone) != 1 || undone[0].Outcome != Undone || m.attachment().Annotations[repair.MarkAnnotation] != "" ||
				m.attachment().Annotations[reconcile.NodeIDAnnotation] != "i-n1" {
				t.Errorf("%+v %v", undone, m.attachment().Annotations)
			}
		})
	}
}

// phantom: volumesAttached of n1 lists vol-1, for which web-0 waits, and there
// is no VolumeAttachment.
func phantom(t testing.TB) *memory {
	m := healthy(t)
	m.addVolume("n1", "pv1", "vol-1", "web-0")
	m.objects.VolumeAttachments = m.objects.VolumeAttachments[:1]
	n := m.node("n1")
	n.Status.VolumesInUse = append(n.Status.VolumesInUse, uniqueName("vol-1"))
	n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: uniqueName("vol-1")})
	m.attaches()
	return m
}

// attaches is an attacher that attaches every new VolumeAttachment immediately.
func (m *memory) attaches() {
	m.after = func(op repair.Operation, dryRun bool) error {
		for _, va := range m.objects.VolumeAttachments {
			if op.Verb == repair.VerbCreate && !dryRun && va.Name == op.Target.Name {
				va.Status.Attached = true
				va.Finalizers = []string{"external-attacher/ebs-csi-aws-com"}
			}
		}
		return nil
	}
}

var createMisses = []nearMiss{
	{"pods not read", repair.GuardComplete, func(m *memory) { m.gaps = gap(snapshot.Pods, "") }},
	{"new leader", repair.GuardController, func(m *memory) {
		at := metav1.NewMicroTime(epoch.Add(-time.Second))
		m.objects.Leases[0].Spec.AcquireTime = &at
	}},
	{"finding gone", repair.GuardFinding, func(m *memory) { m.node("n1").Status.VolumesAttached = nil }},
	{"node not ready", "node-ready", func(m *memory) { m.node("n1").Status.Conditions[0].Status = corev1.ConditionUnknown }},
	{"node not managed", "node-managed", func(m *memory) { m.node("n1").Annotations = nil }},
	{"node out of service", "node-in-service", func(m *memory) {
		m.node("n1").Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService}}
	}},
	{"entry gone", "entry-there", func(m *memory) { m.node("n1").Status.VolumesAttached = nil }},
	{"pod has ended", "wanted", func(m *memory) { m.pod().Status.Phase = corev1.PodSucceeded }},
	{"pod runs", "only-waiting", func(m *memory) { m.pod().Status.Phase = corev1.PodRunning }},
	{"volume being deleted", "volume-known", func(m *memory) { at := ago(0); m.volume("pv1").DeletionTimestamp = &at }},
	{"driver not on node", "driver-on-node", func(m *memory) { m.objects.CSINodes[0].Spec.Drivers[0].Name = "another" }},
	{"another one is there", "none-of-pair", func(m *memory) { m.addAttachment("n1", "pv1", "csi-by-hand") }},
	{"attached elsewhere", "not-elsewhere", func(m *memory) { m.addAttachment("n2", "pv1", "csi-any-name") }},
	{"wanted elsewhere", "not-wanted-elsewhere", func(m *memory) {
		other := m.pod().DeepCopy()
		other.Name, other.UID, other.Spec.NodeName = "web-1", "uid-web-1", "n2"
		m.objects.Pods = append(m.objects.Pods, other)
	}},
	{"attacher gone", "attacher-at-work", func(m *memory) {
		at := metav1.NewMicroTime(epoch.Add(-2 * time.Minute))
		m.objects.Leases[1].Spec.RenewTime = &at
	}},
}

func TestCreateAttachmentGuards(t *testing.T) { guardsAlone(t, phantom, createMisses) }

func TestCreateAttachment(t *testing.T) {
	m := phantom(t)
	a, sink := m.applier()
	r := m.only()
	if r.Kind != repair.CreateAttachment {
		t.Fatalf("%+v", r)
	}
	if results, err := a.Apply(t.Context(), []repair.Repair{r}); err != nil || results[0].Outcome != Repaired {
		t.Fatalf("%+v, %v", results, err)
	}
	va := m.attachment()
	if va.Spec.Attacher != driver || va.Spec.NodeName != "n1" || *va.Spec.Source.PersistentVolumeName != "pv1" {
		t.Errorf("%+v", va.Spec)
	}
	// While the pod is there, taking the write back would detach its volume.
	if undone := m.undo(a, sink); len(undone) != 1 || undone[0].Outcome != Skipped || undone[0].Guard != "not-used" {
		t.Errorf("%+v", undone)
	}
	m.objects.Pods = m.objects.Pods[:1]
	m.unused("vol-1")
	if undone := m.undo(a, sink); undone[0].Outcome != Skipped || undone[0].Guard != "not-reported" {
		t.Errorf("%+v", undone)
	}
	m.node("n1").Status.VolumesAttached = m.node("n1").Status.VolumesAttached[:1]
	if undone := m.undo(a, sink); undone[0].Outcome != Undone || m.attachment().DeletionTimestamp == nil {
		t.Errorf("%+v", undone)
	}
}

// idle: volumesAttached of n1 lists vol-1, and no other object mentions it.
func idle(t testing.TB) *memory {
	m := phantom(t)
	m.objects.Pods = m.objects.Pods[:1]
	m.unused("vol-1")
	return m
}

var pruneMisses = []nearMiss{
	{"pods not read", repair.GuardComplete, func(m *memory) { m.gaps = gap(snapshot.Pods, "") }},
	{"new leader", repair.GuardController, func(m *memory) {
		at := metav1.NewMicroTime(epoch.Add(-time.Second))
		m.objects.Leases[0].Spec.AcquireTime = &at
	}},
	{"finding gone", repair.GuardFinding, func(m *memory) {
		m.rewrite("n1", "kube-controller-manager", func(*corev1.Node) {})
	}},
	{"node made anew", "same-node", func(m *memory) { m.node("n1").UID = "another" }},
	{"node not ready", "node-ready", func(m *memory) { m.node("n1").Status.Conditions[0].Status = corev1.ConditionUnknown }},
	{"node not managed", "node-managed", func(m *memory) { m.node("n1").Annotations = nil }},
	{"node out of service", "node-in-service", func(m *memory) {
		m.node("n1").Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService}}
	}},
	{"in use after all", "not-used", func(m *memory) {
		m.node("n1").Status.VolumesInUse = append(m.node("n1").Status.VolumesInUse, uniqueName("vol-1"))
	}},
	{"an attachment by another name", "none-of-pair", func(m *memory) { m.addAttachment("n1", "pv1", "csi-by-hand") }},
	{"listed twice", "listed-once", func(m *memory) {
		m.node("n1").Status.VolumesAttached = append(m.node("n1").Status.VolumesAttached, corev1.AttachedVolume{Name: uniqueName("vol-1")})
	}},
}

func TestPruneGuards(t *testing.T) { guardsAlone(t, idle, pruneMisses) }

func TestPruneAndPutBack(t *testing.T) {
	m := idle(t)
	before := m.node("n1").DeepCopy()
	a, sink := m.applier()
	if r := m.one(a); r.Outcome != Repaired {
		t.Fatalf("%+v", r)
	}
	if diff := cmp.Diff([]string{"vol-0"}, m.entries()); diff != "" {
		t.Error(diff)
	}
	if undone := m.undo(a, sink); len(undone) != 1 || undone[0].Outcome != Undone {
		t.Errorf("%+v", undone)
	}
	if diff := cmp.Diff(before.Status, m.node("n1").Status); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before.Annotations, m.node("n1").Annotations); diff != "" {
		t.Error(diff)
	}
}

// deviceMissing: vol-1 is attached to n1 and listed there, and its driver does not find the
// device for web-0.
func deviceMissing(t testing.TB) *memory {
	m := healthy(t)
	m.consent.Allow = []repair.Kind{repair.Republish}
	m.addVolume("n1", "pv1", "vol-1", "web-0")
	n := m.node("n1")
	n.Status.VolumesInUse = append(n.Status.VolumesInUse, uniqueName("vol-1"))
	n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: uniqueName("vol-1")})
	m.objects.Events = []*corev1.Event{{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: "e", CreationTimestamp: ago(10 * time.Minute)},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "web-0", UID: "uid-web-0"},
		Reason:         "FailedMount", Message: `MountVolume.MountDevice failed for volume "pv1" : rpc error: code = Internal desc = Failed to find device path /dev/xvdba. no device path for device "/dev/xvdba" volume "vol-1" found`, Type: corev1.EventTypeWarning,
		FirstTimestamp: ago(10 * time.Minute), LastTimestamp: ago(time.Minute), Count: 8,
	}}
	return m
}

var republishMisses = []nearMiss{
	{"attached at the storage system", "storage-lacks-it", listed("i-n1")},
	{"attached elsewhere at the storage system", "storage-lacks-it", listed("i-none")},
	{"pods not read", repair.GuardComplete, func(m *memory) { m.gaps = gap(snapshot.Pods, "") }},
	{"new leader", repair.GuardController, func(m *memory) {
		at := metav1.NewMicroTime(epoch.Add(-time.Second))
		m.objects.Leases[0].Spec.AcquireTime = &at
	}},
	{"finding gone", repair.GuardFinding, func(m *memory) { m.objects.Events = nil }},
	{"made anew", "same-attachment", func(m *memory) { m.attachment().UID = "another" }},
	{"node not ready", "node-ready", func(m *memory) { m.node("n1").Status.Conditions[0].Status = corev1.ConditionUnknown }},
	{"node not managed", "node-managed", func(m *memory) { m.node("n1").Annotations = nil }},
	{"node out of service", "node-in-service", func(m *memory) {
		m.node("n1").Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService}}
	}},
	{"pod has ended", "wanted", func(m *memory) { m.pod().Status.Phase = corev1.PodSucceeded }},
	{"another pod runs with it", "only-waiting", func(m *memory) {
		other := m.pod().DeepCopy()
		other.Name, other.UID, other.Status = "web-1", "uid-web-1", corev1.PodStatus{Phase: corev1.PodRunning}
		m.objects.Pods = append(m.objects.Pods, other)
	}},
	{"being detached", "attached", func(m *memory) {
		at := ago(0)
		m.attachment().DeletionTimestamp = &at
		m.attachment().Finalizers = []string{"f"}
	}},
	{"attach error", "no-attach-error", func(m *memory) { m.attachment().Status.AttachError = &storagev1.VolumeError{Message: "boo"} }},
	{"attachment older than the node", "same-machine", func(m *memory) { m.attachment().CreationTimestamp = ago(49 * time.Hour) }},
	{"published to another machine", "node-id", func(m *memory) { m.attachment().Annotations[reconcile.NodeIDAnnotation] = "i-n2" }},
	{"attached elsewhere", "not-elsewhere", func(m *memory) { m.addAttachment("n2", "pv1", "csi-any-name") }},
	{"attacher gone", "attacher-at-work", func(m *memory) {
		at := metav1.NewMicroTime(epoch.Add(-2 * time.Minute))
		m.objects.Leases[1].Spec.RenewTime = &at
	}},
	{"not allowed", repair.GuardAllowed, func(m *memory) { m.consent.Allow = nil }},
}

func TestRepublishGuards(t *testing.T) { guardsAlone(t, deviceMissing, republishMisses) }

func TestRepublish(t *testing.T) {
	m := deviceMissing(t)
	m.looking = func(n int) error {
		if n == 5 { // the attacher has published it once more, and the kubelet mounts it
			va := m.attachment()
			if va.Status.Attached {
				t.Error("nothing was taken back")
			}
			va.Status.Attached = true
			m.objects.Events = nil
		}
		return nil
	}
	a, sink := m.applier()
	r := m.only()
	m.looks = 0
	if results, err := a.Apply(t.Context(), []repair.Repair{r}); err != nil || results[0].Outcome != Repaired {
		t.Fatalf("%+v, %v", results, err)
	}
	if undone := m.undo(a, sink); undone[0].Outcome != Skipped || undone[0].Guard != "reversible" || !undone[0].LeftUndone() {
		t.Errorf("%+v", undone)
	}
}

// TestConsentIsAskedLast: a refusal for any other reason is reported instead.
func TestConsentIsAskedLast(t *testing.T) {
	m := deviceMissing(t)
	m.consent = repair.Consent{}
	v, repairs := m.view()
	f := v.Report.Findings[0]
	if len(repairs) != 0 || f.Repair == nil || !strings.HasPrefix(f.Repair.BlockedBy, "allowed: ") || !strings.Contains(f.Repair.BlockedBy, "--allow re-publish") {
		t.Errorf("%+v", f.Repair)
	}
	m.addAttachment("n2", "pv1", "csi-any-name")
	v, _ = m.view()
	i := slices.IndexFunc(v.Report.Findings, func(f finding.Finding) bool { return f.Code == "VD308" })
	if got := v.Report.Findings[i].Repair.BlockedBy; !strings.HasPrefix(got, "not-elsewhere: ") {
		t.Error(got)
	}
}

// failedPod: pod web-0 failed on n1 before it started, and the kubelet keeps
// vol-1 for it.
func failedPod(t testing.TB) *memory {
	m := healthy(t)
	m.addVolume("n1", "pv1", "vol-1", "web-0")
	yes := true
	pod := m.pod()
	pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", UID: "u", Controller: &yes}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: ago(40 * time.Minute)}}
	pod.CreationTimestamp = ago(50 * time.Minute)
	m.attachment().CreationTimestamp = ago(49 * time.Minute)
	n := m.node("n1")
	n.Status.VolumesInUse = append(n.Status.VolumesInUse, uniqueName("vol-1"))
	n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: uniqueName("vol-1")})
	n.Status.Conditions[0].LastTransitionTime = ago(47 * time.Hour)
	return m
}

var cycleMisses = []nearMiss{
	{"pods not read", repair.GuardComplete, func(m *memory) { m.gaps = gap(snapshot.Pods, "") }},
	{"finding gone", repair.GuardFinding, func(m *memory) { m.unused("vol-1") }},
	{"another pod of its name", "same-pod", func(m *memory) { m.pod().UID = "another" }},
	{"it has run", "never-started", func(m *memory) {
		m.pod().Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 1}}
	}},
	{"nobody would make it anew", "has-controller", func(m *memory) { m.pod().OwnerReferences = nil }},
	{"a job might give up", "has-controller", func(m *memory) { m.pod().OwnerReferences[0].Kind = "Job" }},
	{"its claim is being deleted", "disk-stays", deleteClaim},
	{"going already", "not-going", func(m *memory) { at := ago(0); m.pod().DeletionTimestamp = &at; m.pod().Finalizers = []string{"f"} }},
}

func TestCyclePodGuards(t *testing.T) { guardsAlone(t, failedPod, cycleMisses) }

// TestAnotherObjectIsNotWhatWasReviewed: a second failed pod has come, and the repair would
// now delete that one.
func TestAnotherObjectIsNotWhatWasReviewed(t *testing.T) {
	m := failedPod(t)
	repairs := m.propose()
	second := m.pod().DeepCopy()
	second.Name, second.UID = "web-1", "uid-web-1"
	m.objects.Pods = append(m.objects.Pods, second)
	a, _ := m.applier()
	results, err := a.Apply(t.Context(), repairs)
	if err != nil || len(results) != 1 || results[0].Guard != repair.GuardReviewed || !strings.Contains(results[0].Detail, "delete pod default/web-1") || len(m.stored) != 0 {
		t.Errorf("%d writes, %+v, %v", len(m.stored), results, err)
	}
}

func TestCyclePod(t *testing.T) {
	m := failedPod(t)
	a, _ := m.applier()
	r := m.only()
	m.looking = func(n int) error {
		if n == 3 {
			m.unused("vol-1")
		}
		return nil
	}
	m.looks = 0
	if results, err := a.Apply(t.Context(), []repair.Repair{r}); err != nil || results[0].Outcome != Repaired || r.Kind != repair.CyclePod || len(m.objects.Pods) != 1 {
		t.Errorf("%+v, %v, %d pods", results, err, len(m.objects.Pods))
	}
}

// orphan: web-0 waits on n1 for vol-1, which the driver has attached to n2
// without the cluster's knowledge.
func orphan(t testing.TB) *memory {
	m := healthy(t)
	m.consent.Allow = []repair.Kind{repair.UnpublishOrphan}
	m.addVolume("n1", "pv1", "vol-1", "web-0")
	va := m.attachment()
	va.Status = storagev1.VolumeAttachmentStatus{AttachError: &storagev1.VolumeError{Message: "VolumeInUse: vol-1 is already attached to an instance i-n2", Time: ago(time.Minute)}}
	n := m.node("n1")
	n.Status.VolumesInUse = append(n.Status.VolumesInUse, uniqueName("vol-1"))
	m.attaches()
	m.followed = &snapshot.Followed{Since: epoch.Add(-11 * time.Minute), Asked: map[string]time.Time{va.Name: epoch.Add(-6 * time.Minute)}}
	return m
}

var orphanMisses = []nearMiss{
	{"nobody follows", "refused-alone", func(m *memory) { m.followed = nil }},
	{"refused once since it is followed", "refused-alone", func(m *memory) { m.followed.Asked = nil }},
	{"refused before it was followed", "refused-alone", func(m *memory) { m.followed.Since = epoch.Add(-6 * time.Minute) }},
	{"another was there when it was refused", "refused-alone", func(m *memory) {
		gone := m.attachment().DeepCopy()
		gone.Name, gone.Spec.NodeName = "by-hand", "n2"
		m.followed.Gone = []snapshot.GoneAttachment{{Last: gone, At: epoch.Add(-6 * time.Minute)}}
	}},
	{"attached to nothing at the storage system", "storage-has-it", listed()},
	{"pods not read", repair.GuardComplete, func(m *memory) { m.gaps = gap(snapshot.Pods, "") }},
	{"new leader", repair.GuardController, func(m *memory) {
		at := metav1.NewMicroTime(epoch.Add(-time.Second))
		m.objects.Leases[0].Spec.AcquireTime = &at
	}},
	{"finding gone", repair.GuardFinding, func(m *memory) { m.attachment().Status.AttachError = nil }},
	{"volume being deleted", "volume-known", func(m *memory) { at := ago(0); m.volume("pv1").DeletionTimestamp = &at }},
	{"driver not on the holder", "holder-known", func(m *memory) { m.objects.CSINodes[1].Spec.Drivers[0].Name = "another" }},
	{"in use on the holder", "not-used", func(m *memory) {
		m.node("n2").Status.VolumesInUse = []corev1.UniqueVolumeName{uniqueName("vol-1")}
	}},
	{"a pod on the holder", "not-used", func(m *memory) {
		other := m.pod().DeepCopy()
		other.Name, other.UID, other.Spec.NodeName = "web-1", "uid-web-1", "n2"
		m.objects.Pods = append(m.objects.Pods, other)
	}},
	{"reported by the holder", "not-reported", func(m *memory) {
		m.node("n2").Status.VolumesAttached = []corev1.AttachedVolume{{Name: uniqueName("vol-1")}}
	}},
	{"there is a record by another name", "none-of-pair", func(m *memory) { m.addAttachment("n2", "pv1", "csi-by-hand").Status.Attached = false }},
	{"attached after all", "nowhere-attached", func(m *memory) { m.attachment().Status.Attached = true }},
	{"attacher gone", "attacher-at-work", func(m *memory) {
		at := metav1.NewMicroTime(epoch.Add(-2 * time.Minute))
		m.objects.Leases[1].Spec.RenewTime = &at
	}},
	{"holder silent", "node-lives", func(m *memory) { m.node("n2").Status.Conditions[0].Status = corev1.ConditionUnknown }},
	{"holder out of service", "node-lives", func(m *memory) {
		m.node("n2").Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
	}},
	{"not allowed", repair.GuardAllowed, func(m *memory) { m.consent.Allow = nil }},
}

func TestUnpublishOrphanGuards(t *testing.T) { guardsAlone(t, orphan, orphanMisses) }

func TestUnpublishOrphan(t *testing.T) {
	m := orphan(t)
	made := reconcile.VolumeAttachmentName("vol-1", driver, "n2")
	m.looking = func(int) error {
		// The attacher has the driver detach the attachment that is being deleted, and then
		// attaches the volume where it is wanted.
		for i, va := range m.objects.VolumeAttachments {
			if va.Name == made && va.DeletionTimestamp != nil {
				m.objects.VolumeAttachments = slices.Delete(slices.Clone(m.objects.VolumeAttachments), i, i+1)
				m.attachment().Status = storagev1.VolumeAttachmentStatus{Attached: true}
				break
			}
		}
		return nil
	}
	a, sink := m.applier()
	r := m.only()
	results, err := a.Apply(t.Context(), []repair.Repair{r})
	if err != nil || results[0].Outcome != Repaired || len(m.stored) != 2 {
		t.Fatalf("%+v, %v, %d writes", results, err, len(m.stored))
	}
	var kinds []string
	for _, e := range sink.entries() {
		kinds = append(kinds, string(e.Type)+" "+string(e.Outcome))
	}
	if diff := cmp.Diff([]string{"intent ", "intent ", "outcome Repaired", "outcome Repaired"}, kinds); diff != "" {
		t.Error(diff)
	}
	for _, undone := range m.undo(a, sink) {
		if undone.Outcome != Skipped || (undone.Guard != "reversible" && undone.Guard != repair.GuardGone) {
			t.Errorf("%+v", undone)
		}
	}
}

// TestUnpublishOrphanLeavesWhatIsWanted: a pod that comes to the node between
// the two writes keeps its volume, and undo takes the first write back later.
func TestUnpublishOrphanLeavesWhatIsWanted(t *testing.T) {
	m := orphan(t)
	other := m.pod().DeepCopy()
	other.Name, other.UID, other.Spec.NodeName = "web-1", "uid-web-1", "n2"
	a, sink := m.applier()
	r := m.only()
	m.looks = 0
	m.looking = func(n int) error {
		if n == 2 {
			m.objects.Pods = append(m.objects.Pods, other)
		}
		return nil
	}
	results, err := a.Apply(t.Context(), []repair.Repair{r})
	if err != nil || results[0].Outcome != Unverified || !strings.Contains(results[0].Detail, "web-1") || len(m.stored) != 1 {
		t.Fatalf("%+v, %v, %d writes", results, err, len(m.stored))
	}
	m.looking = nil
	if undone := m.undo(a, sink); undone[0].Guard != "not-used" {
		t.Errorf("%+v", undone)
	}
	m.objects.Pods = slices.DeleteFunc(m.objects.Pods, func(p *corev1.Pod) bool { return p.Name == "web-1" })
	if undone := m.undo(a, sink); undone[0].Outcome != Undone {
		t.Errorf("%+v", undone)
	}
}

// lostStatefulSet: web-0 of a StatefulSet is Terminating on n1, which is silent.
func lostStatefulSet(t testing.TB) *memory {
	m := healthy(t)
	m.consent = repair.Consent{Allow: []repair.Kind{repair.OutOfServiceTaint}, Fenced: []types.NodeName{"n1"}}
	m.addVolume("n1", "pv1", "vol-1", "web-0")
	yes, deleted := true, ago(20*time.Minute)
	pod := m.pod()
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{running}}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", UID: "u", Controller: &yes}}
	pod.DeletionTimestamp, pod.Finalizers = &deleted, []string{"f"}
	n := m.node("n1")
	n.Status.VolumesInUse = append(n.Status.VolumesInUse, uniqueName("vol-1"))
	n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: uniqueName("vol-1")})
	n.Status.Conditions[0] = corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: ago(30 * time.Minute)}
	n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}}
	return m
}

var taintMisses = []nearMiss{
	{"pods not read", repair.GuardComplete, func(m *memory) { m.gaps = gap(snapshot.Pods, "") }},
	{"finding gone", repair.GuardFinding, func(m *memory) { m.objects.Pods = m.objects.Pods[:1] }},
	{"node made anew", "same-node", func(m *memory) { m.node("n1").UID = "another" }},
	{"too old a release", "release", func(m *memory) { m.release = "v1.25.3" }},
	{"node is back", "not-alive", func(m *memory) { m.node("n1").Status.Conditions[0].Status = corev1.ConditionTrue }},
	{"a claim there is being deleted", "disk-stays", deleteClaim},
	{"not allowed", repair.GuardAllowed, func(m *memory) { m.consent.Allow = nil }},
	{"not said to be off", repair.GuardFenced, func(m *memory) { m.consent.Fenced = nil }},
	{"another said to be off", repair.GuardFenced, func(m *memory) { m.consent.Fenced = []types.NodeName{"n2"} }},
}

func TestTaintGuards(t *testing.T) { guardsAlone(t, lostStatefulSet, taintMisses) }

func TestTaintAndTakeItOff(t *testing.T) {
	m := lostStatefulSet(t)
	before := m.node("n1").DeepCopy()
	a, sink := m.applier()
	r := m.only()
	m.looks = 0
	m.looking = func(n int) error {
		if n == 3 { // the pod goes, and the controller detaches
			m.objects.Pods, m.objects.VolumeAttachments = m.objects.Pods[:1], m.objects.VolumeAttachments[:1]
			m.node("n1").Status.VolumesAttached = m.node("n1").Status.VolumesAttached[:1]
		}
		return nil
	}
	if results, err := a.Apply(t.Context(), []repair.Repair{r}); err != nil || results[0].Outcome != Repaired || !reconcile.OutOfService(m.node("n1")) {
		t.Fatalf("%+v, %v", results, err)
	}
	// The volume that the dead kubelet had mounted is detached: the taint stays until a
	// reboot has cleared the mount.
	if undone := m.undo(a, sink); undone[0].Guard != "no-stale-mount" || undone[0].SafeOnce != "cordon the node; restart the node, and only then take the taint off" {
		t.Errorf("%+v", undone)
	}
	m.unused("vol-1")
	if undone := m.undo(a, sink); undone[0].Outcome != Undone {
		t.Errorf("%+v", undone)
	}
	if diff := cmp.Diff(before.Spec, m.node("n1").Spec); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before.Annotations, m.node("n1").Annotations); diff != "" {
		t.Error(diff)
	}
}

// tainted: n1 is alive under the taint.
func tainted(t testing.TB) *memory {
	m := healthy(t)
	n := m.node("n1")
	added := ago(time.Hour)
	n.Status.Conditions[0].LastTransitionTime = ago(time.Hour)
	n.Spec.Taints = []corev1.Taint{
		{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute, TimeAdded: &added},
		{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoSchedule, TimeAdded: &added},
	}
	return m
}

var untaintMisses = []nearMiss{
	{"pods not read", repair.GuardComplete, func(m *memory) { m.gaps = gap(snapshot.Pods, "") }},
	{"finding gone", repair.GuardFinding, func(m *memory) { m.node("n1").Status.Conditions[0].LastTransitionTime = ago(time.Second) }},
	{"node made anew", "same-node", func(m *memory) { m.node("n1").UID = "another" }},
	{"node not ready", "node-ready", func(m *memory) { m.node("n1").Status.Conditions[0].Status = corev1.ConditionUnknown }},
	{"detached under its mount", "no-stale-mount", func(m *memory) {
		m.objects.VolumeAttachments = nil
		m.node("n1").Status.VolumesAttached = nil
	}},
}

func TestRemoveTaintGuards(t *testing.T) { guardsAlone(t, tainted, untaintMisses) }

func TestRemoveTaint(t *testing.T) {
	m := tainted(t)
	a, _ := m.applier()
	if r := m.one(a); r.Outcome != Repaired {
		t.Errorf("%+v", r)
	}
	if taints := m.node("n1").Spec.Taints; len(taints) != 1 || taints[0].Key != "dedicated" {
		t.Errorf("%+v", taints)
	}
}
