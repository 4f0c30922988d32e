package snapshot

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestByName: a single object, as "kubectl get NAME -o yaml" prints it, is no list of its kind. A
// text of single objects of which several are pods may be the whole cluster, and so may a folder
// of a kind with a file for each object.
func TestByName(t *testing.T) {
	object := func(kind, name string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: %s\nmetadata: {name: %s, uid: %s-%s, resourceVersion: \"7\"}\nstatus: {phase: Pending, nodeInfo: {kubeletVersion: v1.32.1}}\n", kind, name, kind, name)
	}
	document := func(kind, name string) string { return object(kind, name) + "---\n" }
	list := func(objects ...string) string {
		text := "apiVersion: v1\nkind: List\nmetadata: {resourceVersion: \"\"}\nitems:\n"
		for _, o := range objects {
			text += "- " + strings.ReplaceAll(strings.TrimSpace(o), "\n", "\n  ") + "\n"
		}
		return text + "---\n"
	}
	const claim, node = "PersistentVolumeClaim", "Node"
	pods := list(object("Pod", "a"), object("Pod", "b"))
	for name, c := range map[string]struct {
		files map[string]string
		gaps  []Kind // of these three
	}{
		"a claim beside lists":                    {map[string]string{"f.yaml": pods + list(object(node, "n1")) + document(claim, "c")}, []Kind{Claims}},
		"a node beside lists":                     {map[string]string{"f.yaml": list(object(claim, "c")) + document(node, "n1") + pods}, []Kind{Nodes}},
		"all by name":                             {map[string]string{"f.yaml": document(node, "n1") + document(claim, "c") + document("Pod", "a")}, []Kind{Nodes, Claims, Pods}},
		"lists of one":                            {map[string]string{"f.yaml": list(object(node, "n1")) + list(object(claim, "c")) + pods}, nil},
		"two by name":                             {map[string]string{"f.yaml": pods + list(object(node, "n1")) + document(claim, "c") + document(claim, "d")}, nil},
		"a list that was split":                   {map[string]string{"f.yaml": document(node, "n1") + document(claim, "c") + document("Pod", "a") + document("Pod", "b")}, nil},
		"written by hand":                         {map[string]string{"f.yaml": "apiVersion: v1\nkind: Node\nmetadata: {name: n1, uid: u}\nstatus: {nodeInfo: {kubeletVersion: v1.32.1}}\n---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c}\nstatus: {phase: Pending}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nstatus: {phase: Pending}\n"}, nil},
		"a file for each object":                  {map[string]string{"nodes/n1.yaml": document(node, "n1"), "claims.yaml": list(object(claim, "c")), "pods.yaml": pods}, nil},
		"a file of a claim beside others":         {map[string]string{"my-claim.yaml": document(claim, "c"), "nodes.yaml": list(object(node, "n1")), "pods.yaml": pods}, []Kind{Claims}},
		"files named after what they hold":        {map[string]string{"n1.yaml": document(node, "n1"), "c.yaml": document(claim, "c"), "a.yaml": document("Pod", "a")}, []Kind{Nodes, Claims, Pods}},
		"a file named after its claim, and lists": {map[string]string{"c.yaml": document(claim, "c"), "nodes.yaml": list(object(node, "n1")), "pods.yaml": pods}, []Kind{Claims}},
		"two files by name beside lists":          {map[string]string{"claim-c.yaml": document(claim, "c"), "d.yaml": document(claim, "d"), "nodes.yaml": list(object(node, "n1")), "pods.yaml": pods}, []Kind{Claims}},
		"the only pod by name, and two claims":    {map[string]string{"claim-c.yaml": document(claim, "c"), "claim-d.yaml": document(claim, "d"), "f.yaml": document(node, "n1") + document("Pod", "a")}, []Kind{Nodes, Claims, Pods}},
		"a file for each object of two kinds":     {map[string]string{"core-nodes/n1.yaml": document(node, "n1"), "core-nodes/n2.yaml": document(node, "n2"), "pvc/default/c.yaml": document(claim, "c"), "pods.yaml": pods}, nil},
		"a file for each object, and no list":     {map[string]string{"n1.yaml": document(node, "n1"), "c.yaml": document(claim, "c"), "a.yaml": document("Pod", "a"), "b.yaml": document("Pod", "b")}, nil},
	} {
		fsys := fstest.MapFS{}
		for file, text := range c.files {
			fsys[file] = &fstest.MapFile{Data: []byte(text)}
		}
		read := func(whole ...Kind) *Snapshot {
			s, _, err := ReadFS("dir", fsys, ReadOptions{Now: noon, Whole: whole})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return s
		}
		var got []Kind
		s := read()
		for _, kind := range []Kind{Claims, Nodes, Pods} {
			if !s.Complete(kind) {
				got = append(got, kind)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, c.gaps) {
			t.Errorf("%s: %q, want %q: %q", name, got, c.gaps, gapLines(s))
		}
		if said := read(c.gaps...); slices.ContainsFunc(c.gaps, func(k Kind) bool { return !said.Complete(k) }) {
			t.Errorf("%s: a person's word does not count: %q", name, gapLines(said))
		}
	}
}
