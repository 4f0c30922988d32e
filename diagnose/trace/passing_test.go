package trace_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testworld"
)

// withSecret gives the pod a second volume, which the kubelet makes by itself.
func withSecret(w *testworld.World) *testworld.World {
	w.Pod.Spec.Volumes = append(w.Pod.Spec.Volumes, corev1.Volume{Name: "keys", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "keys"}}})
	c := &w.Pod.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "keys", MountPath: "/keys"})
	return w
}

// TestWordsThatPass: an event from the time when the kubelet did not yet know what the pod
// needs stays after the volume is mounted. It is quoted, and the volume is not blamed for it.
func TestWordsThatPass(t *testing.T) {
	const (
		notRegistered = `MountVolume.SetUp failed for volume "keys" : object "default"/"keys" not registered`
		notSynced     = `MountVolume.SetUp failed for volume "keys" : failed to sync secret cache: timed out waiting for the condition`
		missing       = `MountVolume.SetUp failed for volume "keys" : secret "keys" not found`
		refused       = `MountVolume.MountDevice failed for volume "pv-data" : rpc error: code = Internal desc = mkfs failed`
	)
	lasting := func(w *testworld.World, minutes float64) *testworld.World {
		e := w.Events[len(w.Events)-1]
		e.LastTimestamp, e.Count = metav1.NewTime(e.FirstTimestamp.Add(testworld.MinutesAgo(0).Sub(testworld.MinutesAgo(minutes).Time))), 9
		return w
	}
	for _, c := range []traceCase{
		{name: "another volume fails", world: withSecret(testworld.New().Pending(1)).Event("FailedMount", notRegistered, 1).Event("FailedMount", refused, 0.2),
			verdict: "in-flight staged", says: []string{"volume data explains the wait", notRegistered, "nothing is written once it has"}},
		{name: "the caches filled late", world: withSecret(testworld.New().Pending(1)).Event("FailedMount", notSynced, 1).Event("FailedMount", refused, 0.2),
			verdict: "in-flight staged", says: []string{"volume data explains the wait", notSynced}},
		{name: "nothing else is said", world: withSecret(testworld.New().Pending(1)).Event("FailedMount", notRegistered, 1),
			verdict: "in-flight mounted", says: []string{"Pod default/app waits on node n1 for volume data", notRegistered}},
		{name: "it is the only volume", world: testworld.With(withSecret(testworld.New().Pending(9)).Event("FailedMount", notRegistered, 9), func(w *testworld.World) {
			w.Pod.Spec.Volumes = w.Pod.Spec.Volumes[1:]
		}), verdict: "stuck mounted", says: []string{"next to act: the kubelet of n1"}},
		{name: "the network is not ready", world: lasting(withSecret(testworld.New().Pending(9)).Event("NetworkNotReady", "network is not ready", 0.1).Event("FailedMount", notRegistered, 8), 7.5),
			verdict: "none NetworkNotReady"},
		{name: "the caches do not fill", world: lasting(withSecret(testworld.New().Pending(9)).Event("FailedMount", notSynced, 8), 7.5),
			verdict: "stuck mounted", says: []string{"for volume keys", "unless the kubelet cannot reach the API server"}},
		{name: "the object is there by now", world: withSecret(testworld.New().Pending(2)).Event("FailedMount", missing, 1).Event("FailedMount", refused, 0.05),
			verdict: "in-flight staged", says: []string{"volume data explains the wait", missing}},
		{name: "the object is still missing", world: lasting(withSecret(testworld.New().Pending(2)).Event("FailedMount", refused, 0.05).Event("FailedMount", missing, 1.5), 1.45),
			verdict: "stuck MissingSecret", says: []string{"it waits for 1 more"}},
		{name: "neither is said again", world: withSecret(testworld.New().Pending(2)).Event("FailedMount", refused, 1).Event("FailedMount", missing, 1),
			verdict: "in-flight staged", says: []string{"it waits for 1 more"}},
	} {
		t.Run(c.name, c.run)
	}
}

