package repair

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestDetachesOfTheCorpus checks, for cases of the corpus, which kind of repair answers a
// finding and which guard stops it.
func TestDetachesOfTheCorpus(t *testing.T) {
	n1 := Consent{Fenced: []types.NodeName{"n1"}}
	strip := Consent{Allow: []Kind{StripFinalizer}}
	both := Consent{Allow: strip.Allow, Fenced: n1.Fenced}
	// seen adds the user's statement that the storage system has nothing attached there.
	seen := func(c Consent) Consent {
		c.Detached = []string{"all"}
		return c
	}
	for _, c := range []struct {
		name    string
		code    finding.Code
		consent Consent
		kind    Kind
		guard   string // the guard that refuses; "" for none
	}{
		{"vd101-next-pod-waits", "VD101", Consent{}, DeleteAttachment, ""},
		{"vd113-forgotten", "VD101", Consent{}, DeleteAttachment, ""},
		{"vd125-near-same-machine", "VD101", Consent{}, DeleteAttachment, "same-machine"},
		{"vd125-near-new-id-format", "VD101", Consent{}, DeleteAttachment, "same-node-id"},
		{"vd502-near-dangling", "VD101", Consent{}, DeleteAttachment, "disk-stays"},
		{"vd105-pod-moved", "VD105", Consent{}, DeleteAttachment, "not-attached-elsewhere"},
		{"vd105-claim-deleted", "VD105", Consent{}, DeleteAttachment, "disk-stays"},
		{"vd108-several", "VD108", Consent{}, DeleteAttachment, ""},
		{"vd119-no-finalizer", "VD119", Consent{}, DeleteAttachment, "driver-is-asked"},
		{"vd119-forgotten", "VD119", both, DeleteAttachment, "driver-is-asked"},
		{"vd119-pod-runs", "VD119", both, DeleteAttachment, "no-live-pod"},
		{"vd120-nobody-s", "VD120", Consent{}, DeleteAttachment, GuardAllowed},
		{"vd120-nobody-s", "VD120", Consent{Allow: []Kind{DeleteAttachment}}, DeleteAttachment, ""},
		{"vd120-owner-known", "VD120", Consent{Allow: []Kind{DeleteAttachment}}, DeleteAttachment, "nobody-elses"},
		{"vd120-beside-the-controllers", "VD120", Consent{Allow: []Kind{DeleteAttachment}}, DeleteAttachment, "not-wanted"},
		{"vd120-restored", "VD120", Consent{}, DeleteFencedAttachment, GuardFenced},
		{"vd120-restored", "VD120", n1, DeleteFencedAttachment, ""},
		{"vd508-next-pod-waits", "VD508", Consent{}, DeleteAttachment, ""},
		{"vd509-release-overlooks", "VD509", Consent{}, DeleteAttachment, ""},
		{"vd102-count-down", "VD102", Consent{}, DeleteFencedAttachment, GuardFenced},
		{"vd102-count-down", "VD102", n1, DeleteFencedAttachment, ""},
		{"vd102-node-gone", "VD102", n1, DeleteFencedAttachment, ""},
		{"vd102-overdue", "VD102", Consent{Fenced: []types.NodeName{"n2"}}, DeleteFencedAttachment, GuardFenced},
		{"vd111-shut-down", "VD111", n1, DeleteFencedAttachment, ""},
		{"vd112-removal-seen", "VD112", n1, DeleteFencedAttachment, ""},
		{"vd112-attached-elsewhere", "VD112", n1, DeleteFencedAttachment, "not-attached-elsewhere"},
		{"vd117-preempted", "VD117", n1, DeleteFencedAttachment, ""},
		{"vd117-near-on-demand", "VD102", Consent{}, DeleteFencedAttachment, ""}, // the cloud says that it is stopped
		{"vd118-woken", "VD118", n1, DeleteFencedAttachment, GuardFenced},
		{"vd118-woken", "VD118", Consent{Fenced: []types.NodeName{"old-1"}}, DeleteFencedAttachment, ""},
		{"vd119-deleting", "VD119", Consent{}, StripFinalizer, GuardDetached},
		{"vd119-deleting", "VD119", strip, StripFinalizer, GuardDetached},
		{"vd119-deleting", "VD119", seen(Consent{}), StripFinalizer, GuardAllowed},
		{"vd119-deleting", "VD119", seen(strip), StripFinalizer, ""},
		{"vd119-node-gone", "VD119", seen(strip), StripFinalizer, GuardFenced},
		{"vd119-node-gone", "VD119", both, StripFinalizer, GuardDetached},
		{"vd119-node-gone", "VD119", seen(both), StripFinalizer, ""},
		{"vd108-being-deleted", "VD108", seen(strip), StripFinalizer, GuardFenced},
		{"vd108-being-deleted", "VD108", both, StripFinalizer, GuardDetached},
		{"vd108-being-deleted", "VD108", seen(both), StripFinalizer, ""},
		{"vd502-nobody-uses-it", "VD502", Consent{}, DeleteAttachment, "disk-stays"},
		{"vd502-kept", "VD502", Consent{}, DeleteAttachment, ""},
		{"vd510-handle-with-caret", "VD510", Consent{}, DeleteAttachment, "not-wanted"},
		{"vd510-caret-next-pod-waits", "VD510", Consent{}, DeleteAttachment, ""},
		{"vd103-under-an-image-pull", "VD103", Consent{}, Nudge, "not-mounted"},
		{"vd503-nothing-attached", "VD503", Consent{}, TouchVolume, ""},
		{"vd503-attacher-down", "VD503", Consent{}, TouchVolume, "only-finalizer"},
		{"vd604-what-follows", "VD503", Consent{}, TouchVolume, "attacher-at-work"},
		{"vd612-what-follows", "VD503", Consent{}, TouchVolume, "attacher-at-work"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := corpusCase(t, c.name)
			if c.consent.Detached != nil {
				c.consent.Detached = nil
				for _, va := range s.VolumeAttachments {
					c.consent.Detached = append(c.consent.Detached, va.Name)
				}
			}
			v := Look(s, diagnose.Options{}, c.consent)
			propose(v)
			i := slices.IndexFunc(v.Report.Findings, func(f finding.Finding) bool { return f.Code == c.code })
			if i < 0 {
				t.Fatalf("no %s", c.code)
			}
			r := choose(v, v.Report.Findings[i])
			if r == nil || r.Kind != c.kind {
				t.Fatalf("%+v", r)
			}
			if guard := ""; r.BlockedBy != nil || c.guard != "" {
				if r.BlockedBy != nil {
					guard = r.BlockedBy.Guard
				}
				if guard != c.guard {
					t.Errorf("refused by %+v, not by %q", r.BlockedBy, c.guard)
				}
			}
		})
	}
}

