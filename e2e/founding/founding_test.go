// Package founding_test tells the case that the project started from on the controller of
// the release that has the bug: how the entry is lost, that a repair does not outlast the
// next attach there, what makes it last, and what is left of it; and on a current release
// that it lasts.
package founding_test

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubelet"
)

const (
	syncPeriod = 5 * time.Second
	// phantomAfter is how long VD302 waits after the list was written, with a margin.
	phantomAfter = 3*time.Minute + 20*time.Second

	mayLast = "Repaired: it may last only until the next attach or detach on "
	lasts   = "Repaired: it lasts until the next attach or detach on "
	restart = "restart the kube-controller-manager leader to make it last"
)

var cluster *controlplane.Cluster

func TestMain(m *testing.M) {
	os.Exit(controlplane.Main(m, controlplane.Options{ReconcileSyncPeriod: syncPeriod}, func(c *controlplane.Cluster) {
		cluster = c
		if err := fixture.Storage(context.Background(), c.Client()); err != nil {
			panic(err)
		}
	}))
}

// story is one node, on which a volume loses its entry.
type story struct {
	*testing.T
	client     kubernetes.Interface
	name       string
	kubeconfig string
	volume     fixture.Volume
}

func newStory(t *testing.T, name, kubeconfig string) *story {
	t.Helper()
	s := &story{T: t, client: cluster.Client(), name: name, kubeconfig: kubeconfig}
	s.must(fixture.Namespace(t.Context(), s.client, name))
	client, err := cluster.ClientFor(controlplane.UserKubelet)
	s.must(err)
	k, err := kubelet.Start(t.Context(), client, kubelet.Options{Node: name, Driver: csidriver.Name})
	s.must(err)
	t.Cleanup(k.Stop)
	s.volume = s.runs("p")
	return s
}

func (s *story) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *story) await(condition fixture.Condition) {
	s.Helper()
	s.must(fixture.AwaitFor(s.Context(), 4*time.Minute, condition))
}

func (s *story) create(pod string) {
	s.Helper()
	p, grace := fixture.Pod(s.name, pod, s.name, "of-"+pod), int64(1)
	p.Spec.TerminationGracePeriodSeconds = &grace
	_, err := fixture.CreatePod(s.Context(), s.client, p)
	s.must(err)
}

// runs has a pod run with a volume of its own on the node: one more attach there.
func (s *story) runs(pod string) fixture.Volume {
	s.Helper()
	v, err := fixture.BoundVolume(s.Context(), s.client, s.name, "of-"+pod, corev1.ReadWriteOnce)
	s.must(err)
	s.create(pod)
	s.await(fixture.PodRunning(s.client, s.name, pod))
	s.await(fixture.Attached(s.client, s.name, v))
	return v
}

func (s *story) is(what string, holds func(fixture.AttachmentState) bool) fixture.Condition {
	return fixture.Attachment(s.client, s.name, s.volume, what, holds)
}

func (s *story) dropped() fixture.Condition {
	return s.is("attached and in use, but not listed", func(a fixture.AttachmentState) bool { return a.Attached() && a.InUse && !a.Listed })
}

func (s *story) listed() fixture.Condition {
	return s.is("attached, in use and listed", func(a fixture.AttachmentState) bool { return a.Attached() && a.InUse && a.Listed })
}

// stays expects that it is still so after the controller has had time to look.
func (s *story) stays(condition fixture.Condition) {
	s.Helper()
	s.must(fixture.Stays(s.Context(), 2*syncPeriod, condition))
}

// loses has the pod's detach refused before it begins, and the pod return during the
// back-off: the controller itself takes the entry off.
func (s *story) loses() {
	s.Helper()
	allow := s.refusesDetach()
	s.must(fixture.DeletePod(s.Context(), s.client, s.name, "p"))
	s.await(fixture.PodGone(s.client, s.name, "p"))
	s.await(s.is("unmounted and not listed", func(a fixture.AttachmentState) bool { return a.Attached() && !a.InUse && !a.Listed }))
	time.Sleep(5 * time.Second) // by now the back-off is seconds long
	s.create("p")
	s.await(s.dropped())
	allow()
	s.stays(s.dropped())
}

