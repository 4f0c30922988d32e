package kubelet_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubelet"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testworld"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// rowText is a row in one line: its pods, state, stages, actor, operation, calls and pause.
func rowText(v kubelet.Volume) string {
	var pods []string
	for _, p := range v.Pods {
		pods = append(pods, p.Pod+":"+p.Name)
	}
	stages := v.Stages
	if len(stages) == 0 {
		stages = []trace.StageName{v.Stage}
	}
	return fmt.Sprintf("%s %s %v; %s; %s %v %s", pods, v.State, stages, v.Actor, v.Next, v.Calls, v.Pause)
}

const driverOnNode = "CSI driver " + testworld.Driver + " on n1"

// TestKubeletRows: each row has what the kubelet does next, whom it calls, and how long it may
// pause.
func TestKubeletRows(t *testing.T) {
	block := corev1.PersistentVolumeBlock
	asBlock := func(w *testworld.World) {
		w.Volumes[0].Spec.VolumeMode = &block
		w.Pod.Spec.Containers[0].VolumeMounts = nil
		w.Pod.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "data", DevicePath: "/dev/x"}}
	}
	gone := func(w *testworld.World) { w.Pods = nil }
	// The pod's claim is bound to another volume than the one that the node has in use.
	asOther := func(w *testworld.World, source corev1.PersistentVolumeSource) {
		pv := w.Volumes[0].DeepCopy()
		pv.Name, pv.UID, pv.Spec.PersistentVolumeSource = "pv-other", "uid-pv-other", source
		w.Volumes, w.Claims[0].Spec.VolumeName = append(w.Volumes, pv), pv.Name
		w.Volumes[0].Spec.ClaimRef = nil
	}
	asNFS := func(w *testworld.World) {
		asOther(w, corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "x", Path: "/x"}})
	}
	asFiles := func(w *testworld.World) {
		asOther(w, corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "files.example.com", VolumeHandle: "x"}})
		w.CSIDrivers = append(w.CSIDrivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "files.example.com"}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(false)}})
	}
	for _, c := range []struct {
		name  string
		world *testworld.World
		want  []string
	}{
		{"mounted", testworld.New(), []string{"[default/app:data] done []; ;  [] "}},
		{"staged or mounted", testworld.New().Pending(1),
			[]string{"[default/app:data] waiting [staged mounted]; " + driverOnNode + "; MountVolume [NodeStageVolume NodePublishVolume] 2m2s"}},
		{"a block device", testworld.With(testworld.New().Pending(1), asBlock),
			[]string{"[default/app:data] waiting [staged mounted]; " + driverOnNode + "; MapVolume [NodeStageVolume NodePublishVolume] 2m2s"}},
		{"staging fails", testworld.New().Pending(1).Event("FailedMount", `MountVolume.MountDevice failed for volume "pv-data" : rpc error: code = Internal desc = no`, 0.1),
			[]string{"[default/app:data] blocked [staged]; " + driverOnNode + "; MountVolume [NodeStageVolume] 2m2s"}},
		{"a secret is missing", testworld.New().Pending(1).Event("FailedMount", `MountVolume.MountDevice failed for volume "pv-data" : fetching NodeStageSecretRef a/b failed: secrets "b" not found`, 0.1),
			[]string{"[default/app:data] blocked [staged]; whoever is to create secret/b; MountVolume [] 2m2s"}},
		{"not listed as attached", testworld.With(testworld.New().Pending(1), func(w *testworld.World) { w.Node.Status.VolumesAttached = nil }),
			[]string{"[default/app:data] waiting [listed]; the attach/detach controller; VerifyControllerAttachedVolume [] "}},
		{"not announced", testworld.With(testworld.New().Pending(0.1), func(w *testworld.World) { w.Node.Status.VolumesInUse = nil }),
			[]string{"[default/app:data] waiting [askedFor]; the kubelet of n1; GetVolumesInUse [] 10s"}},
		{"claim not bound", testworld.With(testworld.New().Pending(0.1).Unattached(), func(w *testworld.World) {
			w.Node.Status.VolumesInUse, w.Claims[0].Spec.VolumeName, w.Claims[0].Status.Phase = nil, "", corev1.ClaimPending
		}), []string{"[default/app:data] waiting [claimBound]; whoever is to create a volume for the claim; AddPodToVolume [] 15s"}},
		{"the driver is not there", testworld.With(testworld.New().Pending(1), func(w *testworld.World) { w.CSINodes[0].Spec.Drivers = nil }),
			[]string{"[default/app:data] waiting [driverRegistered]; the node plugin of " + testworld.Driver + " on n1; MountVolume [] 2m2s"}},
		{"unmounting", testworld.New().Stopped(1),
			[]string{"[default/app:data] waiting [unmounted]; " + driverOnNode + "; UnmountVolume [NodeUnpublishVolume] 2m2s"}},
		{"nobody wants it", testworld.With(testworld.New(), gone),
			[]string{"[] waiting [unmounted unstaged]; the kubelet of n1 or " + driverOnNode + "; UnmountVolume [NodeUnpublishVolume NodeUnstageVolume] 2m2s"}},
		{"nobody wants the block device", testworld.With(testworld.New(), func(w *testworld.World) { asBlock(w); gone(w) }),
			[]string{"[] waiting [unmounted unstaged]; the kubelet of n1 or " + driverOnNode + "; UnmapVolume [NodeUnpublishVolume NodeUnstageVolume] 2m2s"}},
		{"nobody wants it and its driver is gone", testworld.With(testworld.New(), func(w *testworld.World) { gone(w); w.CSINodes[0].Spec.Drivers = nil }),
			[]string{"[] blocked [unmounted unstaged]; the node plugin of " + testworld.Driver + " on n1; UnmountVolume [] 2m2s"}},
		{"the pods could not be read", testworld.With(testworld.New(), gone).Without(snapshot.Pods),
			[]string{"[] unknown [unmounted unstaged]; ; UnmountVolume [] 2m2s"}},
		{"it ended before it was mounted", testworld.With(testworld.New().Pending(9), func(w *testworld.World) {
			w.Pod.Status.Phase, w.Pod.Status.ContainerStatuses = corev1.PodFailed, nil
		}), []string{"[default/app:data] blocked [unstaged]; the kubelet of n1; MountVolume [] 2m2s"}},
		{"two pods share it", testworld.With(testworld.New(), func(w *testworld.World) { w.Pods = append(w.Pods, testworld.NewPod("also", "n1")) }),
			[]string{"[default/also:data default/app:data] done []; ;  [] "}},
		{"another claim leads nowhere", testworld.With(testworld.New(), func(w *testworld.World) {
			w.Claims[0].Spec.VolumeName, w.Claims[0].Status.Phase = "", corev1.ClaimPending
		}), []string{
			"[] unknown [unmounted unstaged]; the kubelet of n1 or " + driverOnNode + "; UnmountVolume [NodeUnpublishVolume NodeUnstageVolume] 2m2s",
			"[default/app:data] done []; ;  [] ",
		}},
		{"the volume of its claim could not be read", testworld.With(testworld.New(), func(w *testworld.World) { w.Volumes = nil }).Without(snapshot.Volumes), []string{
			"[] unknown [unmounted unstaged]; ; UnmountVolume [] 2m2s",
			"[default/app:data] done []; ;  [] ",
		}},
		{"nobody wants it, beside a pod whose claim never led anywhere", testworld.With(testworld.New().Pending(0.1), func(w *testworld.World) {
			w.Claims[0].Spec.VolumeName, w.Claims[0].Status.Phase = "", corev1.ClaimPending
		}), []string{
			"[default/app:data] waiting [claimBound]; whoever is to create a volume for the claim; AddPodToVolume [] 15s",
			"[] waiting [unmounted unstaged]; the kubelet of n1 or " + driverOnNode + "; UnmountVolume [NodeUnpublishVolume NodeUnstageVolume] 2m2s",
		}},
		{"nobody wants it, beside an NFS volume", testworld.With(testworld.New(), func(w *testworld.World) { asNFS(w) }), []string{
			"[] waiting [unmounted unstaged]; the kubelet of n1 or " + driverOnNode + "; UnmountVolume [NodeUnpublishVolume NodeUnstageVolume] 2m2s",
			"[default/app:data] done []; ;  [] ",
		}},
		{"nobody wants it, beside a volume that is not attached", testworld.With(testworld.New(), func(w *testworld.World) { asFiles(w) }), []string{
			"[] waiting [unmounted unstaged]; the kubelet of n1 or " + driverOnNode + "; UnmountVolume [NodeUnpublishVolume NodeUnstageVolume] 2m2s",
			"[default/app:data] done []; ;  [] ",
		}},
		{"its driver's volumes are no longer attached", testworld.With(testworld.New(), func(w *testworld.World) { w.CSIDrivers[0].Spec.AttachRequired = new(false) }), []string{
			"[] unknown [unmounted unstaged]; the kubelet of n1 or " + driverOnNode + "; UnmountVolume [NodeUnpublishVolume NodeUnstageVolume] 2m2s",
			"[default/app:data] done []; ;  [] ",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, v := range testworld.Rows(c.world, nil).Volumes {
				got = append(got, rowText(v))
			}
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("rows:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// TestKubeletRowsUnread: a claim is said to lead to no volume where that was read, and not where its
// volume, or the claim itself, may only be missing from the files.
func TestKubeletRowsUnread(t *testing.T) {
	const leads = "claim default/data of pod default/app leads to no volume"
	noVolume := func(w *testworld.World) { w.Volumes = nil }
	noClaim := func(w *testworld.World) { w.Claims, w.Volumes[0].Spec.ClaimRef = nil, nil }
	unbound := func(w *testworld.World) {
		w.Claims[0].Spec.VolumeName, w.Claims[0].Status.Phase = "", corev1.ClaimPending
	}
	for _, c := range []struct {
		world *testworld.World
		want  string
	}{
		{testworld.With(testworld.New(), noVolume), leads},
		{testworld.With(testworld.New(), noClaim), leads},
		{testworld.With(testworld.New(), unbound).Without(snapshot.Volumes), leads},
		{testworld.With(testworld.New(), noVolume).Without(snapshot.Claims), leads},
		{testworld.With(testworld.New(), noVolume).Without(snapshot.Volumes), "not all persistentvolumes could be read"},
		{testworld.With(testworld.New(), noClaim).Without(snapshot.Claims), "not all persistentvolumeclaims could be read"},
	} {
		v := testworld.Rows(c.world, nil).Volumes[0]
		if want := "volumesInUse of n1 lists it; whether a pod uses it is not known: " + c.want; v.Detail != want || (v.Ends == "") != (c.want != leads) {
			t.Errorf("gaps %v: %q, ends %q; want %q", c.world.Gaps, v.Detail, v.Ends, want)
		}
	}
}

// TestKubeletNodeCorroborated: the kubelet's own answers agree or differ for each pod, and its
// counts cover all pods.
func TestKubeletNodeCorroborated(t *testing.T) {
	w := testworld.New().Pending(9)
	ending := testworld.NewPod("ending", "n1")
	at := testworld.MinutesAgo(1)
	ending.DeletionTimestamp = &at
	w.Pods = append(w.Pods, ending)
	behind := ending.DeepCopy()
	behind.DeletionTimestamp = nil
	n := testworld.Rows(w, &trace.KubeletView{Pods: []*corev1.Pod{w.Pod, behind}, Samples: append(testworld.Counts(3, 2),
		testworld.Operation("volume_mount", "fail-unknown", testworld.Plugin, 3), testworld.Operation("volume_unmount", "fail-unknown", testworld.Plugin, 5))})
	var lines []string
	for _, said := range n.Statements {
		lines = append(lines, string(said.Bearing)+" "+said.Text)
	}
	text := strings.Join(lines, "\n")
	for _, want := range []string{
		"differs pod default/ending: it does not know yet that the pod is to be deleted", "agrees it knows 1 of the 2 pods as the objects show them",
		"agrees of " + testworld.Plugin + " it wants 3 mounted and has 2, in all its pods: at least one waits", "adds 3 of 3 operations volume_mount", "adds 5 of 5 operations volume_unmount",
	} {
		if strings.Count(text, want) != 1 {
			t.Errorf("has %q not once:\n%s", want, text)
		}
	}
	n = testworld.Rows(w, &trace.KubeletView{Gaps: []snapshot.Gap{{Kind: trace.KubeletPods}, {Kind: trace.KubeletMetrics}}})
	if len(n.Statements) > 0 {
		t.Errorf("a kubelet that did not answer says %v", n.Statements)
	}
}
