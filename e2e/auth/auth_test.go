// Package auth_test runs the command with exactly the rights that it says it
// takes, as a person and as the CronJob that is shipped: they are enough, and
// none of them is too many.
package auth_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/yaml"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/scenario"
)

var cluster *controlplane.Cluster

func TestMain(m *testing.M) {
	os.Exit(controlplane.Main(m, controlplane.Options{}, func(c *controlplane.Cluster) { cluster = c }))
}

// optional is the one kind without which nothing is a gap.
const optional = "list deployments.apps"

// broken makes a world with a finding in it, in which every kind is asked for:
// a claim without a volume has a storage class, and a pod of a ReplicaSet that
// waits has a Deployment.
func broken(t *testing.T) *scenario.World {
	t.Helper()
	name := strings.ToLower(t.Name())
	w, err := scenario.BackoffDrop(t.Context(), cluster, scenario.Options{Namespace: name, Node: name + "-n1"})
	must(t, err)
	t.Cleanup(func() {
		if err := w.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	client, class := cluster.Client().CoreV1(), fixture.StorageClass
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "unbound", Namespace: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	_, err = client.PersistentVolumeClaims(name).Create(t.Context(), claim, metav1.CreateOptions{})
	must(t, err)
	controller := true
	pod := fixture.Pod(name, "web-5d9c-x", "", "unbound")
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-5d9c", UID: "nobody", Controller: &controller}}
	_, err = client.Pods(name).Create(t.Context(), pod, metav1.CreateOptions{})
	must(t, err)
	return w
}

// roles are the ClusterRoles that "auth -o yaml" prints, by name.
func roles(t *testing.T) map[string]*rbacv1.ClusterRole {
	t.Helper()
	r, err := command.Run(t.Context(), command.Binary, "/dev/null", "auth", "-o", "yaml")
	must(t, err)
	if r.Code != 0 {
		t.Fatalf("exit code %d: %s", r.Code, r.Stderr)
	}
	return clusterRoles(t, r.Stdout)
}

func clusterRoles(t *testing.T, text string) map[string]*rbacv1.ClusterRole {
	t.Helper()
	found := map[string]*rbacv1.ClusterRole{}
	for _, document := range strings.Split(text, "---\n") {
		role := &rbacv1.ClusterRole{}
		must(t, yaml.UnmarshalStrict([]byte(document), role))
		found[role.Name] = role
	}
	return found
}

// rights are the rules of a role, one right each, as the audit log tells them.
func rights(role *rbacv1.ClusterRole) []string {
	var list []string
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				list = append(list, right(verb, rule.APIGroups[0], resource))
			}
		}
	}
	slices.Sort(list)
	return list
}

func right(verb, group, resource string) string {
	resource, sub, has := strings.Cut(resource, "/")
	if group != "" {
		resource += "." + group
	}
	if has {
		resource += "/" + sub
	}
	return verb + " " + resource
}

// without is the role less one right.
func without(role *rbacv1.ClusterRole, lost string) *rbacv1.ClusterRole {
	less := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role.Name}}
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			if right(rule.Verbs[0], rule.APIGroups[0], resource) != lost {
				less.Rules = append(less.Rules, rbacv1.PolicyRule{
					APIGroups: rule.APIGroups, Resources: []string{resource}, ResourceNames: rule.ResourceNames, Verbs: rule.Verbs,
				})
			}
		}
	}
	return less
}

// grant writes the roles and binds them to the subject, until the test ends.
func grant(t *testing.T, subject rbacv1.Subject, granted ...*rbacv1.ClusterRole) {
	t.Helper()
	rbac := cluster.Client().RbacV1()
	for _, role := range granted {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role.Name}, Subjects: []rbacv1.Subject{subject},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		}
		_, err := rbac.ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
		must(t, err)
		_, err = rbac.ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{})
		must(t, err)
		t.Cleanup(func() {
			ctx := context.WithoutCancel(t.Context())
			must(t, rbac.ClusterRoleBindings().Delete(ctx, role.Name, metav1.DeleteOptions{}))
			must(t, rbac.ClusterRoles().Delete(ctx, role.Name, metav1.DeleteOptions{}))
		})
	}
}

// replace gives a role other rules.
func replace(t *testing.T, role *rbacv1.ClusterRole) {
	t.Helper()
	rules, err := json.Marshal(map[string]any{"rules": role.Rules})
	must(t, err)
	_, err = cluster.Client().RbacV1().ClusterRoles().Patch(t.Context(), role.Name, types.MergePatchType, rules, metav1.PatchOptions{})
	must(t, err)
}

