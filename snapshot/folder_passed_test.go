package snapshot

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// TestPassedOver: one file that cannot be read refuses no other, is named, and leaves a gap
// of the kinds of which it may hold objects.
func TestPassedOver(t *testing.T) {
	whole := ""
	for _, r := range resources {
		if !r.Optional {
			whole += `{"apiVersion": "` + r.Version + `", "kind": "` + r.Object + `List", "metadata": {}, "items": []}` + "\n"
		}
	}
	const unopened = "rest.tar.gz: an archive, which is not opened within a folder or another archive: unpack it, read it alone, or leave it out"
	ofEach := func(gap string) (gaps []string) {
		for _, kind := range Kinds() {
			gaps = append(gaps, string(kind)+": "+gap)
		}
		slices.Sort(gaps)
		return gaps
	}
	node := "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {nodeInfo: {kubeletVersion: v1.32.1}}\n"
	for _, tt := range []struct {
		name, file, text string
		warnings         []Warning
		gaps             []string
	}{
		{name: "settings", file: "metadata.yaml", text: "projectName: Longhorn\n",
			warnings: []Warning{"passed over 1 file without Kubernetes objects: dir/metadata.yaml"}},
		{name: "a list of other things", file: "x.json", text: `[{"name": "a"}]`,
			warnings: []Warning{"passed over 1 file without Kubernetes objects: dir/x.json"}},
		{name: "the names of Argo CD's tree", file: "tree.json", text: `{"nodes": [{"version": "v1", "kind": "Pod", "namespace": "shop", "name": "web-0", "uid": "u"}]}`,
			warnings: []Warning{"passed over 1 file without Kubernetes objects: dir/tree.json"}},
		{name: "objects in another's file", file: "all.txt.json", text: `{"pods": {"apiVersion": "v1", "kind": "PodList", "items": []}}`,
			warnings: []Warning{"not read: dir/all.txt.json:1: document 1: no Kubernetes object: it has neither apiVersion nor kind: write the objects with -o yaml"},
			gaps:     []string{"pods: Undecodable (dir/all.txt.json:1: document 1: no Kubernetes object: it has neither apiVersion nor kind: write the objects with -o yaml)"}},
		{name: "a template", file: "deploy.yaml", text: "{{- if .x }}\napiVersion: apps/v1\nkind: Service\n{{- end }}\n",
			warnings: []Warning{"passed over 1 file without Kubernetes objects: dir/deploy.yaml"}},
		{name: "binary data", file: "x.json", text: "\x00\x01",
			warnings: []Warning{"passed over 1 file without Kubernetes objects: dir/x.json"}},
		{name: "a storage system's list", file: "disks.json", text: `{"Volumes": [{"VolumeId": "vol-1", "Attachments": []}]}`,
			warnings: []Warning{"not read: dir/disks.json:1: document 1: the storage system's own list of volumes (aws), which has no Kubernetes objects: give it with --backend, and the objects with -f"}},
		{name: "objects in a text", file: "deep/nodes.yaml.txt", text: "apiVersion: v1\nkind: Node\nmetadata: {name: n3}\n"},
		{name: "an archive", file: "rest.tar.gz", text: "x", warnings: []Warning{"not read: " + unopened}, gaps: ofEach("Undecodable (" + unopened + ")")},
		{name: "an archive of a file that was read", file: "b.zip", text: "x"},
		{name: "a table", file: "table.txt", text: "NAME  READY\n",
			warnings: []Warning{"passed over 1 file, by their names neither YAML nor JSON: table.txt"}},
		{name: "logs", file: "a.log", text: "hello"},
		{name: "a kubelet's log", file: "nodes/n1/n1_logs_kubelet.gz", text: zipped("hello")},
		{name: "another node's name", file: "nodes/n1/n2_logs_kubelet.gz", text: zipped("hello"),
			warnings: []Warning{"passed over 1 file, by their names neither YAML nor JSON: nodes/n1/n2_logs_kubelet.gz"}},
		{name: "a table of pods", file: "pods.yaml", text: "NAME    READY   STATUS\nweb-0   1/1     Running\n",
			warnings: []Warning{"not read: dir/pods.yaml:1: a table that kubectl prints for people: write the objects with -o yaml"},
			gaps:     []string{"pods: Undecodable (dir/pods.yaml:1: a table that kubectl prints for people: write the objects with -o yaml)"}},
		{name: "the same pod in another state", file: "a.yaml", text: podA,
			warnings: []Warning{"not read: dir/b.yaml:1: document 1: Pod default/a is given a second time; the first is at dir/a.yaml:1: leave one of them out"},
			gaps:     []string{"pods: Undecodable (dir/b.yaml:1: document 1: Pod default/a is given a second time; the first is at dir/a.yaml:1: leave one of them out)"}},
		{name: "a pod without a name", file: "x.yaml", text: "apiVersion: v1\nkind: Pod\nmetadata: {}\n",
			warnings: []Warning{"not read: dir/x.yaml:1: document 1: Pod without metadata.name"},
			gaps:     []string{"pods: Undecodable (dir/x.yaml:1: document 1: Pod without metadata.name)"}},
		{name: "an answer that refuses", file: "pods.json", text: `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "pods is forbidden"}`,
			warnings: []Warning{"not read: dir/pods.json:1: document 1: an answer of the API server that holds no object (Status): pods is forbidden"},
			gaps:     []string{"pods: Undecodable (dir/pods.json:1: document 1: an answer of the API server that holds no object (Status): pods is forbidden)"}},
		{name: "a typed list that was cut off", file: "x.json", text: `{"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "n2"}}, {"meta`,
			warnings: []Warning{"not read: dir/x.json:1: document 1, item 2: the JSON ends in the middle: the file was cut off"},
			gaps:     []string{"nodes: Undecodable (dir/x.json:1: document 1, item 2: the JSON ends in the middle: the file was cut off)"}},
		{name: "an empty file of a kind", file: "pvc.json",
			warnings: []Warning{"not read: dir/pvc.json: an empty file, as a failed kubectl leaves it: get it again, or leave the file out"},
			gaps:     []string{"persistentvolumeclaims: Undecodable (dir/pvc.json: an empty file, as a failed kubectl leaves it: get it again, or leave the file out)"}},
		{name: "an empty note", file: "README",
			warnings: []Warning{"passed over 1 file, by their names neither YAML nor JSON: README"}},
		{name: "nothing but a mark", file: "x.yaml", text: "---\n", warnings: []Warning{"passed over 1 file without Kubernetes objects: dir/x.yaml"}},
		{name: "nothing but a comment", file: "x.yaml", text: "# to do\n", warnings: []Warning{"passed over 1 file without Kubernetes objects: dir/x.yaml"}},
		{name: "a hidden file", file: ".x.yaml", text: "kind: Pod\n", warnings: []Warning{"passed over 1 file, hidden by their names: .x.yaml"}},
		{name: "a hidden folder", file: ".x/y.json.gz", text: "kind: Pod\n", warnings: []Warning{"passed over 1 file, hidden by their names: .x/y.json.gz"}},
		{name: "what macOS adds", file: "._x.yaml", text: "x"},
		{name: "what git keeps", file: ".git/x.yaml", text: "x"},
		{name: "a hidden note", file: ".editorconfig", text: "x"},
		{name: "what kubectl could not list", file: "kubectl.stderr",
			text:     "Error from server (Forbidden): pods is forbidden: User \"x\" cannot list resource \"pods\" in API group \"\" in the namespace \"q\"\n",
			warnings: []Warning{"passed over 1 file, by their names neither YAML nor JSON: kubectl.stderr"},
			gaps:     []string{"pods: Forbidden in default (Error from server (Forbidden): pods is forbidden: User \"x\" cannot list resource \"pods\" in API group \"\" in the namespace \"q\")"}},
		{name: "what somebody writes about it", file: "note.md",
			text:     "I saw\nError from server (Forbidden): pods is forbidden: User \"x\" cannot list resource \"pods\"\n",
			warnings: []Warning{"passed over 1 file, by their names neither YAML nor JSON: note.md"}},
		{name: "an empty log", file: "pods.log"},
		{name: "objects in a log", file: "x.log", text: "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n",
			warnings: []Warning{"not read: dir/x.log: objects in a file whose name ends neither with .yaml nor with .json: rename it, or leave the file out"},
			gaps:     []string{"pods: Undecodable (dir/x.log: objects in a file whose name ends neither with .yaml nor with .json: rename it, or leave the file out)"}},
		{name: "a log of an API server's requests", file: "audit.log", text: `{"kind":"Event","apiVersion":"audit.k8s.io/v1"}`},
		{name: "a copy of a file that was read", file: "b.yaml.bak", text: podA,
			warnings: []Warning{"passed over 1 file, by their names neither YAML nor JSON: b.yaml.bak"}},
		{name: "a copy of a file that is not there", file: "c.yaml.bak", text: podA,
			warnings: []Warning{"not read: dir/c.yaml.bak: objects in a file whose name ends neither with .yaml nor with .json: rename it, or leave the file out"},
			gaps:     []string{"pods: Undecodable (dir/c.yaml.bak: objects in a file whose name ends neither with .yaml nor with .json: rename it, or leave the file out)"}},
		{name: "a table of a pod that was not read", file: "x.txt", text: "NAME    READY   STATUS    RESTARTS   AGE\nimg-0   0/1     Pending   0          50m\n",
			warnings: []Warning{"not read: dir/x.txt:1: a table that kubectl prints for people: write the objects with -o yaml"},
			gaps:     []string{"pods: Undecodable (dir/x.txt:1: a table that kubectl prints for people: write the objects with -o yaml)"}},
		{name: "a table of the pod that was read", file: "x.txt", text: "NAMESPACE   NAME   READY   STATUS    RESTARTS   AGE\ndefault     a      1/1     Running   0          50m\n",
			warnings: []Warning{"passed over 1 file, by their names neither YAML nor JSON: x.txt"}},
		{name: "a table of other objects", file: "x.yaml", text: "NAME   TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE\nweb    ClusterIP   10.0.0.1     <none>        443/TCP   5d\n",
			warnings: []Warning{"passed over 1 file without Kubernetes objects: dir/x.yaml"}},
		{name: "a description of a pod that was not read", file: "x.txt", text: "Name:         a\nNamespace:    shop\nNode:         n1/10.0.1.2\n",
			warnings: []Warning{"not read: dir/x.txt:1: what kubectl describe prints for people: write the objects with -o yaml"},
			gaps:     []string{"pods: Undecodable (dir/x.txt:1: what kubectl describe prints for people: write the objects with -o yaml)"}},
		{name: "a description of the pod that was read", file: "x.txt", text: "Name:         a\nNamespace:    default\nNode:         n1/10.0.1.2\n",
			warnings: []Warning{"passed over 1 file, by their names neither YAML nor JSON: x.txt"}},
		{name: "packed objects", file: "x.json.gz", text: zipped(`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n3"}}`)},
		{name: "packed, and cut off", file: "nodes.json.gz", text: zipped(`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n3"}}`)[:20],
			warnings: []Warning{"not read: dir/nodes.json.gz:1: the gzip data is cut off"},
			gaps:     []string{"nodes: Undecodable (dir/nodes.json.gz:1: the gzip data is cut off)"}},
		{name: "not packed, though it is called so", file: "nodes.json.gz", text: "hello",
			warnings: []Warning{"not read: dir/nodes.json.gz:1: the gzip data is cut off"},
			gaps:     []string{"nodes: Undecodable (dir/nodes.json.gz:1: the gzip data is cut off)"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			texts := map[string]string{"all.json": whole, "b.yaml": podA, "n.yaml": node, tt.file: tt.text}
			files, names, packed := fstest.MapFS{}, []string{}, []string{}
			for name, text := range texts {
				files[name] = &fstest.MapFile{Data: []byte(text)}
				names = append(names, name)
			}
			slices.Sort(names)
			for _, name := range names {
				packed = append(packed, name, texts[name])
			}
			fromDir, warnings, err := ReadFS("dir", files, ReadOptions{Now: noon})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.warnings, warnings); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.gaps, gapLines(fromDir)); diff != "" {
				t.Error(diff)
			}
			fromTar, warnings, err := Read("dir", strings.NewReader(tarOf(t, packed...)), ReadOptions{Now: noon})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.warnings, warnings); diff != "" {
				t.Errorf("archive: %s", diff)
			}
			if diff := cmp.Diff(fromDir.Objects, fromTar.Objects); diff != "" {
				t.Errorf("archive: %s", diff)
			}
			if len(fromDir.Pods) != 1 || fromDir.Node("n1") == nil {
				t.Errorf("%d pods, node %v", len(fromDir.Pods), fromDir.Node("n1"))
			}
		})
	}
}

