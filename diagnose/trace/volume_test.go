package trace_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/testworld"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

func TestTraceClaims(t *testing.T) {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	class := "fast"
	unbound := func(change func(*testworld.World)) *testworld.World {
		w := testworld.New().Pending(9).Unattached()
		w.Volumes, w.Claims[0].Spec.VolumeName, w.Claims[0].Status.Phase = nil, "", corev1.ClaimPending
		w.Claims[0].Spec.StorageClassName, w.Claims[0].CreationTimestamp = &class, testworld.MinutesAgo(9)
		w.StorageClasses = []*storagev1.StorageClass{{ObjectMeta: testworld.Meta("", class), Provisioner: testworld.Driver, VolumeBindingMode: &mode}}
		change(w)
		return w
	}
	const notBound = "Unable to attach or mount volumes: unmounted volumes=[data], " +
		"unattached volumes=[], failed to process volumes=[data]: error processing PVC default/data: PVC is not bound"
	notInUse := func(w *testworld.World) { w.Node.Status.VolumesInUse = nil }
	for _, c := range []traceCase{
		{name: "claim missing", world: testworld.With(testworld.New().Pending(9), func(w *testworld.World) { w.Claims = nil }), verdict: "stuck claimBound",
			chain: "+scheduled !claimBound^late ~mounted", says: []string{"claim default/data does not exist"}},
		{name: "PV missing", world: testworld.With(testworld.New().Pending(9), func(w *testworld.World) { w.Volumes = nil }), verdict: "stuck claimBound", says: []string{"pv-data, which does not exist"}},
		{name: "claimRef of another", world: testworld.With(testworld.New().Pending(9), func(w *testworld.World) { w.Volumes[0].Spec.ClaimRef.UID = "x" }), verdict: "stuck claimBound",
			says: []string{"is bound to a claim with uid x"}},
		{name: "claim lost", world: testworld.With(testworld.New().Pending(9), func(w *testworld.World) { w.Claims[0].Status.Phase = corev1.ClaimLost }), verdict: "stuck claimBound"},
		{name: "waits for the scheduler", world: unbound(func(w *testworld.World) { w.Pod.Spec.NodeName = "" }), verdict: "none Unscheduled"},
		{name: "put past the scheduler", world: unbound(func(*testworld.World) {}), verdict: "stuck claimBound", says: []string{"spec.nodeName"}},
		{name: "being provisioned", world: unbound(func(w *testworld.World) {
			w.Pod.Spec.NodeName, w.Claims[0].CreationTimestamp = "", testworld.MinutesAgo(1)
			w.Claims[0].Annotations = map[string]string{"volume.kubernetes.io/selected-node": "n1"}
		}), verdict: "in-flight claimBound", says: []string{"the provisioner of ebs.csi.aws.com", "for node n1"}},
		{name: "provisioning fails", world: unbound(func(w *testworld.World) {
			w.Pod.Spec.NodeName = ""
			w.Claims[0].Annotations = map[string]string{"volume.kubernetes.io/selected-node": "n1"}
			w.Event("ProvisioningFailed", "quota exceeded", 2)
			w.Events[0].InvolvedObject.UID = "uid-data"
		}), verdict: "stuck claimBound", says: []string{"quota exceeded"}},
		{name: "no such class", world: unbound(func(w *testworld.World) { w.Pod.Spec.NodeName, w.StorageClasses = "", nil }), verdict: "stuck claimBound",
			says: []string{"storage class fast, which does not exist"}},
		{name: "ephemeral of another pod", world: testworld.With(testworld.New().Pending(9), func(w *testworld.World) {
			w.Pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}
			w.Claims[0].Name = "app-data"
		}), verdict: "stuck claimBound", says: []string{"belongs to another"}},
		{name: "not taken up", world: testworld.New().Pending(9).Event("FailedMount", notBound, 5).SaidAgain(),
			verdict: "stuck askedFor", says: []string{"the kubelet has not taken the volume up, and no mount was tried"}},
		{name: "taken up since", world: testworld.New().Pending(19).Event("FailedMount", notBound, 5), verdict: "stuck mounted",
			chain: attached + "?staged ~mounted^late"},
		{name: "bound since, and not reported in use", world: testworld.With(testworld.New().Pending(19).Event("FailedMount", notBound, 5), notInUse), verdict: "stuck askedFor",
			says: []string{"volumesInUse of n1 lacks it"}},
		{name: "not bound a moment ago, and not reported in use", world: testworld.With(testworld.New().Pending(19).Event("FailedMount", notBound, 5).SaidAgain(), notInUse),
			verdict: "stuck askedFor", says: []string{"the kubelet could not take the volume up"}},
		{name: "never taken up, and not reported in use", world: testworld.With(testworld.New().Pending(19).Event("FailedMount", "Unable to attach or mount volumes: "+
			"unmounted volumes=[data], unattached volumes=[], failed to process volumes=[data]: volume data has volumeMode Block, but is specified in volumeMounts", 5), notInUse),
			verdict: "stuck askedFor", says: []string{"the kubelet could not take the volume up"}},
		{name: "unattached, as the kubelet says", world: testworld.New().Pending(9).Unattached().Event("FailedMount", "Unable to attach or mount volumes: unmounted volumes=[data], "+
			"unattached volumes=[data], failed to process volumes=[]: timed out waiting for the condition", 5), verdict: "stuck attached"},
		{name: "attached since", world: testworld.New().Pending(9).Event("FailedMount", "Unable to attach or mount volumes: unmounted volumes=[data], "+
			"unattached volumes=[data], failed to process volumes=[]: timed out waiting for the condition", 5), verdict: "stuck mounted",
			chain: attached + "?staged ~mounted^late"},
		{name: "wrong mode", world: testworld.With(testworld.New().Pending(9), func(w *testworld.World) {
			block := corev1.PersistentVolumeBlock
			w.Volumes[0].Spec.VolumeMode, w.Node.Status.VolumesInUse = &block, nil
		}), verdict: "stuck askedFor", says: []string{"volumeMode Block"}},
	} {
		t.Run(c.name, c.run)
	}
}

