package facts

import (
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
}