// TestAnyKindMissing: a file that is empty, or that ends before the kind of its first object, may have
// held objects of any kind.
func TestAnyKindMissing(t *testing.T) {
	whole := "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"
	for _, tt := range []struct {
		file, text string
		missing    bool
	}{
		{"q.yaml", "", true}, {"q.json", "\n", true}, {"q.json", "{\n ", true}, {"q.json", `{"apiVersion": "v1", "items": [ {`, true}, {"q.json", `{"kind":"Po`, true},
		{"q.yaml", "apiVersion: v1", true}, {"q.yaml", "apiVersion: v1\nitems:", true}, {"q.yaml", "apiVersion: v1\nite", true},
		{"q.yaml", "# nothing\n", false}, {"q.json", `{"metadata": {"language": "go"}}`, false}, {"q.json", `{"level": "in`, false},
	} {
		s, warnings, err := ReadFS("dir", fstest.MapFS{tt.file: {Data: []byte(tt.text)}, "b.yaml": {Data: []byte(whole)}}, ReadOptions{Now: noon})
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range Kinds() {
			is := slices.ContainsFunc(s.Gaps, func(g Gap) bool { return g.Kind == kind && g.Reason == ReasonUndecodable })
			if is != tt.missing {
				t.Errorf("%q: a gap of %s: %v; %q", tt.text, kind, is, warnings)
			}
		}
	}
}