// TestDriverThatNeverRegistered: of a pod that ended before it ran, one driver never
// registered. The volume whose driver is registered holds the pod. Where there is no such
// volume, the other driver may have been registered for a while.
func TestDriverThatNeverRegistered(t *testing.T) {
	ended := func(minutes float64) *testworld.World {
		w := testworld.New().Pending(minutes + 1)
		deleted := testworld.MinutesAgo(minutes)
		w.Pod.DeletionTimestamp = &deleted
		files := *w.Volumes[0]
		files.ObjectMeta, files.Spec.CSI = testworld.Meta("", "pv-files"), &corev1.CSIPersistentVolumeSource{Driver: "files.example.com", VolumeHandle: "share"}
		claim := *w.Claims[0]
		claim.ObjectMeta, claim.Spec.VolumeName = testworld.Meta("default", "files"), files.Name
		files.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: "files", UID: claim.UID}
		w.Volumes, w.Claims = append(w.Volumes, &files), append(w.Claims, &claim)
		driver := *w.CSIDrivers[0]
		no := false
		driver.ObjectMeta, driver.Spec.AttachRequired = testworld.Meta("", "files.example.com"), &no
		w.CSIDrivers = append(w.CSIDrivers, &driver)
		w.Pod.Spec.Volumes = append(w.Pod.Spec.Volumes, corev1.Volume{Name: "files", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "files"}}})
		c := &w.Pod.Spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "files", MountPath: "/files"})
		return w
	}
	for _, c := range []traceCase{
		{name: "beside one whose driver is there", world: ended(1), verdict: "in-flight unmounted",
			says: []string{"before volume data is unmounted on n1", "data is pv-data", "next to act: CSI driver ebs.csi.aws.com on n1", "or ever; volume data explains the wait"}},
		{name: "alone", world: testworld.With(ended(9), func(w *testworld.World) {
			w.Node.Status.VolumesInUse, w.Node.Status.VolumesAttached, w.VolumeAttachments = nil, nil, nil
		}), verdict: "stuck unmounted", says: []string{"next to act: the node plugin of files.example.com on n1"}},
	} {
		t.Run(c.name, c.run)
	}
}

