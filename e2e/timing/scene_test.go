package timing

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // what the volume plugins write says nothing here
	os.Exit(m.Run())
}

const (
	driver = "disk.csi"
	// patience is for what must come, and far more than any of it takes.
	patience = 30 * time.Second
	// many passes are enough to believe that a pass changes nothing.
	many = 20
)

// scene is a cluster, what the model says of it, and the controller at work.
type scene struct {
	*Controller
	t    *testing.T
	plan *reconcile.Plan
}

// play starts a controller on the objects and asks the model about them.
func play(t *testing.T, settings Settings, objects ...runtime.Object) *scene {
	t.Helper()
	if settings.MaxWaitForUnmount == 0 {
		settings.MaxWaitForUnmount = time.Hour
	}
	s := &scene{t: t, plan: reconcile.NewWorld(picture(objects), reconcile.Options{
		MaxWaitForUnmount: settings.MaxWaitForUnmount, DisableForceDetachOnTimeout: settings.DisableForce,
	}).Reconcile()}
	var err error
	if s.Controller, err = Start(t.Context(), settings, objects); err != nil {
		t.Fatal(err)
	}
	return s
}

// picture gives the model its own copy of the objects.
func picture(objects []runtime.Object) *snapshot.Snapshot { return pictureAt(time.Unix(0, 0), objects) }

func pictureAt(now time.Time, objects []runtime.Object) *snapshot.Snapshot {
	var o snapshot.Objects
	lists := reflect.ValueOf(&o).Elem()
	for _, object := range objects {
		own := reflect.ValueOf(object.DeepCopyObject())
		for i := range lists.NumField() {
			if list := lists.Field(i); list.Type().Elem() == own.Type() {
				list.Set(reflect.Append(list, own))
			}
		}
	}
	return snapshot.New(now, snapshot.Source{}, o, nil)
}

// predicted holds what the model says against what the test is about. Rows are
// given as "Event: Then".
func (s *scene) predicted(pair Pair, verb reconcile.Verb, rows ...string) []reconcile.Until {
	s.t.Helper()
	d := s.plan.Decision(pair)
	if d == nil {
		s.t.Fatalf("the model decides nothing about %v", pair)
	}
	var got []string
	for _, row := range d.Until {
		got = append(got, fmt.Sprintf("%s: %s", row.Event, row.Then))
	}
	if d.Verb != verb || !slices.Equal(got, rows) {
		s.t.Fatalf("the model says %s until %q about %v, not %s until %q", d.Verb, got, pair, verb, rows)
	}
	return d.Until
}

// await waits until a condition is true.
func (s *scene) await(what string, condition func() bool) {
	s.t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(loop) {
		if time.Now().After(end) {
			s.t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// awaitStep waits until the controller has decided so, and returns the first
// time that it did.
func (s *scene) awaitStep(pair Pair, verb reconcile.Verb) Step {
	s.t.Helper()
	s.await(fmt.Sprintf("%s of %v", verb, pair), func() bool { return len(s.Of(pair, verb)) > 0 })
	return s.Of(pair, verb)[0]
}

// stays waits for many more passes, in all of which the verb must be the same.
func (s *scene) stays(pair Pair, verb reconcile.Verb) {
	s.t.Helper()
	before := len(s.Of(pair))
	s.await(fmt.Sprintf("passes over %v", pair), func() bool { return len(s.Of(pair)) >= before+many })
	for _, step := range s.Of(pair) {
		if step.Verb != verb {
			s.t.Fatalf("%s of %v: %s", step.Verb, pair, step.Line)
		}
	}
}

// never fails where the controller has decided so.
func (s *scene) never(pair Pair, verbs ...reconcile.Verb) {
	s.t.Helper()
	if steps := s.Of(pair, verbs...); len(steps) > 0 {
		s.t.Fatalf("%s of %v after %s", steps[0].Verb, pair, steps[0].At.Sub(s.Started))
	}
}

// notBefore fails where the step came earlier than the model has it.
func (s *scene) notBefore(step Step, after time.Duration) {
	s.t.Helper()
	if took := step.At.Sub(s.Started); took < after {
		s.t.Errorf("%s of %v after %s, not before %s", step.Verb, step.Pair, took, after)
	}
}

// write changes a node and waits for nothing.
func (s *scene) write(name string, change func(*corev1.Node)) {
	s.t.Helper()
	nodes := s.Client.CoreV1().Nodes()
	node, err := nodes.Get(s.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	change(node)
	if _, err := nodes.Update(s.t.Context(), node, metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) attachments() []string {
	s.t.Helper()
	list, err := s.Client.StorageV1().VolumeAttachments().List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

func on(node, volume string) Pair {
	return Pair{Volume: corev1.UniqueVolumeName("kubernetes.io/csi/" + driver + "^" + volume), Node: types.NodeName(node)}
}

func node(name string, edits ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	for _, edit := range edits {
		edit(n)
	}
	return n
}

func lost(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }

func lists(names ...corev1.UniqueVolumeName) func(*corev1.Node) {
	return func(n *corev1.Node) {
		for _, name := range names {
			n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: name})
		}
	}
}

func uses(names ...corev1.UniqueVolumeName) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.VolumesInUse = names }
}

// disk is a persistent volume for one node at a time and its claim.
func disk(name string) []runtime.Object {
	claim := types.UID("claim-" + name)
	return []runtime.Object{
		&corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeSpec{
				AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				ClaimRef:               &corev1.ObjectReference{Namespace: "default", Name: name, UID: claim},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name}},
			},
		},
		&corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: claim, CreationTimestamp: metav1.NewTime(time.Now().Add(-2 * time.Hour))},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: name},
			Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		},
	}
}

func pod(name, node, claim string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("pod-" + name)},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Name: "app", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
		}}, Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func attachment(volume, node string, edits ...func(*storagev1.VolumeAttachment)) *storagev1.VolumeAttachment {
	va := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: reconcile.VolumeAttachmentName(volume, driver, types.NodeName(node)), CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour))},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}},
		Status:     storagev1.VolumeAttachmentStatus{Attached: true},
	}
	for _, edit := range edits {
		edit(va)
	}
	return va
}
