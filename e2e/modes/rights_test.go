package modes_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// groups are the API groups of the kinds.
var groups = map[snapshot.Kind]string{
	snapshot.VolumeAttachments: "storage.k8s.io",
	snapshot.CSINodes:          "storage.k8s.io",
	snapshot.CSIDrivers:        "storage.k8s.io",
	snapshot.StorageClasses:    "storage.k8s.io",
	snapshot.Leases:            "coordination.k8s.io",
	snapshot.Deployments:       "apps",
}

// randomSubsets is the number of random sets of kinds that are tried beside those that lack
// one kind.
const randomSubsets = 10

// person is a user with the right to list some kinds.
type person struct {
	name  string
	kinds []snapshot.Kind
	// namespace is the only one in which the right holds; "": all, and the kinds without
	// namespaces.
	namespace string
}

// rights compares what users with fewer rights find in the cluster in which everything is
// broken: they have no finding that a user with all rights does not have, and every kind that
// they may not list is named as a gap.
func rights(t *testing.T) {
	people := somePeople(t)
	for _, p := range people {
		p.grant(t)
	}
	all, waiting := map[string]bool{}, map[string]bool{}
	remember := func() {
		report := diagnosed(t, cluster.Kubeconfig, 1)
		for _, f := range report.Findings {
			all[f.Fingerprint] = true
		}
		for _, w := range report.Waiting {
			waiting[w.Pod] = true
		}
	}
	// The remainder names a waiting pod where the check that knows the cause cannot run.
	remainder := func(f finding.Finding) bool {
		return f.Check == "pod-stuck" && !slices.ContainsFunc(f.Pods, func(pod string) bool { return !waiting[pod] })
	}
	// The cluster changes meanwhile: a finding that comes or goes is in one of the two
	// reports.
	remember()
	reports := map[string]finding.Report{}
	for _, p := range people {
		reports[p.name] = p.diagnoses(t)
	}
	remember()
	some := 0
	for name, report := range reports {
		some += len(report.Findings)
		for _, f := range report.Findings {
			if !all[f.Fingerprint] && !remainder(f) {
				t.Errorf("%s: only fewer rights show %s: %s", name, f.Check, f.Message)
			}
		}
	}
	if some == 0 {
		t.Error("nobody with fewer rights finds anything: that proves nothing")
	}
	t.Logf("%d users found %d of %d findings", len(people), some, len(people)*len(all))
}

func somePeople(t *testing.T) []person {
	kinds := append(snapshot.Kinds(), snapshot.Deployments)
	var people []person
	for _, lacking := range kinds {
		rest := slices.DeleteFunc(slices.Clone(kinds), func(k snapshot.Kind) bool { return k == lacking })
		people = append(people, person{name: "lacks-" + string(lacking), kinds: rest})
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range randomSubsets {
		some := slices.DeleteFunc(slices.Clone(kinds), func(snapshot.Kind) bool { return random.IntN(3) == 0 })
		people = append(people, person{name: fmt.Sprintf("has-some-%d", i), kinds: some})
	}
	for _, m := range []string{"two-nodes", "secret-missing"} {
		people = append(people, person{name: "only-" + m, kinds: kinds, namespace: m})
	}
	return people
}

// grant binds the person to a role with the rights, and waits until they take effect.
func (p person) grant(t *testing.T) {
	t.Helper()
	var rules []rbacv1.PolicyRule
	for _, kind := range p.kinds {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{groups[kind]}, Resources: []string{string(kind)}, Verbs: []string{"get", "list"}})
	}
	meta := metav1.ObjectMeta{Name: p.name, Namespace: p.namespace}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: p.name}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: p.name}
	client, options := cluster.Client().RbacV1(), metav1.CreateOptions{}
	_, err := client.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: p.name}, Rules: rules}, options)
	if err != nil {
		t.Fatal(err)
	}
	if p.namespace == "" {
		_, err = client.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}, options)
	} else {
		_, err = client.RoleBindings(p.namespace).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}, options)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(p.kinds) > 0 {
		if err := fixture.Await(t.Context(), p.mayList(p.kinds[len(p.kinds)-1])); err != nil {
			t.Fatal(err)
		}
	}
}

func (p person) mayList(kind snapshot.Kind) fixture.Condition {
	return fixture.Condition{What: p.name + " may list " + string(kind), Check: func(ctx context.Context) (bool, []runtime.Object, error) {
		review, err := cluster.Client().AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: p.name, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: p.namespace, Verb: "list", Group: groups[kind], Resource: string(kind),
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			return false, nil, err
		}
		return review.Status.Allowed, nil, nil
	}}
}

// diagnoses runs the command as the person, and checks what it says it could not read.
func (p person) diagnoses(t *testing.T) finding.Report {
	t.Helper()
	args := []string{"diagnose", "-o", "json", "--as", p.name}
	if p.namespace != "" {
		args = append(args, "-n", p.namespace)
	}
	r := run(t, cluster.Kubeconfig, args...)
	if r.Stdout == "" {
		t.Fatalf("%s: exit code %d: %s", p.name, r.Code, r.Stderr)
	}
	report := parse[finding.Report](t, r.Stdout)
	var missing, gaps []string
	for _, kind := range snapshot.Kinds() {
		if p.namespace != "" || !slices.Contains(p.kinds, kind) {
			missing = append(missing, string(kind))
		}
	}
	for _, g := range report.Gaps {
		gaps = append(gaps, string(g.Kind))
		if g.Reason != snapshot.ReasonForbidden {
			t.Errorf("%s: the gap %s is %s", p.name, g.Kind, g.Reason)
		}
	}
	slices.Sort(missing)
	slices.Sort(gaps)
	if gaps = slices.Compact(gaps); !slices.Equal(missing, gaps) {
		t.Errorf("%s: the gaps are %s, want %s", p.name, strings.Join(gaps, " "), strings.Join(missing, " "))
	}
	want := 2
	if len(missing) == 0 {
		want = 1 // only deployments are missing, which is no gap
	}
	if r.Code != want {
		t.Errorf("%s: exit code %d, want %d", p.name, r.Code, want)
	}
	return report
}
