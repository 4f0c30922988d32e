package repair_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubelet"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/load"
)

// stage is the place of one repair: a namespace, and nodes whose names begin with its own.
type stage struct {
	*testing.T
	name     string
	client   kubernetes.Interface
	kubelets map[string]*kubelet.Kubelet
	driver   *csidriver.Driver
	// older is how much older the stage's objects are made before the next finding.
	older time.Duration
}

func newStage(t *testing.T) *stage {
	t.Helper()
	t.Parallel() // all wait for minutes, and none waits for another
	return stageOf(t, strings.ToLower(strings.TrimPrefix(t.Name(), "Test")))
}

func stageOf(t *testing.T, name string) *stage {
	t.Helper()
	s := &stage{T: t, name: name, client: cluster.Client(), kubelets: map[string]*kubelet.Kubelet{}, driver: cluster.Driver}
	s.must(fixture.Namespace(t.Context(), s.client, s.name))
	t.Cleanup(func() {
		for _, k := range s.kubelets {
			k.Stop()
		}
	})
	return s
}

// ownDriver gives the stage a driver of its own, whose attacher has these additional flags.
func (s *stage) ownDriver(flags ...string) {
	s.Helper()
	yes := true
	_, err := s.client.StorageV1().CSIDrivers().Create(s.Context(), &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: s.driverName()}, Spec: storagev1.CSIDriverSpec{AttachRequired: &yes},
	}, metav1.CreateOptions{})
	s.must(err)
	a, err := cluster.AddDriver(s.Context(), s.driverName(), s.name, flags...)
	s.must(err)
	s.Cleanup(a.Kill)
	s.driver = a.Driver
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// await waits for a condition that may take a component some time: the node lifecycle
// controller gives a silent kubelet 50 s.
func (s *stage) await(condition fixture.Condition) {
	s.Helper()
	s.must(fixture.AwaitFor(s.Context(), 4*time.Minute, condition))
}

func (s *stage) nodeName(node string) string { return s.name + "-" + node }

func (s *stage) nodes(nodes ...string) {
	s.Helper()
	client, err := cluster.ClientFor(controlplane.UserKubelet)
	s.must(err)
	for _, node := range nodes {
		k, err := kubelet.Start(s.Context(), client, kubelet.Options{Node: s.nodeName(node), Driver: s.driver.Name()})
		s.must(err)
		s.kubelets[node] = k
	}
}

// lose stops the kubelet and waits until the node lifecycle controller has
// noticed.
func (s *stage) lose(node string) {
	s.Helper()
	s.kubelets[node].Stop()
	s.await(fixture.Condition{What: "node " + node + " is unreachable", Check: func(ctx context.Context) (bool, []runtime.Object, error) {
		n, err := s.client.CoreV1().Nodes().Get(ctx, s.nodeName(node), metav1.GetOptions{})
		if err != nil {
			return false, nil, err
		}
		return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnreachable }), []runtime.Object{n}, nil
	}})
}

// deleteNode deletes the Node of a machine that is gone, and waits until the
// garbage collector has removed its CSINode.
func (s *stage) deleteNode(node string) {
	s.Helper()
	s.kubelets[node].Stop()
	s.must(s.client.CoreV1().Nodes().Delete(s.Context(), s.nodeName(node), metav1.DeleteOptions{}))
	s.await(gone("the CSINode of node "+node, func(ctx context.Context) (runtime.Object, error) {
		return s.client.StorageV1().CSINodes().Get(ctx, s.nodeName(node), metav1.GetOptions{})
	}))
}

// volume makes the claim "data" and its volume.
func (s *stage) volume() fixture.Volume {
	s.Helper()
	v, err := fixture.ClaimVolume(s.Context(), s.client, s.name, "data", s.driver.Name(), nil)
	s.must(err)
	return v
}

// pod creates a pod with the claim "data".
func (s *stage) pod(name, node string) {
	s.Helper()
	pod := fixture.Pod(s.name, name, s.nodeName(node), "data")
	grace := int64(1)
	pod.Spec.TerminationGracePeriodSeconds = &grace
	_, err := fixture.CreatePod(s.Context(), s.client, pod)
	s.must(err)
}

// running is the beginning of most stories: a pod that runs with a volume on node a.
func (s *stage) running() fixture.Volume {
	s.Helper()
	v := s.volume()
	s.pod("web-0", "a")
	s.await(fixture.PodRunning(s.client, s.name, "web-0"))
	s.await(fixture.Attached(s.client, s.nodeName("a"), v))
	return v
}

