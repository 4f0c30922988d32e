package serve_test

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
)

const (
	inCluster = "../../docs/in-cluster.md"
	user      = "system:serviceaccount:volume-doctor:volume-doctor"
)

// ours are the labels of the ClusterRoles.
var ours = map[string]string{"app.kubernetes.io/name": "volume-doctor"}

// blocks are the code blocks of the page in a language, from the heading on.
func blocks(t *testing.T, heading, language string) []string {
	t.Helper()
	text, err := os.ReadFile(inCluster)
	must(t, err)
	_, after, found := strings.Cut(string(text), heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", inCluster, heading)
	}
	var list []string
	for {
		_, rest, found := strings.Cut(after, "```"+language+"\n")
		if !found {
			return list
		}
		block, more, _ := strings.Cut(rest, "```")
		list, after = append(list, block), more
	}
}

// install runs the page's commands, has the API server look at its Deployment, and gives
// a kubeconfig with a token of its service account, as its pod gets one.
func install(t *testing.T) (kubeconfig string) {
	t.Helper()
	rbac := cluster.Client().RbacV1()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		must(t, rbac.ClusterRoles().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=volume-doctor"}))
		bindings, err := rbac.ClusterRoleBindings().List(ctx, metav1.ListOptions{})
		must(t, err)
		for _, b := range bindings.Items {
			if strings.HasPrefix(b.RoleRef.Name, "volume-doctor-") {
				must(t, rbac.ClusterRoleBindings().Delete(ctx, b.Name, metav1.DeleteOptions{}))
			}
		}
		must(t, rbac.RoleBindings(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	})
	commands := blocks(t, "## Install it", "sh")
	if len(commands) != 2 {
		t.Fatalf("%d blocks of commands", len(commands))
	}
	if _, err := cluster.Client().CoreV1().ServiceAccounts(namespace).Get(t.Context(), namespace, metav1.GetOptions{}); err == nil {
		_, commands[0], _ = strings.Cut(commands[0], "-n volume-doctor\n") // the namespace is there
	}
	shell(t, "", strings.Join(commands, ""))
	deployments := blocks(t, "## Install it", "yaml")
	shell(t, deployments[0], "kubectl apply --dry-run=server -f -")

	token, err := cluster.Client().CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "volume-doctor", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(t, err)
	config, err := clientcmd.LoadFromFile(cluster.Kubeconfig)
	must(t, err)
	for _, auth := range config.AuthInfos {
		auth.Token = token.Status.Token
	}
	for _, c := range config.Contexts {
		c.Namespace = namespace
	}
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	must(t, clientcmd.WriteToFile(*config, kubeconfig))
	for role, rules := range roles(t) {
		for _, right := range rights(rules) {
			if role != "report-viewer" {
				awaitRight(t, right, true)
			}
		}
	}
	return kubeconfig
}

// shell runs commands as the admin; one that warns has failed.
func shell(t *testing.T, stdin, commands string) {
	t.Helper()
	dir, err := command.Build()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", commands)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig, "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	if text, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(text), "Warning") {
		t.Fatalf("%v: %s", err, text)
	}
}

// roles are the rules of those that the page binds, or has somebody bind.
func roles(t *testing.T) map[string][]rbacv1.PolicyRule {
	t.Helper()
	found := map[string][]rbacv1.PolicyRule{}
	for _, name := range []string{"reader", "watcher", "events", "leader", "report-page", "report-viewer"} {
		role, err := cluster.Client().RbacV1().ClusterRoles().Get(t.Context(), "volume-doctor-"+name, metav1.GetOptions{})
		must(t, err)
		found[name] = role.Rules
	}
	return found
}

// rights are "verb resource", one for each right of the rules.
func rights(rules []rbacv1.PolicyRule) []string {
	var list []string
	for _, rule := range rules {
		for _, resource := range rule.Resources {
			list = append(list, rule.Verbs[0]+" "+resource)
		}
	}
	return list
}

