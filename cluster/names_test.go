package cluster

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestNames: one request for the metadata alone, in the namespace where the kind
// has them, and no fresher than the API server likes.
func TestNames(t *testing.T) {
	for _, test := range []struct {
		kind snapshot.Kind
		path string
	}{
		{snapshot.Pods, "/api/v1/namespaces/shop/pods"},
		{snapshot.Claims, "/api/v1/namespaces/shop/persistentvolumeclaims"},
		{snapshot.Nodes, "/api/v1/nodes"},
		{snapshot.Volumes, "/api/v1/persistentvolumes"},
		{snapshot.VolumeAttachments, "/apis/storage.k8s.io/v1/volumeattachments"},
	} {
		var asked []*http.Request
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r)
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}`))
		}))
		defer server.Close()
		c, err := New(&rest.Config{Host: server.URL}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		names, err := c.Names(t.Context(), test.kind, "shop")
		if err != nil || !slices.Equal(names, []string{"a", "b"}) {
			t.Errorf("%s: %v, %v", test.kind, names, err)
		}
		if len(asked) != 1 || asked[0].URL.Path != test.path || asked[0].URL.Query().Get("resourceVersion") != "0" ||
			!strings.Contains(asked[0].Header.Get("Accept"), "PartialObjectMetadataList") {
			t.Errorf("%s: %v", test.kind, asked)
		}
	}
}

// TestHasPod: one name is enough, and what is refused is an error.
func TestHasPod(t *testing.T) {
	for answer, want := range map[string]struct {
		has, fails bool
	}{
		`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[{"metadata":{"name":"a"}}]}`: {has: true},
		`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[]}`:                          {},
		`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`:                 {fails: true},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/api/v1/namespaces/shop/pods" || r.URL.Query().Get("limit") != "1" {
				t.Errorf("asked for %s", r.URL)
			}
			w.Header().Set("Content-Type", "application/json")
			if want.fails {
				w.WriteHeader(http.StatusForbidden)
			}
			_, _ = io.WriteString(w, answer)
		}))
		defer server.Close()
		c, err := New(&rest.Config{Host: server.URL}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if has, err := c.HasPod(t.Context(), "shop"); has != want.has || (err != nil) != want.fails {
			t.Errorf("%s: %t, %v", answer, has, err)
		}
	}
}

// TestPodsWith: the API server looks at the labels, and tells the names alone.
func TestPodsWith(t *testing.T) {
	for namespace, path := range map[string]string{"shop": "/api/v1/namespaces/shop/pods", "": "/api/v1/pods"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != path || r.URL.Query().Get("labelSelector") != "app in (web)" || !strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadataList") {
				t.Errorf("asked for %s", r.URL)
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[{"metadata":{"name":"a","namespace":"shop"}}]}`)
		}))
		defer server.Close()
		c, err := New(&rest.Config{Host: server.URL}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		names, err := c.PodsWith(t.Context(), namespace, "app in (web)")
		if err != nil || !slices.Equal(names, []types.NamespacedName{{Namespace: "shop", Name: "a"}}) {
			t.Errorf("%v, %v", names, err)
		}
	}
}
