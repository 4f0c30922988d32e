package command_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/load"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/scenario"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
)

// otherDriver has no attacher and, unless a test starts one, no node plugin.
const otherDriver = "other.volume-doctor.test"

// stageWorld is a world with two more nodes. On "byhand" the stand-in kubelet has registered
// and stopped, and the test does its work, so that the node can stay in any stage. On "late"
// it has stopped as well, and comes back in the end.
type stageWorld struct {
	*scenario.World
	t            *testing.T
	client       kubernetes.Interface
	byhand, late string
	// seen are the stages in which a trace has found a waiting volume.
	seen map[trace.StageName]bool
}

// traced is a pod with the expected end of its trace: the stage in which its first volume
// waits, how it waits, and the reason of the verdict.
type traced struct {
	pod    string
	broken trace.StageName
	state  trace.StageState
	reason string
	waits  bool   // whether it waits for a volume, by the exit code
	says   string // a text somewhere in the JSON
}

func (w *stageWorld) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// volume makes a bound volume of the test's driver.
func (w *stageWorld) volume(claim string) fixture.Volume {
	w.t.Helper()
	v, err := fixture.BoundVolume(w.t.Context(), w.client, w.Namespace, claim, corev1.ReadWriteOnce)
	w.check(err)
	return v
}

// foreign makes a bound volume of otherDriver.
func (w *stageWorld) foreign(claim string) {
	w.t.Helper()
	v := w.volume(claim)
	volumes := w.client.CoreV1().PersistentVolumes()
	old, err := volumes.Get(w.t.Context(), v.PersistentVolume, metav1.GetOptions{})
	w.check(err)
	w.check(volumes.Delete(w.t.Context(), old.Name, metav1.DeleteOptions{}))
	old.ObjectMeta = metav1.ObjectMeta{Name: old.Name}
	old.Spec.CSI.Driver = otherDriver
	pv, err := volumes.Create(w.t.Context(), old, metav1.CreateOptions{})
	w.check(err)
	pv.Status.Phase = corev1.VolumeBound
	_, err = volumes.UpdateStatus(w.t.Context(), pv, metav1.UpdateOptions{})
	w.check(err)
}

// podOn creates a pod with the claim on a node; "" leaves it to a scheduler, which does not
// run.
func (w *stageWorld) podOn(node, name, claim string) *corev1.Pod {
	w.t.Helper()
	pod, err := fixture.CreatePod(w.t.Context(), w.client, fixture.Pod(w.Namespace, name, node, claim))
	w.check(err)
	return pod
}

// status changes a pod's status, as the kubelet would.
func (w *stageWorld) status(name string, change func(*corev1.PodStatus)) {
	w.t.Helper()
	pods := w.client.CoreV1().Pods(w.Namespace)
	w.check(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		pod, err := pods.Get(w.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(&pod.Status)
		_, err = pods.UpdateStatus(w.t.Context(), pod, metav1.UpdateOptions{})
		return err
	}))
}

// repeated is how often the kubelet has written its event: its recorder sends no more.
const repeated = 25

// event writes an event of the kubelet of byhand about a pod.
func (w *stageWorld) event(name, reason, message string) {
	w.t.Helper()
	pod, err := w.client.CoreV1().Pods(w.Namespace).Get(w.t.Context(), name, metav1.GetOptions{})
	w.check(err)
	now := metav1.Now()
	_, err = w.client.CoreV1().Events(w.Namespace).Create(w.t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: name + "."},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Reason:         reason, Message: message, Type: corev1.EventTypeWarning,
		Source: corev1.EventSource{Component: "kubelet", Host: w.byhand}, FirstTimestamp: now, LastTimestamp: now, Count: repeated,
	}, metav1.CreateOptions{})
	w.check(err)
}

// renew renews the leases of the two kubelets that have stopped: none of them counts as lost.
func (w *stageWorld) renew() {
	w.t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, metav1.NowMicro().UTC().Format(metav1.RFC3339Micro))
	for _, node := range []string{w.byhand, w.late} {
		_, err := w.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Patch(w.t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{})
		w.check(err)
	}
}