// TestWordsToAnotherPod: the kubelet runs one operation at a time on a volume that two pods on
// the node use, and reports its failure to one of them: the other one waits for the same.
func TestWordsToAnotherPod(t *testing.T) {
	const missing = `MountVolume.MountDevice failed for volume "pv-data" : fetching NodeStageSecretRef default/keys failed: kubernetes.io/csi: failed to find the secret keys in the namespace default with error: secrets "keys" not found`
	const (
		refusedDevice = `MapVolume.SetUpDevice failed for volume "pv-data" : rpc error: code = Internal desc = the device is not there`
		noDir         = `MapVolume.NewBlockVolumeMapper initialization failed for volume "pv-data" : kubernetes.io/csi: failed to create data dir /plugins/pv-data/data:  mkdir /plugins/pv-data/data: `
	)
	told := func() *testworld.World {
		w := testworld.New().Pending(1)
		other := testworld.NewPod("other", "n1")
		other.Status = w.Pod.Status
		w.Pods = append(w.Pods, other)
		w.Event("FailedMount", missing, 0.5)
		w.Events[0].InvolvedObject.Name, w.Events[0].InvolvedObject.UID = other.Name, other.UID
		return w
	}
	local := func(w *testworld.World) {
		w.Node.Status.VolumesInUse, w.Node.Status.VolumesAttached, w.VolumeAttachments = nil, nil, nil
		w.Volumes[0].Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/mnt/disks/a"}}
		w.Events[0].Message = `MountVolume.NewMounter initialization failed for volume "pv-data" : path "/mnt/disks/a" does not exist`
	}
	for _, c := range []traceCase{
		{name: "a local volume", world: testworld.With(told(), local), verdict: "in-flight mounted", says: []string{"next to act: the node admin"}},
		{name: "a local volume, which the other has", world: testworld.With(told(), func(w *testworld.World) {
			local(w)
			w.Pods[len(w.Pods)-1].Status = testworld.NewPod("x", "n1").Status
		}), verdict: "in-flight mounted", says: []string{"next to act: the kubelet of n1"}},
		{name: "a local volume, of a pod elsewhere", world: testworld.With(told(), func(w *testworld.World) {
			local(w)
			w.Pods[len(w.Pods)-1].Spec.NodeName = "n2"
		}), verdict: "in-flight mounted", says: []string{"next to act: the kubelet of n1"}},
		{name: "both wait", world: told(), verdict: "in-flight MissingSecret", says: []string{"next to act: whoever is to create secret/keys"}},
		{name: "the other has it", world: testworld.With(told(), func(w *testworld.World) { w.Pods[len(w.Pods)-1].Status = testworld.NewPod("x", "n1").Status }),
			verdict: "in-flight mounted", says: []string{"CSI driver ebs.csi.aws.com on n1"}},
		{name: "it was told of a later step", world: testworld.With(told(), func(w *testworld.World) {
			w.Events[0].Message = `MountVolume.SetUp failed for volume "pv-data" : rpc error: code = Internal desc = no`
		}), verdict: "in-flight mounted", says: []string{"MountVolume.SetUp failed", "CSI driver ebs.csi.aws.com on n1"}},
		{name: "what it was told is about that pod", world: testworld.With(told(), func(w *testworld.World) {
			w.Events[0].Message = `MountVolume.SetUp failed for volume "pv-data" : volume uses the ReadWriteOncePod access mode and is already in use by another pod`
		}), verdict: "in-flight mounted", says: []string{"no object tells which"}},
		{name: "their directory went meanwhile", world: testworld.With(told(), func(w *testworld.World) {
			w.Events[0].Message = `MapVolume.SetUpDevice failed for volume "pv-data" : rpc error: code = Internal desc = mkfs failed`
			w.Event("FailedMapVolume", `MapVolume.NewBlockVolumeMapper initialization failed for volume "pv-data" : kubernetes.io/csi: csi.NewBlockVolumeMapper failed to save volume info data: `+
				"kubernetes.io/csi: failed to save volume data file /plugins/vol_data.json: open /plugins/vol_data.json: no such file or directory", 0.1)
		}), verdict: "in-flight staged", says: []string{"next to act: CSI driver ebs.csi.aws.com on n1"}},
		{name: "its directory went after the try before", world: testworld.New().Pending(1).Event("FailedMapVolume", refusedDevice, 0.1).Event("FailedMapVolume", noDir+"no such file or directory", 0.1),
			verdict: "in-flight staged", says: []string{"next to act: CSI driver ebs.csi.aws.com on n1"}},
		{name: "there is no room for its directory", world: testworld.New().Pending(1).Event("FailedMapVolume", refusedDevice, 0.1).Event("FailedMapVolume", noDir+"no space left on device", 0.1),
			verdict: "in-flight staged", says: []string{"next to act: the node admin"}},
		{name: "there is no room for it", world: testworld.With(told(), func(w *testworld.World) {
			w.Event("FailedMapVolume", `MapVolume.NewBlockVolumeMapper initialization failed for volume "pv-data" : kubernetes.io/csi: csi.NewBlockVolumeMapper failed to save volume info data: `+
				"kubernetes.io/csi: failed to save volume data file /plugins/vol_data.json: open /plugins/vol_data.json: no space left on device", 0.1)
		}), verdict: "in-flight staged", says: []string{"next to act: the node admin"}},
	} {
		t.Run(c.name, c.run)
	}
}

