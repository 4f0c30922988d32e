package snapshot

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReadHeader(t *testing.T) {
	s, warnings, err := Read("f", strings.NewReader(headerOnly+`serverVersion: v1.36.3
complete: [pods, nodes, deployments, volumesnapshots]
gaps: [{resource: events, reason: Forbidden}, {resource: nodes, reason: Truncated, detail: timeout}, {resource: volumesnapshots, reason: Forbidden}]
---
apiVersion: v1
kind: Event
metadata: {name: e, namespace: default}
---
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: n1}
`), ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if want := (Source{Path: "f", ServerVersion: "v1.36.3"}); s.Source != want {
		t.Errorf("source %+v, want %+v", s.Source, want)
	}
	wantGaps := []Gap{
		{Kind: CSIDrivers, Reason: ReasonNotInFile},
		{Kind: Events, Reason: ReasonForbidden},
		{Kind: Leases, Reason: ReasonNotInFile},
		{Kind: Nodes, Reason: ReasonTruncated, Detail: "timeout"},
		{Kind: Claims, Reason: ReasonNotInFile},
		{Kind: Volumes, Reason: ReasonNotInFile},
		{Kind: StorageClasses, Reason: ReasonNotInFile},
		{Kind: VolumeAttachments, Reason: ReasonNotInFile},
	}
	if diff := cmp.Diff(wantGaps, s.Gaps); diff != "" {
		t.Error(diff)
	}
	wantWarnings := []Warning{
		"the header's complete names volumesnapshots, which this version does not know: ignored",
		"the header's gaps names volumesnapshots, which this version does not know: ignored",
	}
	if diff := cmp.Diff(wantWarnings, warnings); diff != "" {
		t.Error(diff)
	}
}

// TestReadNow: --now, then the header, then the latest time in an object.
func TestReadNow(t *testing.T) {
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600))
	for _, tt := range []struct {
		in   string
		opts ReadOptions
		want string
	}{
		{podA, ReadOptions{}, "2026-11-20T09:00:00Z"},
		{headerOnly + "---\n" + podA, ReadOptions{}, "2026-11-20T10:00:00Z"},
		{"apiVersion: volume-doctor/v1\nkind: Snapshot\n---\n" + podA, ReadOptions{}, "2026-11-20T09:00:00Z"},
		{headerOnly, ReadOptions{}, "2026-11-20T10:00:00Z"},
		{podA, ReadOptions{Now: now}, "2026-12-31T23:00:00Z"},
		{headerOnly + "---\n" + podA, ReadOptions{Now: now}, "2026-12-31T23:00:00Z"},
		{"apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: a, managedFields: [{time: \"2026-11-20T11:00:00Z\"}]}\nspec: {renewTime: \"2026-11-20T10:59:00.250000Z\"}\n", ReadOptions{}, "2026-11-20T11:00:00Z"},
		{"apiVersion: storage.k8s.io/v1\nkind: VolumeAttachment\nmetadata: {name: a, deletionTimestamp: \"2026-11-20T11:00:00Z\"}\nspec: {attacher: d.io, nodeName: n1}\nstatus: {detachError: {time: \"2026-11-20T10:00:00Z\"}}\n", ReadOptions{}, "2026-11-20T10:00:00Z"},
	} {
		s, _, err := Read("f", strings.NewReader(tt.in), tt.opts)
		if err != nil {
			t.Errorf("%q: %v", tt.in, err)
		} else if got := s.TakenAt.Format(time.RFC3339Nano); got != tt.want {
			t.Errorf("%q: taken at %s, want %s", tt.in, got, tt.want)
		}
	}
}

// TestReadForeignKinds: what only looks like a kind that is read.
func TestReadForeignKinds(t *testing.T) {
	var in strings.Builder
	for _, kind := range []string{"storage.k8s.io/v1beta1 VolumeAttachment", "longhorn.io/v1beta2 VolumeAttachment", "longhorn.io/v1beta2 VolumeAttachment",
		"metrics.k8s.io/v1beta1 NodeMetrics", "v1 pod", "v2 Pod", "volume-doctor/v1 Report", "a\u202eb/v1 C\\u009b"} {
		apiVersion, kind, _ := strings.Cut(kind, " ")
		in.WriteString("apiVersion: \"" + apiVersion + "\"\nkind: \"" + kind + "\"\nmetadata: {name: a}\nspec: 3\n---\n")
	}
	s, warnings, err := Read("f", strings.NewReader(in.String()+podA), ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.VolumeAttachments) > 0 || len(s.Pods) != 1 {
		t.Errorf("%d attachments and %d pods", len(s.VolumeAttachments), len(s.Pods))
	}
	want := []Warning{
		`1 object of kind C\u009b (a\u202eb/v1) was ignored`,
		"1 object of kind NodeMetrics (metrics.k8s.io/v1beta1) was ignored",
		"1 object of kind Pod (v2) was ignored",
		"1 object of kind Report (volume-doctor/v1) was ignored",
		"2 objects of kind VolumeAttachment (longhorn.io/v1beta2) were ignored",
		"1 object of kind VolumeAttachment (storage.k8s.io/v1beta1) was ignored",
		"1 object of kind pod (v1) was ignored",
	}
	if diff := cmp.Diff(want, warnings); diff != "" {
		t.Error(diff)
	}
	if s.Complete(VolumeAttachments) {
		t.Error("attachments complete without any")
	}
}

