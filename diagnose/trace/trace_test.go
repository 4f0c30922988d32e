package trace_test

import (
	"fmt"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testworld"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// traceCase is a cluster and the expected trace of its pod: the verdict, the chain of the first
// volume, and words that occur in it.
type traceCase struct {
	name    string
	world   *testworld.World
	verdict string // state and reason
	chain   string
	says    []string
}

func (c traceCase) run(t *testing.T) {
	doc := traceOf(c.world)
	if got := string(doc.Verdict.State) + " " + doc.Verdict.Reason; got != c.verdict {
		t.Errorf("verdict %q, want %q: %s", got, c.verdict, doc.Verdict.Message)
	}
	if c.chain != "" {
		if got := chain(doc.Volumes[0]); got != c.chain {
			t.Errorf("chain\n%s, want\n%s", got, c.chain)
		}
	}
	s := c.world.Snapshot()
	for _, node := range s.Nodes {
		for _, text := range testworld.Disagreements(s, reconcile.Options{}, facts.NodeName(node)) {
			t.Errorf("the plan of node %s says something else: %s", node.Name, text)
		}
	}
	text := traceText(doc)
	for _, want := range c.says {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
}

func traceText(doc *trace.Trace) string {
	text := doc.Verdict.Message + "\n"
	for _, v := range doc.Volumes {
		for _, s := range v.Stages {
			text += strings.Join([]string{string(s.Stage), s.On, s.Detail, s.Ends, s.UsualBound}, "|") + "\n"
			for _, said := range s.Said {
				text += "  " + said.By + "|" + said.Text + "|" + said.Means + "\n"
			}
		}
		text += strings.Join(v.Notes, "\n")
	}
	return text
}

const (
	way      = "+scheduled +claimBound +askedFor +attached +listed +driverRegistered +staged +mounted"
	attached = "+scheduled +claimBound +askedFor +attached +listed +driverRegistered "
)

func TestTraceUp(t *testing.T) {
	for _, c := range []traceCase{
		{name: "mounted", world: testworld.New(), verdict: "none Mounted", chain: way, says: []string{"container app runs"}},
		{name: "attach in flight", world: func() *testworld.World {
			w := testworld.New().Pending(1).Unattached()
			va := testworld.NewAttachment("n1")
			va.Status.Attached, va.CreationTimestamp = false, testworld.MinutesAgo(1)
			w.VolumeAttachments = []*storagev1.VolumeAttachment{va}
			return w
		}(), verdict: "in-flight attached", chain: "+scheduled +claimBound +askedFor ~attached^ ~listed +driverRegistered ~staged ~mounted",
			says: []string{"external-attacher of ebs.csi.aws.com", "2m"}},
		{name: "attach takes too long", world: func() *testworld.World {
			w := testworld.New().Pending(9).Unattached()
			va := testworld.NewAttachment("n1")
			va.Status.Attached, va.CreationTimestamp = false, testworld.MinutesAgo(8)
			w.VolumeAttachments = []*storagev1.VolumeAttachment{va}
			return w.Event("FailedAttachVolume", `AttachVolume.Attach failed for volume "pv-data" : timed out waiting for external-attacher of `+
				`ebs.csi.aws.com CSI driver to attach volume vol-1`, 4)
		}(), verdict: "stuck attached", chain: "+scheduled +claimBound +askedFor ~attached^late ~listed +driverRegistered ~staged ~mounted",
			says: []string{"the controller waited 2 min for the attacher"}},
		{name: "attach fails", world: func() *testworld.World {
			w := testworld.New().Pending(9).Unattached()
			va := testworld.NewAttachment("n1")
			va.Status.Attached, va.CreationTimestamp = false, testworld.MinutesAgo(8)
			va.Status.AttachError = &storagev1.VolumeError{Time: testworld.MinutesAgo(1), Message: "rpc error: code = Internal desc = no such disk"}
			w.VolumeAttachments = []*storagev1.VolumeAttachment{va}
			return w
		}(), verdict: "stuck attached", chain: "+scheduled +claimBound +askedFor !attached^late ~listed +driverRegistered ~staged ~mounted",
			says: []string{"no such disk", "the storage admin"}},
		{name: "the driver has registered since the attach failed", world: func() *testworld.World {
			w := testworld.New().Pending(9).Unattached()
			va := testworld.NewAttachment("n1")
			va.Status.Attached, va.CreationTimestamp = false, testworld.MinutesAgo(8)
			va.Status.AttachError = &storagev1.VolumeError{Time: testworld.MinutesAgo(1), Message: "CSINode n1 does not contain driver ebs.csi.aws.com"}
			w.VolumeAttachments = []*storagev1.VolumeAttachment{va}
			return w
		}(), verdict: "stuck attached", says: []string{"next to act: the external-attacher of ebs.csi.aws.com", "registered on the node since"}},
		{name: "attach has just failed", world: func() *testworld.World {
			w := testworld.New().Pending(0.5).Unattached()
			va := testworld.NewAttachment("n1")
			va.Status.Attached, va.CreationTimestamp = false, testworld.MinutesAgo(0.5)
			va.Status.AttachError = &storagev1.VolumeError{Time: testworld.MinutesAgo(0.1), Message: "try again"}
			w.VolumeAttachments = []*storagev1.VolumeAttachment{va}
			return w
		}(), verdict: "in-flight attached"},
		{name: "node full, rejected later", world: full("v1.36.3", true), verdict: "stuck attached", says: []string{"rejects the pod"}},
		{name: "node full, waits for ever", world: full("v1.36.3", false), verdict: "stuck attached", says: []string{"no nodeAllocatableUpdatePeriodSeconds"}},
		{name: "node full, old kubelet", world: full("v1.33.1", true), verdict: "stuck attached", says: []string{"a kubelet of 1.33 goes on waiting"}},
		{name: "nobody attaches", world: func() *testworld.World {
			w := testworld.New().Pending(9).Unattached()
			va := testworld.NewAttachment("n1")
			va.Status.Attached, va.Finalizers, va.CreationTimestamp = false, nil, testworld.MinutesAgo(8)
			w.VolumeAttachments = []*storagev1.VolumeAttachment{va}
			w.Leases = append(w.Leases, testworld.NewLease("kube-system", "external-attacher-leader-ebs-csi-aws-com", testworld.MinutesAgo(99), testworld.MinutesAgo(30)))
			return w
		}(), verdict: "stuck attached", says: []string{"no attacher of this driver seems to run", "was last renewed at 2026-11-20T09:30:00Z"}},
		{name: "another attacher has just taken over", world: func() *testworld.World {
			w := testworld.New().Pending(0.7).Unattached()
			va := testworld.NewAttachment("n1")
			va.Status.Attached, va.Finalizers, va.CreationTimestamp = false, nil, testworld.MinutesAgo(0.6)
			w.VolumeAttachments = []*storagev1.VolumeAttachment{va}
			w.Leases = append(w.Leases, testworld.NewLease("kube-system", "external-attacher-leader-ebs-csi-aws-com", testworld.MinutesAgo(0.3), testworld.MinutesAgo(0.05)))
			return w
		}(), verdict: "in-flight attached", says: []string{"its VolumeAttachment has not been touched|"}},
		{name: "no attachment yet", world: testworld.New().Pending(0.2).Unattached(), verdict: "in-flight attached",
			says: []string{"there is no VolumeAttachment csi-", "the attach/detach controller"}},
		{name: "the detach has just ended", world: testworld.New().Pending(5).Unattached().
			Event("FailedAttachVolume", `AttachVolume.Attach failed for volume "pv-data" : volume attachment is being deleted`, 2), verdict: "in-flight attached"},
		{name: "the detach ended long ago", world: testworld.New().Pending(5).Unattached().
			Event("FailedAttachVolume", `AttachVolume.Attach failed for volume "pv-data" : volume attachment is being deleted`, 3), verdict: "stuck attached"},
		{name: "another volume's detach has just ended", world: testworld.New().Pending(5).Unattached().
			Event("FailedAttachVolume", `AttachVolume.Attach failed for volume "pv-logs" : volume attachment is being deleted`, 2), verdict: "stuck attached"},
		{name: "no attachment at all", world: testworld.New().Pending(5).Unattached(), verdict: "stuck attached",
			chain: "+scheduled +claimBound +askedFor ~attached^late ~listed +driverRegistered ~staged ~mounted"},
		{name: "the controller has just started", world: func() *testworld.World {
			w := testworld.New().Pending(5).Unattached()
			w.Leases = []*coordinationv1.Lease{testworld.NewLease("kube-system", "kube-controller-manager", testworld.MinutesAgo(1), testworld.MinutesAgo(0))}
			return w
		}(), verdict: "in-flight attached"},
		{name: "node not managed", world: func() *testworld.World {
			w := testworld.New().Pending(5).Unattached()
			w.Node.Annotations = nil
			return w
		}(), verdict: "stuck attached", says: []string{"lacks the annotation"}},
		{name: "detach under way", world: func() *testworld.World {
			w := testworld.New().Pending(5).Unattached()
			va, deleted := testworld.NewAttachment("n1"), testworld.MinutesAgo(6)
			va.DeletionTimestamp = &deleted
			va.Status.DetachError = &storagev1.VolumeError{Time: testworld.MinutesAgo(1), Message: "device busy"}
			w.VolumeAttachments = []*storagev1.VolumeAttachment{va}
			return w
		}(), verdict: "stuck attached", says: []string{"device busy", "is being deleted"}},
		{name: "listed without attachment", world: func() *testworld.World {
			w := testworld.New().Pending(5)
			w.VolumeAttachments = nil
			return w
		}(), verdict: "stuck attached", says: []string{"volumesAttached lists it, but its VolumeAttachment does not exist"}},
		{name: "attached and not listed", world: func() *testworld.World {
			w := testworld.New().Pending(9)
			w.Node.Status.VolumesAttached = nil
			return w
		}(), verdict: "stuck listed", chain: "+scheduled +claimBound +askedFor +attached ~listed^late +driverRegistered ~staged ~mounted",
			says: []string{"it writes no event about it", "not for this volume alone"}},
		{name: "not asked for yet", world: func() *testworld.World {
			w := testworld.New().Pending(0.1)
			w.Node.Status.VolumesInUse = nil
			return w
		}(), verdict: "in-flight askedFor", chain: "+scheduled +claimBound ~askedFor^ +attached +listed +driverRegistered ~staged ~mounted"},
		{name: "not asked for on a young node", world: func() *testworld.World {
			w := testworld.New().Pending(0.6)
			w.Node.Status.VolumesInUse = nil
			w.Node.CreationTimestamp = testworld.MinutesAgo(1.2)
			return w
		}(), verdict: "in-flight askedFor"},
		{name: "not asked for on a node that is no longer young", world: func() *testworld.World {
			w := testworld.New().Pending(0.6)
			w.Node.Status.VolumesInUse = nil
			w.Node.CreationTimestamp = testworld.MinutesAgo(3.5)
			return w
		}(), verdict: "stuck askedFor"},
		{name: "not asked for", world: func() *testworld.World {
			w := testworld.New().Pending(9)
			w.Node.Status.VolumesInUse = nil
			w.Node.Status.Conditions[0].LastHeartbeatTime = testworld.MinutesAgo(30)
			return w
		}(), verdict: "stuck askedFor", says: []string{"has written no status since 2026-11-20T09:30:00Z"}},
		{name: "driver not registered", world: func() *testworld.World {
			w := testworld.New().Pending(9)
			w.CSINodes[0].Spec.Drivers = nil
			return w
		}(), verdict: "stuck driverRegistered", chain: "+scheduled +claimBound +askedFor +attached +listed !driverRegistered^late ?staged ~mounted",
			says: []string{"CSINode n1 lacks ebs.csi.aws.com", "no pod on the node mounts the directory"}},
		{name: "driver forgotten", world: testworld.New().Pending(9).Event("FailedMount", `MountVolume.MountDevice failed for volume "pv-data" : kubernetes.io/csi: `+
			`attacher.MountDevice failed to create newCsiDriverClient: driver name ebs.csi.aws.com not found in the list of registered CSI drivers`, 5),
			verdict: "stuck driverRegistered", chain: "+scheduled +claimBound +askedFor +attached +listed !driverRegistered^late ?staged ~mounted"},
		{name: "staging fails", world: testworld.New().Pending(9).Event("FailedMount", `MountVolume.MountDevice failed for volume "pv-data" : rpc error: `+
			`code = DeadlineExceeded desc = context deadline exceeded`, 5),
			verdict: "stuck staged", chain: attached + "!staged^late ~mounted", says: []string{"did not answer within 2 min"}},
		{name: "mounting fails", world: testworld.New().Pending(9).Event("FailedMount", `MountVolume.SetUp failed for volume "pv-data" : mount failed: exit status 32`, 5),
			verdict: "stuck mounted", chain: attached + "+staged !mounted^late"},
		{name: "mapping fails", world: testworld.New().Pending(9).Event("FailedMapVolume", `MapVolume.MapPodDevice failed for volume "pv-data" : rpc error`, 5),
			verdict: "stuck mounted", chain: attached + "+staged !mounted^late"},
		{name: "silent", world: testworld.New().Pending(9), verdict: "stuck mounted", chain: attached + "?staged ~mounted^late",
			says: []string{"a kubelet of 1.36 writes none for a wait that merely times out"}},
		{name: "silent for a while", world: testworld.New().Pending(1), verdict: "in-flight mounted"},
		{name: "ownership", world: testworld.New().Pending(9).Event("VolumePermissionChangeInProgress",
			"Setting volume ownership for /var/lib/kubelet/pods/uid-app/volumes/kubernetes.io~csi/pv-data/mount, processed 100 files.", 0.5),
			verdict: "in-flight OwnershipChange", says: []string{"OnRootMismatch"}},
	} {
		t.Run(c.name, c.run)
	}
}

// full is a cluster whose node can take no more volumes.
func full(kubelet string, refreshes bool) *testworld.World {
	w := testworld.New().Pending(9).Unattached()
	w.Node.Status.NodeInfo.KubeletVersion = kubelet
	va, code, period := testworld.NewAttachment("n1"), int32(8), int64(60)
	va.Status.Attached, va.CreationTimestamp = false, testworld.MinutesAgo(8)
	va.Status.AttachError = &storagev1.VolumeError{Time: testworld.MinutesAgo(1), Message: "too many volumes", ErrorCode: &code}
	w.VolumeAttachments = []*storagev1.VolumeAttachment{va}
	if refreshes {
		w.CSIDrivers[0].Spec.NodeAllocatableUpdatePeriodSeconds = &period
	}
	return w
}

// TestTraceVerdicts: waits that look like a wait for a volume and are not, and the other way
// round.
func TestTraceVerdicts(t *testing.T) {
	missing := `MountVolume.SetUp failed for volume "data" : configmap "settings" not found`
	for _, c := range []traceCase{
		{name: "image", world: testworld.With(testworld.New().Pending(9), func(w *testworld.World) {
			w.Pod.Status.Conditions[1].Status = corev1.ConditionTrue
			w.Waiting("ImagePullBackOff")
		}), verdict: "none ImagePull"},
		{name: "missing for the environment", world: testworld.With(testworld.New().Pending(9), func(w *testworld.World) {
			w.Pod.Status.Conditions[1].Status = corev1.ConditionTrue
			w.Waiting("CreateContainerConfigError")
		}), verdict: "none ContainerConfig"},
		{name: "pulling without a word", world: testworld.With(testworld.New().Pending(9), func(w *testworld.World) {
			w.Pod.Status.Conditions[1].Status = corev1.ConditionTrue
		}), verdict: "none ContainerCreating"},
		{name: "crash loop", world: testworld.With(testworld.New(), func(w *testworld.World) { w.Waiting("CrashLoopBackOff") }), verdict: "none ContainerFails"},
		{name: "init container", world: testworld.With(testworld.New().Pending(9), func(w *testworld.World) {
			w.Waiting("PodInitializing")
			w.Pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "setup", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		}), verdict: "none InitContainers", chain: way},
		{name: "sandbox", world: testworld.New().Pending(9).Event("FailedCreatePodSandBox", "failed to setup network for sandbox", 1), verdict: "none Sandbox", chain: way},
		{name: "network", world: testworld.New().Pending(9).Event("NetworkNotReady", "network is not ready", 0.1), verdict: "none NetworkNotReady"},
		{name: "network has come", world: testworld.New().Pending(9).Event("NetworkNotReady", "network is not ready", 1), verdict: "stuck mounted"},
		{name: "network and volume", world: testworld.New().Pending(9).Unattached().Event("NetworkNotReady", "network is not ready", 0.1), verdict: "stuck attached"},
		{name: "missing configMap as volume", world: testworld.With(testworld.New().Pending(9).Event("FailedMount", missing, 5), configMapOnly),
			verdict: "stuck MissingConfigMap", chain: "+scheduled !mounted^late", says: []string{"configmap/settings"}},
		{name: "node not ready", world: testworld.With(testworld.New().Pending(9), func(w *testworld.World) {
			w.Node.Status.VolumesInUse = nil
			w.Node.Status.Conditions[0].Status = corev1.ConditionUnknown
		}), verdict: "none NodeNotReady"},
		{name: "runs as long as its node was heard of", world: testworld.With(testworld.New(), func(w *testworld.World) { w.Node.Status.Conditions[0].Status = corev1.ConditionUnknown }),
			verdict: "unknown NodeSilent", chain: attached + "?staged ?mounted", says: []string{"Whether pod default/app still runs is not known: node n1 is silent", "as last reported, its volumes are mounted (container app runs)"}},
		{name: "runs on a node that is gone", world: testworld.With(testworld.New(), func(w *testworld.World) { w.Nodes = w.Nodes[1:] }),
			verdict: "unknown NodeSilent", chain: "+scheduled +claimBound ?askedFor +attached ?listed +driverRegistered ?staged ?mounted", says: []string{"node n1 does not exist any more"}},
		{name: "runs on a node that was not read", world: testworld.With(testworld.New().Without(snapshot.Nodes), func(w *testworld.World) { w.Nodes = w.Nodes[1:] }), verdict: "none Mounted"},
		{name: "runs on a node that says itself that it is not ready", world: testworld.With(testworld.New(), func(w *testworld.World) {
			w.Node.Status.Conditions[0].Status = corev1.ConditionFalse
			w.Node.Status.Conditions[0].LastHeartbeatTime = testworld.MinutesAgo(0.2)
		}), verdict: "none Mounted", chain: attached + "+staged +mounted"},
		{name: "its file system does not grow", world: testworld.New().Pending(9).Event("FailedMount", `MountVolume.Setup failed while expanding volume for volume "pv-data" : Expander.NodeExpand failed to expand the volume : rpc error: code = Internal desc = resize of device /dev/sdb failed: exit status 1. resize2fs output: resize2fs: Bad magic number in super-block while trying to open /dev/sdb`, 5).SaidAgain(),
			verdict: "stuck mounted", says: []string{"next to act: the node admin"}},
		{name: "kubelet has not begun", world: testworld.With(testworld.New().Pending(9), func(w *testworld.World) {
			w.Pod.Status.StartTime, w.Pod.Status.ContainerStatuses = nil, nil
		}), verdict: "none KubeletSilent"},
		{name: "no volumes", world: testworld.With(testworld.New().Pending(9), func(w *testworld.World) { w.Pod.Spec.Volumes = nil }), verdict: "none NoVolumes"},
		{name: "not referenced", world: testworld.With(testworld.New().Pending(9), func(w *testworld.World) { w.Pod.Spec.Containers[0].VolumeMounts = nil }),
			verdict: "none NoVolumes", chain: "+scheduled +claimBound -mounted", says: []string{"the controller attaches it all the same"}},
		{name: "after a reboot", world: testworld.With(testworld.New().Pending(9), func(w *testworld.World) {
			w.Pod.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{}
		}), verdict: "stuck mounted"},
		{name: "before the condition", world: testworld.With(testworld.New().Pending(9), func(w *testworld.World) {
			w.Pod.Status.Conditions, w.Pod.Status.PodIP = w.Pod.Status.Conditions[:1], "10.0.0.1"
		}), verdict: "none ContainerCreating"},
		{name: "unscheduled", world: unscheduled("0/3 nodes are available: 3 Insufficient cpu."), verdict: "none Unscheduled"},
		{name: "unscheduled because of a volume", world: unscheduled("0/3 nodes are available: 3 node(s) had volume node affinity conflict."),
			verdict: "stuck scheduled", says: []string{"in another zone"}},
		{name: "one claim twice", world: testworld.With(testworld.New().Pending(9), func(w *testworld.World) {
			w.Node.Status.NodeInfo.KubeletVersion = "v1.34.0"
			second := *w.Pod.Spec.Volumes[0].DeepCopy()
			second.Name = "again"
			w.Pod.Spec.Volumes = append(w.Pod.Spec.Volumes, second)
			w.Pod.Spec.Containers[0].VolumeMounts = append(w.Pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "again"})
		}), verdict: "stuck mounted", says: []string{"the pod's volume again is the same one"}},
	} {
		t.Run(c.name, c.run)
	}
}

// TestAttacherStuckOnTheLostNode: where the driver's own attacher ran on the lost node, and its
// StatefulSet makes no other, the pod is named; one that is made again elsewhere is not.
func TestAttacherStuckOnTheLostNode(t *testing.T) {
	world := func(kind string, ready corev1.ConditionStatus) *testworld.World {
		w := testworld.New().Pending(3).Unattached()
		w.Node.Status.VolumesInUse = nil
		lost := w.Nodes[1]
		lost.Status.VolumesInUse, lost.Status.VolumesAttached = []corev1.UniqueVolumeName{testworld.Volume}, []corev1.AttachedVolume{{Name: testworld.Volume}}
		lost.Status.Conditions[0].Status, lost.Status.Conditions[0].LastTransitionTime = ready, testworld.MinutesAgo(40)
		w.VolumeAttachments = []*storagev1.VolumeAttachment{testworld.NewAttachment("n2")}
		attacher := testworld.NewPod("ebs-0", "n2")
		attacher.Namespace, attacher.Spec.Volumes, attacher.Spec.Containers = "kube-system", nil, []corev1.Container{{Name: "csi-attacher"}}
		yes, told, holder := true, testworld.MinutesAgo(20), "ebs-0"
		attacher.DeletionTimestamp = &told
		attacher.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "ebs", UID: "uid-ebs", Controller: &yes}}
		lease := testworld.NewLease("kube-system", "external-attacher-leader-ebs-csi-aws-com", testworld.MinutesAgo(99), testworld.MinutesAgo(41))
		lease.Spec.HolderIdentity = &holder
		w.Pods, w.Leases = append(w.Pods, attacher), append(w.Leases, lease)
		return w
	}
	for name, c := range map[string]struct {
		world *testworld.World
		stuck bool
	}{
		"made by a StatefulSet": {world("StatefulSet", corev1.ConditionUnknown), true},
		"made by a ReplicaSet":  {world("ReplicaSet", corev1.ConditionUnknown), false},
		"on a node that lives":  {world("StatefulSet", corev1.ConditionTrue), false},
	} {
		doc := traceOf(c.world)
		text := traceText(doc)
		for _, f := range doc.Findings {
			text += fmt.Sprintln(f.Code, f.Detail, f.Whole.Advice)
		}
		for words, times := range map[string]int{ // the stage says it, and the finding
			"its pod kube-system/ebs-0 is stuck Terminating on lost node n2, and its StatefulSet makes no other": 2,
			"so that the driver's controller pod kube-system/ebs-0 can start elsewhere":                          1,
		} {
			if n := strings.Count(text, words); c.stuck && n != times || !c.stuck && n > 0 {
				t.Errorf("%s: %q: %d times\n%s", name, words, n, text)
			}
		}
		if c.stuck && !strings.Contains(text, "the driver's attacher runs again, and ") {
			t.Errorf("%s: the wait ends without the attacher:\n%s", name, text)
		}
	}
}

