package hollow_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/hollow"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

const namespace = "hollow"

// world is the namespace of a test, and its nodes.
type world struct {
	*testing.T
	client kubernetes.Interface
	nodes  []*hollow.Node
}

func newWorld(t *testing.T, nodes ...string) *world {
	t.Helper()
	if why := hollow.Why(); why != "" {
		t.Skip(why)
	}
	w := &world{T: t, client: plane.Client()}
	w.check(fixture.Storage(t.Context(), w.client))
	w.check(fixture.Namespace(t.Context(), w.client, namespace))
	for _, name := range nodes {
		n, err := hollow.Start(plane, kubelet, name, wire.Driver{Name: csidriver.Name, Stages: true})
		w.check(err)
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("the log of the kubelet of %s: %s", name, n.KeepLog())
			}
			n.Stop()
		})
		w.nodes = append(w.nodes, n)
		w.ask(n, wire.Request{Do: wire.Register, Driver: csidriver.Name})
	}
	for _, name := range nodes {
		w.await("node "+name+" to be Ready", func() (string, bool) { return w.ready(name) })
	}
	return w
}

func (w *world) check(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) ask(n *hollow.Node, r wire.Request) wire.Answer {
	w.Helper()
	a, err := n.Ask(r)
	w.check(err)
	return a
}

// await waits for what is to come about; look says what it has seen in its place.
func (w *world) await(what string, look func() (seen string, ok bool)) {
	w.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		seen, ok := look()
		if ok {
			return
		}
		if time.Now().After(end) {
			w.Fatalf("waited a minute for %s: %s", what, seen)
		}
	}
}

func (w *world) ready(name string) (string, bool) {
	node, err := w.client.CoreV1().Nodes().Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err.Error(), false
	}
	return fmt.Sprint(node.Status.Conditions), slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// pod makes a pod with a volume of the driver, a secret and an empty directory. The
// faults are the faults of the volume's calls.
func (w *world) pod(n *hollow.Node, name, secret string, faults ...wire.Fault) *corev1.Pod {
	w.Helper()
	_, err := fixture.BoundVolume(w.Context(), w.client, namespace, name, corev1.ReadWriteOnce)
	w.check(err)
	for _, f := range faults {
		f.Handle = handle(name)
		w.ask(n, wire.Request{Do: wire.SetFault, Driver: csidriver.Name, Fault: f})
	}
	pod := fixture.Pod(namespace, name, n.Node, name)
	for volume, source := range map[string]corev1.VolumeSource{
		"settings": {Secret: &corev1.SecretVolumeSource{SecretName: secret}}, "scratch": {EmptyDir: &corev1.EmptyDirVolumeSource{}},
	} {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: volume, VolumeSource: source})
		c := &pod.Spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: "/" + volume})
	}
	pod, err = fixture.CreatePod(w.Context(), w.client, pod)
	w.check(err)
	return pod
}

