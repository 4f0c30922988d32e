package trace_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testworld"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestTraceHeld: another node has the volume.
func TestTraceHeld(t *testing.T) {
	elsewhere := func(minutes float64, change func(*testworld.World, *corev1.Pod)) *testworld.World {
		w := testworld.New().Pending(minutes).Unattached()
		holder := testworld.NewPod("old", "n2")
		holder.Status.Phase = corev1.PodRunning
		w.Pods = append(w.Pods, holder)
		w.VolumeAttachments = []*storagev1.VolumeAttachment{testworld.NewAttachment("n2")}
		w.Nodes[1].Status.VolumesAttached = []corev1.AttachedVolume{{Name: testworld.Volume}}
		w.Nodes[1].Status.VolumesInUse = []corev1.UniqueVolumeName{testworld.Volume}
		change(w, holder)
		return w
	}
	gone := func(w *testworld.World, _ *corev1.Pod) { w.Pods = w.Pods[:1] }
	failing := func(w *testworld.World, said, renewed float64) { // the detach there
		deleted := testworld.MinutesAgo(8)
		w.Nodes[1].Status.VolumesInUse, w.Nodes[1].Status.VolumesAttached = nil, nil
		w.VolumeAttachments[0].DeletionTimestamp = &deleted
		w.VolumeAttachments[0].Status.DetachError = &storagev1.VolumeError{Time: testworld.MinutesAgo(said), Message: "no permission"}
		w.Leases = append(w.Leases, testworld.NewLease("kube-system", "external-attacher-leader-ebs-csi-aws-com", testworld.MinutesAgo(99), testworld.MinutesAgo(renewed)))
	}
	for _, c := range []traceCase{
		{name: "handover", world: elsewhere(1, func(_ *testworld.World, holder *corev1.Pod) {
			deleted := testworld.MinutesAgo(1)
			holder.DeletionTimestamp = &deleted
		}), verdict: "in-flight MultiAttach", says: []string{"pod default/old is Terminating there", "the kubelet of n2"}},
		{name: "rival", world: elsewhere(9, func(*testworld.World, *corev1.Pod) {}), verdict: "stuck MultiAttach",
			chain: "+scheduled +claimBound +askedFor !attached^late ~listed +driverRegistered ~staged ~mounted",
			says:  []string{"pod default/old uses it there", "may never happen"}},
		{name: "not unstaged", world: elsewhere(9, gone), verdict: "stuck MultiAttach", says: []string{"waits for that without a time limit"}},
		{name: "another name of the disk may be unread", world: testworld.With(elsewhere(9, gone), func(w *testworld.World) { w.Without(snapshot.Volumes) }), verdict: "unknown attached"},
		{name: "lost node, counting down", world: elsewhere(5, func(w *testworld.World, p *corev1.Pod) {
			gone(w, p)
			w.Nodes[1].Status.Conditions[0].Status = corev1.ConditionUnknown
		}), verdict: "in-flight MultiAttach", says: []string{"detaches it by force 6m after", "8m"}},
		{name: "detach fails there", world: elsewhere(9, func(w *testworld.World, p *corev1.Pod) {
			gone(w, p)
			failing(w, 7, 7)
		}), verdict: "stuck MultiAttach", says: []string{"no permission", "the external-attacher of ebs.csi.aws.com", "was last renewed"}},
		{name: "detach fails there, and its attacher does without the lease", world: elsewhere(9, func(w *testworld.World, p *corev1.Pod) {
			gone(w, p)
			failing(w, 1, 30)
		}), verdict: "stuck MultiAttach", says: []string{"no permission", "next to act: CSI driver ebs.csi.aws.com"}},
		{name: "said once", world: elsewhere(9, func(w *testworld.World, _ *corev1.Pod) {
			w.Event("FailedAttachVolume", `Multi-Attach error for volume "pv-data" Volume is already used by pod(s) old`, 9)
		}), verdict: "stuck MultiAttach", says: []string{"written once when the wait began"}},
		{name: "many nodes may have it", world: elsewhere(9, func(w *testworld.World, _ *corev1.Pod) {
			w.Volumes[0].Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		}), verdict: "stuck attached", says: []string{"there is no VolumeAttachment"}},
	} {
		t.Run(c.name, c.run)
	}
}

