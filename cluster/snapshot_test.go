package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// pod makes one of use that trim.Object has something to take from.
func pod(name string) corev1.Pod {
	claim := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Args: []string{"--password=hunter2"}}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: claim}}}},
	}
}

func TestSnapshot(t *testing.T) {
	a := newAPI(t)
	a.serve("/api/v1/pods", &corev1.PodList{Items: []corev1.Pod{pod("b"), pod("a")}})
	a.serve("/api/v1/nodes", &corev1.NodeList{Items: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}}})
	a.serve("/apis/apps/v1/deployments", &appsv1.DeploymentList{Items: []appsv1.Deployment{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "d"}}}})
	progress := map[snapshot.Kind]int{}
	c := a.cluster(Options{Context: "prod", PageSize: PageSize, All: true, Progress: func(kind snapshot.Kind, n int) { progress[kind] = n }})
	s, err := c.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := (snapshot.Source{Context: "prod", Server: a.URL, ServerVersion: "v1.36.3"}); s.Source != want {
		t.Errorf("%+v", s.Source)
	}
	if !s.TakenAt.Equal(serverTime) {
		t.Errorf("taken at %v, not at the API server's %v when reading began", s.TakenAt, serverTime)
	}
	if len(s.Gaps) != 0 || len(s.Pods) != 2 || s.Pods[0].Name != "a" || len(s.Nodes) != 1 || len(s.Deployments) != 1 {
		t.Errorf("%+v", s)
	}
	if p := s.Pods[0]; p.ManagedFields != nil || p.Spec.Containers[0].Args != nil {
		t.Errorf("not trimmed: %+v", p)
	}
	if progress[snapshot.Pods] != 2 || progress[snapshot.Nodes] != 1 || len(progress) != len(snapshot.Kinds())+1 {
		t.Errorf("%v", progress)
	}
	order := slices.IndexFunc(a.requests, func(r request) bool { return r.path == "/api/v1/pods" })
	for _, r := range a.requests[order+1:] {
		if r.path != "/apis/storage.k8s.io/v1/storageclasses" && r.path != "/apis/apps/v1/deployments" {
			t.Errorf("%s was read after the pods", r.path)
		}
	}
	for _, r := range a.requests[1:] {
		if r.query["limit"] == nil || r.query["resourceVersion"] != nil || r.query["resourceVersionMatch"] != nil ||
			!strings.HasPrefix(r.header.Get("Accept"), "application/vnd.kubernetes.protobuf,") {
			t.Errorf("%s %v %v", r.path, r.query, r.header)
		}
	}
}

// paged serves the pods in pages of two. The continue token is the number of
// the next one; gone says for which of the requests it has expired.
func paged(count int, gone func(request int) bool) func(*http.Request) (int, runtime.Object) {
	requests := 0
	return func(r *http.Request) (int, runtime.Object) {
		requests++
		from := 0
		if token := r.URL.Query().Get("continue"); token != "" {
			if gone(requests) {
				status := apierrors.NewResourceExpired("the continue token is too old")
				return http.StatusGone, &status.ErrStatus
			}
			if _, err := fmt.Sscan(token, &from); err != nil {
				panic(err)
			}
		}
		list := &corev1.PodList{}
		for i := from; i < min(from+2, count); i++ {
			list.Items = append(list.Items, pod(fmt.Sprintf("p%02d", i)))
		}
		if from+2 < count {
			list.Continue = fmt.Sprint(from + 2)
		}
		return http.StatusOK, list
	}
}

func TestPages(t *testing.T) {
	for name, test := range map[string]struct {
		gone     func(int) bool
		pods     int
		requests int
		gap      string
	}{
		"all in order":     {func(int) bool { return false }, 7, 4, ""},
		"expired once":     {func(n int) bool { return n == 3 }, 7, 3 + 4, ""},
		"expired for ever": {func(n int) bool { return n >= 3 }, 2, 3 + 2, snapshot.ReasonTruncated},
	} {
		t.Run(name, func(t *testing.T) {
			for _, spool := range []*snapshot.Spool{nil, {}} {
				a := newAPI(t)
				a.handlers["/api/v1/pods"] = paged(7, test.gone)
				s := throughFile(t, a.cluster(Options{PageSize: 2, All: spool != nil, Spool: spool}), spool)
				names := map[string]bool{}
				for _, p := range s.Pods {
					names[p.Name] = true
				}
				if len(s.Pods) != test.pods || len(names) != test.pods || len(a.to("/api/v1/pods")) != test.requests {
					t.Errorf("%d pods (%d different) in %d requests", len(s.Pods), len(names), len(a.to("/api/v1/pods")))
				}
				if test.gap == "" && len(s.Gaps) != 0 || test.gap != "" && (len(s.Gaps) != 1 || s.Gaps[0].Reason != test.gap) {
					t.Errorf("%+v", s.Gaps)
				}
			}
		})
	}
}

