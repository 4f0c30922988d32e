package modes_test

import (
	"context"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubelet"
)

// unbound is the story of a pod whose claim asks for a class and is never bound.
func unbound(class func(ctx context.Context, s *stage) string) func(context.Context, *stage) {
	return func(ctx context.Context, s *stage) {
		s.nodes(ctx, "a")
		name := class(ctx, s)
		s.claim(ctx, func(claim *corev1.PersistentVolumeClaim) { claim.Spec.StorageClassName = &name })
		s.pod(ctx, "web-0", "a")
		s.waits(ctx, "web-0")
	}
}

// claim makes the claim "data" without a volume.
func (s *stage) claim(ctx context.Context, change func(*corev1.PersistentVolumeClaim)) {
	s.do(func() error { return fixture.Claim(ctx, s.client, s.name, fixture.Volume{Claim: "data"}, change) })
}

// boundTo makes a claim look as if it had been bound to the volume and came from a backup.
func boundTo(volume string) func(*corev1.PersistentVolumeClaim) {
	return func(claim *corev1.PersistentVolumeClaim) {
		claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
		claim.Spec.VolumeName = volume
	}
}

func (s *stage) storageClass(ctx context.Context, mode storagev1.VolumeBindingMode) string {
	name := "class-" + s.name
	s.do(func() error {
		_, err := s.client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: csidriver.Name, VolumeBindingMode: &mode,
		}, metav1.CreateOptions{})
		return err
	})
	return name
}

var claimModes = []mode{
	{
		name: "class-missing", check: "claim-not-bound",
		story:   "A claim names a storage class that does not exist.",
		provoke: unbound(func(context.Context, *stage) string { return "fast" }),
	},
	{
		name: "nobody-provisions", check: "claim-not-bound", later: true,
		story: "A claim's class names a driver whose provisioner does not run.",
		provoke: unbound(func(ctx context.Context, s *stage) string {
			return s.storageClass(ctx, storagev1.VolumeBindingImmediate)
		}),
	},
	{
		name: "past-the-scheduler", check: "claim-not-bound",
		story: "A claim waits for the scheduler to choose a node, and its pod is put on one without it.",
		provoke: unbound(func(ctx context.Context, s *stage) string {
			return s.storageClass(ctx, storagev1.VolumeBindingWaitForFirstConsumer)
		}),
	},
	{
		name: "policy-denies", check: "attachment-denied",
		story: "An admission policy denies the controller's VolumeAttachments.",
		provoke: func(ctx context.Context, s *stage) {
			s.denyAttachments(ctx)
			s.nodes(ctx, "a")
			s.volume(ctx, "data", nil)
			s.pod(ctx, "web-0", "a")
			s.waits(ctx, "web-0")
		},
	},
	{
		name: "volume-not-restored", check: "pvc-lost-or-double-claim", announced: true,
		story: "A backup brings a claim back without its volume.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			s.claim(ctx, boundTo("pv-"+s.name))
			s.claimIs(ctx, "data", corev1.ClaimLost)
			s.pod(ctx, "web-0", "a")
			s.waits(ctx, "web-0")
		},
	},
	{
		name: "volume-claimed-twice", check: "pvc-lost-or-double-claim", announced: true,
		story: "A backup brings a claim back whose volume another claim has meanwhile.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			v := s.volume(ctx, "other", nil)
			s.claim(ctx, boundTo(v.PersistentVolume))
			s.claimIs(ctx, "data", corev1.ClaimLost)
			s.pod(ctx, "web-0", "a")
			s.waits(ctx, "web-0")
		},
	},
	{
		name: "handle-changed", check: "pv-recreated-under-va",
		story: "A PersistentVolume is deleted past its finalizers and created again with another disk, while the old disk is attached.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			v := s.running(ctx, "web-0")
			s.recreateVolume(ctx, v, func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeHandle += "-new" })
		},
	},
	{
		name: "foreign-zone", check: "topology-mismatch", aged: true,
		story: "A pod is put past the scheduler on a node that its volume's node affinity excludes.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			v := s.volume(ctx, "data", func(pv *corev1.PersistentVolume) {
				pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"zone-b"}}},
				}}}}
			})
			s.failMount("a", v.PersistentVolume, kubelet.MountFailed("MountVolume.NodeAffinity check failed", v.PersistentVolume, "no matching NodeSelectorTerms"))
			s.pod(ctx, "web-0", "a")
			s.waits(ctx, "web-0")
		},
	},
	{
		name: "second-attachment", check: "silent-double-use",
		story: "A restore brings back the VolumeAttachment of a volume that runs on another node meanwhile, and the attacher obeys.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a", "b")
			v := s.running(ctx, "web-0")
			s.createAttachment(ctx, v.AttachmentName(s.nodeName("b")), "b", v)
			s.attachment(ctx, "b", v, "attached", attached)
		},
	},
}