func TestTraceDown(t *testing.T) {
	released := func(minutes float64) *testworld.World {
		w := testworld.New().Stopped(minutes)
		w.Node.Status.VolumesInUse, w.Node.Status.VolumesAttached = nil, nil
		return w
	}
	completed := func(w *testworld.World) *testworld.World {
		w.Pod.DeletionTimestamp = nil
		w.Pod.Status.Phase = corev1.PodSucceeded
		return w
	}
	for _, c := range []traceCase{
		{name: "containers run", world: testworld.With(testworld.New(), func(w *testworld.World) {
			deleted, grace := testworld.MinutesAgo(-0.2), int64(30)
			w.Pod.DeletionTimestamp, w.Pod.DeletionGracePeriodSeconds = &deleted, &grace
		}), verdict: "none ContainersRunning", chain: "~containersStopped^ ~unmounted ~unstaged ~detached"},
		{name: "containers cannot be killed", world: testworld.With(testworld.New(), func(w *testworld.World) {
			deleted := testworld.MinutesAgo(9)
			w.Pod.DeletionTimestamp = &deleted
			w.Event("FailedKillPod", "error killing pod: deadline exceeded", 5)
		}), verdict: "none ContainersRunning", chain: "!containersStopped^late ~unmounted ~unstaged ~detached"},
		{name: "node lost", world: testworld.With(testworld.New(), func(w *testworld.World) {
			deleted := testworld.MinutesAgo(9)
			w.Pod.DeletionTimestamp = &deleted
			w.Node.Status.Conditions[0].Status = corev1.ConditionUnknown
		}), verdict: "none NodeNotReady", chain: "!containersStopped^late ~unmounted ~unstaged ~detached"},
		{name: "unmounting", world: testworld.New().Stopped(1), verdict: "in-flight unmounted", chain: "+containersStopped ~unmounted^ ~unstaged ~detached",
			says: []string{"it writes no event about that"}},
		{name: "does not unmount", world: testworld.New().Stopped(9), verdict: "stuck unmounted", chain: "+containersStopped ~unmounted^late ~unstaged ~detached"},
		{name: "driver gone", world: testworld.With(testworld.New().Stopped(9), func(w *testworld.World) { w.CSINodes[0].Spec.Drivers = nil }), verdict: "stuck unmounted",
			chain: "+containersStopped !unmounted^late ~unstaged ~detached", says: []string{"the kubelet has nobody to ask"}},
		{name: "never ran, and its node is unread", world: testworld.With(testworld.New().Pending(9), func(w *testworld.World) {
			deleted := testworld.MinutesAgo(2)
			w.Pod.DeletionTimestamp = &deleted
			w.Pod.Status.Phase, w.Pod.Status.ContainerStatuses = corev1.PodFailed, nil
			w.Nodes = nil
			w.Without(snapshot.Nodes)
		}), verdict: "unknown unmounted"},
		{name: "detached too early, and late", world: testworld.With(testworld.New().Stopped(1), func(w *testworld.World) {
			deleted := testworld.MinutesAgo(29)
			w.VolumeAttachments[0].DeletionTimestamp = &deleted
			w.Pods = append(w.Pods, testworld.NewPod("next", "n1"))
		}), verdict: "in-flight unmounted", chain: "+containersStopped ~unmounted^ -unstaged ~detached"},
		{name: "released", world: testworld.With(released(9), func(w *testworld.World) { w.VolumeAttachments = nil }), verdict: "none ObjectStays",
			chain: "+containersStopped +unmounted +unstaged +detached"},
		{name: "kept by a finalizer", world: testworld.With(testworld.New().Stopped(9), func(w *testworld.World) {
			var grace int64
			w.Pod.Finalizers, w.Pod.DeletionGracePeriodSeconds = []string{"example.com/job"}, &grace
		}), verdict: "none Finalizers", says: []string{"example.com/job", "being detached from node n1, for longer than is usual"}},
		{name: "detach fails", world: testworld.With(released(9), func(w *testworld.World) {
			deleted := testworld.MinutesAgo(8)
			w.VolumeAttachments[0].DeletionTimestamp = &deleted
			w.VolumeAttachments[0].Status.DetachError = &storagev1.VolumeError{Message: "busy", Time: testworld.MinutesAgo(1)}
		}), verdict: "none ObjectStays", chain: "+containersStopped +unmounted +unstaged !detached^late", says: []string{"busy"}},
		{name: "completed", world: completed(testworld.New().Stopped(9)), verdict: "none Ended", chain: "+containersStopped ?unmounted ~unstaged^late ~detached"},
		{name: "another pod uses it", world: testworld.With(completed(testworld.New().Stopped(9)), func(w *testworld.World) { w.Pods = append(w.Pods, testworld.NewPod("next", "n1")) }),
			verdict: "none Ended", chain: "+containersStopped ?unmounted -unstaged -detached"},
		{name: "rejected and pins the volume", world: testworld.With(testworld.New().Pending(9), func(w *testworld.World) {
			w.Pod.Status.Phase, w.Pod.Status.Reason, w.Pod.Status.ContainerStatuses = corev1.PodFailed, "VolumeAttachmentLimitExceeded", nil
		}), verdict: "none VolumeAttachmentLimitExceeded", chain: "+containersStopped -unmounted !unstaged^late ~detached",
			says: []string{"until the pod object is deleted"}},
		{name: "never on a node", world: testworld.With(testworld.New(), func(w *testworld.World) { w.Pod.Spec.NodeName, w.Pod.Status.Phase = "", corev1.PodFailed }),
			verdict: "none Ended"},
	} {
		t.Run(c.name, c.run)
	}
}

