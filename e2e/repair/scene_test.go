package repair_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubelet"
)

// fewMin is for the checks that wait for five minutes, and for those that first need a lost
// node.
const fewMin = 8 * time.Minute

// lastRepair is the annotation that a repair leaves on the object to which it writes.
const lastRepair = "volume-doctor/last-repair"

// node starts a kubelet with special options.
func (s *stage) node(node string, options kubelet.Options) {
	s.Helper()
	client, err := cluster.ClientFor(controlplane.UserKubelet)
	s.must(err)
	options.Node = s.nodeName(node)
	s.kubelets[node], err = kubelet.Start(s.Context(), client, options)
	s.must(err)
}

// nodeNow is the Node's present state.
func (s *stage) nodeNow(node string) *corev1.Node {
	s.Helper()
	n, err := s.client.CoreV1().Nodes().Get(s.Context(), s.nodeName(node), metav1.GetOptions{})
	s.must(err)
	return n
}

func (s *stage) patchNode(node string, kind types.PatchType, patch string, subresources ...string) {
	s.Helper()
	_, err := s.client.CoreV1().Nodes().Patch(s.Context(), s.nodeName(node), kind, []byte(patch), metav1.PatchOptions{}, subresources...)
	s.must(err)
}

// ownedPod creates a pod of an owner whose controller does not run here: the test does its
// work.
func (s *stage) ownedPod(name, node string, owner metav1.OwnerReference) *corev1.Pod {
	s.Helper()
	yes, grace := true, int64(1)
	owner.APIVersion, owner.Controller = "apps/v1", &yes
	pod := fixture.Pod(s.name, name, s.nodeName(node), "data")
	pod.OwnerReferences = []metav1.OwnerReference{owner}
	pod.Spec.TerminationGracePeriodSeconds = &grace
	pod, err := fixture.CreatePod(s.Context(), s.client, pod)
	s.must(err)
	return pod
}

// stays checks that the condition stays true for two of the controller's syncs.
func (s *stage) stays(condition fixture.Condition) {
	s.Helper()
	s.must(fixture.Stays(s.Context(), 2*syncPeriod, condition))
}

// about are the command's arguments for the finding's subject.
func (s *stage) about(f finding.Finding) []string {
	return []string{strings.ToLower(f.Subject.Kind) + "/" + f.Subject.Name, "-n", s.name}
}

// doctorAs runs the command with a kubeconfig on the finding's subject.
func (s *stage) doctorAs(kubeconfig string, f finding.Finding, args ...string) command.Result {
	s.Helper()
	args = append(append([]string{"diagnose"}, s.about(f)...), append([]string{
		"--check", f.Check, "--fail-on", "info", "--for", "1s", "--settle", holdFor.String(), "--journal", s.journal(), "--apply",
	}, args...)...)
	r, err := command.Run(s.Context(), command.Binary, kubeconfig, args...)
	s.must(err)
	s.Logf("%s\nexit code %d\n%s%s", strings.Join(args, " "), r.Code, r.Stdout, r.Stderr)
	return r
}

// mends checks that the repair of this kind is made, that the cluster's own controllers then
// do their part, and that an event reports it.
func (s *stage) mends(f finding.Finding, kind string, args ...string) {
	s.Helper()
	s.mendsAs(cluster.Kubeconfig, f, kind, args...)
}

func (s *stage) mendsAs(kubeconfig string, f finding.Finding, kind string, args ...string) {
	s.Helper()
	if f.Repair == nil || f.Repair.Kind != kind {
		s.Fatalf("the repair of %s is %+v, not %s", f.Check, f.Repair, kind)
	}
	r := s.doctorAs(kubeconfig, f, append(args, "-o", "wide", "--yes")...)
	if r.Code != 0 || !strings.Contains(r.Stderr, "kubectl ") || strings.Contains(r.Stderr, "no event was written") {
		s.Errorf("--apply: exit code %d, or no kubectl equivalent, or no event", r.Code)
	}
	s.noViolation()
}

// refuses expects exit code 3 with the reason, and not even a dry run of a write.
func (s *stage) refuses(f finding.Finding, because string, args ...string) {
	s.Helper()
	s.refusesAs(cluster.Kubeconfig, f, because, args...)
}

func (s *stage) refusesAs(kubeconfig string, f finding.Finding, because string, args ...string) {
	s.Helper()
	before := s.written()
	r := s.doctorAs(kubeconfig, f, append(args, "--yes")...)
	if r.Code != 3 || !strings.Contains(r.Stderr, because) {
		s.Errorf("%v: exit code %d, want 3 and %q", args, r.Code, because)
	}
	s.wroteNothing(before)
}

// written are the admin's writes to the stage's objects, with dry runs, as in the audit log.
// The dry run of a deletion is marked in its body, which the log does not have.
func (s *stage) written() []string {
	s.Helper()
	events, err := cluster.Writes(controlplane.UserAdmin)
	s.must(err)
	var writes []string
	for _, e := range events {
		if e.ObjectRef == nil || !s.owns(e.ObjectRef.Namespace, e.ObjectRef.Name) {
			continue
		}
		write := e.Verb + " " + e.ObjectRef.Resource + " " + e.ObjectRef.Name
		if strings.Contains(e.RequestURI, "dryRun") {
			write = "try " + write
		}
		writes = append(writes, write)
	}
	return writes
}