// TestNoPluginIsSaidOnce: of several volumes that the kubelet cannot take up, it names one each
// time that it gives up. That it has no plugin for one stays true when it names another.
func TestNoPluginIsSaidOnce(t *testing.T) {
	wait := "Unable to attach or mount volumes: unmounted volumes=[data old], unattached volumes=[data old], failed to process volumes=[data old]: "
	w := testworld.New().Pending(1).Event("FailedMount", wait+`failed to get Plugin from volumeSpec for volume "old" err=no volume plugin matched`, 0.8).
		Event("FailedMount", wait+"error processing PVC default/data: PVC is not bound", 0.1)
	w.Pod.Spec.Volumes = append(w.Pod.Spec.Volumes, corev1.Volume{Name: "old", VolumeSource: corev1.VolumeSource{Glusterfs: &corev1.GlusterfsVolumeSource{EndpointsName: "e", Path: "/"}}})
	c := &w.Pod.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "old", MountPath: "/old"})
	traceCase{world: w, verdict: "stuck askedFor", says: []string{"for volume old", "the kubelet has no plugin"}}.run(t)
}

// TestNoPluginForOneOfTwo: the kubelet joins its errors about several volumes in one event:
// only the part that names a volume is about it.
func TestNoPluginForOneOfTwo(t *testing.T) {
	w := testworld.New().Pending(1).Event("FailedMount", "Unable to attach or mount volumes: unmounted volumes=[data old], unattached volumes=[data old], failed to process volumes=[data old]: "+
		`error processing PVC default/data: failed to fetch PVC from API server: persistentvolumeclaims "data" not found; failed to get Plugin from volumeSpec for volume "old" err=no volume plugin matched`, 0.9)
	w.Pod.Spec.Volumes = append(w.Pod.Spec.Volumes, corev1.Volume{Name: "old", VolumeSource: corev1.VolumeSource{Glusterfs: &corev1.GlusterfsVolumeSource{EndpointsName: "e", Path: "/"}}})
	c := &w.Pod.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "old", MountPath: "/old"})
	traceCase{world: w, verdict: "stuck askedFor", says: []string{"for volume old", "the kubelet has no plugin"}}.run(t)
	for _, v := range traceOf(w).Volumes {
		if v.Name == "data" && v.Broken == trace.StageInVolumesInUse {
			t.Errorf("the kubelet has no plugin for volume old, and the trace says it of data: %s", chain(v))
		}
	}
}

// TestClaimThatCameLater: the claim of a volume was created after the pod. The kubelet's
// earlier message is over once the volume is in use and the message is not repeated.
func TestClaimThatCameLater(t *testing.T) {
	const missing = "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[data], failed to process volumes=[data]: " +
		`error processing PVC default/data: failed to fetch PVC from API server: persistentvolumeclaims "data" not found`
	for _, c := range []traceCase{
		{name: "said a moment ago", world: testworld.New().Pending(1).Event("FailedMount", missing, 0.2), verdict: "in-flight askedFor"},
		{name: "not said again", world: testworld.New().Pending(2).Event("FailedMount", missing, 1), verdict: "in-flight mounted", says: []string{missing, "no object tells which"}},
		{name: "said as long as the recorder lets it", world: testworld.With(testworld.New().Pending(2).Event("FailedMount", missing, 1), func(w *testworld.World) { w.Events[0].Count = 25 }),
			verdict: "stuck askedFor"},
		{name: "another pod uses the volume", world: testworld.With(testworld.New().Pending(2).Event("FailedMount", missing, 1), func(w *testworld.World) { w.Pods = append(w.Pods, testworld.NewPod("other", "n1")) }),
			verdict: "stuck askedFor"},
	} {
		t.Run(c.name, c.run)
	}
}