// refusesDetach has the API server refuse the deletion of the VolumeAttachment, so that a
// detach fails and nothing is detached.
func (s *story) refusesDetach() (allow func()) {
	s.Helper()
	policies, bindings := s.client.AdmissionregistrationV1().ValidatingAdmissionPolicies(), s.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	fail := admissionv1.Fail
	_, err := policies.Create(s.Context(), &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: s.name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Delete},
					Rule:       admissionv1.Rule{APIGroups: []string{"storage.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"volumeattachments"}},
				},
			}}},
			Validations: []admissionv1.Validation{{Expression: "oldObject.spec.nodeName != '" + s.name + "'", Message: "not now"}},
		},
	}, metav1.CreateOptions{})
	s.must(err)
	_, err = bindings.Create(s.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.name},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: s.name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}, metav1.CreateOptions{})
	s.must(err)
	va := s.volume.AttachmentName(s.name)
	s.await(fixture.Condition{What: "deletions are refused", Check: func(ctx context.Context) (bool, []runtime.Object, error) {
		err := s.client.StorageV1().VolumeAttachments().Delete(ctx, va, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), "not now"), nil, nil
	}})
	return func() {
		s.Helper()
		s.must(bindings.Delete(s.Context(), s.name, metav1.DeleteOptions{}))
		s.must(policies.Delete(s.Context(), s.name, metav1.DeleteOptions{}))
	}
}

func (s *story) doctor(args ...string) command.Result {
	s.Helper()
	r, err := command.Run(s.Context(), command.Binary, s.kubeconfig, args...)
	s.must(err)
	s.Logf("%s\nexit code %d\n%s%s", strings.Join(args, " "), r.Code, r.Stdout, r.Stderr)
	return r
}

func (s *story) journal() string { return filepath.Join(os.TempDir(), "founding-"+s.name+".journal") }

// repairs has the entry added and expects the words of the outcome.
func (s *story) repairs(outcome string) {
	s.Helper()
	_ = os.Remove(s.journal()) // an earlier repair's, which no longer stands
	r := s.doctor("diagnose", "pod/p", "-n", s.name, "--check", "inuse-not-attached", "--for", "1s", "--settle", (2 * syncPeriod).String(),
		"--journal", s.journal(), "--apply", "--yes", "--fail-on", "info")
	if r.Code != 0 || !strings.Contains(r.Stderr, outcome) || strings.Contains(outcome, "last") && !strings.Contains(r.Stderr, restart) {
		s.Errorf("exit code %d, want 0 and %q", r.Code, outcome)
	}
	s.Cleanup(func() { _ = os.Remove(s.journal()) })
	s.await(fixture.PodRunning(s.client, s.name, "p"))
	s.stays(s.listed())
}

// certain waits until the pod has waited for so long that the finding is certain.
func (s *story) certain(since time.Time, after time.Duration) {
	time.Sleep(time.Until(since.Add(after + 5*time.Second)))
}

