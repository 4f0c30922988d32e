package cluster

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

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