func (w *world) secret(name string) {
	w.Helper()
	_, err := w.client.CoreV1().Secrets(namespace).Create(w.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	w.check(err)
}

func handle(pod string) string { return "vol-" + namespace + "-" + pod }

// heal takes the fault of a call away.
func (w *world) heal(n *hollow.Node, pod string, rpc wire.RPC) {
	w.Helper()
	w.ask(n, wire.Request{Do: wire.SetFault, Driver: csidriver.Name, Fault: wire.Fault{RPC: rpc, Handle: handle(pod)}})
}

// calls are those for the pod's volume that the driver received, as NAME CODE, or NAME
// pending.
func (w *world) calls(n *hollow.Node, pod string) (list []string) {
	w.Helper()
	for _, c := range w.ask(n, wire.Request{Do: wire.Look}).Calls {
		switch {
		case c.Handle != handle(pod):
		case c.Ended.IsZero():
			list = append(list, string(c.RPC)+" pending")
		default:
			list = append(list, string(c.RPC)+" "+codes.Code(c.Code).String())
		}
	}
	return list
}

// last waits for the driver's last call for the pod's volume to be this one.
func (w *world) last(n *hollow.Node, pod, call string) {
	w.Helper()
	w.await("the call "+call+" for "+pod, func() (string, bool) {
		list := w.calls(n, pod)
		return strings.Join(list, ", "), len(list) > 0 && list[len(list)-1] == call
	})
}

func (w *world) runs(pod string) {
	w.Helper()
	w.await("pod "+pod+" to run", func() (string, bool) {
		p, err := w.client.CoreV1().Pods(namespace).Get(w.Context(), pod, metav1.GetOptions{})
		if err != nil {
			return err.Error(), false
		}
		return fmt.Sprintf("%+v", p.Status), p.Status.Phase == corev1.PodRunning
	})
}

func (w *world) gone(pod string) {
	w.Helper()
	w.await("pod "+pod+" to be gone", func() (string, bool) {
		p, err := w.client.CoreV1().Pods(namespace).Get(w.Context(), pod, metav1.GetOptions{})
		if err == nil {
			return fmt.Sprintf("%+v", p.Status), false
		}
		return err.Error(), apierrors.IsNotFound(err)
	})
}

func (w *world) delete(pod string) {
	w.Helper()
	w.check(fixture.DeletePod(w.Context(), w.client, namespace, pod))
}

// traced is what trace is to say of a pod, and its kubelet, where it is asked.
type traced struct {
	pod    string
	volume string // the one that it waits for; "": for none
	// stage is the one that it waits in, or one of those where no object tells in which.
	stage trace.StageName
	actor string // is in what it calls the actor
	said  string // and this is somewhere in what it prints
	// kubelet ends statements of the kubelet that bear the trace out.
	kubelet []string
}

// trace asks for the pod with the kubelet and without, until both answers are those: the
// pod's status and events come some time after what they tell of.
func (w *world) trace(want traced) {
	w.Helper()
	for _, asked := range []bool{false, true} {
		w.await(fmt.Sprintf("the trace of %s to be %+v, with its kubelet asked: %t", want.pod, want, asked), func() (string, bool) {
			args := []string{"trace", "pod/" + want.pod, "-n", namespace, "-o", "json"}
			if asked {
				args = append(args, "--kubelet")
			}
			r, err := command.Run(w.Context(), command.Binary, plane.Kubeconfig, args...)
			w.check(err)
			var doc trace.Trace
			if err := json.Unmarshal([]byte(r.Stdout), &doc); err != nil {
				w.Fatalf("%v: %s%s", err, r.Stdout, r.Stderr)
			}
			return fmt.Sprintf("exit code %d, %s%s", r.Code, r.Stdout, r.Stderr), want.met(r, doc, asked)
		})
	}
}

// unheard holds trace to saying that the pod's kubelet does not answer.
func (w *world) unheard(pod string) {
	w.Helper()
	r, err := command.Run(w.Context(), command.Binary, plane.Kubeconfig, "trace", "pod/"+pod, "-n", namespace, "--kubelet", "-o", "json")
	w.check(err)
	var doc trace.Trace
	w.check(json.Unmarshal([]byte(r.Stdout), &doc))
	if r.Code != 2 || doc.Complete || len(doc.Gaps) != 2 || doc.Gaps[0].Reason != snapshot.ReasonUnavailable {
		w.Errorf("exit code %d of a kubelet that does not run, gaps %+v", r.Code, doc.Gaps)
	}
}

func (want traced) met(r command.Result, doc trace.Trace, asked bool) bool {
	code := 0
	if want.volume != "" {
		code = 1
	}
	v := doc.Verdict
	ok := r.Code == code && doc.Complete && v.Volume == want.volume && (v.Stage == want.stage || slices.Contains(v.Stages, want.stage)) && strings.Contains(v.Actor, want.actor) && strings.Contains(r.Stdout, want.said)
	if !asked {
		return ok && doc.Kubelet == nil
	}
	if !ok || doc.Kubelet == nil {
		return false
	}
	for _, end := range want.kubelet {
		if !slices.ContainsFunc(doc.Kubelet.Statements, func(s trace.KubeletStatement) bool {
			return s.Bearing == trace.KubeletAgrees && strings.HasSuffix(s.Text, end)
		}) {
			return false
		}
	}
	return !slices.ContainsFunc(doc.Kubelet.Statements, func(s trace.KubeletStatement) bool { return s.Bearing == trace.KubeletDiffers })
}
