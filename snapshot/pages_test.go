package snapshot

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

// TestPages: the pages of one list, in one text or in files of a folder, are a whole list if their counts and
// their version say so. With a page missing, or with one of another version, they are not.
func TestPages(t *testing.T) {
	page := func(version, next string, remaining int, pods ...string) string {
		return fmt.Sprintf(`{"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": %q, "continue": %q, "remainingItemCount": %d}, "items": [%s]}`+"\n",
			version, next, remaining, strings.Join(pods, ","))
	}
	a, b, c := podOf("shop", "a", "5"), podOf("shop", "b", "6"), podOf("web", "c", "7")
	first, middle, last := page("9", "x", 2, a), page("9", "y", 1, b), page("9", "", 0, c)
	for _, tt := range []struct {
		name  string
		pages []string
		whole bool
	}{
		{"all pages", []string{first, middle, last}, true},
		{"in another order", []string{last, first, middle}, true},
		{"without the middle", []string{first, last}, false},
		{"without the last", []string{first, middle}, false},
		{"the last is of a later list", []string{first, middle, page("10", "", 0, c)}, false},
		{"nothing counts what follows", []string{page("9", "x", 0, a), last}, false},
		{"of no version", []string{page("", "x", 1, a), page("", "", 0, b)}, false},
	} {
		files := fstest.MapFS{}
		for i, text := range tt.pages {
			files[fmt.Sprintf("%d/pods.json", i)] = &fstest.MapFile{Data: []byte(text)}
		}
		for form, read := range map[string]func() (*Snapshot, []Warning, error){
			"text": func() (*Snapshot, []Warning, error) {
				return Read("f", strings.NewReader(strings.Join(tt.pages, "")), ReadOptions{Now: noon})
			},
			"folder": func() (*Snapshot, []Warning, error) { return ReadFS("f", files, ReadOptions{Now: noon}) },
		} {
			s, _, err := read()
			if err != nil {
				t.Fatal(err)
			}
			if s.Complete(Pods) != tt.whole {
				t.Errorf("%s, %s: whole is %v: %v", tt.name, form, !tt.whole, s.Gaps)
			}
		}
	}
}

// TestJoined: what programs and people join in one text is read.
func TestJoined(t *testing.T) {
	pod := podOf("shop", "a", "5")
	yaml := "apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: shop, uid: %[1]s, creationTimestamp: 2026-11-20T09:00:00Z}\nstatus: {phase: Running}\n"
	list := "apiVersion: v1\nkind: PodList\nmetadata: {resourceVersion: '5'}\nitems:\n- metadata: {name: %s, namespace: shop, uid: %[1]s, creationTimestamp: 2026-11-20T09:00:00Z}\n  status: {phase: Running}\n"
	for name, tt := range map[string]struct{ text, pods string }{
		"a null document at the end":   {fmt.Sprintf(yaml, "a") + "---\nnull\n", "a"},
		"a null document between":      {fmt.Sprintf(yaml, "a") + "---\nnull\n---\n" + fmt.Sprintf(yaml, "b"), "a b"},
		"null after JSON":              {pod + "\nnull\n", "a"},
		"arrays in an array":           {"[[" + pod + "], [" + podOf("shop", "b", "6") + "]]", "a b"},
		"lists without a line between": {fmt.Sprintf(list, "a") + fmt.Sprintf(list, "b"), "a b"},
	} {
		s, _, err := Read("f", strings.NewReader(tt.text), ReadOptions{Now: noon})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if podNames(s) != tt.pods {
			t.Errorf("%s: %s", name, podNames(s))
		}
	}
	if _, _, err := Read("f", strings.NewReader("null\n"), ReadOptions{Now: noon}); err == nil {
		t.Error("nothing but null is read")
	}
}