func TestTraceKinds(t *testing.T) {
	no := false
	source := func(s corev1.VolumeSource) *testworld.World {
		return testworld.With(testworld.New().Pending(0.2), func(w *testworld.World) { w.Pod.Spec.Volumes[0].VolumeSource = s })
	}
	for _, c := range []traceCase{
		{name: "secret", world: source(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}), verdict: "in-flight mounted", chain: "+scheduled ~mounted^"},
		{name: "emptyDir", world: source(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}), verdict: "in-flight mounted", chain: "+scheduled ~mounted^"},
		{name: "nfs", world: source(corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}), verdict: "in-flight mounted", chain: "+scheduled ~mounted^"},
		{name: "inline csi", world: source(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: testworld.Driver}}), verdict: "in-flight mounted",
			chain: "+scheduled +driverRegistered ~mounted^"},
		{name: "not attached", world: testworld.With(testworld.New().Pending(0.2).Unattached(), func(w *testworld.World) { w.CSIDrivers[0].Spec.AttachRequired = &no }),
			verdict: "in-flight mounted", chain: "+scheduled +claimBound +driverRegistered ?staged ~mounted^"},
		{name: "iscsi", world: source(corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{TargetPortal: "1.2.3.4", IQN: "iqn", Lun: 1}}),
			verdict: "in-flight attached", chain: "+scheduled ~askedFor ~attached^ ~listed ~mounted", says: []string{"has no VolumeAttachment"}},
	} {
		t.Run(c.name, c.run)
	}
}

func TestTraceGaps(t *testing.T) {
	for _, c := range []traceCase{
		{name: "claims", world: testworld.With(testworld.New().Pending(9).Without(snapshot.Claims), func(w *testworld.World) { w.Claims = nil }), verdict: "unknown claimBound"},
		{name: "claims elsewhere", world: testworld.With(testworld.New().Pending(9), func(w *testworld.World) {
			w.Claims, w.Gaps = nil, []snapshot.Gap{{Kind: snapshot.Claims, Namespace: "default", Reason: snapshot.ReasonForbidden}}
		}), verdict: "stuck claimBound"},
		{name: "volumes", world: testworld.With(testworld.New().Pending(9).Without(snapshot.Volumes), func(w *testworld.World) { w.Volumes = nil }), verdict: "unknown claimBound"},
		{name: "attachments", world: testworld.New().Pending(9).Unattached().Without(snapshot.VolumeAttachments), verdict: "unknown attached",
			chain: "+scheduled +claimBound +askedFor ?attached^ ?listed +driverRegistered ?staged ?mounted"},
		{name: "nodes", world: testworld.With(testworld.New().Pending(9).Without(snapshot.Nodes), func(w *testworld.World) { w.Nodes = nil }), verdict: "unknown NodeNotRead"},
		{name: "events", world: testworld.New().Pending(9).Without(snapshot.Events), verdict: "unknown staged"},
		{name: "drivers", world: testworld.With(testworld.New().Pending(9).Unattached().Without(snapshot.CSIDrivers), func(w *testworld.World) {
			w.CSIDrivers, w.Node.Status.VolumesInUse = nil, nil
		}), verdict: "unknown attached"},
		{name: "all but the pod, which runs", world: testworld.With(testworld.New().Without(snapshot.Kinds()...), func(w *testworld.World) {
			w.Objects = snapshot.Objects{Pods: w.Pods}
		}), verdict: "none Mounted"},
		{name: "attach fails, and no events", world: testworld.With(testworld.New().Pending(9).Unattached().Without(snapshot.Events), func(w *testworld.World) {
			va := testworld.NewAttachment("n1")
			va.Status.Attached, va.Status.AttachError = false, &storagev1.VolumeError{Message: "no", Time: testworld.MinutesAgo(1)}
			w.VolumeAttachments = []*storagev1.VolumeAttachment{va}
		}), verdict: "stuck attached"},
		{name: "attach fails, and no CSINodes", world: testworld.With(testworld.New().Pending(9).Unattached().Without(snapshot.CSINodes), func(w *testworld.World) {
			va := testworld.NewAttachment("n1")
			va.Status.Attached, va.Status.AttachError = false, &storagev1.VolumeError{Message: "no", Time: testworld.MinutesAgo(1)}
			w.VolumeAttachments, w.CSINodes = []*storagev1.VolumeAttachment{va}, nil
		}), verdict: "unknown attached", chain: "+scheduled +claimBound +askedFor !attached^late ~listed ?driverRegistered ~staged ~mounted"},
	} {
		t.Run(c.name, c.run)
	}
}

// TestWaitsNoLongerThanItIs: a pod has waited for a claim that has been wrong for long since it was made
// itself.
func TestWaitsNoLongerThanItIs(t *testing.T) {
	w := testworld.New().Pending(9)
	w.Volumes[0].Spec.ClaimRef.UID = "x"
	if v := traceOf(w).Verdict; v.Since == nil || v.Since.Before(&w.Pod.CreationTimestamp) {
		t.Errorf("a pod of %s has waited since %v", w.Pod.CreationTimestamp, v.Since)
	}
}
