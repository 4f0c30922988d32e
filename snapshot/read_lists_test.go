package snapshot

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// podOf is a pod as kubectl prints it; version is its resourceVersion.
func podOf(namespace, name, version string) string {
	return `{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "` + namespace + `", "name": "` + name + `", "uid": "u-` + name + `", "resourceVersion": "` + version +
		`", "creationTimestamp": "2026-11-20T09:00:00Z"}, "status": {"phase": "Running"}}`
}

func podNames(s *Snapshot) string {
	var names []string
	for _, pod := range s.Pods {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// TestLaterList: of two lists of one kind with an object in common, the later one is what there is: by
// the versions of the objects, and else by their order. A list of one namespace says nothing of others.
func TestLaterList(t *testing.T) {
	a, b, c, other := podOf("shop", "a", "5"), podOf("shop", "b", "6"), podOf("shop", "c", "9"), podOf("web", "w", "3")
	for _, tt := range []struct {
		name, first, second, pods string
		told                      bool
	}{
		{"a pod was deleted and one was made", clusterList(a, b, other), clusterList(a, c, other), "a c w", true},
		{"the first is the later", clusterList(strings.Replace(a, `"5"`, `"8"`, 1), other), clusterList(a, b, other), "a w", true},
		{"the later is of one namespace", clusterList(a, b, other), clusterList(a, c), "a c w", true},
		{"the later is of another namespace", clusterList(a, b), clusterList(other), "a b w", false},
		{"the first has the newer objects, in another file", clusterList(a, c, other), clusterList(a, b, other), "", true},
		{"a single pod is no list", clusterList(a, b, other), a, "a b w", false},
		{"both are the same", clusterList(a, b, other), clusterList(a, b, other), "a b w", false},
	} {
		for form, read := range map[string]func() (*Snapshot, []Warning, error){
			"text": func() (*Snapshot, []Warning, error) {
				return Read("f", strings.NewReader(tt.first+"\n"+tt.second), ReadOptions{Now: noon})
			},
			"folder": func() (*Snapshot, []Warning, error) {
				return ReadFS("f", fstest.MapFS{"1/pods.json": {Data: []byte(tt.first)}, "2/pods.json": {Data: []byte(tt.second)}}, ReadOptions{Now: noon})
			},
		} {
			s, warnings, err := read()
			if err != nil {
				t.Fatalf("%s, %s: %v", tt.name, form, err)
			}
			told := slices.ContainsFunc(warnings, func(w Warning) bool {
				return strings.Contains(string(w), "a later list of pods") && strings.HasSuffix(string(w), ": shop/b")
			})
			want := tt.pods
			if want == "" { // a text is read in its order, and the files of a folder by their versions
				want = map[string]string{"text": "a b w", "folder": "a c w"}[form]
				told = want == "a b w" || told
			}
			if gap := strings.Contains(strings.Join(gapLines(s), "\n"), "was it asked for some by name?"); gap != (tt.name == "the first is the later") {
				t.Errorf("%s, %s: gaps %q", tt.name, form, gapLines(s))
			}
			if got := podNames(s); got != want || told != tt.told {
				t.Errorf("%s, %s: pods %s, not %s; %q", tt.name, form, got, want, warnings)
			}
		}
	}
}

// TestStatesOfTwoDays: of two states of one cluster in a folder the later is read, and its lists are whole.
func TestStatesOfTwoDays(t *testing.T) {
	state := func(day, version string, pods ...string) *fstest.MapFile {
		nodes := ""
		for i := range 2 {
			nodes += fmt.Sprintf(`,{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n%d", "uid": "n%[1]d", "resourceVersion": %q, "creationTimestamp": "2026-11-01T00:00:00Z"}, "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-%sT09:58:00Z"}]}}`, i, version, day)
		}
		return &fstest.MapFile{Data: []byte(`{"apiVersion": "v1", "kind": "List", "items": [` + strings.Join(pods, ",") + nodes + `]}`)}
	}
	s, warnings, err := ReadFS("f", fstest.MapFS{
		"monday/all.json":  state("19", "100", podOf("shop", "a", "5"), podOf("shop", "b", "6")),
		"tuesday/all.json": state("20", "200", podOf("shop", "a", "5"), podOf("shop", "c", "150")),
	}, ReadOptions{Now: noon})
	if err != nil {
		t.Fatal(err)
	}
	if podNames(s) != "a c" || len(s.Nodes) != 2 || !s.Complete(Nodes) || !s.Complete(Pods) {
		t.Errorf("pods %s, %d nodes, gaps %q, warnings %q", podNames(s), len(s.Nodes), gapLines(s), warnings)
	}
}

// TestWatch: the events of a watch are read as what is there in the end; one that does not begin with the
// objects that were there leaves a gap.
func TestWatch(t *testing.T) {
	event := func(kind, object string) string { return `{"type": "` + kind + `", "object": ` + object + "}\n" }
	begun := event("ADDED", podOf("shop", "a", "5")) + event("ADDED", podOf("shop", "b", "6"))
	again := strings.Replace(podOf("shop", "a", "12"), "u-a", "u-a2", 1)
	for _, tt := range []struct {
		name, text, pods string
		gap              bool
	}{
		{"as it began", begun, "a b", false},
		{"one was deleted", begun + event("DELETED", podOf("shop", "a", "11")), "b", false},
		{"one was made again", begun + event("DELETED", podOf("shop", "a", "11")) + event("ADDED", again), "a b", false},
		{"one changed", begun + event("MODIFIED", podOf("shop", "b", "9")) + event("BOOKMARK", `{"apiVersion": "v1", "kind": "Pod", "metadata": {"resourceVersion": "13"}}`), "a b", false},
		{"only changes", event("MODIFIED", podOf("shop", "b", "9")), "b", true},
		{"only a deletion", event("ADDED", podOf("shop", "b", "9")) + event("DELETED", podOf("shop", "a", "11")), "b", true},
	} {
		s, _, err := Read("f", strings.NewReader(tt.text), ReadOptions{Now: noon})
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		gap := slices.ContainsFunc(gapLines(s), func(g string) bool { return strings.HasPrefix(g, "pods: Truncated (the watch does not begin") })
		if podNames(s) != tt.pods || gap != tt.gap {
			t.Errorf("%s: pods %s, gaps %q", tt.name, podNames(s), gapLines(s))
		}
	}
}

// TestManifests: a template, and a manifest beside the list of its kind, say nothing of the cluster: they
// are named, they leave no gap, and the object that the API server shows counts, whichever comes first.
func TestManifests(t *testing.T) {
	class := func(fields, provisioner string) string {
		return `{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "gp3"` + fields + `}, "provisioner": "` + provisioner + `"}`
	}
	served := `{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClassList", "metadata": {}, "items": [` + class(`, "uid": "c1", "resourceVersion": "4", "creationTimestamp": "2026-09-01T10:00:00Z"`, "real") + `]}`
	for _, folder := range []string{"app", "zz"} {
		s, warnings, err := ReadFS("f", fstest.MapFS{
			"storageclasses.json":                      {Data: []byte(served)},
			folder + "/class.yaml":                     {Data: []byte(class("", "wanted"))},
			folder + "/other.yaml":                     {Data: []byte(strings.Replace(class("", "wanted"), "gp3", "gp4", 1))},
			folder + "/templates/claim.yaml":           {Data: []byte("apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata:\n  name: {{ .Release.Name }}\nprovisioner: x\n")},
			folder + "/templates/persistentclaim.yaml": {Data: []byte("{{- if .Values.x }}\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: a}\n{{- end }}\n")},
		}, ReadOptions{Now: noon})
		if err != nil {
			t.Fatal(err)
		}
		if len(s.StorageClasses) != 1 || s.StorageClasses[0].Provisioner != "real" || !s.Complete(StorageClasses) {
			t.Errorf("%s: %d classes, gaps %q", folder, len(s.StorageClasses), gapLines(s))
		}
		want := []Warning{Warning("passed over 2 files without Kubernetes objects: f/" + folder + "/templates/claim.yaml, f/" + folder + "/templates/persistentclaim.yaml")}
		for _, w := range want {
			if !slices.Contains(warnings, w) {
				t.Errorf("%s: %q", folder, warnings)
			}
		}
		if slices.ContainsFunc(gapLines(s), func(g string) bool { return strings.Contains(g, "template") }) {
			t.Errorf("%s: a template is a gap: %q", folder, gapLines(s))
		}
	}
}

// TestRefusedByFileOrCommand: a refusal that does not say which list it refuses is of the one after which
// its file is named, or of the one that was asked for.
func TestRefusedByFileOrCommand(t *testing.T) {
	refused := "Unable to connect to the server: net/http: TLS handshake timeout\n"
	list := clusterList(podOf("shop", "a", "5"))
	s, _, err := ReadFS("f", fstest.MapFS{"pods.json": {Data: []byte(list)}, "events.yaml": {Data: []byte(refused)}}, ReadOptions{Now: noon})
	check := func(name string, s *Snapshot, err error, kind Kind) {
		t.Helper()
		if err != nil {
			t.Fatal(name, err)
		}
		for _, g := range s.Gaps {
			if unavailable := g.Reason == ReasonUnavailable; unavailable != (g.Kind == kind) {
				t.Errorf("%s: %q", name, gapLines(s))
			}
		}
		if s.Complete(kind) || !s.Complete(Pods) {
			t.Errorf("%s: %q", name, gapLines(s))
		}
	}
	check("file", s, err, Events)
	s, _, err = Read("f", strings.NewReader("$ kubectl get pods -A -o yaml\n"+list+"\n$ kubectl get -A va -o yaml\n"+refused), ReadOptions{Now: noon})
	check("command", s, err, VolumeAttachments)
	s, _, err = Read("f", strings.NewReader(list+"\nError from server (Timeout): the server was unable to return a response in the time allotted, but may still be processing the request (get volumeattachments.storage.k8s.io)\n"), ReadOptions{Now: noon})
	check("message", s, err, VolumeAttachments)
}

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

// TestSonobuoyQueries: sonobuoy writes no file for an empty list, and says which lists it has asked for.
func TestSonobuoyQueries(t *testing.T) {
	for _, tt := range []struct {
		name, error string
		whole       bool
	}{{"asked for", "", true}, {"refused", `, "error": "forbidden"`, false}} {
		s, _, err := ReadFS("f", fstest.MapFS{
			"resources/cluster/core_v1_namespaces.json": {Data: []byte(`{"apiVersion": "v1", "kind": "NamespaceList", "metadata": {}, "items": [{"metadata": {"name": "shop"}}, {"metadata": {"name": "empty"}}]}`)},
			"resources/ns/shop/core_v1_pods.json":       {Data: []byte("[" + podOf("shop", "a", "5") + "]")},
			"meta/query-time.json":                      {Data: []byte(`[{"queryobj": "pods", "namespace": "shop", "time": 0.1}, {"queryobj": "pods", "namespace": "empty", "time": 0.1` + tt.error + `}]`)},
		}, ReadOptions{Now: noon})
		if err != nil {
			t.Fatal(err)
		}
		if s.Complete(Pods) != tt.whole {
			t.Errorf("%s: %q", tt.name, gapLines(s))
		}
	}
}

// TestPodsThatASelectorLeftOut: two Ready nodes with volumes in use whose claims no pod names, or one
// without any pod beside others with those of a DaemonSet, show that the list of pods is not whole.
func TestPodsThatASelectorLeftOut(t *testing.T) {
	node := func(n, inUse string) string {
		return `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n` + n + `", "uid": "n` + n + `"}, "status": {"conditions": [{"type": "Ready", "status": "True"}], "volumesInUse": [` + inUse + `]}},` +
			`{"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n` + n + `", "uid": "c` + n + `"}, "spec": {"drivers": [{"name": "d", "nodeID": "i"}]}}`
	}
	volume := func(n string) string {
		return `{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv` + n + `", "uid": "v` + n + `"}, "spec": {"csi": {"driver": "d", "volumeHandle": "h` + n + `"}, "claimRef": {"namespace": "shop", "name": "c` + n + `", "uid": "k` + n + `"}}, "status": {"phase": "Bound"}},` +
			`{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": "shop", "name": "c` + n + `", "uid": "k` + n + `"}, "spec": {"volumeName": "pv` + n + `"}, "status": {"phase": "Bound"}}`
	}
	daemon := func(n string) string {
		return strings.Replace(podOf("kube-system", "d"+n, "3"), `"status"`, `"spec": {"nodeName": "n`+n+`", "containers": []}, "status"`, 1)
	}
	user := func(n string) string {
		return strings.Replace(podOf("shop", "p"+n, "3"), `"status"`, `"spec": {"nodeName": "n`+n+`", "containers": [], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c`+n+`"}}]}, "status"`, 1)
	}
	use := func(n string) string { return `"kubernetes.io/csi/d^h` + n + `"` }
	all := []string{node("1", use("1")), node("2", use("2")), node("3", ""), volume("1"), volume("2"), daemon("3"), strings.Replace(podOf("web", "w", "2"), `"status"`, `"spec": {"nodeName": "n3", "containers": []}, "status"`, 1)}
	for _, tt := range []struct {
		name  string
		more  []string
		whole bool
	}{
		{"both pods are there", []string{user("1"), user("2")}, true},
		{"one kubelet does not unmount", []string{user("1"), daemon("2")}, true},
		{"neither is there", []string{daemon("1"), daemon("2")}, false},
		{"no pod of one node at all", []string{user("1"), daemon("1")}, false},
	} {
		s, _, err := Read("f", strings.NewReader(clusterList(append(slices.Clone(all), tt.more...)...)), ReadOptions{Now: noon})
		if err != nil {
			t.Fatal(tt.name, err)
		}
		if s.Complete(Pods) != tt.whole {
			t.Errorf("%s: %q", tt.name, gapLines(s))
		}
	}
}
