package snapshot

import (
	"slices"
	"testing"
	"testing/fstest"
)

// TestKitWritesNull: support-bundle-kit writes "null" for an empty string and List for each list.
func TestKitWritesNull(t *testing.T) {
	claim := "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: PersistentVolumeClaim\n  metadata:\n    name: a\n    namespace: default\n    uid: c1\n    resourceVersion: \"4\"\n    creationTimestamp: \"2026-11-20T09:00:00Z\"\n    labels:\n      x: \"null\"\n" +
		"  spec:\n    storageClassName: \"null\"\n    volumeName: 'null'\n  status:\n    phase: Pending\nkind: List\nmetadata:\n  continue: \"null\"\n  resourceVersion: \"7\"\n"
	s, _, err := ReadFS("f", fstest.MapFS{
		"b/yamls/cluster/v1/namespaces.yaml":                            {Data: []byte("apiVersion: v1\nitems:\n- metadata:\n    name: default\nkind: List\nmetadata:\n  continue: \"null\"\n")},
		"b/yamls/namespaced/default/v1/persistentvolumeclaims.yaml":     {Data: []byte(claim)},
		"b/yamls/namespaced/default/coordination.k8s.io/v1/leases.yaml": {Data: []byte("apiVersion: v1\nitems: []\nkind: List\n")},
	}, ReadOptions{Now: noon})
	if err != nil {
		t.Fatal(err)
	}
	if c := s.Claims; len(c) != 1 || c[0].Spec.StorageClassName != nil || c[0].Spec.VolumeName != "" || c[0].Labels["x"] != "" || !s.Complete(Claims) {
		t.Errorf("%d claims, gaps %q", len(c), gapLines(s))
	}
}

// TestKitErrors: support-bundle-kit notes which lists it could not get. Such a list is a gap with the API
// server's reason, and the others are not.
func TestKitErrors(t *testing.T) {
	for _, tt := range []struct{ name, said, pods, volumes string }{
		{name: "nothing"},
		{name: "a namespace", said: "Failed to get /api/v1/namespaces/shop/pods: pods is forbidden: User \"x\" cannot list", pods: "Forbidden default"},
		{name: "a kind", said: "Failed to get /api/v1/persistentvolumes: the server is busy", volumes: "Unavailable "},
		{name: "an older release", said: "Support Bundle: failed to get persistentvolumes: the server is busy", volumes: "Unavailable "},
		{name: "another group", said: "Failed to get /apis/metrics.k8s.io/v1beta1/namespaces/shop/pods: the server is busy"},
		{name: "a log", said: "Support Bundle: cannot get pod shop/a container b log: timeout"},
	} {
		s, _, err := ReadFS("f", fstest.MapFS{
			"b/yamls/cluster/v1/namespaces.yaml":           {Data: []byte("apiVersion: v1\nitems:\n- metadata:\n    name: default\nkind: List\n")},
			"b/yamls/cluster/v1/persistentvolumes.yaml":    {Data: []byte("apiVersion: v1\nitems: []\nkind: List\n")},
			"b/yamls/namespaced/default/v1/pods.yaml":      {Data: []byte(`{"apiVersion": "v1", "kind": "List", "items": [` + podOf("default", "a", "5") + `]}`)},
			"b/bundleGenerationError.log":                  {Data: []byte("Start of the bundle\n" + tt.said + "\n")},
			"b/logs/kube-system/bundleGenerationError.log": {Data: []byte("Failed to get /api/v1/nodes: no\n")},
		}, ReadOptions{Now: noon})
		if err != nil {
			t.Fatal(err)
		}
		for kind, want := range map[Kind]string{Pods: tt.pods, Volumes: tt.volumes} {
			got := ""
			for _, g := range s.Gaps {
				if g.Kind == kind {
					got = g.Reason + " " + g.Namespace
				}
			}
			if got != want {
				t.Errorf("%s: %s: %q, want %q: %q", tt.name, kind, got, want, gapLines(s))
			}
		}
	}
}

// TestRefusalInMustGather: a file of a must-gather with the API server's refusal in place of the list is a gap
// with that reason; a refusal of another kind says nothing of the list.
func TestRefusalInMustGather(t *testing.T) {
	for said, want := range map[string]string{
		"Error from server (Forbidden): pods is forbidden: User \"x\" cannot list resource \"pods\" in API group \"\"\n":   ReasonForbidden,
		"Error from server (Forbidden): nodes is forbidden: User \"x\" cannot list resource \"nodes\" in API group \"\"\n": ReasonUndecodable,
	} {
		s, _, err := ReadFS("f", fstest.MapFS{
			"mg/timestamp":                                        {Data: []byte("2026-11-20 10:00:00 +0000 UTC\n2026-11-20 10:01:00 +0000 UTC\n")},
			"mg/namespaces/shop/core/pods.yaml":                   {Data: []byte(said)},
			"mg/namespaces/shop/core/persistentvolumeclaims.yaml": {Data: []byte("apiVersion: v1\nkind: PersistentVolumeClaimList\nitems:\n- metadata: {name: a, namespace: shop, uid: c1, creationTimestamp: \"2026-11-20T09:00:00Z\"}\n  status: {phase: Pending}\n")},
		}, ReadOptions{Now: noon})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(s.Gaps, func(g Gap) bool { return g.Kind == Pods })
		if i < 0 || s.Gaps[i].Reason != want {
			t.Errorf("%q: %q", said, gapLines(s))
		}
	}
}

// TestSonobuoyQueries: sonobuoy writes no file for an empty list, says which lists it has asked for, and
// whether for some of their objects only.
func TestSonobuoyQueries(t *testing.T) {
	for _, tt := range []struct {
		name, error, selector string
		pods, volumes         bool
	}{
		{name: "asked for", pods: true, volumes: true},
		{name: "refused", error: `, "error": {}`},
		{name: "refused, with its words", error: `, "error": {"ErrStatus": {"reason": "Forbidden"}}`},
		{name: "some objects", selector: "app=web"},
	} {
		s, _, err := ReadFS("f", fstest.MapFS{
			"resources/cluster/core_v1_namespaces.json": {Data: []byte(`{"apiVersion": "v1", "kind": "NamespaceList", "metadata": {}, "items": [{"metadata": {"name": "shop"}}, {"metadata": {"name": "empty"}}]}`)},
			"resources/ns/shop/core_v1_pods.json":       {Data: []byte("[" + podOf("shop", "a", "5") + "]")},
			"meta/config.json":                          {Data: []byte(`{"Filters": {"Namespaces": ".*", "LabelSelector": "` + tt.selector + `"}}`)},
			"meta/query-time.json": {Data: []byte(`[{"queryobj": "Nodes", "time": "1s"}, {"queryobj": "pods", "namespace": "shop", "time": "1s"}, {"queryobj": "pods", "namespace": "empty", "time": "1s"` + tt.error +
				`}, {"queryobj": "persistentvolumes", "time": "1s"` + tt.error + `}]`)},
		}, ReadOptions{Now: noon})
		if err != nil {
			t.Fatal(err)
		}
		if s.Complete(Pods) != tt.pods || s.Complete(Volumes) != tt.volumes || s.Complete(Nodes) {
			t.Errorf("%s: %q", tt.name, gapLines(s))
		}
	}
}
