package cluster

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// few answers with the objects that the field selector names.
func (a *api) few(nodes []corev1.Node, vas []storagev1.VolumeAttachment, pods []corev1.Pod) {
	chosen := func(r *http.Request, field, value string) bool {
		selector := r.URL.Query().Get("fieldSelector")
		return selector == "" || selector == field+"="+value
	}
	a.handle("/api/v1/nodes", func(r *http.Request) (int, runtime.Object) {
		list := &corev1.NodeList{}
		list.Items = slices.DeleteFunc(slices.Clone(nodes), func(n corev1.Node) bool { return !chosen(r, "metadata.name", n.Name) })
		return http.StatusOK, list
	})
	a.handle("/apis/storage.k8s.io/v1/volumeattachments", func(r *http.Request) (int, runtime.Object) {
		list := &storagev1.VolumeAttachmentList{}
		list.Items = slices.DeleteFunc(slices.Clone(vas), func(v storagev1.VolumeAttachment) bool { return !chosen(r, "metadata.name", v.Name) })
		return http.StatusOK, list
	})
	a.handle("/api/v1/pods", func(r *http.Request) (int, runtime.Object) {
		list := &corev1.PodList{}
		list.Items = slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return !chosen(r, "spec.nodeName", p.Spec.NodeName) })
		return http.StatusOK, list
	})
}

// TestNear: the few objects are read by their names, with no other right than to list, and
// are the same as those of a whole reading.
func TestNear(t *testing.T) {
	a := newAPI(t)
	object := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), ResourceVersion: "7", Annotations: map[string]string{"what": "nobody reads"}}
	}
	node := func(name string) corev1.Node {
		return corev1.Node{ObjectMeta: object(name), Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{SizeBytes: 1}}, VolumesInUse: []corev1.UniqueVolumeName{"v"}}}
	}
	pod := func(name, on, claim string) corev1.Pod {
		p := corev1.Pod{ObjectMeta: object(name), Spec: corev1.PodSpec{NodeName: on, Containers: []corev1.Container{{Name: "c", Command: []string{"sh"}}}}}
		p.Namespace = "shop"
		if claim != "" {
			p.Spec.Volumes = []corev1.Volume{{Name: "d", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
		}
		return p
	}
	va := storagev1.VolumeAttachment{ObjectMeta: object("csi-a"), Spec: storagev1.VolumeAttachmentSpec{NodeName: "n1"}}
	a.few([]corev1.Node{node("n1"), node("n2")}, []storagev1.VolumeAttachment{va, {ObjectMeta: object("csi-b")}},
		[]corev1.Pod{pod("a", "n1", "x"), pod("b", "n1", ""), pod("c", "n2", "y")})
	c, err := New(&rest.Config{Host: a.URL}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Snapshot(t.Context())
	if err != nil || len(s.Gaps) > 0 {
		t.Fatal(err, s.Gaps)
	}
	a.requests = nil
	around, err := c.Near(t.Context(), s, repair.Near{Nodes: []types.NodeName{"n1"}, Attachments: []string{"csi-a", "csi-none"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(around.Nodes) != 1 || len(around.Attachments) != 1 || len(around.Pods) != 1 || around.Pods[0].Name != "a" {
		t.Errorf("%+v", around)
	}
	if _, changed := around.Over(s); changed {
		t.Errorf("what is the same counts as changed: %s", cmp.Diff(s.Node("n1"), around.Nodes[0])+cmp.Diff(s.Pods[0], around.Pods[0]))
	}
	if len(a.requests) != 4 {
		t.Errorf("%d requests", len(a.requests))
	}
	for _, r := range a.requests {
		if r.method != http.MethodGet || len(r.query["fieldSelector"]) != 1 || r.query["resourceVersion"] != nil {
			t.Errorf("%s %s %v", r.method, r.path, r.query)
		}
	}
}

// TestNearWherePodsAreMany: an API server that goes through all pods for those of a node is
// asked for what its cache knows, no older than now.
func TestNearWherePodsAreMany(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}, Spec: corev1.PodSpec{NodeName: "n1"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "d", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "x"}}}}
	c, err := New(&rest.Config{Host: a.URL}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a.handle("/api/v1/pods", func(r *http.Request) (int, runtime.Object) {
		list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "77"}}
		q := r.URL.Query()
		if q.Get("resourceVersion") == "77" && q.Get("resourceVersionMatch") == "NotOlderThan" && q.Get("limit") == "" {
			list.Items = []corev1.Pod{pod}
		}
		return http.StatusOK, list
	})
	a.raw = func(_ http.ResponseWriter, r *http.Request) bool {
		q := r.URL.Query()
		return q.Has("fieldSelector") && !q.Has("resourceVersion") && slow(r, "/api/v1/pods")
	}
	around, err := c.Near(t.Context(), s, repair.Near{Nodes: []types.NodeName{"n1"}})
	if err != nil || len(around.Pods) != 1 {
		t.Errorf("%+v, %v", around, err)
	}
}

// TestNearFails: without one of the objects nothing is known.
func TestNearFails(t *testing.T) {
	t.Parallel()
	near := repair.Near{Nodes: []types.NodeName{"n1"}, Attachments: []string{"csi-a"}}
	for _, path := range []string{"/api/v1/nodes", "/apis/storage.k8s.io/v1/volumeattachments", "/api/v1/pods"} {
		for name, fail := range map[string]func(*api){
			"403":  func(a *api) { a.fail(path, apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))) },
			"401":  func(a *api) { a.fail(path, apierrors.NewUnauthorized("no")) },
			"404":  func(a *api) { a.fail(path, apierrors.NewNotFound(schema.GroupResource{}, "")) },
			"410":  func(a *api) { a.fail(path, apierrors.NewResourceExpired("old")) },
			"500":  func(a *api) { a.fail(path, apierrors.NewInternalError(errors.New("no"))) },
			"cut":  func(a *api) { a.raw = func(_ http.ResponseWriter, r *http.Request) bool { return cut(r, path) } },
			"slow": func(a *api) { a.raw = func(_ http.ResponseWriter, r *http.Request) bool { return slow(r, path) } },
		} {
			t.Run(name+path, func(t *testing.T) {
				a := newAPI(t)
				c, err := New(&rest.Config{Host: a.URL}, Options{})
				if err != nil {
					t.Fatal(err)
				}
				s, err := c.Snapshot(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				fail(a)
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				if around, err := c.Near(ctx, s, near); err == nil {
					t.Errorf("%+v", around)
				}
			})
		}
	}
}

func cut(r *http.Request, path string) bool {
	if r.URL.Path == path {
		panic(http.ErrAbortHandler)
	}
	return false
}

// slow answers once the client is gone.
func slow(r *http.Request, path string) bool {
	if r.URL.Path == path {
		<-r.Context().Done()
	}
	return r.URL.Path == path
}
