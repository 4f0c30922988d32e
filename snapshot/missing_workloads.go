package snapshot

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
)

// workloads are the namespaces in which a workload has pods that are ready, each with what that is.
// The workloads themselves are not kept. What is scaled to zero, and what only remembers a revision,
// such as a ControllerRevision, shows no pod.
type workloads map[string]string

// mostWorkloads bounds the namespaces that are remembered.
const mostWorkloads = 1000

// note notes an object of a kind that is not kept.
func (w workloads) note(t typeName, raw []byte) {
	if t.apiVersion != "apps/v1" || t.kind != "StatefulSet" && t.kind != "DaemonSet" && t.kind != "ReplicaSet" || len(w) >= mostWorkloads {
		return
	}
	var of struct {
		Metadata struct{ Namespace string }
		Status   struct{ ReadyReplicas, NumberReady int }
	}
	if json.Unmarshal(raw, &of) == nil && of.Status.ReadyReplicas+of.Status.NumberReady > 0 && of.Metadata.Namespace != "" {
		w[of.Metadata.Namespace] = "a " + strings.ToLower(t.kind) + " has ready pods"
	}
}

// partial returns the gaps if a workload has pods in a namespace, and none of its pods was read.
func (w workloads) partial(o *Objects) []Gap {
	pods := namespacesOf(o.Pods)
	for _, namespace := range sets.List(sets.KeySet(w)) {
		if len(pods) > 0 && !pods.Has(namespace) {
			return o.noPodsOf(namespace, w[namespace])
		}
	}
	return nil
}