// TestTmpfsKeepsThePod: a volume that the kubelet makes itself can be busy, and keeps the pod.
// Of two such volumes no object shows which.
func TestTmpfsKeepsThePod(t *testing.T) {
	sources := map[string]corev1.VolumeSource{
		"secret":      {Secret: &corev1.SecretVolumeSource{SecretName: "keys"}},
		"projected":   {Projected: &corev1.ProjectedVolumeSource{}},
		"downwardAPI": {DownwardAPI: &corev1.DownwardAPIVolumeSource{}},
		"memory":      {EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}},
	}
	beside := func(w *testworld.World, names ...string) *trace.Trace {
		for _, name := range names {
			w.Pod.Spec.Volumes = append(w.Pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: sources[name]})
			w.Pod.Spec.Containers[0].VolumeMounts = append(w.Pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
		}
		return traceOf(w)
	}
	for name := range sources {
		if v := beside(testworld.New().Stopped(9), name).Verdict; !slices.Contains(v.Volumes, name) {
			t.Errorf("%s beside a disk: the verdict is about %q %v: %s", name, v.Volume, v.Volumes, v.Message)
		}
	}
	away := testworld.New().Pending(9)
	away.Pod.DeletionTimestamp, away.CSINodes[0].Spec.Drivers = new(testworld.MinutesAgo(5)), nil
	away.Pod.Status.Phase, away.Pod.Status.ContainerStatuses = corev1.PodFailed, nil
	if v := beside(away, "memory").Verdict; !slices.Contains(v.Volumes, "memory") {
		t.Errorf("beside a disk that may never have been mounted, and whose driver is not there, the verdict is about %q %v: %s", v.Volume, v.Volumes, v.Message)
	}
	sources["part of a disk"], sources["part of the host"] = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
	for _, name := range []string{"part of a disk", "part of the host"} {
		if v := beside(testworld.New().Stopped(9), name).Verdict; slices.Contains(v.Volumes, name) {
			t.Errorf("%s, whole: the verdict is about %v", name, v.Volumes)
		}
		w := testworld.New().Stopped(9)
		w.Pod.Spec.InitContainers = []corev1.Container{{Name: "first", VolumeMounts: []corev1.VolumeMount{{Name: name, MountPath: "/x", SubPath: "some/where"}}}}
		if v := beside(w, name).Verdict; !slices.Contains(v.Volumes, name) {
			t.Errorf("%s: the verdict is about %q %v: %s", name, v.Volume, v.Volumes, v.Message)
		}
	}
	w := testworld.New().Stopped(9)
	w.Node.Status.VolumesInUse, w.Node.Status.VolumesAttached, w.VolumeAttachments = nil, nil, nil
	doc := beside(w, "secret", "memory")
	if v := doc.Verdict; v.State != finding.Stuck || !slices.Equal(slices.Sorted(slices.Values(v.Volumes)), []string{"memory", "secret"}) {
		t.Errorf("the verdict is %s about %v: %s", v.State, v.Volumes, v.Message)
	}
	for _, v := range doc.Volumes {
		if s, _ := doc.Standing(v); v.Name != "data" && s.Stage.State != trace.StageUnknown {
			t.Errorf("%s is %s, and no object tells which of the two is busy", v.Name, s.Stage.State)
		}
	}
}

