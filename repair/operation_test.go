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
	shell, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	for _, hostile := range []string{
		"n1", "a b", "'; touch /tmp/x; '", `"$(id)"`, "`id`", "$HOME", "a\nb", "*", "~", "#", "it's", "!!", "<&>", "ä",
	} {
		node := &corev1.Node{}
		node.Name, node.UID, node.ResourceVersion = hostile, "u", "1"
		op := nodeStatusPatch(node, addEntry(node, corev1.UniqueVolumeName(hostile))...)
		words := strings.Join([]string{"kubectl", "patch", "node", hostile, "--subresource=status", "--type=json", "-p", string(op.byHand()), ""}, "\x00")
		out, err := exec.Command(shell, "-c", `printf '%s\0' `+op.Kubectl()).Output()
		if err != nil || string(out) != words {
			t.Errorf("%q: %v\n%q\n%q", hostile, err, out, words)
		}
	}
	option := Operation{Verb: VerbPatch, Target: corev1.ObjectReference{Kind: "Pod", Namespace: "a", Name: "--all"}, Patch: compact([]patchOp{})}
	if got := option.Kubectl(); got != "kubectl patch pod/--all --namespace=a --type=json -p null" {
		t.Error(got)
	}
}

// TestKubectlNamesTheObject: a deletion that is pasted later must not hit
// another object of that name, and a creation carries all of the object.
func TestKubectlNamesTheObject(t *testing.T) {
	target := corev1.ObjectReference{APIVersion: "storage.k8s.io/v1", Kind: "VolumeAttachment", Name: "csi-1", UID: "u1", ResourceVersion: "7"}
	for want, op := range map[string]Operation{
		`printf %s '{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"u1"}}' | ` +
			`kubectl delete --raw /apis/storage.k8s.io/v1/volumeattachments/csi-1 -f -`: {Verb: VerbDelete, Target: target},
		`printf %s '{"a":"it'\''s"}' | kubectl create -f -`: {Verb: VerbCreate, Target: target, Object: []byte(`{"a":"it's"}`)},
		`printf %s '{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"u2"}}' | ` +
			`kubectl delete --raw /api/v1/namespaces/shop/pods/web-0 -f -`: {Verb: VerbDelete, Target: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web-0", UID: "u2", ResourceVersion: "8",
		}},
	} {
		if got := op.Kubectl(); got != want {
			t.Errorf("%s\n%s", got, want)
		}
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

func TestPlanTellsRepairsApart(t *testing.T) {
	m := lostEntry(t)
	var reviewed Repair // as --approved reads it back
	if err := json.Unmarshal(compact(m.propose()[0]), &reviewed); err != nil {
		t.Fatal(err)
	}
	m.rewrite("n1", "kubelet", func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} })
	if fresh := m.propose()[0]; fresh.differs(&reviewed) != "" {
		t.Error("a heartbeat makes another repair of it")
	}
	m.node("n1").UID = "another"
	if fresh := m.propose()[0]; fresh.differs(&reviewed) != "target" {
		t.Error("another node of that name makes the same repair")
	}
	a, _ := m.applier()
	if results, err := a.Apply(t.Context(), []Repair{reviewed}); err != nil || results[0].Outcome != Failed || len(m.stored) != 0 {
		t.Errorf("a repair from a file, without its guards, was made: %+v, %v", results, err)
	}
}