// inUse changes the volumesInUse of byhand.
func (w *stageWorld) inUse(change func([]corev1.UniqueVolumeName) []corev1.UniqueVolumeName) {
	w.t.Helper()
	nodes := w.client.CoreV1().Nodes()
	w.check(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := nodes.Get(w.t.Context(), w.byhand, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Status.VolumesInUse = change(node.Status.VolumesInUse)
		_, err = nodes.UpdateStatus(w.t.Context(), node, metav1.UpdateOptions{})
		return err
	}))
}

func creating(s *corev1.PodStatus) {
	now := metav1.Now()
	s.Phase, s.StartTime = corev1.PodPending, &now
	s.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: now},
		{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse, LastTransitionTime: now},
	}
	waitingFor("ContainerCreating")(s)
}

func waitingFor(reason string) func(*corev1.PodStatus) {
	return func(s *corev1.PodStatus) {
		s.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
	}
}

// past is the status of a pod whose volumes are mounted and that waits for something else.
func past(reason string) func(*corev1.PodStatus) {
	return func(s *corev1.PodStatus) {
		creating(s)
		s.Conditions[1].Status = corev1.ConditionTrue
		waitingFor(reason)(s)
	}
}

func running(s *corev1.PodStatus) {
	past("")(s)
	s.Phase = corev1.PodRunning
	s.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
}

func stopped(s *corev1.PodStatus) {
	running(s)
	s.Conditions[1].Status = corev1.ConditionFalse
	s.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: metav1.Now(), FinishedAt: metav1.Now()}}
}

func completed(s *corev1.PodStatus) {
	stopped(s)
	s.Phase = corev1.PodSucceeded
}

func newStageWorld(t *testing.T) *stageWorld {
	w := &stageWorld{World: newWorld(t, scenario.Healthy), t: t, client: cluster.Client(), seen: map[trace.StageName]bool{}}
	w.byhand, w.late = w.Node+"-byhand", w.Node+"-late"
	for _, name := range []string{w.byhand, w.late} {
		k, err := w.AddNode(t.Context(), name)
		w.check(err)
		k.Stop()
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := w.client.StorageV1().CSIDrivers().Delete(ctx, otherDriver, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	yes := true
	_, err := w.client.StorageV1().CSIDrivers().Create(t.Context(), &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: otherDriver}, Spec: storagev1.CSIDriverSpec{AttachRequired: &yes}}, metav1.CreateOptions{})
	w.check(err)
	return w
}