// TestTraceKubeletWords: the same message means something else in another release.
func TestTraceKubeletWords(t *testing.T) {
	message := "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[data token], failed to process volumes=[]: timed out waiting for the condition"
	for version, want := range map[string]string{
		"v1.25.4":  "lists every volume of the pod as unattached",
		"v1.26.0":  "was not attached as the kubelet sees it",
		"v1.27.1":  "was not attached as the kubelet sees it",
		"v1.36.3":  "was not attached as the kubelet sees it",
		"nonsense": "depends on the kubelet's release",
	} {
		w := testworld.New().Pending(9).Event("FailedMount", message, 3)
		w.Node.Status.NodeInfo.KubeletVersion = version
		traceCase{world: w, verdict: "stuck mounted", says: []string{want}}.run(t)
	}
	w := testworld.New().Pending(9).Event("FailedMount", "Unable to attach or mount volumes: unmounted volumes=[token], unattached volumes=[]: x", 3)
	w.Node.Status.NodeInfo.KubeletVersion = "v1.27.1"
	traceCase{world: w, verdict: "stuck mounted", says: []string{"they are kept for an hour only"}}.run(t)
}

// TestClaimThatNeverWas: a pod that waited for a claim which does not exist, and is deleted, waits for
// what it had of its volumes. Where a volume still names the claim, it may have that one, too.
func TestClaimThatNeverWas(t *testing.T) {
	ends := func(volumes bool) *testworld.World {
		w := withSecret(testworld.New().Pending(20))
		deleted, started := testworld.MinutesAgo(9), testworld.MinutesAgo(20)
		w.Pod.DeletionTimestamp, w.Pod.Status.StartTime = &deleted, &started
		w.Claims = nil
		if !volumes {
			w.Volumes, w.VolumeAttachments, w.Node.Status.VolumesInUse, w.Node.Status.VolumesAttached = nil, nil, nil, nil
		}
		return w
	}
	if v := traceOf(ends(false)).Verdict; v.State != finding.Stuck || v.Volume != "keys" || v.Stage != trace.StageUnmounted {
		t.Errorf("without a volume: %s %q %s: %s", v.State, v.Volume, v.Stage, v.Message)
	}
	if v := traceOf(ends(true)).Verdict; v.State != finding.Unsure {
		t.Errorf("with a volume that names the claim: %s: %s", v.State, v.Message)
	}
	for age, state := range map[float64]finding.WaitState{30: finding.Stuck, 10: finding.Unsure} { // the pod's is 20
		w := ends(true)
		claim := testworld.New().Claims[0]
		claim.UID, claim.CreationTimestamp = "uid-again", testworld.MinutesAgo(age)
		w.Claims = append(w.Claims, claim)
		if v := traceOf(w).Verdict; v.State != state || (v.Volume == "keys") != (state == finding.Stuck) {
			t.Errorf("with a claim of %v minutes whose volume is bound to an earlier one: %s %q: %s", age, v.State, v.Volume, v.Message)
		}
	}
}

// TestRemainderJudgesNothing: a finding that only repeats a verdict does not change it.
func TestRemainderJudgesNothing(t *testing.T) {
	for code, want := range map[finding.Code]finding.WaitState{finding.PodStuck: finding.InFlight, "VD410": finding.Stuck} {
		doc := traceOf(testworld.New().Pending(1))
		doc.Judge([]finding.Finding{{Code: code, Severity: finding.Warning, Pods: []string{doc.Pod.Namespace + "/" + doc.Pod.Name}}})
		if doc.Verdict.State != want {
			t.Errorf("%s: %s, want %s", code, doc.Verdict.State, want)
		}
	}
}