// TestClaimThatIsBoundSince: the kubelet tries a pod again within seconds. Words about a claim that
// was not bound are over by then, whoever else waits for the volume. A recorder that pauses repeats
// nothing; the volume shows since when it is bound.
func TestClaimThatIsBoundSince(t *testing.T) {
	const unbound = "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[data], failed to process volumes=[data]: error processing PVC default/data: PVC is not bound"
	said := func(minutes float64) *testworld.World {
		w := testworld.New().Pending(1).Event("FailedMount", unbound, minutes)
		w.Node.Status.VolumesInUse, w.Volumes[0].Status.Phase = nil, corev1.VolumeBound
		return w
	}
	shared := func(w *testworld.World) { w.Pods = append(w.Pods, testworld.NewPod("other", "n1")) }
	paused := func(w *testworld.World) { w.Events[0].Count = 25 }
	bound := func(minutes float64) func(*testworld.World) {
		return func(w *testworld.World) {
			at := testworld.MinutesAgo(minutes)
			w.Volumes[0].Status.LastPhaseTransitionTime = &at
		}
	}
	over, stands := []string{"volumesInUse of n1 lacks it"}, []string{"the kubelet could not take the volume up"}
	for _, c := range []traceCase{
		{name: "said a moment ago", world: testworld.With(said(0.2), bound(0.1)), says: stands},
		{name: "not said again", world: testworld.With(said(0.5), bound(0.45)), says: over},
		{name: "not said again, and another pod waits", world: testworld.With(testworld.With(said(0.5), bound(0.45)), shared), says: over},
		{name: "the recorder pauses", world: testworld.With(said(0.5), paused), says: stands},
		{name: "the recorder pauses, and it was bound a moment ago", world: testworld.With(testworld.With(said(0.5), paused), bound(0.2)), says: stands},
		{name: "the recorder pauses, and it has been bound for longer", world: testworld.With(testworld.With(said(0.5), paused), bound(0.4)), says: over},
	} {
		c.verdict = "in-flight askedFor"
		t.Run(c.name, c.run)
	}
}

// TestSharedFailureIsRepeated: the kubelet says each failure of a shared volume for one of its
// pods. A failure said for another pod later stands, and the recorder that drops the next one is
// that pod's, whichever pod is traced.
func TestSharedFailureIsRepeated(t *testing.T) {
	const failed = `MountVolume.MountDevice failed for volume "pv-data" : rpc error: code = Internal desc = the device is not there`
	shared := func(minutes float64) *testworld.World {
		w := testworld.New().Pending(2).Event("FailedMount", failed, minutes)
		w.Pod.Spec.Volumes = append(w.Pod.Spec.Volumes, corev1.Volume{Name: "key", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "key"}}})
		w.Pod.Spec.Containers[0].VolumeMounts = append(w.Pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "key", MountPath: "/key"})
		other := testworld.NewPod("other", "n1")
		other.Status = *w.Pod.Status.DeepCopy()
		w.Pods = append(w.Pods, other)
		w.Events[0].InvolvedObject.Name, w.Events[0].InvolvedObject.UID = other.Name, other.UID
		return w.Event("FailedMount", `MountVolume.SetUp failed for volume "key" : secret "key" not found`, 2).SaidAgain()
	}
	paused := func(w *testworld.World) { w.Events[0].Count = 25 }
	own := func(w *testworld.World) { w.Event("FailedMount", failed, 1) }
	stands, over := []string{"it waits for 1 more", "the device is not there"}, []string{"volume key explains the wait"}
	for _, c := range []traceCase{
		{name: "the other pod's recorder pauses", world: testworld.With(shared(1), paused), says: stands},
		{name: "it would have been repeated", world: shared(1), says: over},
		{name: "said for the other pod since", world: testworld.With(shared(0.05), own), says: stands},
		{name: "said for both a minute ago", world: testworld.With(shared(1), own), says: over},
	} {
		c.verdict = "stuck MissingSecret"
		t.Run(c.name, c.run)
	}
}

