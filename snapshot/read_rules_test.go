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
		{"apiVersion: storage.k8s.io/v1\nkind: VolumeAttachment\nmetadata: {name: a, deletionTimestamp: \"2026-11-20T11:00:00Z\"}\nstatus: {detachError: {time: \"2026-11-20T10:00:00Z\"}}\n", ReadOptions{}, "2026-11-20T10:00:00Z"},
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

// TestOneNamespace: a file that does not say which lists are complete contradicts itself where
// a volume is Bound to a claim of a namespace that is not in it. Where pods or claims are of one
// namespace alone, any object that names one of another makes them a gap.
func TestOneNamespace(t *testing.T) {
	pv := func(name, phase, namespace string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: %s}\nspec: {claimRef: {namespace: %s, name: %s}}\nstatus: {phase: %s}\n---\n", name, namespace, name, phase)
	}
	claim := func(namespace string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c, namespace: %s}\nstatus: {phase: Pending}\n---\n", namespace)
	}
	pod := func(namespace string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: %s}\nstatus: {phase: Pending}\n---\n", namespace)
	}
	event := func(kind, namespace string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Event\nmetadata: {name: e-%s, namespace: %s}\ninvolvedObject: {kind: %s, namespace: %s, name: x}\n---\n", namespace, namespace, kind, namespace)
	}
	running := func(namespace, phase string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: r, namespace: %s}\nspec: {volumes: [{name: d, persistentVolumeClaim: {claimName: c}}]}\nstatus: {phase: %s}\n---\n", namespace, phase)
	}
	owned := func(namespace, more string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: o, namespace: %s, ownerReferences: [{apiVersion: v1, kind: Pod, name: gone, uid: u}]%s}\nstatus: {phase: Bound}\n---\n", namespace, more)
	}
	deployment := func(namespace string, ready int) string {
		return fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: %s}\nstatus: {readyReplicas: %d}\n---\n", namespace, ready)
	}
	workload := func(kind, namespace, status string) string {
		return fmt.Sprintf("apiVersion: apps/v1\nkind: %s\nmetadata: {name: w, namespace: %s}\nstatus: {%s}\n---\n", kind, namespace, status)
	}
	podList := func(namespaces ...string) string {
		var items []string
		for _, namespace := range namespaces {
			items = append(items, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": %q}, "status": {"phase": "Pending"}}`, namespace))
		}
		return "apiVersion: v1\nkind: List\nitems: [" + strings.Join(items, ", ") + "]\n---\n"
	}
	claims := claim("a") + claim("b") + claim("d")
	attached := func(is string) string {
		return "apiVersion: storage.k8s.io/v1\nkind: VolumeAttachment\nmetadata: {name: va}\nspec: {attacher: d, nodeName: n1, source: {persistentVolumeName: used}}\nstatus: {attached: " + is + "}\n---\n"
	}
	const csi = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: used}\nspec: {csi: {driver: d, volumeHandle: h}, claimRef: {namespace: b, name: c}}\nstatus: {phase: Bound}\n---\n"
	const inUse = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {volumesInUse: [kubernetes.io/csi/d^h]}\n---\n"
	onlyPods, onlyClaims := []Gap{{Kind: Pods, Namespace: "a"}}, []Gap{{Kind: Claims, Namespace: "a"}}
	for name, c := range map[string]struct {
		file string
		want []Gap // of claims and pods, without their details
	}{
		"a node uses a volume of another namespace":                  {csi + inUse + claim("a") + claim("b") + pod("a"), onlyPods},
		"... which has a pod":                                        {csi + inUse + claim("a") + claim("b") + pod("a") + pod("b"), nil},
		"... which is attached":                                      {csi + attached("true") + claim("a") + claim("b") + pod("a"), onlyPods},
		"... or is not attached yet":                                 {csi + attached("false") + claim("a") + claim("b") + pod("a"), nil},
		"... beside pods of two others, and an event of a pod there": {csi + inUse + claims + event("Pod", "b") + pod("a") + pod("d"), []Gap{{Kind: Pods, Namespace: "a,d"}}},
		"... and no event of a pod there":                            {csi + inUse + claims + event("Pod", "a") + pod("a") + pod("d"), nil},
		"... and no node uses it, though there is one":               {csi + claims + event("Pod", "b") + pod("a") + pod("d"), nil},
		"... and no node uses it":                                    {csi + claim("a") + claim("b") + pod("a"), nil},
		"a pod owns a claim elsewhere":                               {claim("a") + owned("b", "") + pod("a"), onlyPods},
		"... which is going":                                         {claim("a") + owned("b", `, deletionTimestamp: "2026-11-20T09:00:00Z"`) + pod("a"), nil},
		"a deployment elsewhere has pods":                            {claim("a") + deployment("b", 1) + pod("a"), onlyPods},
		"... or none":                                                {claim("a") + deployment("b", 0) + pod("a"), nil},
		"a workload elsewhere has pods":                              {claim("a") + workload("StatefulSet", "b", "readyReplicas: 1") + pod("a"), onlyPods},
		"... on each node":                                           {claim("a") + workload("DaemonSet", "b", "numberReady: 2") + pod("a"), onlyPods},
		"... or is scaled to zero":                                   {claim("a") + workload("StatefulSet", "b", "replicas: 0") + pod("a"), nil},
		"... or has its pods here":                                   {claim("a") + workload("ReplicaSet", "a", "readyReplicas: 1") + pod("a"), nil},
		"a revision, which outlives pods":                            {claim("a") + workload("ControllerRevision", "b", "readyReplicas: 1") + pod("a"), nil},
		"one of several namespaces is missing":                       {pv("b", "Bound", "b") + claim("a") + claim("d") + pod("a") + pod("d"), []Gap{{Kind: Claims, Namespace: "a,d"}, {Kind: Pods, Namespace: "a,d"}}},
		"a workload in one of several":                               {owned("a", "") + workload("StatefulSet", "b", "readyReplicas: 1") + pod("a") + pod("d"), []Gap{{Kind: Pods, Namespace: "a,d"}}},
		"a list of pods for two of three namespaces":                 {claims + podList("a") + podList("d"), []Gap{{Kind: Pods, Namespace: "a,d"}}},
		"... or for each of them":                                    {claims + podList("a") + podList("b") + podList("d"), nil},
		"... or one of two namespaces":                               {claims + podList("a", "d"), nil},
		"... and events of pods of the third":                        {claim("a") + claim("d") + event("Pod", "b") + podList("a") + podList("d"), []Gap{{Kind: Pods, Namespace: "a,d"}}},
		"events of pods elsewhere":                                   {claim("a") + event("Pod", "b") + pod("a"), onlyPods},
		"events of pods here":                                        {claim("a") + event("Pod", "a") + pod("a"), nil},
		"events of claims elsewhere":                                 {claim("a") + event("PersistentVolumeClaim", "b") + pod("a"), onlyClaims},
		"a pod elsewhere runs with a claim":                          {claim("a") + pod("a") + running("b", "Running"), onlyClaims},
		"... or has ended":                                           {claim("a") + pod("a") + running("b", "Succeeded"), nil},
		"the volumes' claims are there":                              {pv("c", "Bound", "a") + claim("a") + pod("a"), nil},
		"one is missing":                                             {pv("a", "Bound", "a") + pv("b", "Bound", "b") + claim("a") + pod("a"), []Gap{{Kind: Claims, Namespace: "a"}, {Kind: Pods, Namespace: "a"}}},
		"pods were read with -A":                                     {pv("b", "Bound", "b") + claim("a") + pod("a") + pod("b"), []Gap{{Kind: Claims, Namespace: "a"}}},
		"a released volume has lost its claim":                       {pv("b", "Released", "b") + claim("a") + pod("a"), nil},
		"the file says that it is complete": {"apiVersion: volume-doctor/v1\nkind: Snapshot\ntakenAt: \"2026-11-20T10:00:00Z\"\ncomplete: [pods, persistentvolumeclaims]\n---\n" +
			pv("b", "Bound", "b") + claim("a") + pod("a"), nil},
	} {
		s, _, err := Read("f", strings.NewReader(c.file), ReadOptions{Now: noon})
		if err != nil {
			t.Fatal(err)
		}
		var got []Gap
		for _, g := range s.Gaps {
			if g.Kind == Claims || g.Kind == Pods {
				if !strings.Contains(g.Detail, "was -A given") {
					t.Errorf("%s: %+v", name, g)
				}
				got = append(got, Gap{Kind: g.Kind, Namespace: g.Namespace})
			}
		}
		slices.SortFunc(got, func(a, b Gap) int { return strings.Compare(string(a.Kind), string(b.Kind)) })
		slices.SortFunc(c.want, func(a, b Gap) int { return strings.Compare(string(a.Kind), string(b.Kind)) })
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		if len(c.want) != 1 || c.want[0].Kind == Claims && strings.Contains(name, "with -A") {
			continue
		}
		// Such an object may be out of date: a person's word counts more.
		if s, _, err = Read("f", strings.NewReader(c.file), ReadOptions{Now: noon, Whole: []Kind{c.want[0].Kind}}); err == nil && !s.Complete(c.want[0].Kind) || err != nil && c.want[0].Kind != Claims {
			t.Errorf("%s, with --whole %s: %v", name, c.want[0].Kind, err)
		}
	}
}

// TestEmptyLists: a list that says its kind proves by being empty that there are none, and so
// does one of any kind in a file that is called after a kind.
func TestEmptyLists(t *testing.T) {
	const node, empty = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n---\n", "apiVersion: v1\nkind: List\nitems: []\n"
	for _, c := range []struct {
		name, file string
		complete   bool
	}{
		{"f.yaml", node + "apiVersion: storage.k8s.io/v1\nkind: VolumeAttachmentList\nitems: []\n", true},
		{"f.yaml", node + "apiVersion: storage.k8s.io/v1\nkind: VolumeAttachmentList\nmetadata: {continue: x}\nitems: []\n", false},
		{"f.yaml", node + "apiVersion: storage.k8s.io/v1\nkind: CSINodeList\nitems: []\n", false},
		{"f.yaml", node + empty, false},
		{"volumeattachments.yaml", node + empty, true},
		{"nodes.yaml", node + empty, false},
	} {
		s, _, err := Read(c.name, strings.NewReader(c.file), ReadOptions{Now: noon})
		if err != nil {
			t.Fatal(err)
		}
		if s.Complete(VolumeAttachments) != c.complete {
			t.Errorf("%s: %s: complete is %v", c.name, c.file, !c.complete)
		}
	}
}