// TestCutOffList: a list of any kind that was cut off may have had objects of any kind.
func TestCutOffList(t *testing.T) {
	s, _, err := ReadFS("dir", fstest.MapFS{
		"a.yaml": {Data: []byte("apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata: {name: n1}\n- apiVersion: v1\n  ki")},
		"b.yaml": {Data: []byte(podA)},
	}, ReadOptions{Now: noon})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range Kinds() {
		if s.Complete(kind) {
			t.Errorf("%s count as complete", kind)
		}
	}
}

// TestNewerState: of two states of one object the newer counts, whichever comes first.
func TestNewerState(t *testing.T) {
	at := func(version, node string) string {
		return pod("a", "u1", version) + "spec: {nodeName: " + node + "}\n" + running
	}
	for _, tt := range []struct{ first, second string }{
		{at("9", "old"), at("10", "new")}, {at("10", "new"), at("9", "old")}, {at("10", "new"), at("10", "new")},
	} {
		s, _, err := Read("f", strings.NewReader(tt.first+"---\n"+tt.second+"---\n"+podB+running), ReadOptions{Now: noon})
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Pods) != 2 || s.Pods[0].Spec.NodeName != "new" {
			t.Errorf("%d pods, the first on %s", len(s.Pods), s.Pods[0].Spec.NodeName)
		}
	}
}