// TestTraceStages drives pods through the stages of a volume, up and down, with the real
// controller and attacher, and asks the command at each where the pod is.
func TestTraceStages(t *testing.T) {
	w := newStageWorld(t)
	written := adminWrites(t)
	driver := csidriver.Name
	mount := func(step, pod, why string) string {
		return fmt.Sprintf("MountVolume.%s failed for volume %q : %s", step, "pv-"+w.Namespace+"-"+pod, why)
	}

	// No pod wants the volume of this one yet.
	w.traces(t, traced{pod: "web-0", reason: "Mounted"})

	// Up to the attach only the objects and the controller matter.
	w.volume("unscheduled")
	w.podOn("", "unscheduled", "unscheduled")
	w.status("unscheduled", func(s *corev1.PodStatus) {
		s.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", LastTransitionTime: metav1.Now(),
			Message: "0/1 nodes are available: 1 node(s) had volume node affinity conflict."}}
	})
	class := fixture.StorageClass
	_, err := w.client.CoreV1().PersistentVolumeClaims(w.Namespace).Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "unbound"},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
	}, metav1.CreateOptions{})
	w.check(err)
	w.podOn(w.Node, "unbound", "unbound")
	lost := w.volume("lost")
	w.check(w.client.CoreV1().PersistentVolumes().Delete(t.Context(), lost.PersistentVolume, metav1.DeleteOptions{}))
	claim, err := w.client.CoreV1().PersistentVolumeClaims(w.Namespace).Get(t.Context(), lost.Claim, metav1.GetOptions{})
	w.check(err)
	claim.Status.Phase = corev1.ClaimLost // as the volume binder does
	_, err = w.client.CoreV1().PersistentVolumeClaims(w.Namespace).UpdateStatus(t.Context(), claim, metav1.UpdateOptions{})
	w.check(err)
	w.podOn(w.Node, "lost", "lost")
	w.foreign("unregistered")
	w.podOn(w.Node, "unregistered", "unregistered")
	w.podOn(w.late, "multi", w.Subject.Volume.Claim)
	late := w.volume("late")
	w.podOn(w.late, "late", "late")
	refused := w.volume("refused")
	cluster.Driver.FailPublish(errors.New("no such disk"), refused.Handle)
	w.podOn(w.Node, "refused", "refused")
	w.traces(t,
		traced{pod: "unscheduled", broken: trace.StageScheduled, state: trace.StageBlocked, reason: "scheduled", waits: true, says: "in another zone"},
		traced{pod: "unbound", broken: trace.StageClaimBound, state: trace.StageWaiting, reason: "claimBound", waits: true, says: "the provisioner of " + driver},
		traced{pod: "lost", broken: trace.StageClaimBound, state: trace.StageBlocked, reason: "claimBound", waits: true, says: "is Lost"},
		traced{pod: "unregistered", broken: trace.StageRegistered, state: trace.StageWaiting, reason: "driverRegistered", waits: true, says: "lacks " + otherDriver},
		traced{pod: "multi", broken: trace.StageAttached, state: trace.StageBlocked, reason: "MultiAttach", waits: true, says: "pod " + w.Namespace + "/web-0 uses it there"},
		traced{pod: "refused", broken: trace.StageAttached, state: trace.StageBlocked, reason: "attached", waits: true, says: "no such disk"},
		traced{pod: "late", broken: trace.StageInVolumesInUse, state: trace.StageWaiting, reason: "askedFor", waits: true, says: "volumesInUse of " + w.late + " lacks it"},
	)

	// After the attach the test does the work of byhand's kubelet.
	after := []string{"staging", "silent", "mounting", "ownership", "forgotten", "nottaken", "image", "init", "sandbox", "stopping", "unmounting", "unstaging", "detaching"}
	var volumes []corev1.UniqueVolumeName
	for _, name := range after {
		volumes = append(volumes, w.volume(name).UniqueName())
	}
	w.inUse(func([]corev1.UniqueVolumeName) []corev1.UniqueVolumeName { return volumes })
	for _, name := range after {
		w.podOn(w.byhand, name, name)
		w.status(name, creating)
	}
	for _, name := range after {
		await(t, fixture.Attached(w.client, w.byhand, fixture.Volume{Claim: name, PersistentVolume: "pv-" + w.Namespace + "-" + name, Handle: "vol-" + w.Namespace + "-" + name}))
	}
	for _, kind := range []string{"secret", "configmap"} {
		pod := fixture.Pod(w.Namespace, kind, w.byhand, "settings")
		pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}
		if kind == "secret" {
			pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "settings"}}
		}
		_, err := fixture.CreatePod(t.Context(), w.client, pod)
		w.check(err)
		w.status(kind, creating)
		w.event(kind, "FailedMount", fmt.Sprintf(`MountVolume.SetUp failed for volume "settings" : %s "settings" not found`, kind))
	}
	w.event("staging", "FailedMount", mount("MountDevice", "staging", "rpc error: code = DeadlineExceeded desc = context deadline exceeded"))
	w.event("mounting", "FailedMount", mount("SetUp", "mounting", "rpc error: code = Internal desc = mount failed: exit status 32"))
	w.event("forgotten", "FailedMount", mount("MountDevice", "forgotten", "kubernetes.io/csi: attacher.MountDevice failed to create newCsiDriverClient: driver name "+driver+
		" not found in the list of registered CSI drivers"))
	w.event("ownership", "VolumePermissionChangeInProgress", "Setting volume ownership for uid/volumes/kubernetes.io~csi/pv-"+w.Namespace+"-ownership/mount, processed 100 files.")
	w.event("nottaken", "FailedMount", "Unable to attach or mount volumes: unmounted volumes=[nottaken], unattached volumes=[], failed to process volumes=[nottaken]: "+
		"error processing PVC "+w.Namespace+"/nottaken: PVC is not bound")
	w.event("sandbox", "FailedCreatePodSandBox", "failed to setup network for sandbox")
	w.status("image", past("ImagePullBackOff"))
	w.status("init", func(s *corev1.PodStatus) {
		past("PodInitializing")(s)
		s.InitContainerStatuses = []corev1.ContainerStatus{{Name: "setup", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}}
	})
	for name, status := range map[string]func(*corev1.PodStatus){"stopping": running, "unmounting": running, "unstaging": completed, "detaching": running} {
		w.status(name, status)
	}
	for _, name := range []string{"stopping", "unmounting"} {
		w.check(fixture.DeletePod(t.Context(), w.client, w.Namespace, name))
	}
	w.status("unmounting", stopped)

	w.traces(t,
		traced{pod: "nottaken", broken: trace.StageInVolumesInUse, state: trace.StageBlocked, reason: "askedFor", waits: true, says: "the claim is not bound"},
		traced{pod: "forgotten", broken: trace.StageRegistered, state: trace.StageBlocked, reason: "driverRegistered", waits: true, says: "the kubelet's own register lacks the driver"},
		traced{pod: "silent", broken: trace.StageMounted, state: trace.StageWaiting, reason: "mounted", waits: true, says: "writes none for a wait that merely times out"},
		traced{pod: "staging", broken: trace.StageStaged, state: trace.StageBlocked, reason: "staged", waits: true, says: "did not answer within 2 min"},
		traced{pod: "mounting", broken: trace.StageMounted, state: trace.StageBlocked, reason: "mounted", waits: true, says: "the mount command of the node failed"},
		traced{pod: "ownership", broken: trace.StageMounted, state: trace.StageWaiting, reason: "OwnershipChange", waits: true, says: "OnRootMismatch"},
		traced{pod: "secret", broken: trace.StageMounted, state: trace.StageBlocked, reason: "MissingSecret", waits: true, says: "secret/settings"},
		traced{pod: "configmap", broken: trace.StageMounted, state: trace.StageBlocked, reason: "MissingConfigMap", waits: true, says: "configmap/settings"},
		traced{pod: "image", reason: "ImagePull"},
		traced{pod: "init", reason: "InitContainers"},
		traced{pod: "sandbox", reason: "Sandbox"},
		traced{pod: "stopping", broken: trace.StageStopped, state: trace.StageWaiting, reason: "ContainersRunning"},
		traced{pod: "unmounting", broken: trace.StageUnmounted, state: trace.StageWaiting, reason: "unmounted", waits: true, says: "it writes no event about that"},
		traced{pod: "unstaging", broken: trace.StageUnstaged, state: trace.StageWaiting, reason: "Ended", says: "is being detached from node"},
	)

	// The driver of the first pod's node registers, but has no attacher. The pod is new:
	// after a minute, a missing attacher counts as one that does not run.
	csiNode, err := w.client.StorageV1().CSINodes().Get(t.Context(), w.Node, metav1.GetOptions{})
	w.check(err)
	csiNode.Spec.Drivers = append(csiNode.Spec.Drivers, storagev1.CSINodeDriver{Name: otherDriver, NodeID: w.Node})
	_, err = w.client.StorageV1().CSINodes().Update(t.Context(), csiNode, metav1.UpdateOptions{})
	w.check(err)
	w.foreign("pending")
	w.podOn(w.Node, "pending", "pending")
	t.Run("attach pending", func(t *testing.T) {
		w.trace(t, traced{pod: "pending", broken: trace.StageAttached, state: trace.StageWaiting, reason: "attached", waits: true, says: "has not been touched"})
	})

	// The list of the late node loses its entry, and then its kubelet needs it.
	w.check(fixture.DropVolumesAttached(t.Context(), w.client, w.late, late.UniqueName()))
	t.Run("attached and not listed", func(t *testing.T) {
		comesBack, err := w.AddNode(t.Context(), w.late)
		w.check(err)
		await(t, fixture.Attachment(w.client, w.late, late, "announced", func(s fixture.AttachmentState) bool { return s.InUse }))
		w.trace(t, traced{pod: "late", broken: trace.StageInVolumesAttached, state: trace.StageWaiting, reason: "listed", waits: true, says: "it writes no event about it"})
		comesBack.Stop()
	})

	// A pod completes first while no attacher runs, then while the driver cannot detach.
	cluster.KillAttacher()
	detaching := fixture.Volume{Claim: "detaching", PersistentVolume: "pv-" + w.Namespace + "-detaching", Handle: "vol-" + w.Namespace + "-detaching"}
	cluster.Driver.FailUnpublish(errors.New(scenario.DeviceBusy), detaching.Handle)
	w.status("detaching", completed)
	w.inUse(func(names []corev1.UniqueVolumeName) []corev1.UniqueVolumeName {
		return slices.DeleteFunc(names, func(n corev1.UniqueVolumeName) bool { return n == detaching.UniqueName() })
	})
	t.Run("detach pending", func(t *testing.T) {
		w.trace(t, traced{pod: "detaching", broken: trace.StageDetached, state: trace.StageWaiting, reason: "Ended", says: "the external-attacher of " + driver})
	})
	w.check(cluster.StartAttacher(t.Context()))
	t.Run("detach failing", func(t *testing.T) {
		w.trace(t, traced{pod: "detaching", broken: trace.StageDetached, state: trace.StageBlocked, reason: "Ended", says: scenario.DeviceBusy})
	})

	// The controller ignores a node that lacks the annotation: it never had it.
	t.Run("node not managed", func(t *testing.T) {
		name := w.Node + "-unmanaged"
		v := w.volume("unmanaged")
		w.plainNode(t, name, func(n *corev1.Node) { n.Status.VolumesInUse = []corev1.UniqueVolumeName{v.UniqueName()} })
		w.podOn(name, "unmanaged", "unmanaged")
		// The kubelet of a new node may be about to write the annotation.
		_, err := load.Age(t.Context(), cluster.EtcdURL(), 2*facts.ListsGrace, func(o load.Object) bool { return o.GetName() == name })
		w.check(err)
		w.trace(t, traced{pod: "unmanaged", broken: trace.StageAttached, state: trace.StageBlocked, reason: "attached", waits: true, says: "lacks the annotation"})
	})
	for _, stage := range []trace.StageName{
		trace.StageScheduled, trace.StageClaimBound, trace.StageInVolumesInUse, trace.StageAttached, trace.StageInVolumesAttached, trace.StageRegistered,
		trace.StageStaged, trace.StageMounted, trace.StageStopped, trace.StageUnmounted, trace.StageUnstaged, trace.StageDetached,
	} {
		if !w.seen[stage] {
			t.Errorf("no pod has waited in %s", stage)
		}
	}
	if now := adminWrites(t); now != written {
		t.Errorf("trace has made %d writes", now-written)
	}
}

