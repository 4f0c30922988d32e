package snapshot

import (
	"archive/tar"
	"bytes"
	"strings"
	"testing"
)

// TestReadLost reads files that hold objects where they are not read: an error
// says so.
func TestReadLost(t *testing.T) {
	item := `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}`
	nodes := `{"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "n1"}}]}`
	for name, tt := range map[string]struct{ in, want string }{
		"items indented less than the first": {"apiVersion: v1\nkind: List\nitems:\n  - " + item + "\n- " + strings.Replace(item, `"a"`, `"b"`, 1) + "\nmetadata: {}\n",
			"f:1: document 1: the items of the list do not stand below each other"},
		"items in a text":        {"items:\n- " + item + "\nkind: Basket\napiVersion: example.com/v1\n", "f:1: document 1: Basket has Kubernetes objects as its items, but is no list"},
		"an old list in a List":  {`{"kind": "List", "apiVersion": "v1", "items": [{"kind": "VolumeAttachmentList", "apiVersion": "storage.k8s.io/v1beta1", "items": []}]}`, "f: no object in it"},
		"a Table":                {`{"kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": [], "rows": []}`, "f:1: document 1: Table (meta.k8s.io/v1) holds columns or names, not whole objects; write them with -o yaml"},
		"a Table in a List":      {`{"kind": "List", "apiVersion": "v1", "items": [` + item + `, {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "rows": []}]}`, "f:1: document 1, item 2: Table (meta.k8s.io/v1) holds columns or names, not whole objects; write them with -o yaml"},
		"names alone":            {`{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "items": [{"metadata": {"name": "a"}}]}`, "f:1: document 1, item 1: PartialObjectMetadata (meta.k8s.io/v1) holds columns or names, not whole objects; write them with -o yaml"},
		"an API server's error":  {nodes + `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "pods is forbidden: \u001b[31m"}`, `f:1: document 2: an answer of the API server that holds no object (Status): pods is forbidden: \x1b[31m`},
		"a list without items":   {nodes + `{"kind": "PodList", "apiVersion": "v1", "metadata": {}}`, "f:1: document 2: PodList without items: the file was cut off"},
		"a list cut before them": {"kind: List\napiVersion: v1\nitems:\n", "f:4: document 1: the list ends before its first item: the file was cut off"},
		"a null item":            {`{"kind": "PodList", "apiVersion": "v1", "items": [null]}`, "f:1: document 1, item 1: Pod without metadata.name"},
		"a null item in YAML":    {"kind: PodList\napiVersion: v1\nitems:\n- metadata: {name: a}\n-\nmetadata: {}\n", "f:5: document 1, item 2: Pod without metadata.name"},
		"a nameless item":        {`{"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"namespace": "a"}}]}`, "f:1: document 1, item 1: Pod without metadata.name"},
		"two kinds":              {`{"kind": "PodList", "apiVersion": "v1", "items": [], "kind": "ServiceList"}`, `f:1: document 1: duplicate field "kind"`},
		"two metadata":           {`{"kind": "PodList", "apiVersion": "v1", "items": [], "metadata": {"continue": "a"}, "metadata": {}}`, `f:1: document 1: duplicate field "metadata"`},
		"an item of two kinds":   {`{"kind": "List", "apiVersion": "v1", "items": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "kind": "Service"}]}`, `f:1: document 1, item 1: duplicate field "kind"`},
		"a header cut short":     {headerOnly + "complete: [pods]\n", `f: the header calls lists complete, but neither an object nor their number follows: the file was cut off (if there are none, add "objects: 0")`},
		"no last line":           {headerOnly + "objects: 1\nend: \"...\"\n---\n" + podA, `f: the header promises "..." as the last line: the file was cut off`},
		"two archives":           {tarOf(t, "nodes.json", nodes) + tarOf(t, "pods.json", item), "f: more data follows the end of the tar archive; give one archive at a time"},
		"no end of the archive":  {strings.TrimRight(tarOf(t, "nodes.yaml", nodes), "\x00") + strings.Repeat("\x00", 512-len(nodes)), "f: the tar archive is cut off: it has no end marker"},
		"a link in the archive":  {linkArchive(t), "f/pods.json: a link or a special file in the archive: pack what it leads to, as with tar -h"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, err := Read("f", strings.NewReader(tt.in), ReadOptions{Now: noon})
			if err == nil {
				t.Fatalf("read %d pods, want error: %s", len(s.Pods), tt.want)
			}
			if err.Error() != tt.want {
				t.Errorf("got  %s\nwant %s", err, tt.want)
			}
		})
	}
}