// awaitRights waits until "auth" says of the role what is so: the API server learns
// of new rules a moment after they are written. lacks is the right that is
// missing, "" for none.
func awaitRights(t *testing.T, kubeconfig, role, lacks string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		r := run(t, kubeconfig, "auth")
		i := strings.Index(r.Stdout, role+" ")
		if i < 0 {
			t.Fatalf("auth does not name %s: %s%s", role, r.Stdout, r.Stderr)
		}
		line, _, _ := strings.Cut(r.Stdout[i:], "\n")
		if fields := strings.Fields(line); fields[1] == "yes" && lacks == "" || fields[1] == "no" && strings.HasSuffix(strings.TrimSpace(line), "  "+lacks) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%q is missing, and auth says: %s", lacks, line)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// requests are what a user has asked the API server for since mark was zero,
// each kind of request once, and those among them that were refused. Reviews of
// its own rights, which everybody may ask for, are left out.
func requests(t *testing.T, user string, mark *int) (asked, refused []string) {
	t.Helper()
	events, err := cluster.Audited(func(e *auditv1.Event) bool {
		return e.User.Username == user && e.ObjectRef != nil && e.ObjectRef.Resource != "selfsubjectaccessreviews"
	})
	must(t, err)
	all, no := map[string]bool{}, map[string]bool{}
	for _, e := range events[*mark:] {
		resource := e.ObjectRef.Resource
		if e.ObjectRef.Subresource != "" {
			resource += "/" + e.ObjectRef.Subresource
		}
		what := right(e.Verb, e.ObjectRef.APIGroup, resource)
		all[what] = true
		if e.ResponseStatus != nil && e.ResponseStatus.Code == 403 {
			no[what] = true
		}
	}
	*mark = len(events)
	return slices.Sorted(maps.Keys(all)), slices.Sorted(maps.Keys(no))
}

func viewer(t *testing.T) (kubeconfig string, subject rbacv1.Subject) {
	t.Helper()
	kubeconfig, err := cluster.KubeconfigFor(controlplane.UserViewer)
	must(t, err)
	return kubeconfig, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: controlplane.UserViewer}
}

// TestReader: every command that reads does with the reader's role, and asks
// for all of it; without any one right something is said to be missing.
func TestReader(t *testing.T) {
	w := broken(t)
	role := roles(t)["volume-doctor-reader"]
	kubeconfig, subject := viewer(t)
	if r := run(t, kubeconfig, "auth"); r.Code != 1 || strings.Contains(r.Stdout, " yes ") {
		t.Errorf("auth of somebody who may do nothing: exit code %d\n%s", r.Code, r.Stdout)
	}
	grant(t, subject, role)
	awaitRights(t, kubeconfig, role.Name, "")
	if r := run(t, kubeconfig, "auth"); r.Code != 0 {
		t.Errorf("auth of a reader: exit code %d", r.Code)
	}
	file := filepath.Join(t.TempDir(), "snapshot.yaml")
	var mark int
	requests(t, controlplane.UserViewer, &mark)
	for _, args := range [][]string{
		{"diagnose"}, {"diagnose", "-n", w.Namespace}, {"diagnose", "-n", w.Namespace, "pod/" + w.Subject.Pod}, {"diagnose", "node/" + w.Node},
		{"diagnose", "pv/" + w.Subject.Volume.PersistentVolume}, {"diagnose", "-n", w.Namespace, "pvc/" + w.Subject.Volume.Claim},
		{"diagnose", "va/" + w.Subject.Volume.AttachmentName(w.Node)},
		{"plan"}, {"plan", "node/" + w.Node}, {"trace", "-n", w.Namespace, "pod/" + w.Subject.Pod}, {"preflight", "node/" + w.Node}, {"snapshot", file},
	} {
		if r := run(t, kubeconfig, args...); r.Code == 2 {
			t.Errorf("%v: exit code 2:\n%s%s", args, r.Stdout, r.Stderr)
		}
	}
	asked, refused := requests(t, controlplane.UserViewer, &mark)
	if !slices.Equal(asked, rights(role)) || len(refused) > 0 {
		t.Errorf("asked for\n%s\nrefused %v; the role has\n%s", strings.Join(asked, "\n"), refused, strings.Join(rights(role), "\n"))
	}

	for _, lost := range rights(role) {
		replace(t, without(role, lost))
		awaitRights(t, kubeconfig, role.Name, lost)
		requests(t, controlplane.UserViewer, &mark)
		r := run(t, kubeconfig, "diagnose", "-o", "json")
		_, refused := requests(t, controlplane.UserViewer, &mark)
		if !slices.Contains(refused, lost) {
			t.Errorf("without %q: nothing was refused but %v", lost, refused)
		}
		if lost == optional {
			continue
		}
		kind, _, _ := strings.Cut(strings.TrimPrefix(lost, "list "), ".")
		gaps := parse[finding.Report](t, r.Stdout).Gaps
		if r.Code != 2 || len(gaps) != 1 || string(gaps[0].Kind) != kind || gaps[0].Reason != "Forbidden" {
			t.Errorf("without %q: exit code %d, gaps %v", lost, r.Code, gaps)
		}
	}
}