// TestOneOfTwoVolumes: where no object shows which of two volumes the pod waits for, the
// verdict has the stages and the actors of both.
func TestOneOfTwoVolumes(t *testing.T) {
	inline := func(w *testworld.World, driver string, modes ...storagev1.VolumeLifecycleMode) *testworld.World {
		w.CSIDrivers = append(w.CSIDrivers, &storagev1.CSIDriver{ObjectMeta: testworld.Meta("", driver), Spec: storagev1.CSIDriverSpec{VolumeLifecycleModes: modes}})
		w.Pod.Spec.Volumes = append(w.Pod.Spec.Volumes, corev1.Volume{Name: "inline", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: driver}}})
		c := &w.Pod.Spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "inline", MountPath: "/inline"})
		return w
	}
	const files = "files.example.com"
	w := inline(testworld.New().Pending(1), files, storagev1.VolumeLifecycleEphemeral)
	v := traceOf(w).Verdict
	if want := []trace.StageName{trace.StageStaged, trace.StageMounted, trace.StageRegistered}; !slices.Equal(v.Stages, want) {
		t.Errorf("the stages are %v, want %v: %s", v.Stages, want, v.Message)
	}
	if want := "the node plugin of files.example.com on n1 or CSI driver ebs.csi.aws.com on n1"; v.Actor != want {
		t.Errorf("the actor is %q, want %q: %s", v.Actor, want, v.Message)
	}
	// A driver that does not support such volumes never will, whether or not it is on the node.
	traceCase{world: inline(testworld.New().Pending(1), files, storagev1.VolumeLifecyclePersistent), verdict: "stuck mounted",
		says: []string{"for volume inline", "next to act: a person, as no controller ends it", "does not list the mode Ephemeral"}}.run(t)
}

// TestListedAfterAnotherNode: a wait for the node's list is due when that on another node is, which lists the
// volume still, before its own time is over as well as after it.
func TestListedAfterAnotherNode(t *testing.T) {
	for _, minutes := range []float64{0.5, 2} {
		w := testworld.New().Pending(minutes)
		w.VolumeAttachments[0].CreationTimestamp = testworld.MinutesAgo(minutes)
		w.Node.Status.VolumesAttached = nil
		w.Event(facts.AttachSucceededReason, `AttachVolume.Attach succeeded for volume "pv-data" `, minutes)
		w.Events[0].Source = corev1.EventSource{Component: "attachdetach-controller"}
		other := testworld.NewNode("n2")
		other.Status.VolumesAttached = testworld.New().Node.Status.VolumesAttached
		w.Nodes = append(w.Nodes, other)
		v := traceOf(w).Verdict
		if due := testworld.MinutesAgo(minutes).Add(facts.HandOverTakes); v.State != finding.InFlight || v.Stage != trace.StageInVolumesAttached || v.DueAt == nil || !v.DueAt.Time.Equal(due) {
			t.Errorf("%.1f minutes: %s %s, due at %s, want %s", minutes, v.State, v.Stage, v.DueAt, due)
		}
	}
}

// TestListedAfterBurst: once the controller's recorder pauses, the attach of a volume may have failed as lately as
// its last event about any volume of the pod.
func TestListedAfterBurst(t *testing.T) {
	for _, tt := range []struct {
		count int32
		want  finding.WaitState
	}{{1, finding.Stuck}, {25, finding.InFlight}} {
		w := testworld.New().Pending(9)
		w.VolumeAttachments[0].CreationTimestamp = testworld.MinutesAgo(9)
		w.Node.Status.VolumesAttached = nil
		w.Event(facts.AttachFailedReason, `AttachVolume.Attach failed for volume "pv-data" : rpc error: code = Internal desc = busy`, 8)
		w.Event(facts.AttachFailedReason, `AttachVolume.Attach failed for volume "pv-log" : rpc error: code = Internal desc = busy`, 1)
		for _, e := range w.Events {
			e.Source = corev1.EventSource{Component: "attachdetach-controller"}
		}
		w.Events[1].Count = tt.count
		if v := traceOf(w).Verdict; v.State != tt.want || v.Stage != trace.StageInVolumesAttached {
			t.Errorf("%d events: %s %s, want %s", tt.count, v.State, v.Stage, tt.want)
		}
	}
}