// lose takes a right out of a role until the test ends.
func lose(t *testing.T, name, lost string) {
	t.Helper()
	client := cluster.Client().RbacV1().ClusterRoles()
	role, err := client.Get(t.Context(), "volume-doctor-"+name, metav1.GetOptions{})
	must(t, err)
	all := role.DeepCopy().Rules
	verb, resource, _ := strings.Cut(lost, " ")
	role.Rules = slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
		return slices.Equal(r.Resources, []string{resource}) && r.Verbs[0] == verb
	})
	for i, r := range role.Rules {
		if r.Verbs[0] == verb {
			role.Rules[i].Resources = slices.DeleteFunc(r.Resources, func(r string) bool { return r == resource })
		}
	}
	_, err = client.Update(t.Context(), role, metav1.UpdateOptions{})
	must(t, err)
	awaitRight(t, lost, false)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		role, err := client.Get(ctx, "volume-doctor-"+name, metav1.GetOptions{})
		must(t, err)
		role.Rules = all
		_, err = client.Update(ctx, role, metav1.UpdateOptions{})
		must(t, err)
	})
}

// awaitRight waits until the API server has learnt of what the roles say.
func awaitRight(t *testing.T, right string, has bool) {
	t.Helper()
	verb, resource, _ := strings.Cut(right, " ")
	groups := map[string]string{"tokenreviews": "authentication.k8s.io", "subjectaccessreviews": "authorization.k8s.io", "leases": "coordination.k8s.io", "deployments": "apps",
		"volumeattachments": "storage.k8s.io", "csinodes": "storage.k8s.io", "csidrivers": "storage.k8s.io", "storageclasses": "storage.k8s.io"}
	must(t, fixture.Await(t.Context(), fixture.Condition{What: right, Check: func(ctx context.Context) (bool, []runtime.Object, error) {
		review, err := cluster.Client().AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: groups[resource], Resource: resource, Namespace: inNamespace(right)},
		}}, metav1.CreateOptions{})
		if err != nil {
			return false, nil, err
		}
		return review.Status.Allowed == has, nil, nil
	}}))
}

// inNamespace is where a right is needed: those to the Lease, in one namespace alone.
func inNamespace(right string) string {
	if strings.HasSuffix(right, " leases") && right != "list leases" && right != "watch leases" {
		return namespace
	}
	return ""
}

// requests are what the service account has asked the API server for since mark was
// zero, each kind of request once.
func requests(t *testing.T, mark *int) []string {
	t.Helper()
	events, err := cluster.Audited(func(e *auditv1.Event) bool { return e.User.Username == user && e.ObjectRef != nil })
	must(t, err)
	asked := map[string]bool{}
	for _, e := range events[*mark:] {
		asked[e.Verb+" "+e.ObjectRef.Resource] = true
	}
	*mark = len(events)
	return slices.Sorted(maps.Keys(asked))
}

// asksForItsRights: it has asked for every right of its roles, and for nothing else.
func asksForItsRights(t *testing.T, mark *int) {
	t.Helper()
	asked := requests(t, mark)
	has := map[string]bool{}
	for role, rules := range roles(t) {
		for _, right := range rights(rules) {
			has[right] = true
			// An API server that streams lists is not asked to list.
			if !slices.Contains(asked, right) && role != "report-viewer" && !strings.HasPrefix(right, "list ") {
				t.Errorf("the role %s has %q, which is never asked for", role, right)
			}
		}
	}
	for _, right := range asked {
		if !has[right] {
			t.Errorf("asked for %q, which no role has", right)
		}
	}
}

// tokenOf is that of a user who may do nothing.
func tokenOf(t *testing.T) string {
	t.Helper()
	path, err := cluster.KubeconfigFor(controlplane.UserLimited)
	must(t, err)
	config, err := clientcmd.LoadFromFile(path)
	must(t, err)
	return config.AuthInfos[controlplane.UserLimited].Token
}