// TestReadManyKinds: a dump of everything does not drown its reader.
func TestReadManyKinds(t *testing.T) {
	var in strings.Builder
	for i := range 25 {
		fmt.Fprintf(&in, "apiVersion: v1\nkind: K%02d\n---\n", i)
	}
	_, warnings, err := Read("f", strings.NewReader(in.String()+podA), ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(warnings); n != 21 || warnings[20] != "5 objects of 5 other kinds were ignored" {
		t.Errorf("%d warnings: %q", n, warnings)
	}
}

// TestReadPages: a page of a list is no list.
func TestReadPages(t *testing.T) {
	for _, in := range []string{
		"apiVersion: v1\nkind: PodList\nmetadata: {continue: abc}\nitems:\n- metadata: {name: a}\n",
		`{"kind": "List", "items": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}], "metadata": {"continue": "abc"}}`,
	} {
		s, _, err := Read("f", strings.NewReader(headerOnly+"complete: [pods]\n---\n"+in), ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(s.Gaps, func(g Gap) bool { return g.Kind == Pods })
		if i < 0 || s.Gaps[i].Reason != ReasonTruncated {
			t.Errorf("gaps %+v of %s", s.Gaps, in)
		}
	}
}

// TestReadEvents: both groups of the API show the same events.
func TestReadEvents(t *testing.T) {
	s, _, err := Read("f", strings.NewReader(`
apiVersion: events.k8s.io/v1
kind: Event
metadata: {name: e, namespace: default, uid: u1, resourceVersion: "1", managedFields: [{manager: m}]}
eventTime: "2026-11-20T09:00:00.123456Z"
series: {count: 3, lastObservedTime: "2026-11-20T09:30:00.000000Z"}
reportingController: attachdetach-controller
reportingInstance: kcm-1
action: Attach
reason: FailedAttachVolume
regarding: {kind: Pod, name: web-0, namespace: default, uid: u2}
related: {kind: PersistentVolume, name: pv1}
note: failed
type: Warning
deprecatedSource: {component: attachdetach-controller}
deprecatedFirstTimestamp: "2026-11-20T09:00:00Z"
deprecatedLastTimestamp: "2026-11-20T09:20:00Z"
deprecatedCount: 2
---
apiVersion: v1
kind: Event
metadata: {name: e, namespace: default, uid: u1, resourceVersion: "1"}
---
apiVersion: v1
kind: Event
metadata: {name: e2, namespace: default, uid: u3}
eventTime: "2026-11-20T09:00:00.123456Z"
series: {count: 3, lastObservedTime: "2026-11-20T09:30:00.000000Z"}
reportingComponent: attachdetach-controller
reportingInstance: kcm-1
action: Attach
reason: FailedAttachVolume
involvedObject: {kind: Pod, name: web-0, namespace: default, uid: u2}
related: {kind: PersistentVolume, name: pv1}
message: failed
type: Warning
source: {component: attachdetach-controller}
firstTimestamp: "2026-11-20T09:00:00Z"
lastTimestamp: "2026-11-20T09:20:00Z"
count: 2
`), ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Events) != 2 || len(s.EventsOf("u2")) != 2 {
		t.Fatalf("%d events, %d of the pod; want 2 and 2", len(s.Events), len(s.EventsOf("u2")))
	}
	converted, plain := s.Events[0].DeepCopy(), s.Events[1].DeepCopy()
	converted.ObjectMeta = plain.ObjectMeta
	if diff := cmp.Diff(plain, converted); diff != "" {
		t.Error(diff)
	}
}

// TestReadNamespaces: an object has a namespace exactly if its kind does.
func TestReadNamespaces(t *testing.T) {
	s, _, err := Read("f", strings.NewReader(headerOnly+"---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Node\nmetadata: {name: a, namespace: default}\n"), ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Pods[0].Namespace != "default" || s.Nodes[0].Namespace != "" {
		t.Errorf("namespaces %q of a pod and %q of a node", s.Pods[0].Namespace, s.Nodes[0].Namespace)
	}
}

// TestReadFails: an error of the reader is not the end of the file.
func TestReadFails(t *testing.T) {
	for _, in := range []string{"", podA, `{"apiVersion": "v1"`, `{"apiVersion": "v1", "kind": "A"}`, `{"items": [`} {
		_, _, err := Read("f", io.MultiReader(strings.NewReader(in), iotest.ErrReader(io.ErrClosedPipe)), ReadOptions{})
		if err == nil || !strings.HasSuffix(err.Error(), "io: read/write on closed pipe") {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func checkGaps(t *testing.T, s *Snapshot, kinds []Kind, reason string) {
	t.Helper()
	var got []Kind
	for _, gap := range s.Gaps {
		got = append(got, gap.Kind)
		if gap.Reason != reason {
			t.Errorf("gap %+v, want reason %s", gap, reason)
		}
	}
	slices.Sort(kinds)
	if diff := cmp.Diff(kinds, got); diff != "" {
		t.Error(diff)
	}
}
