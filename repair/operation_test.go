package repair

import (
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestKubectlIsSafeToPaste: a shell takes each word literally, whatever a stranger's file has
// in it.
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
		op := nodePatch(node, "status", appendTo(volumesAttachedPath, nil, corev1.AttachedVolume{Name: corev1.UniqueVolumeName(hostile)})...)
		words := strings.Join([]string{"kubectl", "patch", "node", hostile, "--subresource=status", "--type=json", "-p", string(op.byHand()), ""}, "\x00")
		out, err := exec.Command(shell, "-c", `printf '%s\0' `+op.Kubectl()).Output()
		if err != nil || string(out) != words {
			t.Errorf("%q: %v\n%q\n%q", hostile, err, out, words)
		}
	}
	option := Operation{Verb: VerbPatch, Target: corev1.ObjectReference{Kind: "Pod", Namespace: "a", Name: "--all"}, Patch: Compact([]patchOp{})}
	if got := option.Kubectl(); got != "kubectl patch pod/--all --namespace=a --type=json -p null" {
		t.Error(got)
	}
}

// TestKubectlNamesTheObject: a deletion that is pasted later must not hit another object of
// that name, and a creation carries the whole object.
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
		"patch nodes/status n1":               {Verb: "patch", Resource: "nodes", Subresource: "status", Name: "n1"},
		"list csinodes.storage.k8s.io":        {Verb: "list", Group: "storage.k8s.io", Resource: "csinodes"},
		"delete pods web-0 in namespace shop": {Verb: "delete", Resource: "pods", Namespace: "shop", Name: "web-0"},
	} {
		if got := p.String(); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
