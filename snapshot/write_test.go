package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	yamlv2 "go.yaml.in/yaml/v2"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/golden"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/trim"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestGeneratedSnapshot(t *testing.T) {
	in, err := os.Open("testdata/kubectl-get.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	s, _, err := Read("f", in, ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.Source.ServerVersion = "v1.36.3"
	var out bytes.Buffer
	if err := Write(&out, s); err != nil {
		t.Fatal(err)
	}
	golden.Want(t, "testdata/snapshot.golden.yaml", out.Bytes())
}

// TestWriteRead: a snapshot comes back from its file as it was, trimmed.
func TestWriteRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySnapshot(t)
		var first bytes.Buffer
		if err := Write(&first, s); err != nil {
			t.Fatal(err)
		}
		back, warnings, err := Read("f", bytes.NewReader(first.Bytes()), ReadOptions{})
		if err != nil || len(warnings) > 0 {
			t.Fatalf("%v, warnings %q, of:\n%s", err, warnings, &first)
		}
		for _, r := range resources {
			for object := range r.all(&s.Objects) {
				trim.Object(object)
			}
		}
		if diff := cmp.Diff(asJSON(t, s), asJSON(t, back)); diff != "" {
			t.Fatalf("%s of:\n%s", diff, &first)
		}
		var second bytes.Buffer
		if err := Write(&second, back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first.String(), second.String()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// asJSON shows what a snapshot holds without nil and empty lists looking
// different, for neither JSON nor YAML tells them apart. Where the file is does
// not stand in it.
func asJSON(t *rapid.T, s *Snapshot) string {
	shown := struct {
		TakenAt       time.Time
		ServerVersion string
		Gaps          []Gap
		Objects       map[Kind][]string
	}{s.TakenAt, s.Source.ServerVersion, slices.Clone(s.Gaps), map[Kind][]string{}}
	if shown.Gaps == nil {
		shown.Gaps = []Gap{}
	}
	for _, r := range resources {
		for object := range r.all(&s.Objects) {
			text, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			shown.Objects[r.Kind] = append(shown.Objects[r.Kind], string(text))
		}
	}
	text, err := json.MarshalIndent(shown, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// anySnapshot draws objects with the texts that break a format: YAML's own
// words, numbers, line ends, control characters.
func anySnapshot(t *rapid.T) *Snapshot {
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~\n\r\t]{0,100}`),
		rapid.SampledFrom([]string{"", "no", "~", "1", "1e3", "0x1", "null", "---", "- a: b", "items:", "{}", "a: b\n---\nc", "\x7f\u0080\u0085\u2028\ufeff", " \n x", "2026-11-20T10:00:00Z", "12:30:45", "<<", "=", "caf\u00e9 \U0001f600"}))
	name := rapid.OneOf(rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,5}[a-z0-9])?`), rapid.SampledFrom([]string{"no", "1", "1e3", "null"}))
	moment := rapid.Custom(func(t *rapid.T) metav1.Time {
		return metav1.NewTime(noon.Add(-time.Duration(rapid.IntRange(0, 1e6).Draw(t, "seconds ago")) * time.Second))
	})
	meta := func(t *rapid.T, namespaced bool) metav1.ObjectMeta {
		m := metav1.ObjectMeta{
			Name:              name.Draw(t, "name"),
			UID:               types.UID(text.Draw(t, "uid")),
			ResourceVersion:   rapid.StringMatching(`[0-9]{0,5}`).Draw(t, "version"),
			CreationTimestamp: moment.Draw(t, "created"),
			Labels:            rapid.MapOfN(name, text, 0, 3).Draw(t, "labels"),
			Annotations:       rapid.MapOfN(rapid.SampledFrom([]string{"a", "volume.kubernetes.io/selected-node"}), text, 0, 2).Draw(t, "annotations"),
			Finalizers:        rapid.SliceOfN(text, 0, 2).Draw(t, "finalizers"),
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: text.Draw(t, "manager"), Operation: metav1.ManagedFieldsOperationUpdate,
				FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:volumesInUse":{}}}`)}},
		}
		if namespaced {
			m.Namespace = name.Draw(t, "namespace")
		}
		if rapid.Bool().Draw(t, "deleted") {
			deleted := moment.Draw(t, "at")
			m.DeletionTimestamp = &deleted
		}
		return m
	}
	var o Objects
	for _, m := range metas(t, "nodes", false, meta) {
		o.Nodes = append(o.Nodes, &corev1.Node{ObjectMeta: m, Status: corev1.NodeStatus{
			VolumesInUse:    []corev1.UniqueVolumeName{corev1.UniqueVolumeName(text.Draw(t, "in use"))},
			VolumesAttached: []corev1.AttachedVolume{{Name: corev1.UniqueVolumeName(text.Draw(t, "attached"))}},
			Conditions:      []corev1.NodeCondition{{Type: corev1.NodeReady, Message: text.Draw(t, "message"), LastTransitionTime: moment.Draw(t, "at")}},
		}})
	}
	for _, m := range metas(t, "pods", true, meta) {
		o.Pods = append(o.Pods, &corev1.Pod{ObjectMeta: m, Spec: corev1.PodSpec{
			NodeName:   name.Draw(t, "node"),
			Containers: []corev1.Container{{Name: name.Draw(t, "container"), Args: []string{"x"}}},
			Volumes:    []corev1.Volume{{Name: text.Draw(t, "volume"), VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: text.Draw(t, "secret")}}}},
		}})
	}
	for _, m := range metas(t, "volumes", false, meta) {
		o.Volumes = append(o.Volumes, &corev1.PersistentVolume{ObjectMeta: m, Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(rapid.Int64Range(0, 1<<20).Draw(t, "MiB")<<20, resource.BinarySI)},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{VolumeHandle: text.Draw(t, "handle")}},
		}})
	}
	for _, m := range metas(t, "attachments", false, meta) {
		o.VolumeAttachments = append(o.VolumeAttachments, &storagev1.VolumeAttachment{ObjectMeta: m, Spec: storagev1.VolumeAttachmentSpec{Attacher: "d.io", NodeName: "n1"}, Status: storagev1.VolumeAttachmentStatus{
			AttachError: &storagev1.VolumeError{Message: text.Draw(t, "error"), Time: moment.Draw(t, "at")},
		}})
	}
	for _, m := range metas(t, "events", true, meta) {
		o.Events = append(o.Events, &corev1.Event{ObjectMeta: m, Message: text.Draw(t, "message"), Reason: text.Draw(t, "reason"),
			EventTime: metav1.NewMicroTime(noon.Add(-time.Duration(rapid.IntRange(0, 1e9).Draw(t, "us")) * time.Microsecond))})
	}
	for _, m := range metas(t, "leases", true, meta) {
		holder := text.Draw(t, "holder")
		o.Leases = append(o.Leases, &coordinationv1.Lease{ObjectMeta: m, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}})
	}
	for _, m := range metas(t, "claims", true, meta) {
		o.Claims = append(o.Claims, &corev1.PersistentVolumeClaim{ObjectMeta: m})
	}
	for _, m := range metas(t, "csinodes", false, meta) {
		o.CSINodes = append(o.CSINodes, &storagev1.CSINode{ObjectMeta: m, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: name.Draw(t, "driver")}}}})
	}
	for _, m := range metas(t, "csidrivers", false, meta) {
		o.CSIDrivers = append(o.CSIDrivers, &storagev1.CSIDriver{ObjectMeta: m})
	}
	for _, m := range metas(t, "classes", false, meta) {
		o.StorageClasses = append(o.StorageClasses, &storagev1.StorageClass{ObjectMeta: m, Parameters: map[string]string{"a": text.Draw(t, "parameter")}})
	}
	for _, m := range metas(t, "deployments", true, meta) {
		o.Deployments = append(o.Deployments, &appsv1.Deployment{ObjectMeta: m})
	}
	gaps := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) Gap {
		return Gap{
			Kind:      rapid.SampledFrom(append(Kinds(), Deployments)).Draw(t, "kind"),
			Namespace: name.Draw(t, "namespace"),
			Reason:    rapid.SampledFrom([]string{ReasonForbidden, ReasonTruncated, ReasonUnavailable}).Draw(t, "reason"),
			Detail:    text.Draw(t, "detail"),
		}
	}), 0, 4, func(g Gap) string { return string(g.Kind) + "/" + g.Namespace }).Draw(t, "gaps")
	source := Source{Context: "c", Server: "https://example.com", ServerVersion: text.Draw(t, "version")}
	return New(noon.Add(time.Duration(rapid.IntRange(0, 1e9).Draw(t, "ns"))), source, o, gaps)
}