// TestCutBetweenLines: YAML that ends between two lines of an object is a gap where a field is missing that
// every API server writes after them, and the whole object is none.
func TestCutBetweenLines(t *testing.T) {
	const meta = "metadata: {name: %s, namespace: kube-system, uid: %[1]s, creationTimestamp: 2026-11-20T09:00:00Z}\n"
	for kind, text := range map[Kind]string{
		VolumeAttachments: "apiVersion: storage.k8s.io/v1\nkind: VolumeAttachment\n" + meta + "spec: {attacher: d, nodeName: n1, source: {persistentVolumeName: pv}}\nstatus:\n  attachError:\n    message: full\n    time: 2026-11-20T09:00:00Z\n  attached: false\n",
		Leases:            "apiVersion: coordination.k8s.io/v1\nkind: Lease\n" + meta + "spec:\n  holderIdentity: x\n  leaseDurationSeconds: 15\n  renewTime: 2026-11-20T09:00:00.000000Z\n",
		StorageClasses:    "apiVersion: storage.k8s.io/v1\nkind: StorageClass\n" + meta + "provisioner: d\nreclaimPolicy: Delete\nvolumeBindingMode: Immediate\n",
	} {
		list := typedListOf(kind)
		read := func(last string) *Snapshot {
			s, _, err := Read("f", strings.NewReader(list+"---\n"+fmt.Sprintf(text, "a")+"---\n"+last), ReadOptions{Now: noon})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		whole := fmt.Sprintf(text, "b")
		cut := whole[:strings.LastIndex(strings.TrimSuffix(whole, "\n"), "\n")+1]
		if g := gapOf(read(whole), kind); g != nil && g.Reason == ReasonUndecodable {
			t.Errorf("%s: the whole text is a gap: %v", kind, g)
		}
		if g := gapOf(read(cut), kind); g == nil || g.Reason != ReasonUndecodable {
			t.Errorf("%s: the cut text is no gap: %v", kind, g)
		}
	}
}

func typedListOf(kind Kind) string {
	r := ResourceOf(kind)
	return fmt.Sprintf("apiVersion: %s\nkind: %sList\nmetadata: {resourceVersion: '1'}\nitems: []\n", r.Version, r.Object)
}

func gapOf(s *Snapshot, kind Kind) *Gap {
	for _, g := range s.Gaps {
		if g.Kind == kind {
			return &g
		}
	}
	return nil
}

// TestNewestInTheMiddle: of three dumps in a folder, the newest says what there is, whatever its name.
func TestNewestInTheMiddle(t *testing.T) {
	stays, made, gone := podOf("shop", "stays", "5"), podOf("shop", "made", "9"), podOf("shop", "gone", "6")
	files := fstest.MapFS{
		"1/pods.json": {Data: []byte(clusterList(stays, gone))},
		"2/pods.json": {Data: []byte(clusterList(stays, made))},
		"3/pods.json": {Data: []byte(clusterList(stays, gone))},
	}
	s, _, err := ReadFS("f", files, ReadOptions{Now: noon})
	if err != nil {
		t.Fatal(err)
	}
	if got := podNames(s); got != "made stays" {
		t.Errorf("the pods are %s", got)
	}
}

// TestCutInLine: kubectl ends each line. An object whose last line has no end may have been cut off; not so what
// ends behind the items of a list, which a paste may have lost the last line end of.
func TestCutInLine(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: shop, uid: a}\nstatus:\n  phase: Running"
	first := "apiVersion: v1\nkind: PodList\nmetadata: {resourceVersion: '1'}\nitems:\n- metadata: {name: a, namespace: shop, uid: a}\n  status:\n    phase: Running"
	last := "apiVersion: v1\nitems:\n- metadata: {name: a, namespace: shop, uid: a}\n  status:\n    phase: Running\nkind: PodList\nmetadata: {resourceVersion: '1'}"
	for name, tt := range map[string]struct {
		text string
		cut  bool
	}{
		"an object":                        {typedListOf(Pods) + "---\n" + pod, true},
		"an object, with the line's end":   {typedListOf(Pods) + "---\n" + pod + "\n", false},
		"an item":                          {first, true},
		"an item, with the line's end":     {first + "\n", false},
		"a list whose kind is behind them": {last, false},
	} {
		s, _, err := Read("f", strings.NewReader(tt.text), ReadOptions{Now: noon})
		if err != nil {
			t.Fatal(err)
		}
		if g := gapOf(s, Pods); (g != nil && g.Reason == ReasonTruncated) != tt.cut {
			t.Errorf("%s: %v", name, g)
		}
	}
}
