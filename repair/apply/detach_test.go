package apply

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

const ebsFinalizer = "external-attacher/ebs-csi-aws-com"

// dangling: vol-1 is attached to n1, where nothing uses it, and the controller
// has forgotten it; web-0 waits for it on n2.
func dangling(t testing.TB) *memory {
	m := healthy(t)
	m.addVolume("n1", "pv1", "vol-1", "web-0")
	m.pod().Spec.NodeName = "n2"
	m.attachment().Finalizers = []string{ebsFinalizer}
	m.detaches()
	return m
}

// TestUnusedAttachmentsDoNotBlockEachOther: four attachments of one volume that nothing uses
// can each be deleted. One attachment that is used, or may be, blocks the others: some
// drivers would detach the volume there.
func TestUnusedAttachmentsDoNotBlockEachOther(t *testing.T) {
	four := func(t testing.TB) *memory {
		m := dangling(t)
		m.objects.Pods = nil
		for _, node := range []string{"n2", "n3", "n4"} {
			if !slices.ContainsFunc(m.objects.Nodes, func(n *corev1.Node) bool { return n.Name == node }) {
				m.addNode(node)
			}
			m.addAttachment(node, "pv1", reconcile.VolumeAttachmentName("vol-1", driver, types.NodeName(node))).Finalizers = []string{ebsFinalizer}
		}
		return m
	}
	at := func(m *memory, node types.NodeName) *storagev1.VolumeAttachment {
		return m.named(reconcile.VolumeAttachmentName("vol-1", driver, node))
	}
	for _, c := range []struct {
		name   string
		change func(m *memory)
		allow  int
	}{
		{"none is used", func(*memory) {}, 4},
		{"in use on n3", func(m *memory) { m.node("n3").Status.VolumesInUse = []corev1.UniqueVolumeName{uniqueName("vol-1")} }, 0},
		{"listed on n3", func(m *memory) {
			m.node("n3").Status.VolumesAttached = []corev1.AttachedVolume{{Name: uniqueName("vol-1")}}
		}, 0},
		{"n3 is silent", func(m *memory) { m.node("n3").Status.Conditions[0].Status = corev1.ConditionUnknown }, 0},
		{"n3 is gone", func(m *memory) {
			m.objects.Nodes = slices.DeleteFunc(m.objects.Nodes, func(n *corev1.Node) bool { return n.Name == "n3" })
		}, 0},
		{"somebody else's on n3", func(m *memory) {
			at(m, "n3").OwnerReferences = []metav1.OwnerReference{{Kind: "Backup", Name: "nightly"}}
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := four(t)
			c.change(m)
			allowed := 0
			for _, r := range m.propose() {
				if r.Kind == repair.DeleteAttachment && r.BlockedBy == nil {
					allowed++
				}
			}
			if allowed != c.allow {
				t.Errorf("%d repairs are allowed, want %d", allowed, c.allow)
			}
		})
	}
}

// detaches makes the attacher's driver detach immediately.
func (m *memory) detaches() {
	m.after = func(op repair.Operation, dryRun bool) error {
		if op.Verb == repair.VerbDelete && !dryRun {
			m.objects.VolumeAttachments = slices.DeleteFunc(slices.Clone(m.objects.VolumeAttachments),
				func(va *storagev1.VolumeAttachment) bool {
					return va.DeletionTimestamp != nil && va.Name == op.Target.Name
				})
		}
		return nil
	}
}

// comesBack puts web-0 on n1. Where its claim is another's, the controller does not want the
// volume for it.
func (m *memory) comesBack() { m.pod().Spec.NodeName = "n1" }

// stranger has a pod use vol-1 on n1 through a claim that its volume does not point back to:
// the controller does not want the volume there, and the pod runs.
func (m *memory) stranger() {
	m.comesBack()
	m.volume("pv1").Spec.ClaimRef.UID = "another"
	m.pod().Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{running}}
}