func configMapOnly(w *testworld.World) {
	w.Pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}}}
}

func unscheduled(message string) *testworld.World {
	w := testworld.New().Pending(9).Unattached()
	w.Pod.Spec.NodeName = ""
	w.Pod.Status.Conditions[0] = corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: message,
		LastTransitionTime: testworld.MinutesAgo(9)}
	w.Pod.Status.Conditions = w.Pod.Status.Conditions[:1]
	return w
}

// traceOf is the trace of the pod.
func traceOf(w *testworld.World) *trace.Trace {
	return diagnose.TracePod(w.Snapshot(), w.Pod, diagnose.Options{})
}

// chain is the stages of a volume in one line: + done, ~ waiting, ! blocked, ? unknown, - not
// needed; ^ marks the stage in which the volume waits, and "late" one beyond its bound.
func chain(v trace.VolumeTrace) string {
	marks := map[trace.StageState]string{trace.StageDone: "+", trace.StageWaiting: "~", trace.StageBlocked: "!",
		trace.StageUnknown: "?", trace.StageNotNeeded: "-"}
	var parts []string
	for _, s := range v.Stages {
		part := marks[s.State] + string(s.Stage)
		if s.Stage == v.Broken {
			part += "^"
			if s.Overdue {
				part += "late"
			}
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}