// TestObjectThatWasCutOff: the last object of a YAML list that was cut off is not kept, because
// some of its fields are missing, and another file may have it.
func TestObjectThatWasCutOff(t *testing.T) {
	const cut = "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: PersistentVolume\n  metadata: {name: a}\n- apiVersion: v1\n  kind: PersistentVolume\n  metadata:\n    name: b\n"
	whole := `{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "b"}, "spec": {"storageClassName": "fast"}}]}`
	for name, tt := range map[string]struct {
		files fstest.MapFS
		want  []string
	}{
		"alone":                       {fstest.MapFS{"a.yaml": {Data: []byte(cut)}, "n.yaml": {Data: []byte("apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n")}}, []string{"a"}},
		"beside the whole object":     {fstest.MapFS{"a.yaml": {Data: []byte(cut)}, "b.json": {Data: []byte(whole)}}, []string{"a", "b fast"}},
		"a list that was not cut off": {fstest.MapFS{"a.yaml": {Data: []byte(cut + "kind: List\n")}}, []string{"a", "b"}},
	} {
		s, warnings, err := ReadFS("dir", tt.files, ReadOptions{Now: noon})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, pv := range s.Volumes {
			got = append(got, strings.TrimSpace(pv.Name+" "+pv.Spec.StorageClassName))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q; %q", name, got, tt.want, warnings)
		}
	}
}

// TestListsAtTheTop: lists at the top of an archive are those of a folder, packed or not, and no dump of
// single namespaces.
func TestListsAtTheTop(t *testing.T) {
	texts := map[string]string{"nodes": clusterList(`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "n1"}, "status": {"nodeInfo": {"kubeletVersion": "v1.32.1"}}}`),
		"pods": clusterList(podOf("shop", "a", "5")), "events": `{"apiVersion": "v1", "kind": "List", "items": []}`}
	plain, packed, folder := []string{}, []string{}, fstest.MapFS{}
	for name, text := range texts {
		plain, packed = append(plain, name+".json", text), append(packed, name+".json.gz", zipped(text))
		folder[name+".json.gz"] = &fstest.MapFile{Data: []byte(zipped(text))}
	}
	for form, read := range map[string]func() (*Snapshot, []Warning, error){
		"archive": func() (*Snapshot, []Warning, error) {
			return Read("f", strings.NewReader(tarOf(t, plain...)), ReadOptions{Now: noon})
		},
		"packed archive": func() (*Snapshot, []Warning, error) {
			return Read("f", strings.NewReader(tarOf(t, packed...)), ReadOptions{Now: noon})
		},
		"packed folder": func() (*Snapshot, []Warning, error) { return ReadFS("f", folder, ReadOptions{Now: noon}) },
	} {
		s, _, err := read()
		if err != nil {
			t.Fatal(form, err)
		}
		if !s.Complete(Nodes) || !s.Complete(Pods) || !s.Complete(Events) {
			t.Errorf("%s: %q", form, gapLines(s))
		}
	}
}
