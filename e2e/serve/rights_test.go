package serve_test

import (
	"context"
	"maps"
	"net/http"
	"os"
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

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
)

const (
	inCluster = "../../docs/in-cluster.md"
	user      = "system:serviceaccount:volume-doctor:volume-doctor"
)

// blocks are the code blocks of one section of the page in a language.
func blocks(t *testing.T, heading, language string) []string {
	t.Helper()
	text, err := os.ReadFile(inCluster)
	must(t, err)
	_, after, found := strings.Cut(string(text), heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", inCluster, heading)
	}
	after, _, _ = strings.Cut(after, "\n## ")
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

// install runs the page's commands for the chart, with what it is asked for, and gives a
// kubeconfig with a token of its service account, as its pod gets one. They are undone by
// the page's commands when the test ends.
func install(t *testing.T, values string) (kubeconfig string) {
	t.Helper()
	shell(t, "", strings.TrimSpace(blocks(t, "## Install it", "sh")[0])+" --set "+values)
	shell(t, "", blocks(t, "## The report page", "sh")[0])
	t.Cleanup(func() {
		shell(t, "", "kubectl delete clusterrolebinding volume-doctor-viewers limited --ignore-not-found\n"+blocks(t, "## Remove it", "sh")[0])
	})
	kubeconfig = asServiceAccount(t)
	for _, right := range slices.Concat(roles(t)...) {
		awaitRight(t, right, true)
	}
	return kubeconfig
}

// asServiceAccount is a kubeconfig with a token of the service account.
func asServiceAccount(t *testing.T) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(cluster.Kubeconfig)
	must(t, err)
	for _, auth := range config.AuthInfos {
		auth.Token = serviceAccountToken(t)
	}
	for _, c := range config.Contexts {
		c.Namespace = namespace
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, clientcmd.WriteToFile(*config, kubeconfig))
	return kubeconfig
}

func serviceAccountToken(t *testing.T) string {
	t.Helper()
	token, err := cluster.Client().CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "volume-doctor", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(t, err)
	return token.Status.Token
}

// roles are the rights of the ClusterRole, and of the Role, that are installed.
func roles(t *testing.T) [][]string {
	t.Helper()
	everywhere, err := cluster.Client().RbacV1().ClusterRoles().Get(t.Context(), "volume-doctor", metav1.GetOptions{})
	must(t, err)
	inNamespace, err := cluster.Client().RbacV1().Roles(namespace).Get(t.Context(), "volume-doctor", metav1.GetOptions{})
	must(t, err)
	return [][]string{rights(everywhere.Rules), rights(inNamespace.Rules)}
}

// rights are "verb resource", one for each right of the rules.
func rights(rules []rbacv1.PolicyRule) []string {
	var list []string
	for _, rule := range rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				list = append(list, verb+" "+resource)
			}
		}
	}
	return list
}

// lose takes a right out of the role that has it until the test ends.
func lose(t *testing.T, lost string) {
	t.Helper()
	change := func(ctx context.Context, edit func([]rbacv1.PolicyRule) []rbacv1.PolicyRule) {
		if inNamespace(lost) != "" {
			client := cluster.Client().RbacV1().Roles(namespace)
			role, err := client.Get(ctx, "volume-doctor", metav1.GetOptions{})
			must(t, err)
			role.Rules = edit(role.Rules)
			_, err = client.Update(ctx, role, metav1.UpdateOptions{})
			must(t, err)
			return
		}
		client := cluster.Client().RbacV1().ClusterRoles()
		role, err := client.Get(ctx, "volume-doctor", metav1.GetOptions{})
		must(t, err)
		role.Rules = edit(role.Rules)
		_, err = client.Update(ctx, role, metav1.UpdateOptions{})
		must(t, err)
	}
	var all []rbacv1.PolicyRule
	verb, resource, _ := strings.Cut(lost, " ")
	change(t.Context(), func(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
		all = rules
		var left []rbacv1.PolicyRule
		for _, r := range rules {
			r = *r.DeepCopy()
			if slices.Equal(r.Verbs, []string{verb}) {
				r.Resources = slices.DeleteFunc(r.Resources, func(r string) bool { return r == resource })
			}
			if len(r.Resources)+len(r.NonResourceURLs) > 0 {
				left = append(left, r)
			}
		}
		return left
	})
	awaitRight(t, lost, false)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		change(ctx, func([]rbacv1.PolicyRule) []rbacv1.PolicyRule { return all })
		await(ctx, t, lost, true)
	})
}

// awaitRight waits until the API server has learnt of what the roles say.
func awaitRight(t *testing.T, right string, has bool) {
	t.Helper()
	await(t.Context(), t, right, has)
}

func await(ctx context.Context, t *testing.T, right string, has bool) {
	t.Helper()
	verb, resource, _ := strings.Cut(right, " ")
	groups := map[string]string{"tokenreviews": "authentication.k8s.io", "subjectaccessreviews": "authorization.k8s.io", "leases": "coordination.k8s.io", "deployments": "apps",
		"volumeattachments": "storage.k8s.io", "csinodes": "storage.k8s.io", "csidrivers": "storage.k8s.io", "storageclasses": "storage.k8s.io",
		"reports": "openreports.io", "clusterreports": "openreports.io"}
	must(t, fixture.Await(ctx, fixture.Condition{What: right, Check: func(ctx context.Context) (bool, []runtime.Object, error) {
		review, err := cluster.Client().AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: verb, Group: groups[resource], Resource: resource, Namespace: inNamespace(right),
				Name: "volume-doctor", // some rights are to the objects of this name alone
			},
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

// refused are the requests of the service account that the API server has refused since
// mark was set.
func refused(t *testing.T, mark *int) []string {
	t.Helper()
	events, err := cluster.Audited(func(e *auditv1.Event) bool {
		return e.User.Username == user && e.ObjectRef != nil && e.ResponseStatus != nil && e.ResponseStatus.Code == http.StatusForbidden
	})
	must(t, err)
	var list []string
	for _, e := range events[*mark:] {
		list = append(list, e.Verb+" "+e.ObjectRef.Resource)
	}
	*mark = len(events)
	return list
}

// asksForItsRights: it has asked for every right of its roles, and for nothing else.
func asksForItsRights(t *testing.T, mark *int) {
	t.Helper()
	asked := requests(t, mark)
	has := map[string]bool{}
	for _, right := range slices.Concat(roles(t)...) {
		has[right] = true
		// An API server that streams lists is not asked to list.
		if !slices.Contains(asked, right) && !strings.HasPrefix(right, "list ") {
			t.Errorf("a role has %q, which is never asked for", right)
		}
	}
	for _, right := range asked {
		if !has[right] {
			t.Errorf("asked for %q, which no role has", right)
		}
	}
}

// tokenOf is the token of a user who may do nothing.
func tokenOf(t *testing.T) string {
	t.Helper()
	path, err := cluster.KubeconfigFor(controlplane.UserLimited)
	must(t, err)
	config, err := clientcmd.LoadFromFile(path)
	must(t, err)
	return config.AuthInfos[controlplane.UserLimited].Token
}