// TestOldController is told on two nodes at once, on a controller that forgets.
func TestOldController(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for minutes")
	}
	cluster.StopController()
	t.Cleanup(func() {
		cluster.StopController()
		if err := cluster.StartController(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if err := cluster.StartOldController(t.Context()); err != nil {
		t.Fatal(err)
	}
	kubeconfig := claiming(t, controlplane.OldRelease)
	left, stayed := newStory(t, "left", kubeconfig), newStory(t, "stayed", kubeconfig)
	left.loses()
	stayed.loses()
	lost := time.Now()

	// Another attach does not bring the entry back, as it does on later releases.
	for _, s := range []*story{left, stayed} {
		s.runs("second")
		s.stays(s.dropped())
	}
	left.certain(lost, facts.ReuseGrace)
	left.repairs(mayLast + "left")
	stayed.repairs(mayLast + "stayed")

	// The next one takes it off again, under the pod that runs.
	stayed.certain(lost, facts.AttachGrace)
	stayed.runs("third")
	stayed.await(stayed.dropped())
	// a look at the pod alone does not read the volumes of other pods
	r := stayed.doctor("diagnose", "node/stayed", "--check", "inuse-not-attached", "--for", "1s")
	if !strings.Contains(r.Stdout, "it leaves it out whenever it writes the list") || !strings.Contains(r.Stdout, "has written the list since, with volume") {
		t.Errorf("exit code %d: it does not say that the controller has left the volume out", r.Code)
	}
	stayed.repairs(lasts + "stayed")

	// Where the pod leaves, the entry stays, and is known as our own.
	left.must(fixture.DeletePod(t.Context(), left.client, "left", "p"))
	left.await(fixture.PodGone(left.client, "left", "p"))
	phantom := left.is("listed without an attachment", func(a fixture.AttachmentState) bool { return a.Attachment == nil && a.Listed && !a.InUse })
	left.await(phantom)
	time.Sleep(phantomAfter)
	left.stays(phantom)
	r = left.doctor("diagnose", "node/left", "--check", "attached-phantom", "--for", "1s")
	if !strings.Contains(r.Stdout, "volume-doctor added the entry") || !strings.Contains(r.Stdout, "volume-doctor undo") || strings.Contains(r.Stdout, "somebody else") {
		t.Errorf("exit code %d: it does not say that the entry is its own", r.Code)
	}
	if r := left.doctor("undo", left.journal(), "--yes"); r.Code != 0 {
		t.Errorf("undo: exit code %d", r.Code)
	}
	left.await(left.is("neither attached nor listed", func(a fixture.AttachmentState) bool { return a.Attachment == nil && !a.Listed }))

	// A restart makes it last.
	cluster.StopController()
	if err := cluster.StartOldController(t.Context()); err != nil {
		t.Fatal(err)
	}
	stayed.stays(stayed.listed())
	stayed.runs("fourth")
	stayed.stays(stayed.listed())
	stayed.runs("fifth")
	stayed.stays(stayed.listed())
}

// TestCurrentController: there a second and a third attach leave the entry alone.
func TestCurrentController(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for minutes")
	}
	s := newStory(t, "current", cluster.Kubeconfig)
	lost := time.Now()
	s.must(fixture.DropVolumesAttached(t.Context(), s.client, "current", s.volume.UniqueName()))
	s.stays(s.dropped())
	s.certain(lost, facts.AttachGrace) // of a pod that runs
	s.repairs("current: Repaired")
	for _, pod := range []string{"second", "third"} {
		s.runs(pod)
		s.stays(s.listed())
	}
	s.must(fixture.DeletePod(t.Context(), s.client, "current", "second"))
	s.await(fixture.PodGone(s.client, "current", "second"))
	s.stays(s.listed())

	// The entry that a detach has to take off it takes off: nothing of ours is left.
	s.must(fixture.DeletePod(t.Context(), s.client, "current", "p"))
	s.await(s.is("neither attached nor listed", func(a fixture.AttachmentState) bool { return a.Attachment == nil && !a.Listed && !a.InUse }))
}

// claiming is a kubeconfig for an API server that says to be of the release: the command
// takes the controller to be of it, too.
func claiming(t *testing.T, release string) string {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", cluster.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: transport, FlushInterval: -1}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"major":"1","minor":"22","gitVersion":"` + release + `"}`))
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	const name = "volume-doctor-e2e"
	out := clientcmdapi.NewConfig()
	out.Clusters[name] = &clientcmdapi.Cluster{Server: server.URL,
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}
	out.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: config.BearerToken}
	out.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	out.CurrentContext = name
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*out, file); err != nil {
		t.Fatal(err)
	}
	return file
}
