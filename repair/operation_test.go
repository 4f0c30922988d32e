package repair

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

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

// TestKubectlIsSafeToPaste: a shell takes each word for what it is, whatever a
// file of a stranger says.
func TestKubectlIsSafeToPaste(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err) // make runs in one, so there always is
	}
	for _, hostile := range []string{
		"n1", "a b", "'; touch /tmp/x; '", `"$(id)"`, "`id`", "$HOME", "a\nb", "*", "~", "#", "it's", "!!", "<&>", "ä",
	} {
		node := &corev1.Node{}
		node.Name, node.UID, node.ResourceVersion = hostile, "u", "1"
		op := addEntry(node, corev1.UniqueVolumeName(hostile))
		words := strings.Join([]string{"kubectl", "patch", "node", hostile, "--subresource=status", "--type=json", "-p", string(op.unversioned()), ""}, "\x00")
		out, err := exec.Command(shell, "-c", `printf '%s\0' `+op.Kubectl()).Output()
		if err != nil || string(out) != words {
			t.Errorf("%q: %v\n%q\n%q", hostile, err, out, words)
		}
	}
	option := Operation{Verb: VerbDelete, Target: corev1.ObjectReference{Kind: "Pod", Namespace: "a", Name: "--all"}}
	if got := option.Kubectl(); got != "kubectl delete pod/--all --namespace=a" {
		t.Error(got)
	}
}

func TestPermissionReadsLikeARule(t *testing.T) {
	for want, p := range map[string]Permission{
		"patch nodes/status n1":               patchNodeStatusOf("n1"),
		"list csinodes.storage.k8s.io":        {Verb: "list", Group: "storage.k8s.io", Resource: "csinodes"},
		"delete pods web-0 in namespace shop": {Verb: "delete", Resource: "pods", Namespace: "shop", Name: "web-0"},
	} {
		if got := p.String(); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

func TestSame(t *testing.T) {
	m := lostEntry(t)
	var reviewed Repair // as --plan reads it back
	if err := json.Unmarshal(compact(m.propose()[0]), &reviewed); err != nil {
		t.Fatal(err)
	}
	m.rewrite("n1", "kubelet", func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} })
	if fresh := m.propose()[0]; !reviewed.Same(&fresh) {
		t.Error("a heartbeat makes another repair of it")
	}
	m.node("n1").UID = "another"
	if fresh := m.propose()[0]; reviewed.Same(&fresh) {
		t.Error("another node of that name makes the same repair")
	}
	a, _ := m.applier()
	if results, err := a.Apply(t.Context(), []Repair{reviewed}); err != nil || results[0].Outcome != Failed || len(m.stored) != 0 {
		t.Errorf("a repair from a file, without its guards, was made: %+v, %v", results, err)
	}
}
