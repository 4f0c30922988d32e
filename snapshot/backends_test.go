package snapshot

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/backend"
)

// TestBackendsKept: a file has the lists as they were given, also one that is larger
// than a document.
func TestBackendsKept(t *testing.T) {
	taken := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	since := taken.Add(-time.Hour)
	large := &backend.List{File: "a b.json", Format: backend.AWS, Taken: taken, Scope: []string{"us-east-1a"}, Partial: true}
	for i := range 2*controllerPart + 1 {
		large.Volumes = append(large.Volumes, backend.Volume{ID: fmt.Sprintf("vol-%06d", i), State: "in-use",
			Attachments: []backend.Attachment{{Machine: "i-1", State: "busy", Since: &since}}})
	}
	s := New(taken, Source{}, Objects{Nodes: []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}}}, nil)
	s.Backends = []*backend.List{large, {File: "-", Format: backend.Text, Taken: taken.Add(time.Second), Volumes: []backend.Volume{{ID: "v", Silent: true, Shared: true}}},
		{File: "empty", Format: backend.CSI, Taken: taken}}
	var file bytes.Buffer
	if err := Write(&file, s); err != nil {
		t.Fatal(err)
	}
	again, warnings, err := Read("file", &file, ReadOptions{})
	if err != nil {
		t.Fatal(err, warnings)
	}
	if diff := cmp.Diff(s.Backends, again.Backends); diff != "" {
		t.Error(diff)
	}
}

// TestBackendErrors: a list in a file that no reader can have written is refused.
func TestBackendErrors(t *testing.T) {
	for text, want := range map[string]string{
		`format: other; taken: "2026-11-20T10:00:00Z"; file: f`: `format "other" is not known`,
		`format: aws; file: f`:                                                     "its time or its file is missing",
		`format: aws; taken: "2026-11-20T10:00:00Z"`:                               "its time or its file is missing",
		`format: aws; taken: "2026-11-20T10:00:00Z"; file: f; volumes: [{id: ""}]`: `"" is no id of a volume`,
		`format: aws; taken: "2026-11-20T10:00:00Z"; file: f; volumes: [{id: v, attachments: [{machine: "a b"}]}]`:            "is no machine",
		`format: aws; taken: "2026-11-20T10:00:00Z"; file: f; volumes: [` + strings.Repeat("{id: v}, ", 100_001) + `{id: v}]`: "more than 100000 fields and items",
		`format: aws; taken: yesterday; file: f`: "Backend: ",
	} {
		_, _, err := Read("file", strings.NewReader("apiVersion: volume-doctor/v1\nkind: Backend\n"+strings.ReplaceAll(text, "; ", "\n")), ReadOptions{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.90s: %v", text, err)
		}
	}
	one := `{"apiVersion": "volume-doctor/v1", "kind": "Backend", "format": "aws", "taken": "2026-11-20T10:00:%02dZ", "file": "f"}` + "\n---\n"
	var many strings.Builder
	for i := range 102 {
		fmt.Fprintf(&many, strings.Replace(one, `"f"`, `"f%d"`, 1), i%60, i)
	}
	if _, _, err := Read("file", strings.NewReader(many.String()), ReadOptions{}); err == nil || !strings.Contains(err.Error(), "more than 100 lists") {
		t.Error(err)
	}
}

// TestDriverObjects: a driver's own objects are a list where they stand before all others
// in one text. Elsewhere, and where one of them is damaged, they are left out, and the
// rest is read.
func TestDriverObjects(t *testing.T) {
	const node = `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "creationTimestamp": "2026-11-20T10:00:00Z"}}`
	const placed = `{"apiVersion": "internal.linstor.linbit.com/v1-33-1", "kind": "Resources", "metadata": {"name": "r"}, "spec": {"node_name": "N1", "resource_name": "PVC-1", "snapshot_name": ""}}`
	const damaged = `{"apiVersion": "internal.linstor.linbit.com/v1-33-1", "kind": "Resources", "metadata": {"name": "s"}, "spec": {"node_name": 1}}`
	const hostile = `{"apiVersion": "cstor.openebs.io/v1", "kind": "CStorVolumeAttachment", "metadata": {"name": "s"}, "spec": {"volume": {"name": "v", "ownerNodeID": "a b"}}}`
	list := []*backend.List{{File: "linstor (objects)", Format: backend.LINSTOR, Taken: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC),
		Volumes: []backend.Volume{{ID: "pvc-1", Silent: true, Only: []string{"n1"}}}}}
	for name, row := range map[string]struct {
		items   []string
		want    []*backend.List
		warning string
	}{
		"first":                  {[]string{placed, node}, list, ""},
		"behind another":         {[]string{node, placed}, nil, "give them with --backend"},
		"with a damaged one":     {[]string{placed, damaged, node}, nil, "1 object of kind Resources (internal.linstor.linbit.com/v1-33-1) was ignored"},
		"with a hostile machine": {[]string{placed, hostile, node}, nil, "left out: objects of cstor: volume v is attached to"},
	} {
		for _, text := range []string{
			`{"apiVersion": "v1", "kind": "List", "items": [` + strings.Join(row.items, ",") + `]}`,
			strings.Join(row.items, "\n---\n"),
		} {
			s, warnings, err := Read("file", strings.NewReader(text), ReadOptions{})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if diff := cmp.Diff(row.want, s.Backends); diff != "" || len(s.Nodes) != 1 {
				t.Errorf("%s:\n%s", name, diff)
			}
			if said := fmt.Sprint(warnings); !strings.Contains(said, row.warning) || row.warning == "" && len(warnings) > 0 {
				t.Errorf("%s: %s", name, said)
			}
		}
	}
	files := fstest.MapFS{"a.json": {Data: []byte(placed)}, "b.json": {Data: []byte(node)}}
	s, warnings, err := ReadFS("dir", files, ReadOptions{})
	if err != nil || s.Backends != nil || !strings.Contains(fmt.Sprint(warnings), "give them with --backend") {
		t.Errorf("a directory: %v, %v, %v", s, warnings, err)
	}
}

// TestFormerFormat: a file of an earlier release may hold a log of csi-attacher. It is
// ignored, and all else is read.
func TestFormerFormat(t *testing.T) {
	text := `{"apiVersion":"volume-doctor/v1","kind":"Backend","file":"a.log","format":"attacher","taken":"2026-11-20T10:00:00Z",` +
		`"volumes":[{"id":"vol-1","silent":true,"said":[{"volumeAttachment":"csi-1","at":"2026-11-20T10:00:00Z","found":false}]}]}` +
		"\n---\n" + `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"}}` + "\n"
	s, warnings, err := Read("file", strings.NewReader(text), ReadOptions{Now: noon})
	if err != nil || len(s.Backends) > 0 || len(s.Nodes) != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	if len(warnings) != 1 || !strings.Contains(string(warnings[0]), "Backend") {
		t.Errorf("warnings: %v", warnings)
	}
}