func (m *memory) lease(name string) {
	renewed := metav1.NewMicroTime(epoch.Add(-time.Hour))
	for _, lease := range m.objects.Leases {
		if lease.Name == name {
			lease.Spec.RenewTime = &renewed
		}
	}
}

// detachMisses are the near misses for the guards that both kinds of deletion have.
var detachMisses = []nearMiss{
	{"pods not read", repair.GuardComplete, func(m *memory) { m.gaps = gap(snapshot.Pods, "") }},
	{"nodes not read", repair.GuardComplete, func(m *memory) { m.gaps = gap(snapshot.Nodes, "") }},
	{"claims not read", repair.GuardComplete, func(m *memory) { m.gaps = gap(snapshot.Claims, "") }},
	{"volumes not read", repair.GuardComplete, func(m *memory) { m.gaps = gap(snapshot.Volumes, "") }},
	{"attachments not read", repair.GuardComplete, func(m *memory) { m.gaps = gap(snapshot.VolumeAttachments, "") }},
	{"csinodes not read", repair.GuardComplete, func(m *memory) { m.gaps = gap(snapshot.CSINodes, "") }},
	{"csidrivers not read", repair.GuardComplete, func(m *memory) { m.gaps = gap(snapshot.CSIDrivers, "") }},
	{"leases not read", repair.GuardComplete, func(m *memory) { m.gaps = gap(snapshot.Leases, "") }},
	{"new leader", repair.GuardController, func(m *memory) {
		at := metav1.NewMicroTime(epoch.Add(-time.Second))
		m.objects.Leases[0].Spec.AcquireTime = &at
	}},
	{"finding gone", repair.GuardFinding, func(m *memory) { m.attachment().Status.Attached = false }},
	{"made anew", "same-attachment", func(m *memory) { m.attachment().UID = "another" }},
	{"on its way", "not-deleting", func(m *memory) { at := ago(0); m.attachment().DeletionTimestamp = &at }},
	{"owned", "nobody-elses", func(m *memory) {
		m.attachment().OwnerReferences = []metav1.OwnerReference{{Kind: "Backup", Name: "nightly"}}
	}},
	{"managed", "nobody-elses", func(m *memory) {
		m.attachment().Labels = map[string]string{"app.kubernetes.io/managed-by": "mover"}
	}},
	{"somebody's finalizer", "nobody-elses", func(m *memory) {
		m.attachment().Finalizers = append(m.attachment().Finalizers, "example.com/mover")
	}},
	{"pod has come back", "not-wanted", (*memory).comesBack},
	{"pod has come back", "no-live-pod", (*memory).comesBack},
	{"pod runs with a stale claim", "no-live-pod", (*memory).stranger},
	{"pod runs where the controller does not look", "no-live-pod", func(m *memory) {
		m.comesBack()
		m.node("n1").Annotations = nil
	}},
	{"finalizer lost", "driver-is-asked", func(m *memory) { m.attachment().Finalizers = nil }},
	{"volume gone", "driver-is-asked", func(m *memory) { m.objects.Volumes = m.objects.Volumes[:1] }},
	{"volume made anew with another disk", "own-name", func(m *memory) { m.volume("pv1").Spec.CSI.VolumeHandle = "vol-new" }},
	{"a second for the pair", "only-one-there", func(m *memory) { m.addAttachment("n1", "pv1", "by-hand") }},
	{"a second for the pair, inline", "only-one-there", func(m *memory) {
		va := m.addAttachment("n1", "", "by-hand")
		va.Spec.Source = storagev1.VolumeAttachmentSource{InlineVolumeSpec: &m.volume("pv1").DeepCopy().Spec}
	}},
	{"attached elsewhere too", "not-attached-elsewhere", func(m *memory) {
		m.addAttachment("n2", "pv1", reconcile.VolumeAttachmentName("vol-1", driver, "n2"))
	}},
	{"published to another machine", "same-node-id", func(m *memory) { m.attachment().Annotations[reconcile.NodeIDAnnotation] = "i-old" }},
	{"node registered since", "same-machine", func(m *memory) { m.node("n1").CreationTimestamp = ago(time.Minute) }},
	{"attacher away", "attacher-at-work", func(m *memory) { m.lease("external-attacher-leader-ebs-csi-aws-com") }},
	{"driver not installed", "attacher-at-work", func(m *memory) {
		m.objects.Leases, m.objects.CSIDrivers, m.objects.CSINodes = m.objects.Leases[:1], nil, nil
	}},
	{"volume let go, to be deleted", "disk-stays", func(m *memory) {
		pv := m.volume("pv1")
		pv.Spec.PersistentVolumeReclaimPolicy, pv.Status.Phase = corev1.PersistentVolumeReclaimDelete, corev1.VolumeReleased
	}},
	{"volume let go, whose deletion failed", "disk-stays", func(m *memory) {
		pv := m.volume("pv1")
		pv.Spec.PersistentVolumeReclaimPolicy, pv.Status.Phase = corev1.PersistentVolumeReclaimDelete, corev1.VolumeFailed
	}},
	{"volume whose claim is another one now", "disk-stays", func(m *memory) {
		pv := m.volume("pv1")
		pv.Spec.PersistentVolumeReclaimPolicy, pv.Spec.ClaimRef.UID = corev1.PersistentVolumeReclaimDelete, "gone"
	}},
	{"volume being deleted", "disk-stays", func(m *memory) {
		pv, at := m.volume("pv1"), ago(time.Minute)
		pv.Spec.PersistentVolumeReclaimPolicy, pv.DeletionTimestamp = corev1.PersistentVolumeReclaimDelete, &at
	}},
}