// linkArchive has a link where the pods should be.
func linkArchive(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	node := `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}`
	for _, h := range []*tar.Header{
		{Name: "pods.json", Typeflag: tar.TypeSymlink, Linkname: "/elsewhere/pods.json"},
		{Name: "nodes.json", Typeflag: tar.TypeReg, Size: int64(len(node)), Mode: 0o644},
	} {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Write([]byte(node)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestReadOtherVersions reads objects in a version or a spelling that is not read:
// their kind is a gap, whatever else the file says of it.
func TestReadOtherVersions(t *testing.T) {
	for in, kind := range map[string]Kind{
		`{"apiVersion": "storage.k8s.io/v1beta1", "kind": "VolumeAttachment", "metadata": {"name": "a"}}`:                                                                                                  VolumeAttachments,
		`{"apiVersion": "storage.k8s.io/v1beta1", "kind": "VolumeAttachmentList", "items": []}`:                                                                                                            VolumeAttachments,
		`{"apiVersion": "storage.k8s.io/v2", "kind": "CSINodeList", "items": [{"metadata": {"name": "a"}}]}`:                                                                                               CSINodes,
		`{"apiVersion": "v2", "kind": "Pod", "metadata": {"name": "a"}}`:                                                                                                                                   Pods,
		`{"apiVersion": "v1", "kind": "pod", "metadata": {"name": "a"}}`:                                                                                                                                   Pods,
		`{"apiVersion": "v1", "kind": "Pods", "metadata": {"name": "a"}}`:                                                                                                                                  Pods,
		`{"apiVersion": "core/v1", "kind": "Node", "metadata": {"name": "a"}}`:                                                                                                                             Nodes,
		`{"apiVersion": "V1", "kind": " PersistentVolume", "metadata": {"name": "a"}}`:                                                                                                                     Volumes,
		`{"apiVersion": "events.k8s.io/v1beta1", "kind": "Event", "metadata": {"name": "a"}}`:                                                                                                              Events,
		`{"apiVersion": "coordination.k8s.io/v1alpha1", "kind": "Lease", "metadata": {"name": "a"}}`:                                                                                                       Leases,
		`{"apiVersion": "v1", "kind": "PodList", "metadata": {"remainingItemCount": 3}, "items": [{"metadata": {"name": "a"}}]}`:                                                                           Pods,
		`{"apiVersion": "v1", "kind": "NodeList", "metadata": {"remainingItemCount": 3}, "items": []}`:                                                                                                     Nodes,
		`{"apiVersion": "v1", "kind": "List", "metadata": {"continue": "x"}, "items": []}`:                                                                                                                 Claims,
		"{apiVersion: v1, kind: Node, metadata: {name: n1}}\n---\napiVersion: storage.k8s.io/v1alpha1\nkind: StorageClass\n":                                                                               StorageClasses,
		"kind: PodList\napiVersion: v1\nmetadata: {continue: x}\nitems:\n- metadata: {name: a}\n...\n":                                                                                                     Pods,
		"kind: List\napiVersion: v1\nitems:\n- {apiVersion: storage.k8s.io/v1beta1, kind: CSIDriver, metadata: {name: a}}\n- {apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: b}}\n...\n": CSIDrivers,
	} {
		header := headerOnly + "complete: [" + strings.Join(kindNames(), ", ") + "]\nobjects: 0\n---\n"
		s, _, err := Read("f", strings.NewReader(header+in), ReadOptions{})
		if err != nil {
			t.Errorf("%s: %v", in, err)
		} else if s.Complete(kind) {
			t.Errorf("%s count as complete with: %s", kind, in)
		}
	}
}

func kindNames() []string {
	var names []string
	for _, kind := range Kinds() {
		names = append(names, string(kind))
	}
	return names
}