func (s *stage) deletePod(name string) {
	s.Helper()
	s.must(fixture.DeletePod(s.Context(), s.client, s.name, name))
	s.await(fixture.PodGone(s.client, s.name, name))
}

// attachment is the volume's VolumeAttachment on the node.
func (s *stage) attachment(node string, v fixture.Volume) *storagev1.VolumeAttachment {
	s.Helper()
	va, err := s.client.StorageV1().VolumeAttachments().Get(s.Context(), v.AttachmentName(s.nodeName(node)), metav1.GetOptions{})
	s.must(err)
	return va
}

// detachFails waits until the driver, or the attacher, has failed to detach.
func (s *stage) detachFails(node string, v fixture.Volume) {
	s.Helper()
	s.await(fixture.Condition{What: "the detach fails", Check: func(ctx context.Context) (bool, []runtime.Object, error) {
		va, err := s.client.StorageV1().VolumeAttachments().Get(ctx, v.AttachmentName(s.nodeName(node)), metav1.GetOptions{})
		if err != nil {
			return false, nil, err
		}
		return va.DeletionTimestamp != nil && va.Status.DetachError != nil, []runtime.Object{va}, nil
	}})
}

func (s *stage) noAttachment(node string, v fixture.Volume) {
	s.Helper()
	s.await(gone("the VolumeAttachment on node "+node, func(ctx context.Context) (runtime.Object, error) {
		return s.client.StorageV1().VolumeAttachments().Get(ctx, v.AttachmentName(s.nodeName(node)), metav1.GetOptions{})
	}))
}

func gone(what string, get func(context.Context) (runtime.Object, error)) fixture.Condition {
	return fixture.Condition{What: what + " is gone", Check: func(ctx context.Context) (bool, []runtime.Object, error) {
		object, err := get(ctx)
		if apierrors.IsNotFound(err) {
			return true, nil, nil
		}
		return false, []runtime.Object{object}, err
	}}
}

// published checks on which nodes the storage system has the volume.
func (s *stage) published(v fixture.Volume, want ...string) {
	s.Helper()
	var names []string
	for _, node := range want {
		names = append(names, s.nodeName(node))
	}
	if got := s.driver.PublishedOn(v.Handle); !slices.Equal(got, names) {
		s.Errorf("volume %s is published on %v, not on %v", v.Handle, got, names)
	}
}

// doctor runs the command as the admin.
func (s *stage) doctor(args ...string) command.Result {
	s.Helper()
	r, err := command.Run(s.Context(), command.Binary, cluster.Kubeconfig, args...)
	s.must(err)
	return r
}

// hurry makes the stage's objects older before the next finding, unless -long asks to wait,
// and returns how much less there is to wait.
func (s *stage) hurry() time.Duration {
	s.Helper()
	if *long {
		return 0
	}
	s.older = older
	return older
}

// find diagnoses until the check has a finding about this stage.
func (s *stage) find(check string, within time.Duration) finding.Finding {
	s.Helper()
	if s.older > 0 {
		_, err := load.Age(s.Context(), cluster.EtcdURL(), s.older, func(o load.Object) bool { return s.owns(o.GetNamespace(), o.GetName()) })
		s.must(err)
		s.older = 0
	}
	for end := time.Now().Add(within); ; time.Sleep(10 * time.Second) {
		r := s.doctor("diagnose", "-o", "json", "--check", check)
		report := parse[finding.Report](s.T, r.Stdout)
		if !report.Complete {
			s.Fatalf("the admin cannot read everything: %v", report.Gaps)
		}
		if i := slices.IndexFunc(report.Findings, s.mine); i >= 0 {
			return report.Findings[i]
		}
		if time.Now().After(end) {
			s.Fatalf("no finding %s within %v; there are %v", check, within, report.Findings)
		}
	}
}

// mine reports whether the finding is about this stage, and certain: only certain findings
// are repaired.
func (s *stage) mine(f finding.Finding) bool {
	return f.Confidence != finding.Suspected && s.isAbout(f)
}

// isAbout reports whether the finding is about this stage.
func (s *stage) isAbout(f finding.Finding) bool {
	return strings.Contains(f.PersistentVolume, "-"+s.name+"-") || strings.Contains(f.Subject.Name, s.name)
}

// holdFor is how long a repair must hold here: every syncPeriod the controller compares its
// attachments with the VolumeAttachments.
const holdFor = 2*syncPeriod + 5*time.Second