// livingMisses are the near misses for a deletion from a node that is alive.
var livingMisses = []nearMiss{
	{"node gone", "node-lives", func(m *memory) { m.objects.Nodes = m.objects.Nodes[1:] }},
	{"node not ready", "node-lives", func(m *memory) { m.node("n1").Status.Conditions[0].Status = corev1.ConditionUnknown }},
	{"node out of service", "node-lives", func(m *memory) {
		m.node("n1").Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService}}
	}},
	{"in use", "not-in-use", func(m *memory) {
		n := m.node("n1")
		n.Status.VolumesInUse = append(n.Status.VolumesInUse, uniqueName("vol-1"))
	}},
	{"listed", "not-listed", func(m *memory) {
		n := m.node("n1")
		n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: uniqueName("vol-1")})
	}},
}

func TestDeleteAttachmentGuards(t *testing.T) {
	guardsAlone(t, dangling, slices.Concat(detachMisses, livingMisses))
}

func TestDeleteAttachment(t *testing.T) {
	m := dangling(t)
	a, sink := m.applier()
	r := m.only()
	if r.Kind != repair.DeleteAttachment || r.Finding.Code != "VD101" || r.Risk != repair.RiskMedium || r.Undo != nil || r.WhyNot == "" {
		t.Fatalf("%+v", r)
	}
	va := m.attachment()
	want := `printf %s '{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"` + string(va.UID) + `"}}' | ` +
		"kubectl delete --raw /apis/storage.k8s.io/v1/volumeattachments/" + va.Name + " -f -"
	if got := r.Do.Kubectl(); got != want {
		t.Error(got)
	}
	results, err := a.Apply(t.Context(), []repair.Repair{r})
	if err != nil || results[0].Outcome != Repaired || results[0].Detail != "" {
		t.Fatalf("%+v, %v", results, err)
	}
	var kept storagev1.VolumeAttachment
	if err := json.Unmarshal(sink.entries()[0].PreImage, &kept); err != nil || kept.Name != va.Name || kept.Spec.NodeName != "n1" {
		t.Errorf("the journal keeps %s, %v", sink.entries()[0].PreImage, err)
	}
	if undone := m.undo(a, sink); undone[0].Guard != "reversible" || !strings.Contains(undone[0].Detail, "delete-attachment cannot be taken back") {
		t.Errorf("undo: %+v", undone)
	}
}