// throughFile is the cluster's snapshot, where its pods are spooled as they come back
// from the file.
func throughFile(t *testing.T, c *Cluster, spool *snapshot.Spool) *snapshot.Snapshot {
	t.Helper()
	s, err := c.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if spool == nil {
		return s
	}
	if len(s.Pods) > 0 {
		t.Errorf("%d pods are in the list, too", len(s.Pods))
	}
	var file bytes.Buffer
	if err := snapshot.WriteSpooled(&file, s, spool, true); err != nil {
		t.Fatal(err)
	}
	back, warnings, err := snapshot.Read("spooled", &file, snapshot.ReadOptions{})
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	return back
}

func TestGaps(t *testing.T) {
	unavailable := apierrors.NewInternalError(errors.New("etcd is\nunwell"))
	for name, test := range map[string]struct {
		options Options
		prepare func(*api)
		want    []snapshot.Gap
	}{
		"forbidden": {Options{}, func(a *api) { a.fail("/api/v1/nodes", forbidden("nodes")) },
			[]snapshot.Gap{{Kind: snapshot.Nodes, Reason: snapshot.ReasonForbidden, Detail: "nodes is forbidden: no"}}},
		"forbidden, no namespace": {Options{}, func(a *api) { a.fail("/api/v1/pods", forbidden("pods")) },
			[]snapshot.Gap{{Kind: snapshot.Pods, Reason: snapshot.ReasonForbidden, Detail: "pods is forbidden: no"}}},
		"forbidden but in one namespace": {Options{Namespace: "shop"}, func(a *api) { a.fail("/api/v1/pods", forbidden("pods")) },
			[]snapshot.Gap{{Kind: snapshot.Pods, Namespace: "shop", Reason: snapshot.ReasonForbidden, Detail: "pods is forbidden: no"}}},
		"forbidden in the namespace too": {Options{Namespace: "shop"}, func(a *api) {
			a.fail("/api/v1/pods", forbidden("pods"))
			a.fail("/api/v1/namespaces/shop/pods", forbidden("pods"))
		}, []snapshot.Gap{{Kind: snapshot.Pods, Reason: snapshot.ReasonForbidden, Detail: "pods is forbidden: no"}}},
		"leases of kube-system": {Options{Namespace: "shop"}, func(a *api) { a.fail("/apis/coordination.k8s.io/v1/leases", forbidden("leases")) },
			[]snapshot.Gap{{Kind: snapshot.Leases, Namespace: "kube-system", Reason: snapshot.ReasonForbidden, Detail: "leases is forbidden: no"}}},
		"deployments are never a gap": {Options{Namespace: "shop", All: true}, func(a *api) {
			a.fail("/apis/apps/v1/deployments", forbidden("deployments"))
			a.fail("/apis/apps/v1/namespaces/shop/deployments", forbidden("deployments"))
		}, nil},
		"not served": {Options{}, func(a *api) {
			a.fail("/apis/storage.k8s.io/v1/csidrivers", apierrors.NewNotFound(schema.GroupResource{Resource: "csidrivers"}, ""))
		}, []snapshot.Gap{{Kind: snapshot.CSIDrivers, Reason: snapshot.ReasonUnavailable, Detail: `csidrivers "" not found`}}},
		"failing": {Options{}, func(a *api) { a.fail("/api/v1/events", unavailable) },
			[]snapshot.Gap{{Kind: snapshot.Events, Reason: snapshot.ReasonUnavailable, Detail: "Internal error occurred: etcd is unwell"}}},
		"version not told": {Options{}, func(a *api) { a.fail("/version", forbidden("version")) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t)
			test.prepare(a)
			s, err := a.cluster(test.options).Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, s.Gaps); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBusyServerIsAskedAgain(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	tries := 0
	a.handlers["/api/v1/pods"] = func(*http.Request) (int, runtime.Object) {
		if tries++; tries == 1 {
			status := apierrors.NewTooManyRequests("busy", 1)
			return http.StatusTooManyRequests, &status.ErrStatus
		}
		return http.StatusOK, &corev1.PodList{Items: []corev1.Pod{pod("a")}}
	}
	s, err := a.cluster(Options{}).Snapshot(t.Context())
	if err != nil || len(s.Pods) != 1 || len(s.Gaps) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestWhatIsKept(t *testing.T) {
	a := newAPI(t)
	leases := &coordinationv1.LeaseList{}
	for _, name := range []string{
		"kube-system/kube-controller-manager", "kube-system/kube-scheduler", "ebs/external-attacher-leader-ebs-csi-aws-com",
		"kube-node-lease/n1", "shop/leader",
	} {
		namespace, name, _ := strings.Cut(name, "/")
		leases.Items = append(leases.Items, coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	}
	a.serve("/apis/coordination.k8s.io/v1/leases", leases)
	events := &corev1.EventList{}
	for _, reason := range []string{"FailedAttachVolume", "FailedMount", "Pulled", "ProvisioningFailed", "LeaderElection"} {
		events.Items = append(events.Items, corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: strings.ToLower(reason)}, Reason: reason})
	}
	a.serve("/api/v1/events", events)
	s, err := a.cluster(Options{}).Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range s.Leases {
		got = append(got, l.Name)
	}
	for _, e := range s.Events {
		got = append(got, e.Reason)
	}
	want := []string{
		"external-attacher-leader-ebs-csi-aws-com", "n1", "kube-controller-manager",
		"FailedAttachVolume", "FailedMount", "ProvisioningFailed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if selector := a.to("/api/v1/events")[0].query["fieldSelector"]; len(selector) != 1 || !strings.Contains(selector[0], "reason!=Pulled") {
		t.Errorf("%v", selector)
	}
}

func TestReadsAreWhatIsRead(t *testing.T) {
	a := newAPI(t)
	if _, err := a.cluster(Options{All: true}).Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	read := map[string]bool{}
	for _, r := range a.requests {
		read[r.path] = true
	}
	for _, p := range Roles()[0].Needs {
		path := "/apis/" + p.Group + "/v1/" + p.Resource
		if p.Group == "" {
			path = "/api/v1/" + p.Resource
		}
		if !read[path] || p.Verb != "list" {
			t.Errorf("%s is not read at %s", p, path)
		}
		delete(read, path)
	}
	delete(read, "/version")
	if len(read) != 0 {
		t.Errorf("read without saying so: %v", read)
	}
}

// TestReadOnlyWhereAsked: storage classes matter to claims without a volume,
// Deployments to new pods that wait.
func TestReadOnlyWhereAsked(t *testing.T) {
	const classes, deployments = "/apis/storage.k8s.io/v1/storageclasses", "/apis/apps/v1/deployments"
	claim := func(phase corev1.PersistentVolumeClaimPhase) func(*api) {
		return func(a *api) {
			a.serve("/api/v1/persistentvolumeclaims", &corev1.PersistentVolumeClaimList{Items: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "c"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
				Status: corev1.PersistentVolumeClaimStatus{Phase: phase}}}})
		}
	}
	waiting := pod("new")
	controller := true
	waiting.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-1", Controller: &controller}}
	for name, test := range map[string]struct {
		prepare func(*api)
		options Options
		want    []string
	}{
		"nothing":       {func(*api) {}, Options{}, nil},
		"for a file":    {func(*api) {}, Options{All: true}, []string{classes, deployments}},
		"bound claim":   {claim(corev1.ClaimBound), Options{}, nil},
		"pending claim": {claim(corev1.ClaimPending), Options{}, []string{classes}},
		"waiting pod":   {func(a *api) { a.serve("/api/v1/pods", &corev1.PodList{Items: []corev1.Pod{waiting}}) }, Options{}, []string{deployments}},
		"a gap":         {func(a *api) { a.fail("/api/v1/persistentvolumeclaims", forbidden("claims")) }, Options{}, []string{classes, deployments}},
	} {
		a := newAPI(t)
		test.prepare(a)
		if _, err := a.cluster(test.options).Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{classes, deployments} {
			if read := len(a.to(path)) > 0; read != slices.Contains(test.want, path) {
				t.Errorf("%s: %s read: %v", name, path, read)
			}
		}
	}
}