// attached reports whether the volume is attached.
func attached(a fixture.AttachmentState) bool { return a.Attached() }

// unmanage removes the annotation with which a kubelet leaves attaching to the controller.
func (s *stage) unmanage(ctx context.Context, node string) {
	s.do(func() error {
		patch := `{"metadata":{"annotations":{"volumes.kubernetes.io/controller-managed-attach-detach":null}}}`
		_, err := s.client.CoreV1().Nodes().Patch(ctx, s.nodeName(node), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	})
}

func (s *stage) claimIs(ctx context.Context, name string, phase corev1.PersistentVolumeClaimPhase) {
	s.await(ctx, fixture.Condition{What: fmt.Sprintf("claim %s is %s", name, phase), Check: func(ctx context.Context) (bool, []runtime.Object, error) {
		claim, err := s.client.CoreV1().PersistentVolumeClaims(s.name).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, nil, err
		}
		return claim.Status.Phase == phase, []runtime.Object{claim}, nil
	}})
}

// recreateVolume deletes the PersistentVolume in spite of its finalizers and makes it again,
// changed and bound as before.
func (s *stage) recreateVolume(ctx context.Context, v fixture.Volume, change func(*corev1.PersistentVolume)) {
	volumes := s.client.CoreV1().PersistentVolumes()
	s.do(func() error {
		pv, err := volumes.Get(ctx, v.PersistentVolume, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := volumes.Delete(ctx, pv.Name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		if _, err := volumes.Patch(ctx, pv.Name, types.MergePatchType, noFinalizers, metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		// The creation times of objects have whole seconds: the new object must be younger
		// than any attachment of the old one.
		second := time.Now().Unix()
		if err := fixture.Await(ctx, fixture.Condition{What: "the next second", Check: func(context.Context) (bool, []runtime.Object, error) {
			return time.Now().Unix() > second, nil, nil
		}}); err != nil {
			return err
		}
		again := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: pv.Name, Annotations: pv.Annotations}, Spec: pv.Spec}
		change(again)
		_, err = volumes.Create(ctx, again, metav1.CreateOptions{})
		return err
	})
}

// denyAttachments makes a policy that denies VolumeAttachments of the stage's nodes.
func (s *stage) denyAttachments(ctx context.Context) {
	policies := s.client.AdmissionregistrationV1()
	s.do(func() error {
		fail := admissionv1.Fail
		_, err := policies.ValidatingAdmissionPolicies().Create(ctx, &admissionv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: s.name},
			Spec: admissionv1.ValidatingAdmissionPolicySpec{
				FailurePolicy: &fail,
				MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{"storage.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"volumeattachments"}},
				}}}},
				Validations: []admissionv1.Validation{{
					Expression: fmt.Sprintf("!object.spec.nodeName.startsWith(%q)", s.name), Message: "this node takes no volumes",
				}},
			},
		}, metav1.CreateOptions{})
		return err
	})
	s.do(func() error {
		_, err := policies.ValidatingAdmissionPolicyBindings().Create(ctx, &admissionv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: s.name},
			Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: s.name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			},
		}, metav1.CreateOptions{})
		return err
	})
	// The API server enforces a policy some time after its creation.
	s.await(ctx, fixture.Condition{What: "the policy denies", Check: func(ctx context.Context) (bool, []runtime.Object, error) {
		volume := "none"
		_, err := s.client.StorageV1().VolumeAttachments().Create(ctx, &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: "probe-" + s.name},
			Spec: storagev1.VolumeAttachmentSpec{
				Attacher: s.driver, NodeName: s.nodeName("a"), Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume},
			},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && apierrors.IsInvalid(err) || apierrors.IsForbidden(err), nil, nil
	}})
}
