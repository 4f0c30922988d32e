package trace_test

import (
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/testworld"
)

// TestKubeletTexts: what the kubelets of the releases write about a volume, and its meaning: a
// row for each text, with the stage that it is about. The texts of a mount come from the
// operation generator and the CSI plug-in, those of a failed wait from the volume manager.
func TestKubeletTexts(t *testing.T) {
	const (
		mountDevice = `MountVolume.MountDevice failed for volume "pv-data" : `
		setUp       = `MountVolume.SetUp failed for volume "pv-data" : `
		forAttach   = `MountVolume.WaitForAttach failed for volume "pv-data" : `
		wait        = "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], failed to process volumes=[]: "
		process     = "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], failed to process volumes=[data]: "
	)
	for _, c := range []struct {
		kubelet, reason, message string
		verdict, means           string
	}{
		// One mount, in the order of its steps.
		{"v1.36.3", "FailedMount", `MountVolume.NodeAffinity check failed for volume "pv-data" : no matching NodeSelectorTerms`, "stuck staged", "may not be used on this node"},
		{"v1.36.3", "FailedMount", setUp + `volume uses the ReadWriteOncePod access mode and is already in use by another pod`, "stuck mounted", "which only one pod may"},
		{"v1.36.3", "FailedMount", forAttach + `volume vol-1 has GET error for volume attachment csi-1: volumeattachments "csi-1" not found`, "stuck staged", "does not see the VolumeAttachment"},
		{"v1.36.3", "FailedMount", forAttach + "volume attachment is being deleted", "stuck staged", "is detaching it"},
		{"v1.36.3", "FailedMount", forAttach + "volume vol-1 is not attached for volume attachment csi-1", "stuck staged", "says that it is not attached"},
		{"v1.31.4", "FailedMount", forAttach + "attachdetachment timeout for volume vol-1", "stuck staged", "a kubelet of 1.31 waits 10 min"},
		{"v1.36.3", "FailedMount", forAttach + "timed out waiting for external-attacher of x CSI driver to attach volume vol-1", "stuck staged", "does not say attached"},
		{"v1.36.3", "FailedMount", mountDevice + "kubernetes.io/csi: attacher.MountDevice failed to create newCsiDriverClient: driver name ebs.csi.aws.com not found in the list of registered CSI drivers",
			"stuck driverRegistered", "the kubelet's own register lacks the driver"},
		{"v1.36.3", "FailedMount", mountDevice + `fetching NodeStageSecretRef kube-system/keys failed: kubernetes.io/csi: failed to find the secret keys in the namespace kube-system`,
			"stuck staged", "nodeStageSecretRef"},
		{"v1.36.3", "FailedMount", mountDevice + "rpc error: code = Aborted desc = an operation with the given Volume ID vol-1 already exists", "stuck staged", "an earlier call"},
		{"v1.36.3", "FailedMount", mountDevice + "rpc error: code = DeadlineExceeded desc = context deadline exceeded", "stuck staged", "did not answer within 2 min"},
		{"v1.36.3", "FailedMount", mountDevice + "rpc error: code = Internal desc = format of disk failed: wrong fs type, bad option", "stuck staged", "the file system is damaged"},
		{"v1.36.3", "FailedMount", mountDevice + "rpc error: code = NotFound desc = device of vol-1", "stuck staged", "does not find the volume, or its device"},
		{"v1.36.3", "FailedMount", mountDevice + `rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial unix csi.sock: connect: connection refused"`,
			"stuck staged", "does not answer on its socket"},
		{"v1.36.3", "FailedMount", mountDevice + "rpc error: code = InvalidArgument desc = unknown attribute", "stuck staged", "does not take what the PV says"},
		{"v1.36.3", "FailedMount", mountDevice + "rpc error: code = PermissionDenied desc = no", "stuck staged", "does not let the driver in"},
		{"v1.36.3", "FailedMount", setUp + `kubernetes.io/csi: mounter.SetUpAt failed to check volume lifecycle mode: volume mode "Ephemeral" not supported by driver x (no CSIDriver object)`,
			"stuck mounted", "does not take volumes of this kind"},
		{"v1.36.3", "FailedMount", setUp + "fetching NodePublishSecretRef shop/keys failed: no", "stuck mounted", "nodePublishSecretRef"},
		{"v1.36.3", "FailedMount", setUp + "kubernetes.io/csi: mounter.SetUpAt failed to get service accoount token attributes: no", "stuck mounted", "tokenRequests"},
		{"v1.36.3", "FailedMount", setUp + "applyFSGroup failed for vol vol-1: lstat /x: no such file or directory", "stuck mounted", "cannot be given to the pod's fsGroup"},
		{"v1.36.3", "FailedMount", setUp + "mount failed: exit status 32", "stuck mounted", "the mount command of the node failed"},
		{"v1.36.3", "FailedMount", setUp + `object "shop"/"settings" not registered`, "stuck mounted", "passes within seconds"},
		{"v1.36.3", "FailedMount", setUp + "references non-existent secret key: k", "stuck mounted", "lacks the key"},
		{"v1.36.3", "FailedMount", setUp + "hostPath type check failed: /srv/a is not a directory", "stuck mounted", "whoever is to make /srv/a on n1"},
		{"v1.37.2", "FailedMount", setUp + "hostPath type check failed, /srv/a is not a directory, unable to determine its type: stat: no such file", "stuck mounted", "whoever is to make /srv/a on n1"},
		{"v1.37.2", "FailedMount", setUp + "hostPath type check failed: /srv/a is not a directory, it's a File", "stuck mounted", "whoever is to make /srv/a on n1"},
		{"v1.36.3", "FailedMount", `MountVolume.Setup failed while expanding volume for volume "pv-data" : rpc error: code = Internal desc = no`, "stuck mounted", "only once its file system has grown"},
		{"v1.36.3", "FailedMount", `(combined from similar events): ` + setUp + "mount failed: exit status 32", "stuck mounted", "the mount command of the node failed"},
		{"v1.36.3", "FailedMapVolume", `MapVolume.SetUpDevice failed for volume "pv-data" : rpc error: code = Unavailable desc = x`, "stuck staged", "does not answer"},
		{"v1.36.3", "FailedMapVolume", `MapVolume.MapBlockVolume failed for volume "pv-data" : loop`, "stuck mounted", ""},

		// A failed wait: the meaning of its lists, and the volume's own error.
		{"v1.25.4", "FailedMount", "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[token data]: timed out waiting for the condition",
			"stuck mounted", "lists every volume of the pod as unattached"},
		{"v1.27.1", "FailedMount", wait + "timed out waiting for the condition", "stuck mounted", "not mounted within 2m3s"},
		{"v1.36.3", "FailedMount", process + "error processing PVC default/data: PVC is not bound", "stuck askedFor", "the claim is not bound; the kubelet has not taken the volume up, and no mount was tried"},
		{"v1.36.3", "FailedMount", process + "error processing PVC default/data: PVC is being deleted", "stuck askedFor", "nothing protects it any more"},
		{"v1.36.3", "FailedMount", process + "error processing PVC default/data: failed to fetch PVC from API server: no", "stuck askedFor", "cannot read the claim"},
		{"v1.36.3", "FailedMount", process + `error processing PVC default/data: failed to fetch PV pv-data from API server: persistentvolumes "pv-data" is forbidden: no relationship found between node 'n1' and this object`,
			"stuck askedFor", "does not see yet that the pod needs the object"},
		{"v1.36.3", "FailedMount", process + `error processing PVC default/data: found PV object pv-data but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim`, "stuck askedFor", "no claimRef"},
		{"v1.36.3", "FailedMount", process + `error processing PVC default/data: found PV object pv-data but its pv.Spec.ClaimRef.UID a does not point to claim.UID b`, "stuck askedFor", "bound to another claim"},
		{"v1.36.3", "FailedMount", process + "PVC default/data was not created for pod default/app (pod is not owner)", "stuck askedFor", "belongs to another"},
		{"v1.36.3", "FailedMount", process + "volume data has volumeMode Block, but is specified in volumeMounts", "stuck askedFor", "a block device"},
		{"v1.36.3", "FailedMount", process + `failed to get Plugin from volumeSpec for volume "data" err=no volume plugin matched`, "stuck askedFor", "no plugin for this type"},
		{"v1.36.3", "FailedMount", wait + `waiting for unmount of volume "x", because it is already mounted to a different pod with a different SELinux label`, "stuck mounted", "must go first"},
		{"v1.36.3", "FailedMount", wait + `conflicting SELinux labels of volume data: "a" and "b"`, "stuck mounted", "two SELinux labels"},
		{"v1.36.3", "FailedMount", wait + "multiple SELinux labels found: a,b", "stuck mounted", "different SELinux labels and use the same volume"},
		{"v1.36.3", "VolumePermissionChangeInProgress", "Setting volume ownership for uid-app/volumes/kubernetes.io~csi/pv-data/mount is taking longer than expected, consider using OnRootMismatch - https://example.com",
			"stuck OwnershipChange", "written after 30 s and then each minute"},
	} {
		t.Run(c.kubelet+" "+c.message[min(len(c.message), 20):], func(t *testing.T) {
			w := testworld.New().Pending(9).Event(c.reason, c.message, 5)
			if c.reason != "VolumePermissionChangeInProgress" {
				w.SaidAgain()
			}
			w.Node.Status.NodeInfo.KubeletVersion = c.kubelet
			traceCase{world: w, verdict: c.verdict, says: []string{c.means}}.run(t)
		})
	}
	// A node whose kubelet attaches by itself reports it under its own name.
	w := testworld.New().Pending(9).Unattached().Event("FailedAttachVolume", `AttachVolume.Attach failed for volume "pv-data" : attaching volumes from the kubelet is not supported`, 5)
	traceCase{world: w, verdict: "stuck attached", says: []string{"so that its kubelet tries by itself"}}.run(t)
}

// TestKubeletSilence: silence, too, means something else in each release.
func TestKubeletSilence(t *testing.T) {
	for version, want := range map[string]string{
		"v1.27.16": "writes one for each wait of 2m3s", "v1.28.0": "writes none for a wait that merely times out", "": "release is not known",
	} {
		w := testworld.New().Pending(9)
		w.Node.Status.NodeInfo.KubeletVersion = version
		traceCase{world: w, verdict: "stuck mounted", says: []string{want}}.run(t)
	}
	for version, want := range map[string]bool{"v1.32.4": true, "v1.33.0": false} {
		w := testworld.New().Pending(9)
		w.Node.Status.NodeInfo.KubeletVersion = version
		w.Pod.Spec.SecurityContext = fsGroup()
		text := traceText(traceOf(w))
		if got := strings.Contains(text, "changes the owner of many files without a word"); got != want {
			t.Errorf("%s: %v, want %v:\n%s", version, got, want, text)
		}
	}
}