// TestDeleteAttachmentPostChecks: a deletion counts only once the object is
// gone, and stays gone.
func TestDeleteAttachmentPostChecks(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(m *memory)
		outcome Outcome
		detail  string
	}{
		"nobody detaches": {func(*memory) {}, Unverified, "the attacher has not detached the volume yet"},
		"the driver refuses": {func(m *memory) {
			m.attachment().Status.DetachError = &storagev1.VolumeError{Time: metav1.NewTime(m.now), Message: "device is busy"}
		}, Unverified, "the driver refuses to detach the volume: device is busy"},
		"it comes back": {func(m *memory) { m.attachment().UID, m.attachment().DeletionTimestamp = "another", nil }, Unverified, "something has overwritten it since"},
		"a pod has come for it": {func(m *memory) {
			m.comesBack()
			m.attachment().UID, m.attachment().DeletionTimestamp = "another", nil
		}, Repaired, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := dangling(t)
			m.after = nil
			r := m.only()
			m.looking = func(n int) error {
				if n == 2 {
					test.happens(m)
				}
				return nil
			}
			a, _ := m.applier()
			m.looks = 0
			results, err := a.Apply(t.Context(), []repair.Repair{r})
			if err != nil || results[0].Outcome != test.outcome || results[0].Detail != test.detail {
				t.Errorf("%+v, %v", results, err)
			}
		})
	}
}

// byHand has a VolumeAttachment whose name is not the controller's; the user says that nobody
// uses it.
func byHand(t testing.TB) *memory {
	m := dangling(t)
	m.objects.VolumeAttachments = m.objects.VolumeAttachments[:1]
	m.addAttachment("n1", "pv1", "by-hand").Finalizers = []string{ebsFinalizer}
	m.volume("pv1").CreationTimestamp = ago(24 * time.Hour)
	m.consent.Allow = []repair.Kind{repair.DeleteAttachment}
	return m
}

func (m *memory) named(name string) *storagev1.VolumeAttachment {
	for _, va := range m.objects.VolumeAttachments {
		if va.Name == name {
			return va
		}
	}
	m.t.Fatalf("no VolumeAttachment %s", name)
	return nil
}

func TestForeignAttachmentGuards(t *testing.T) {
	m := byHand(t)
	r := m.only()
	if r.Finding.Code != "VD120" || r.Kind != repair.DeleteAttachment {
		t.Fatalf("%+v", r)
	}
	for _, miss := range []nearMiss{
		{"not allowed", repair.GuardAllowed, func(m *memory) { m.consent.Allow = nil }},
		{"older than its volume", "own-name", func(m *memory) { m.volume("pv1").CreationTimestamp = ago(time.Minute) }},
		{"beside the controller's", "only-one-there", func(m *memory) {
			m.addAttachment("n1", "pv1", reconcile.VolumeAttachmentName("vol-1", driver, "n1"))
		}},
		{"restored", "nobody-elses", func(m *memory) {
			m.named("by-hand").OwnerReferences = []metav1.OwnerReference{{Kind: "Restore", Name: "monday"}}
		}},
	} {
		t.Run(miss.name, func(t *testing.T) {
			m := byHand(t)
			r := m.only()
			miss.change(m)
			r.Guards = slices.DeleteFunc(r.Guards, func(g repair.Guard) bool { return g.Name != miss.guard })
			a, _ := m.applier()
			results, err := a.Apply(t.Context(), []repair.Repair{r})
			if err != nil || results[0].Guard != miss.guard || len(m.stored) != 0 {
				t.Errorf("%+v, %v", results, err)
			}
		})
	}
}

