package apply

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	corev1 "k8s.io/api/core/v1"
)

// TestKubectl: the command of a proposed repair, and of taking it back.
func TestKubectl(t *testing.T) {
	m := lostEntry(t)
	r := m.propose()[0]
	want := `kubectl patch node n1 --subresource=status --type=json -p '[{"op":"test","path":"/metadata/uid","value":"uid-n1"},` +
		`{"op":"test","path":"/status/volumesAttached","value":[{"name":"kubernetes.io/csi/ebs.csi.aws.com^vol-0","devicePath":""}]},` +
		`{"op":"add","path":"/status/volumesAttached/-","value":{"name":"kubernetes.io/csi/ebs.csi.aws.com^vol-1","devicePath":""}}]'`
	if diff := cmp.Diff(want, r.Do.Kubectl()); diff != "" {
		t.Error(diff)
	}
	if got := r.Undo.Kubectl(); !strings.HasSuffix(got, `{"op":"remove","path":"/status/volumesAttached/1"}]'`) || strings.Contains(got, "resourceVersion") {
		t.Error(got)
	}
	m.node("n1").Status.VolumesAttached = nil
	m.objects.Pods = m.objects.Pods[1:]
	want = `kubectl patch node n1 --subresource=status --type=json -p '[{"op":"test","path":"/metadata/uid","value":"uid-n1"},` +
		`{"op":"test","path":"/status/volumesAttached","value":null},` +
		`{"op":"add","path":"/status/volumesAttached","value":[{"name":"kubernetes.io/csi/ebs.csi.aws.com^vol-1","devicePath":""}]}]'`
	if diff := cmp.Diff(want, m.propose()[0].Do.Kubectl()); diff != "" {
		t.Error(diff)
	}
}

func TestDiffersTellsRepairsApart(t *testing.T) {
	m := lostEntry(t)
	var reviewed repair.Repair // as --approved reads it back
	if err := json.Unmarshal(repair.Compact(m.propose()[0]), &reviewed); err != nil {
		t.Fatal(err)
	}
	m.rewrite("n1", "kubelet", func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} })
	if fresh := m.propose()[0]; fresh.Differs(&reviewed) != "" {
		t.Error("a heartbeat makes another repair of it")
	}
	m.node("n1").UID = "another"
	if fresh := m.propose()[0]; fresh.Differs(&reviewed) != "target" {
		t.Error("another node of that name makes the same repair")
	}
	a, _ := m.applier()
	if results, err := a.Apply(t.Context(), []repair.Repair{reviewed}); err != nil || results[0].Outcome != Failed || len(m.stored) != 0 {
		t.Errorf("a repair from a file, without its guards, was made: %+v, %v", results, err)
	}
}