// adminWrites is the number of writes of the admin so far.
func adminWrites(t *testing.T) int {
	t.Helper()
	events, err := cluster.Writes(controlplane.UserAdmin)
	if err != nil {
		t.Fatal(err)
	}
	return len(events)
}

// traces asks for each pod's trace.
func (w *stageWorld) traces(t *testing.T, pods ...traced) {
	t.Helper()
	for _, c := range pods {
		t.Run(c.pod, func(t *testing.T) { w.trace(t, c) })
	}
}

// trace repeats the command until it has the expected answer: controller and attacher work
// meanwhile.
func (w *stageWorld) trace(t *testing.T, c traced) {
	t.Helper()
	deadline := time.Now().Add(fixture.Timeout)
	for {
		w.renew()
		r := doctor(t, "trace", "pod/"+c.pod, "-n", w.Namespace, "-o", "json")
		doc := parse[trace.Trace](t, r.Stdout)
		v := doc.Volumes[0]
		var state trace.StageState
		for _, s := range v.Stages {
			if s.Stage == v.Broken {
				state = s.State
			}
		}
		code := map[bool]int{true: 1, false: 0}[c.waits]
		if v.Broken == c.broken && state == c.state && doc.Verdict.Reason == c.reason && r.Code == code && strings.Contains(r.Stdout, c.says) {
			w.seen[c.broken] = true
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("broken %q %s, verdict %s, exit code %d; want %q %s, %s, %d and %q", v.Broken, state, doc.Verdict.Reason, r.Code, c.broken, c.state, c.reason, code, c.says)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// plainNode makes a Ready node that no kubelet has registered.
func (w *stageWorld) plainNode(t *testing.T, name string, change func(*corev1.Node)) {
	t.Helper()
	nodes := w.client.CoreV1().Nodes()
	node, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	w.check(err)
	t.Cleanup(func() {
		if err := nodes.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now()}}
	node.Status.NodeInfo.KubeletVersion = controlplane.KubernetesVersion
	change(node)
	_, err = nodes.UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
	w.check(err)
}

// TestTraceKubelet asks a kubelet through the real API server: one that answers, one that
// does not exist, and one that the user may not ask.
//
// It is not parallel, because the end of its world heals the driver of all tests.
func TestTraceKubelet(t *testing.T) {
	w := &stageWorld{World: newWorld(t, scenario.Healthy), t: t, client: cluster.Client()}
	name := w.Node + "-answers"
	v := w.volume("asked")

	var pods, log string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/pods":
			_, _ = fmt.Fprint(out, pods)
		case "/metrics":
			const plugin = "kubernetes.io/csi:" + csidriver.Name
			_, _ = fmt.Fprintf(out, "# TYPE volume_manager_total_volumes gauge\nvolume_manager_total_volumes{plugin_name=%q,state=\"desired_state_of_world\"} 1\n", plugin)
		case "/logs/":
			if r.URL.Query().Get("query") != "kubelet" {
				t.Errorf("its log is asked for %v", r.URL.Query())
			}
			_, _ = fmt.Fprint(out, log)
		default:
			t.Errorf("the kubelet is asked for %s", r.URL.Path)
		}
	}))
	// The API server accepts no loopback address for a node.
	listener, err := net.Listen("tcp", net.JoinHostPort(outwardAddress(t), "0"))
	w.check(err)
	server.Listener = listener
	server.StartTLS()
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	w.check(err)
	port, err := strconv.Atoi(address.Port())
	w.check(err)
	w.plainNode(t, name, func(n *corev1.Node) {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address.Hostname()}}
		n.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
		n.Status.VolumesInUse = []corev1.UniqueVolumeName{v.UniqueName()}
	})
	pod := w.podOn(name, "asked", "asked")
	w.status("asked", creating)
	pods = fmt.Sprintf(`{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"namespace":%q,"name":"asked","uid":%q},"status":{"phase":"Pending"}}]}`, w.Namespace, pod.UID)

	r := doctor(t, "trace", "pod/asked", "-n", w.Namespace, "--kubelet", "-o", "json")
	doc := parse[trace.Trace](t, r.Stdout)
	if r.Code != 1 || !doc.Complete || doc.Kubelet == nil {
		t.Fatalf("exit code %d, gaps %v, kubelet %+v", r.Code, doc.Gaps, doc.Kubelet)
	}
	for _, want := range []string{"it knows the pod, in phase Pending", "it wants 1 mounted and has 0, in all its pods: at least one waits"} {
		if !slices.ContainsFunc(doc.Kubelet.Statements, func(s trace.KubeletStatement) bool {
			return s.Bearing == trace.KubeletAgrees && strings.HasSuffix(s.Text, want)
		}) {
			t.Errorf("the kubelet does not agree that %s: %+v", want, doc.Kubelet.Statements)
		}
	}

	// Where the node gives its log, a failure in it is quoted, although no event shows it.
	const refused = "kubernetes.io/csi: attacher.MountDevice failed to create newCsiDriverClient: driver name " + csidriver.Name + " not found in the list of registered CSI drivers"
	at := time.Now().UTC()
	log = fmt.Sprintf("%s %s kubelet[812]: E%s     812 nestedpendingoperations.go:348] Operation for \"{volumeName:%s podName: nodeName:}\" failed. "+
		"No retries permitted until %s m=+9.5 (durationBeforeRetry 2m2s). Error: MountVolume.MountDevice failed for volume %q (UniqueName: %q) pod \"asked\" (UID: %q) : %s\n",
		at.Format("Jan _2 15:04:05.000000"), name, at.Format("0102 15:04:05.000000"), v.UniqueName(), at.Add(122*time.Second).Format("2006-01-02 15:04:05.999999999 -0700 MST"),
		v.PersistentVolume, v.UniqueName(), pod.UID, refused)
	r = doctor(t, "trace", "pod/asked", "-n", w.Namespace, "--kubelet", "-o", "json")
	doc = parse[trace.Trace](t, r.Stdout)
	quoted := func(s trace.Stage) bool {
		return slices.ContainsFunc(s.Said, func(said trace.Said) bool {
			return said.By == "kubelet's log on "+name && strings.HasSuffix(said.Text, refused)
		})
	}
	if r.Code != 1 || !doc.Complete || !slices.ContainsFunc(doc.Volumes[0].Stages, quoted) {
		t.Errorf("exit code %d, gaps %v: the log is not quoted: %+v", r.Code, doc.Gaps, doc.Volumes)
	}
	log = ""

	// The plan of its node has the same row, and asks about all pods there.
	doc = parse[trace.Trace](t, doctor(t, "trace", "pod/asked", "-n", w.Namespace, "--kubelet", "-o", "json").Stdout)
	r = doctor(t, "plan", "node/"+name, "--kubelet", "-o", "json")
	plan := parse[output.Plan](t, r.Stdout)
	if r.Code != 0 || len(plan.Kubelets) != 1 || len(plan.Kubelets[0].Volumes) != 1 {
		t.Fatalf("exit code %d, gaps %v, kubelets %+v", r.Code, plan.Gaps, plan.Kubelets)
	}
	if v := plan.Kubelets[0].Volumes[0]; v.Stage != doc.Verdict.Stage || v.Actor != doc.Verdict.Actor || v.Pods[0].Pod != w.Namespace+"/asked" || v.Next == "" {
		t.Errorf("the trace waits in %s for %s, and the plan says %+v", doc.Verdict.Stage, doc.Verdict.Actor, v)
	}
	for _, want := range []string{"it knows 1 of the 1 pods as the objects show them", "it wants 1 mounted and has 0, in all its pods: at least one waits"} {
		if !slices.ContainsFunc(plan.Kubelets[0].Statements, func(s trace.KubeletStatement) bool {
			return s.Bearing == trace.KubeletAgrees && strings.HasSuffix(s.Text, want)
		}) {
			t.Errorf("the kubelet does not agree that %s: %+v", want, plan.Kubelets[0].Statements)
		}
	}
	r = doctor(t, "plan", "node/"+w.Node, "--kubelet", "-o", "json")
	plan = parse[output.Plan](t, r.Stdout)
	if r.Code != 2 || plan.Complete || len(plan.Gaps) != 2 || len(plan.Kubelets[0].Volumes) == 0 || len(plan.Kubelets[0].Statements) > 0 {
		t.Errorf("exit code %d of a kubelet that does not answer, gaps %+v, %+v", r.Code, plan.Gaps, plan.Kubelets)
	}

	// No kubelet answers for a stand-in: the trace is there all the same, without the
	// kubelet's part.
	r = doctor(t, "trace", "pod/web-0", "-n", w.Namespace, "--kubelet", "-o", "json")
	doc = parse[trace.Trace](t, r.Stdout)
	if r.Code != 2 || doc.Complete || len(doc.Gaps) != 2 || doc.Gaps[0].Reason != "Unavailable" || doc.Verdict.Reason != "Mounted" {
		t.Errorf("exit code %d, verdict %s, gaps %+v", r.Code, doc.Verdict.Reason, doc.Gaps)
	}

	// A user who may list objects may not ask a kubelet.
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reads-objects-alone"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"", "storage.k8s.io", "coordination.k8s.io", "apps"}, Verbs: []string{"list"}, Resources: []string{"pods", "nodes", "persistentvolumes",
			"persistentvolumeclaims", "events", "volumeattachments", "csinodes", "csidrivers", "storageclasses", "leases", "deployments"}}}}
	_, err = w.client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
	w.check(err)
	_, err = w.client.RbacV1().RoleBindings(w.Namespace).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: controlplane.UserViewer}}}, metav1.CreateOptions{})
	w.check(err)
	kubeconfig, err := cluster.KubeconfigFor(controlplane.UserViewer)
	w.check(err)
	r = doctorAs(t, kubeconfig, "trace", "pod/web-0", "-n", w.Namespace, "--kubelet")
	if r.Code != 2 || !strings.Contains(strings.Join(strings.Fields(r.Stdout), " "), "gap: nodes/proxy/pods could not be read (Forbidden): it takes the right to get nodes/proxy") {
		t.Errorf("exit code %d, or the missing right is not named", r.Code)
	}
}

// outwardAddress is an address of this machine that is not loopback.
func outwardAddress(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() && ip.IP.To4() != nil {
			return ip.IP.String()
		}
	}
	t.Skip("this machine has no address but loopback, which the API server takes for no node's")
	return ""
}