// TestKubelet: to ask a kubelet takes its role, and no more.
func TestKubelet(t *testing.T) {
	w := broken(t)
	all := roles(t)
	kubeconfig, subject := viewer(t)
	grant(t, subject, all["volume-doctor-reader"])
	awaitRights(t, kubeconfig, "volume-doctor-reader", "")
	trace := []string{"trace", "--kubelet", "-n", w.Namespace, "pod/" + w.Subject.Pod}
	if r := run(t, kubeconfig, trace...); r.Code != 2 || !strings.Contains(r.Stdout, "(Forbidden)") {
		t.Errorf("without the role: exit code %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	role := all["volume-doctor-kubelet"]
	grant(t, subject, role)
	awaitRights(t, kubeconfig, role.Name, "")
	var mark int
	requests(t, controlplane.UserViewer, &mark)
	r := run(t, kubeconfig, trace...) // the stand-in has no port, which is no matter of rights
	asked, refused := requests(t, controlplane.UserViewer, &mark)
	if strings.Contains(r.Stdout, "Forbidden") || len(refused) > 0 {
		t.Errorf("refused %v\n%s", refused, r.Stdout)
	}
	for _, want := range rights(role) {
		if !slices.Contains(asked, want) {
			t.Errorf("never asked for %q", want)
		}
	}
}

// TestRepair: the reader's role and the role of their kind are enough for a repair and its
// undo. Without one right of it nothing is written.
func TestRepair(t *testing.T) {
	w := broken(t)
	all := roles(t)
	kubeconfig, subject := viewer(t)
	role := all["volume-doctor-repair-patch-node-status"]
	reader := all["volume-doctor-reader"]
	grant(t, subject, reader, role)
	awaitRights(t, kubeconfig, role.Name, "")
	found(t, kubeconfig, w)
	apply := func() command.Result {
		return run(t, kubeconfig, "diagnose", "-n", w.Namespace, "--for", "1s", "--settle", "1s", "--apply", "--yes",
			"--journal", filepath.Join(t.TempDir(), "journal"))
	}
	const patch = "patch nodes/status"
	replace(t, without(role, patch))
	awaitRights(t, kubeconfig, role.Name, patch)
	if r := apply(); r.Code != 2 || !strings.Contains(r.Stderr, patch) {
		t.Errorf("without %q: exit code %d: %s", patch, r.Code, r.Stderr)
	}
	if err := fixture.Await(t.Context(), w.Dropped()); err != nil {
		t.Errorf("something was written: %v", err)
	}
	replace(t, role)
	awaitRights(t, kubeconfig, role.Name, "")
	var mark int
	requests(t, controlplane.UserViewer, &mark)
	if r := apply(); r.Code != 0 || strings.Contains(r.Stderr, "no event") {
		t.Errorf("exit code %d: %s", r.Code, r.Stderr)
	}
	asked, refused := requests(t, controlplane.UserViewer, &mark)
	want := slices.Concat(rights(reader), rights(role))
	slices.Sort(want)
	if !slices.Equal(asked, want) || len(refused) > 0 {
		t.Errorf("asked for\n%s\nrefused %v; the roles have\n%s", strings.Join(asked, "\n"), refused, strings.Join(want, "\n"))
	}
}

// found waits for the finding: the check leaves the kubelet and the controller
// the time to put it right.
func found(t *testing.T, kubeconfig string, w *scenario.World) finding.Finding {
	t.Helper()
	deadline := time.Now().Add(4 * time.Minute)
	for {
		r := run(t, kubeconfig, "diagnose", "-n", w.Namespace, "-o", "json")
		for _, f := range parse[finding.Report](t, r.Stdout).Findings {
			if f.Check == "inuse-not-attached" {
				return f
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("not found: %s", r.Stdout)
		}
		time.Sleep(2 * time.Second)
	}
}

func run(t *testing.T, kubeconfig string, args ...string) command.Result {
	t.Helper()
	r, err := command.Run(t.Context(), command.Binary, kubeconfig, args...)
	must(t, err)
	return r
}

func parse[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return v
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