// apply has the command repair only what the check finds on this stage, and returns its
// output.
func (s *stage) apply(f finding.Finding, args ...string) command.Result {
	s.Helper()
	target := "volumeattachment/" + f.VolumeAttachment
	if f.VolumeAttachment == "" {
		target = "pv/" + f.PersistentVolume
	}
	args = append([]string{
		"diagnose", target, "--check", f.Check, "--fail-on", "info", "--for", "1s", "--apply", "--yes", "--settle", holdFor.String(), "--journal", s.journal(),
	}, args...)
	r := s.doctor(args...)
	s.Logf("%s\nexit code %d\n%s%s", strings.Join(args, " "), r.Code, r.Stdout, r.Stderr)
	return r
}

func (s *stage) journal() string {
	return filepath.Join(filepath.Dir(cluster.Kubeconfig), s.name+".journal")
}

// refused expects that nothing is written, and the reason.
func (s *stage) refused(f finding.Finding, because string, args ...string) {
	s.Helper()
	before := s.writes()
	r := s.apply(f, args...)
	if r.Code == 0 || !strings.Contains(r.Stdout+r.Stderr, because) {
		s.Errorf("%v: exit code %d and no %q", args, r.Code, because)
	}
	if after := s.writes(); after != before {
		s.Errorf("%v: %d things were written", args, after-before)
	}
}

// writes is the number of the command's writes to this stage, by the audit log.
func (s *stage) writes() int {
	s.Helper()
	events, err := cluster.Writes(controlplane.UserAdmin)
	s.must(err)
	n := 0
	for _, e := range events {
		if e.ObjectRef != nil && slices.Contains(s.objects(), e.ObjectRef.Name) {
			n++
		}
	}
	return n
}

// objects are the names of the objects to which a repair might write. The name of a
// VolumeAttachment is a hash.
func (s *stage) objects() []string {
	v := fixture.Volume{Handle: "vol-" + s.name + "-data"}
	return []string{
		"pv-" + s.name + "-data", s.nodeName("a"), s.nodeName("b"), v.AttachmentName(s.nodeName("a")), v.AttachmentName(s.nodeName("b")),
	}
}

// nudged first tries the repair of lower risk, in vain, and finds the failure again.
func (s *stage) nudged(f finding.Finding) finding.Finding {
	s.Helper()
	if f.Repair == nil || f.Repair.Kind != "nudge" {
		s.Fatalf("the first repair of %s is %+v", f.Check, f.Repair)
	}
	if r := s.apply(f); r.Code != 3 || !strings.Contains(r.Stdout+r.Stderr, "still refuses") {
		s.Errorf("the nudge: exit code %d", r.Code)
	}
	return s.find(f.Check, soon)
}

// repaired expects that the repair is made, and that no volume for one node was ever
// published to two.
func (s *stage) repaired(f finding.Finding, kind string, args ...string) {
	s.Helper()
	if f.Repair == nil || f.Repair.Kind != kind {
		s.Fatalf("the repair of %s is %+v, not %s", f.Check, f.Repair, kind)
	}
	if r := s.apply(f, append(args, "-o", "wide")...); r.Code != 0 || !strings.Contains(r.Stderr+r.Stdout, "kubectl ") {
		s.Errorf("--apply: exit code %d, or no kubectl equivalent", r.Code)
	}
	s.noViolation()
}

func (s *stage) noViolation() {
	s.Helper()
	for _, violation := range s.driver.Violations() {
		if strings.Contains(violation.Volume, "-"+s.name+"-") {
			s.Error(violation)
		}
	}
}

// cannotUndo expects the command to say that nothing takes the write back.
func (s *stage) cannotUndo() {
	s.Helper()
	if r := s.doctor("undo", s.journal(), "--yes", "--server-moved"); r.Code == 0 || !strings.Contains(r.Stdout+r.Stderr, " cannot be taken back") {
		s.Errorf("undo: exit code %d, %s%s", r.Code, r.Stdout, r.Stderr)
	}
}

// noFinalizers is the patch with which people take finalizers off.
var noFinalizers = []byte(`{"metadata":{"finalizers":null}}`)

func (s *stage) stripVolume(v fixture.Volume) {
	s.Helper()
	volumes := s.client.CoreV1().PersistentVolumes()
	s.must(volumes.Delete(s.Context(), v.PersistentVolume, metav1.DeleteOptions{}))
	_, err := volumes.Patch(s.Context(), v.PersistentVolume, types.MergePatchType, noFinalizers, metav1.PatchOptions{})
	s.must(err)
}