// lostNode: n1 has fallen silent with vol-1 on it, its pod is gone, web-0 waits on n2, and
// the user says that n1 is off. The controller would detach by itself.
func lostNode(t testing.TB) *memory {
	m := dangling(t)
	n := m.node("n1")
	n.Status.Conditions[0].Status, n.Status.Conditions[0].LastTransitionTime = corev1.ConditionUnknown, ago(3*time.Minute)
	n.Status.VolumesInUse = append(n.Status.VolumesInUse, uniqueName("vol-1"))
	n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: uniqueName("vol-1")})
	m.objects.Pods = slices.DeleteFunc(m.objects.Pods, func(p *corev1.Pod) bool { return p.Name == "web-x" })
	m.pod().CreationTimestamp = ago(2 * time.Minute)
	m.consent.Fenced = []types.NodeName{"n1"}
	attacher := m.after
	m.after = func(op repair.Operation, dryRun bool) error { // the controller's next sync
		if op.Verb == repair.VerbDelete && !dryRun {
			m.rewrite("n1", "kube-controller-manager", func(n *corev1.Node) { n.Status.VolumesAttached = n.Status.VolumesAttached[:1] })
		}
		return attacher(op, dryRun)
	}
	return m
}

func TestDeleteFencedAttachmentGuards(t *testing.T) {
	misses := slices.DeleteFunc(slices.Clone(detachMisses), func(miss nearMiss) bool {
		// On a lost node a pod stands in the way whether the controller counts it or not.
		return miss.name == "pod runs where the controller does not look"
	})
	guardsAlone(t, lostNode, append(misses,
		nearMiss{"node is back", "not-alive", func(m *memory) { m.node("n1").Status.Conditions[0].Status = corev1.ConditionTrue }},
		nearMiss{"not said to be off", repair.GuardFenced, func(m *memory) { m.consent.Fenced = nil }},
		nearMiss{"another said to be off", repair.GuardFenced, func(m *memory) { m.consent.Fenced = []types.NodeName{"n2"} }},
	))
}

func TestDeleteFencedAttachment(t *testing.T) {
	m := lostNode(t)
	a, _ := m.applier()
	r := m.only()
	if r.Kind != repair.DeleteFencedAttachment || r.Finding.Code != "VD102" || !r.Finding.SelfHeals.Will || r.Risk != repair.RiskHigh || !r.RestsOnFencing() || r.Undo != nil {
		t.Fatalf("%+v", r)
	}
	if results, err := a.Apply(t.Context(), []repair.Repair{r}); err != nil || results[0].Outcome != Repaired {
		t.Errorf("%+v, %v", results, err)
	}
}

// TestFencedAsksForTheWord: the report names the consent that the user would have to give,
// also while the finding would heal by itself.
func TestFencedAsksForTheWord(t *testing.T) {
	m := lostNode(t)
	m.consent = repair.Consent{}
	v, repairs := m.view()
	if len(repairs) != 0 {
		t.Fatalf("%+v", repairs)
	}
	if got := v.Report.Findings[0].Repair; got == nil || got.Kind != string(repair.DeleteFencedAttachment) || !strings.Contains(got.BlockedBy, "--fenced n1") {
		t.Errorf("%+v", got)
	}
}

// TestCloudsWord: the word of a cloud's controller that the machine is stopped counts as much
// as the user's, but is no reason not to wait.
func TestCloudsWord(t *testing.T) {
	stopped := func(m *memory) {
		m.consent = repair.Consent{}
		m.node("n1").Spec.Taints = []corev1.Taint{{Key: reconcile.ShutdownTaint}}
	}
	m := lostNode(t)
	stopped(m)
	if _, repairs := m.view(); len(repairs) != 0 {
		t.Errorf("it heals by itself, and is repaired: %+v", repairs)
	}
	m = lostNode(t)
	stopped(m)
	m.node("n1").Status.Conditions[0].LastTransitionTime = ago(time.Hour)
	m.pod().CreationTimestamp = ago(time.Hour) // overdue
	r := m.only()
	if r.Kind != repair.DeleteFencedAttachment {
		t.Errorf("%+v", r)
	}
	m.node("n1").Status.Conditions[0].Status = corev1.ConditionTrue
	v, _ := m.view()
	fenced := slices.IndexFunc(r.Guards, func(g repair.Guard) bool { return g.Name == repair.GuardFenced })
	if fenced < 0 || r.Guards[fenced].Check(v, &r) == nil {
		t.Error("the taint that is left on a node that is Ready counts")
	}
}
