package facts

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestRegistrationBlames: what the API server denies the kubelet keeps a driver from being registered. What
// it denies the ServiceAccount of the node plugin is another thing, and no write of the kubelet.
func TestRegistrationBlames(t *testing.T) {
	for user, want := range map[string]string{
		`"system:node:n1" cannot update resource "csinodes"`:                             "the cluster admin",
		`"system:serviceaccount:kube-system:csi-node" cannot get resource "nodes"`:       "",
		`"system:serviceaccount:kube-system:csi-node" cannot update resource "csinodes"`: "",
	} {
		words := LastWords{Pod: &corev1.Pod{}, Message: `it is forbidden: User ` + user + ` in API group "" at the cluster scope`}
		if got := words.Blames().Actor; got != want {
			t.Errorf("%s: %q has to act, want %q", user, got, want)
		}
	}
	const update = "RegisterPlugin error -- plugin registration failed with err: error updating "
	for message, want := range map[string]struct{ actor, do string }{
		update + `Node object with CSI driver node info: caused by: admission webhook "guard" denied the request: no`:                                                     {"the cluster admin", "admission webhook guard lets the kubelet of n1 write its Node:"},
		update + `CSINode object with CSI driver node info: caused by: admission webhook "guard" denied the request: no`:                                                  {"the cluster admin", "write its CSINode:"},
		update + `CSINode object with CSI driver node info: caused by: csinodes "n1" is forbidden: User "system:node:n1" cannot update resource "csinodes"`:               {"the cluster admin", "give the kubelet of n1 the right to write its CSINode"},
		update + `Node object with CSI driver node info: caused by: detected topology value collision: driver reported "zone":"a" but existing label is "zone":"b"`:       {"the cluster admin", "correct the label of the Node"},
		update + `CSINode object with CSI driver node info: caused by: Get "https://10.0.0.1:6443/apis/csinodes/n1": dial tcp 10.0.0.1:6443: connect: connection refused`: {"the kubelet of n1", "reaches the API server"},
		`cannot reach the storage: Get "https://array/api": dial tcp: connect: connection refused`:                                                                        {},
		update + `CSINode object with CSI driver node info: caused by: strange words`:                                                                                     {},
	} {
		b := LastWords{Pod: &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n1"}}, Message: message}.Blames()
		if b.Actor != want.actor || !strings.Contains(b.Do, want.do) {
			t.Errorf("%s: %q has to act, want %q: %s", message, b.Actor, want.actor, b.Do)
		}
	}
}
