package cmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// layouts are the ways in which a file may hold a cluster.
var layouts = map[string]func(t *testing.T, s *snapshot.Snapshot) string{
	"as snapshot writes it": written,
	"pods before what they use": func(t *testing.T, s *snapshot.Snapshot) string {
		documents := strings.Split(written(t, s), "---\n")
		objects, end := documents[1:], "end of the snapshot\n"
		if last := objects[len(objects)-1]; strings.Contains(last, "\n#") {
			t.Fatalf("the file ends with %q", last)
		} else if object, marker, found := strings.Cut(last, "\n"); found {
			objects[len(objects)-1], end = object+"\n", marker
		}
		slices.Reverse(objects)
		return documents[0] + "---\n" + strings.Join(objects, "---\n") + end
	},
	"a list of kubectl, pods first": func(t *testing.T, s *snapshot.Snapshot) string {
		list := metav1.List{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}}
		lines := strings.Split(written(t, s), "\n")
		slices.Reverse(lines)
		for _, line := range lines {
			if strings.HasPrefix(line, `{"kind":`) {
				list.Items = append(list.Items, runtime.RawExtension{Raw: []byte(line)})
			}
		}
		text, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	},
}

func written(t *testing.T, s *snapshot.Snapshot) string {
	t.Helper()
	var file bytes.Buffer
	if err := snapshot.Write(&file, s); err != nil {
		t.Fatal(err)
	}
	return file.String()
}

// withIdlePods is the cluster with pods on its nodes that have no volume to attach.
func withIdlePods(s *snapshot.Snapshot) *snapshot.Snapshot {
	o := s.Objects
	o.Pods = slices.Clone(o.Pods)
	for i, node := range s.Nodes {
		o.Pods = append(o.Pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("idle-%d", i), Namespace: "idle", UID: "u"},
			Spec: corev1.PodSpec{NodeName: node.Name, Containers: []corev1.Container{{Name: "main"}}, Volumes: []corev1.Volume{
				{Name: "settings", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
			}},
			Status: corev1.PodStatus{
				Phase:             corev1.PodRunning,
				Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
				ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
			},
		})
	}
	return snapshot.New(s.TakenAt, s.Source, o, s.Gaps)
}

// TestFilesKeepWhatIsOfUse: leaving out the pods of no use changes no report, in whatever
// order the file has its objects.
func TestFilesKeepWhatIsOfUse(t *testing.T) {
	cases, _ := casesWithCommands(t)
	g := &globalFlags{kube: genericclioptions.NewConfigFlags(true)}
	e := &examination{reportPrinter: reportPrinter{globalFlags: g}}
	left := 0
	for i, c := range cases {
		if testing.Short() && i%10 > 0 {
			continue // each is read six times: a tenth takes two seconds, and "make whole" takes all
		}
		s := withIdlePods(read(t, c))
		for layout, write := range layouts {
			text := write(t, s)
			whole, _, err := snapshot.Read("case", strings.NewReader(text), snapshot.ReadOptions{Now: s.TakenAt})
			if err != nil {
				t.Fatalf("%s, %s: %v", c.Name, layout, err)
			}
			kept, _, err := snapshot.Read("case", strings.NewReader(text), snapshot.ReadOptions{Now: s.TakenAt, PodsOfUse: g.podsOfUse})
			if err != nil {
				t.Fatalf("%s, %s: %v", c.Name, layout, err)
			}
			left += len(whole.Pods) - len(kept.Pods)
			if diff := cmp.Diff(e.examine(whole), e.examine(kept), cmpopts.IgnoreUnexported(finding.Report{}, finding.Finding{}, finding.Settles{})); diff != "" {
				t.Errorf("%s, %s: -whole file +what is kept of it:\n%s", c.Name, layout, diff)
			}
		}
	}
	if left == 0 {
		t.Error("no pod of any case is left")
	}
}

// TestLeftPodsAreAskedFor: a pod that a later object in the file makes necessary is kept, and
// input that cannot be read twice is kept whole.
func TestLeftPodsAreAskedFor(t *testing.T) {
	const (
		header = "apiVersion: volume-doctor/v1\nkind: Snapshot\ntakenAt: 2026-11-20T10:00:00Z\n---\n"
		pod    = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"n"},"spec":{"nodeName":"n1"},"status":{"phase":"Running"}}` + "\n---\n"
		other  = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b","namespace":"n"},"spec":{"nodeName":"n2"},"status":{"phase":"Running"}}` + "\n---\n"
		drains = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1","deletionTimestamp":"2026-11-20T09:59:00Z","deletionGracePeriodSeconds":0},"status":{"nodeInfo":{"kubeletVersion":"v1.36.3"}}}` + "\n---\n"
		stays  = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"},"status":{"nodeInfo":{"kubeletVersion":"v1.36.3"}}}` + "\n---\n"
	)
	type pipe struct{ io.Reader }
	needed := func(o *snapshot.Objects) func(*corev1.Pod) bool { return facts.NeedsOf(o).OfUse }
	for name, c := range map[string]struct {
		file string
		pipe bool
		want int
	}{
		"the node before":            {header + drains + pod + other, false, 1},
		"the node behind":            {header + pod + other + drains, false, 1},
		"a healthy node before":      {header + stays + pod + other, false, 0},
		"a healthy node behind":      {header + pod + other + stays, false, 0},
		"no header, the node behind": {pod + other + drains, false, 1},
		"no header, a healthy node":  {pod + other + stays, false, 0},
		"from a pipe":                {header + stays + pod + other, true, 2},
	} {
		var in io.Reader = strings.NewReader(c.file)
		if c.pipe {
			in = pipe{in}
		}
		s, _, err := snapshot.Read("case", in, snapshot.ReadOptions{Now: metav1.Now().Time, PodsOfUse: needed})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(s.Pods) != c.want {
			t.Errorf("%s: %d pods are kept, want %d", name, len(s.Pods), c.want)
		}
		if read := s.Counts()[snapshot.Pods]; read != 2 {
			t.Errorf("%s: %d pods count as read, want 2", name, read)
		}
	}
	twice := header + pod + strings.Replace(pod, "n1", "n2", 1)
	if _, _, err := snapshot.Read("case", strings.NewReader(twice), snapshot.ReadOptions{PodsOfUse: needed}); err == nil || !strings.Contains(err.Error(), "Pod n/a is given a second time") {
		t.Errorf("a pod in two states: %v", err)
	}
}

// TestUsedNamespaceOfFile: a namespace whose pods use no volume counts as used.
func TestUsedNamespaceOfFile(t *testing.T) {
	g := &globalFlags{kube: genericclioptions.NewConfigFlags(true)}
	*g.kube.Namespace = "n"
	keeps := g.podsOfUse(&snapshot.Objects{})
	if !keeps(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n"}}) || keeps(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other"}}) {
		t.Error("other pods than those of the namespace are kept")
	}
}