// owns reports whether an object belongs to the stage. The name of a VolumeAttachment is a
// hash.
func (s *stage) owns(namespace, name string) bool {
	if namespace == s.name || strings.Contains(name, "-"+s.name) || strings.HasPrefix(name, s.name+"-") {
		return true
	}
	for _, driver := range []string{csidriver.Name, s.driverName()} {
		for _, node := range []string{"a", "b"} {
			if name == csidriver.AttachmentName(driver, "vol-"+s.name+"-data", s.nodeName(node)) {
				return true
			}
		}
	}
	return false
}

// driverName is the name of a driver of the stage's own.
func (s *stage) driverName() string { return s.name + ".test" }

func (s *stage) wroteNothing(before []string) {
	s.Helper()
	if after := s.written(); len(after) != len(before) {
		s.Errorf("there were writes: %v", after[len(before):])
	}
}

// undo runs undo on the stage's journal and expects the exit code and the words.
func (s *stage) undo(code int, words string) {
	s.Helper()
	s.undoAs(cluster.Kubeconfig, code, words)
}

func (s *stage) undoAs(kubeconfig string, code int, words string) {
	s.Helper()
	r, err := command.Run(s.Context(), command.Binary, kubeconfig, "undo", s.journal(), "--yes")
	s.must(err)
	s.Logf("undo\nexit code %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	if r.Code != code || !strings.Contains(r.Stdout+r.Stderr, words) {
		s.Errorf("undo: exit code %d, want %d and %q", r.Code, code, words)
	}
	s.noViolation()
}

// announced expects the event of a repair where kubectl describe looks for it: by the
// object's name and UID.
func (s *stage) announced(object metav1.Object, reason, kind string) {
	s.Helper()
	namespace := object.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	events, err := s.client.CoreV1().Events(namespace).List(s.Context(), metav1.ListOptions{
		FieldSelector: "involvedObject.uid=" + string(object.GetUID()) + ",involvedObject.name=" + object.GetName(),
	})
	s.must(err)
	told := slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
		return e.Reason == "VolumeDoctor"+reason && e.Source.Component == "kubectl-volume_doctor" && strings.Contains(e.Message, kind)
	})
	if !told {
		s.Errorf("no event %s about %q on %s among %v", reason, kind, object.GetName(), events.Items)
	}
}

// marked expects the annotation of the last repair on an object.
func (s *stage) marked(object metav1.Object, mark string) {
	s.Helper()
	got, there := object.GetAnnotations()[lastRepair]
	if mark == "" && there || !strings.HasPrefix(got, mark) {
		s.Errorf("the annotation of %s is %q, want %q", object.GetName(), got, mark)
	}
}

// viewer is the kubeconfig of a user who may read everything and write nothing.
var viewer = sync.OnceValues(func() (kubeconfig string, err error) {
	ctx, client := context.Background(), cluster.Client()
	name := metav1.ObjectMeta{Name: "reads-everything"}
	_, err = client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}},
	}}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: name,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: controlplane.UserViewer}},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	as, err := cluster.ClientFor(controlplane.UserViewer)
	if err != nil {
		return "", err
	}
	err = fixture.Await(ctx, fixture.Condition{What: "the viewer may read", Check: func(ctx context.Context) (bool, []runtime.Object, error) {
		_, err := as.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		return err == nil, nil, nil
	}})
	if err != nil {
		return "", err
	}
	return cluster.KubeconfigFor(controlplane.UserViewer)
})

// cannotWrite has a user who may only read make the repair: it fails with the names of the
// rights, before any write or dry run.
func (s *stage) cannotWrite(f finding.Finding, right string, args ...string) {
	s.Helper()
	kubeconfig, err := viewer()
	s.must(err)
	for _, mode := range [][]string{{"--yes"}, {"--dry-run=server"}} {
		r := s.doctorAs(kubeconfig, f, append(slices.Clone(args), mode...)...)
		if r.Code != 2 || !strings.Contains(r.Stderr, "nothing was written") || !strings.Contains(r.Stderr, "you may not "+right) {
			s.Errorf("with %v and no right to write: exit code %d, want 2 and %q", mode, r.Code, right)
		}
		if _, err := os.Stat(s.journal()); !os.IsNotExist(err) {
			s.Errorf("with %v and no right to write a journal of nothing is left: %v", mode, err)
		}
	}
	events, err := cluster.Writes(controlplane.UserViewer)
	s.must(err)
	asked := false
	for _, e := range events {
		if e.ObjectRef != nil && e.ObjectRef.Resource == "selfsubjectaccessreviews" {
			asked = true
			continue
		}
		s.Errorf("the viewer has sent %s %s", e.Verb, e.RequestURI)
	}
	if !asked {
		s.Error("the audit log does not tell of the viewer at all: that proves nothing")
	}
}

func write(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func condition(what string, holds func(context.Context) bool) fixture.Condition {
	return fixture.Condition{What: what, Check: func(ctx context.Context) (bool, []runtime.Object, error) { return holds(ctx), nil, nil }}
}