func corpusCase(t *testing.T, name string) *snapshot.Snapshot {
	t.Helper()
	c, err := testcases.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestNothingIsTakenFromAPodThatMayUseIt: in every case of the corpus each pod in turn is
// made to have its volumes and to wait for its image. No repair that ends in a detach, or
// hurries one, is then offered for a volume of the pod on its node.
func TestNothingIsTakenFromAPodThatMayUseIt(t *testing.T) {
	detaching := []Kind{Nudge, Republish, CreateAttachment, DeleteAttachment, DeleteFencedAttachment, UnpublishOrphan, StripFinalizer}
	offered := 0
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		whole, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		for pulling, pod := range whole.Pods {
			if pod.Spec.NodeName == "" || reconcile.PodTerminated(pod) {
				continue
			}
			pod = pod.DeepCopy()
			objects := whole.Objects
			objects.Pods = slices.Clone(objects.Pods)
			objects.Pods[pulling] = pod
			s := snapshot.New(whole.TakenAt, whole.Source, objects, whole.Gaps)
			s.Backends, s.Controller = whole.Backends, whole.Controller
			pod.Status.Phase = corev1.PodPending
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}},
			}}
			v := Look(s, diagnose.Options{}, Consent{})
			for _, r := range propose(v) {
				if !slices.Contains(detaching, r.Kind) {
					continue
				}
				offered++
				node := r.Finding.Node
				if r.Kind == UnpublishOrphan {
					node = r.Finding.Holder
				}
				if string(node) == pod.Spec.NodeName && v.Facts.Mounts(pod, r.Finding.Volume) {
					t.Errorf("%s: %s is offered though pod %s may use the volume: %s", c.Name, r.Kind, pod.Name, r.Finding.Message)
				}
			}
		}
	}
	if offered == 0 {
		t.Error("no repair that detaches is offered at all")
	}
}