// metas draws the metadata of objects of one kind, no two alike.
func metas(t *rapid.T, label string, namespaced bool, one func(*rapid.T, bool) metav1.ObjectMeta) []metav1.ObjectMeta {
	return rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) metav1.ObjectMeta { return one(t, namespaced) }), 0, 2,
		func(m metav1.ObjectMeta) string { return m.Namespace + "/" + m.Name }).Draw(t, label)
}

// TestWriteComplete: what is said to be complete is exactly what has no gap.
func TestWriteComplete(t *testing.T) {
	s := New(noon, Source{}, Objects{}, []Gap{{Kind: Pods, Reason: ReasonForbidden, Detail: "no: \"you\"\nmay not"}, {Kind: Leases, Namespace: "kube-node-lease", Reason: ReasonTruncated}})
	var out bytes.Buffer
	if err := Write(&out, s); err != nil {
		t.Fatal(err)
	}
	want := `apiVersion: volume-doctor/v1
kind: Snapshot
takenAt: "2026-11-20T12:00:00Z"
complete: [volumeattachments, nodes, csinodes, csidrivers, storageclasses, persistentvolumes, persistentvolumeclaims, events]
gaps:
- namespace: kube-node-lease
  reason: Truncated
  resource: leases
- detail: "no: \"you\"\nmay not"
  reason: Forbidden
  resource: pods
objects: 0
end: "..."
...
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	back, _, err := Read("f", &out, ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.Gaps, back.Gaps); diff != "" {
		t.Error(diff)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestWriteFails(t *testing.T) {
	s, _, err := Read("f", io.MultiReader(strings.NewReader(podA)), ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(fullDisk{}, s); err == nil || err.Error() != "no space left on device" {
		t.Errorf("error %v", err)
	}
}

// TestWriteLongNames: a YAML parser takes no name of more than a thousand
// characters before a value on the same line.
func TestWriteLongNames(t *testing.T) {
	labels := map[string]string{"a": "b", strings.Repeat("x", 3000): "c", strings.Repeat("\u00a0 ", 300): "no", strings.Repeat("y", 1500): ""}
	s := New(noon, Source{}, Objects{Nodes: []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: labels}}}}, nil)
	var out bytes.Buffer
	if err := Write(&out, s); err != nil {
		t.Fatal(err)
	}
	back, _, err := Read("f", &out, ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(labels, back.Nodes[0].Labels); diff != "" {
		t.Error(diff)
	}
}

// TestReadBlocks: files in which each field has a line of its own, as the first
// versions wrote them, hold the same snapshot.
func TestReadBlocks(t *testing.T) {
	text := func(file string) string {
		in, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		s, _, err := Read("f", in, ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return written(t, s)
	}
	if diff := cmp.Diff(text("testdata/snapshot.golden.yaml"), text("testdata/snapshot-in-blocks.yaml")); diff != "" {
		t.Error(diff)
	}
}

// TestYAML: what people read is formatted as kubectl does it, and means the same to
// every parser, whatever its texts look like.
func TestYAML(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[-a-zA-Z0-9_./:^ #"']{0,8}`),
			rapid.SampledFrom([]string{"", "no", "Y", "~", "1e3", "0x1", "null", "a:", "\x7f\u0085\u2028\u202e\ufeff", "\U000e0001", "a\nb", strings.Repeat("x", 200)}))
		value := rapid.MapOfN(text, text, 0, 5).Draw(t, "value")
		out, err := YAML(map[string]any{"list": []any{value, value, 1 << 40, 1.5, true, nil}, "none": []string{}, "map": value})
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsFunc(string(out), func(r rune) bool { return r != '\n' && safetext.Hidden(r) }) {
			t.Fatalf("a hidden character in %q", out)
		}
		want := make(map[string]any, len(value))
		for name, text := range value {
			want[strings.ToValidUTF8(name, "\ufffd")] = strings.ToValidUTF8(text, "\ufffd")
		}
		var old, got map[string]any
		if err := errors.Join(yamlv2.UnmarshalStrict(out, &old), yaml.Unmarshal(out, &got)); err != nil {
			t.Fatalf("%v of:\n%s", err, out)
		}
		if diff := cmp.Diff(map[string]any{"list": []any{want, want, float64(1 << 40), 1.5, true, nil}, "none": []any{}, "map": want}, got); diff != "" {
			t.Fatalf("%s of:\n%s", diff, out)
		}
	})
}

// TestFilesNameNoUser: who asked is told on the screen, and not in a file that goes to others.
func TestFilesNameNoUser(t *testing.T) {
	s := New(time.Now(), Source{}, Objects{}, []Gap{{Kind: Pods, Reason: ReasonForbidden, Detail: `pods is forbidden: User "jane" cannot list resource "pods"`}})
	var b bytes.Buffer
	if err := Write(&b, s); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(s.Gaps[0].Detail, "jane") || strings.Contains(b.String(), "jane") || !strings.Contains(b.String(), "is forbidden") {
		t.Errorf("%+v\n%s", s.Gaps, b.String())
	}
}
