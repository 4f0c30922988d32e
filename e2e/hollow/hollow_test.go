package hollow_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/hollow"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
)

// TestNodes has the real kubelets of two nodes bring pods up and down, with what can go
// wrong at their driver, and holds the trace, with the kubelet asked and without, to what
// the driver knows.
func TestNodes(t *testing.T) {
	w := newWorld(t, "hollow-a", "hollow-b")
	w.secret("there")
	a, b := w.nodes[0], w.nodes[1]
	w.pod(a, "mounted", "there")
	w.pod(a, "hangs", "there", wire.Fault{RPC: wire.Stage, Hang: true})
	w.pod(a, "secretless", "gone")
	w.pod(b, "refused", "there", wire.Fault{RPC: wire.Stage, Code: uint32(codes.Internal), Message: "mkfs failed"})
	w.pod(b, "leaving", "there", wire.Fault{RPC: wire.Unpublish, Hang: true})

	w.runs("leaving")
	w.delete("leaving")
	w.runs("mounted")
	w.own(a, "mounted")

	mounted := traced{pod: "mounted", kubelet: []string{"in phase Running", csidriver.Name + " is registered with it"}}
	hangs := traced{pod: "hangs", volume: "hangs", stage: trace.StageStaged, actor: csidriver.Name, kubelet: []string{"in phase Pending", "at least one waits"}}
	w.last(a, "mounted", "NodePublishVolume OK")
	w.trace(mounted)
	w.last(a, "hangs", "NodeStageVolume pending")
	w.trace(hangs)
	w.last(a, "secretless", "NodePublishVolume OK")
	w.trace(traced{pod: "secretless", volume: "settings", stage: trace.StageMounted, actor: "gone", said: `secret \"gone\" not found`, kubelet: []string{"in phase Pending"}})
	w.last(b, "refused", "NodeStageVolume Internal")
	w.trace(traced{pod: "refused", volume: "refused", stage: trace.StageStaged, actor: csidriver.Name, said: "mkfs failed", kubelet: []string{"in phase Pending"}})
	w.last(b, "leaving", "NodeUnpublishVolume pending")
	w.trace(traced{pod: "leaving", volume: "leaving", stage: trace.StageUnmounted, actor: csidriver.Name})

	w.restart(a, mounted, hangs)

	w.heal(a, "hangs", wire.Stage)
	w.heal(b, "refused", wire.Stage)
	w.heal(b, "leaving", wire.Unpublish)
	w.secret("gone")
	w.gone("leaving")
	for _, pod := range []string{"hangs", "secretless", "refused"} {
		w.runs(pod)
		w.trace(traced{pod: pod, kubelet: []string{"in phase Running"}})
	}

	for _, pod := range []string{"mounted", "hangs", "secretless", "refused"} {
		w.delete(pod)
	}
	for _, pod := range []string{"mounted", "hangs", "secretless", "refused"} {
		w.gone(pod)
	}
	for _, n := range w.nodes {
		w.await("nothing to be left on "+n.Node, func() (string, bool) {
			inUse := w.inUse(n)
			attached := w.attached(n)
			return strings.Join(slices.Concat(inUse, attached), ", "), len(inUse)+len(attached) == 0
		})
	}
}

// own holds what the API server shows of a node to its kubelet and its driver.
func (w *world) own(n *hollow.Node, pod string) {
	w.Helper()
	w.await("volumesInUse of "+n.Node, func() (string, bool) {
		inUse := w.inUse(n)
		return strings.Join(inUse, ", "), slices.Contains(inUse, string(csidriver.UniqueName(csidriver.Name, handle(pod))))
	})
	c, err := w.client.StorageV1().CSINodes().Get(w.Context(), n.Node, metav1.GetOptions{})
	w.check(err)
	if !slices.ContainsFunc(c.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == csidriver.Name && d.NodeID == n.Node }) {
		w.Errorf("the CSINode of %s lists %v", n.Node, c.Spec.Drivers)
	}
	p, err := w.client.CoreV1().Pods(namespace).Get(w.Context(), pod, metav1.GetOptions{})
	w.check(err)
	node, err := w.client.CoreV1().Nodes().Get(w.Context(), n.Node, metav1.GetOptions{})
	w.check(err)
	for of, fields := range map[string][]metav1.ManagedFieldsEntry{"pod " + pod: p.ManagedFields, "node " + n.Node: node.ManagedFields} {
		if !slices.ContainsFunc(fields, func(f metav1.ManagedFieldsEntry) bool {
			return f.Manager == "hollowkubelet" && f.Subresource == "status"
		}) {
			w.Errorf("the status of %s is not its kubelet's: %v", of, fields)
		}
	}
}

// restart kills the kubelet and starts it again: what ran goes on running, and what waited
// waits for the same.
func (w *world) restart(n *hollow.Node, mounted, waits traced) {
	w.Helper()
	before, err := n.Containers(w.Context())
	w.check(err)
	w.ask(n, wire.Request{Do: wire.Kill})
	w.unheard(mounted.pod)
	inUse := w.inUse(n)
	w.ask(n, wire.Request{Do: wire.Start})
	w.last(n, waits.pod, "NodeStageVolume pending")
	w.trace(mounted)
	w.trace(waits)
	after, err := n.Containers(w.Context())
	w.check(err)
	for _, c := range before {
		if !slices.Contains(after, c) {
			w.Errorf("container %s is not there after the kubelet's restart: %v", c, after)
		}
	}
	for _, name := range inUse {
		if now := w.inUse(n); !slices.Contains(now, name) {
			w.Errorf("%s was in volumesInUse of %s before its kubelet was killed, and is not now: %v", name, n.Node, now)
		}
	}
}

func (w *world) inUse(n *hollow.Node) (names []string) {
	w.Helper()
	node, err := w.client.CoreV1().Nodes().Get(w.Context(), n.Node, metav1.GetOptions{})
	w.check(err)
	for _, name := range node.Status.VolumesInUse {
		names = append(names, string(name))
	}
	return names
}

func (w *world) attached(n *hollow.Node) (names []string) {
	w.Helper()
	list, err := w.client.StorageV1().VolumeAttachments().List(w.Context(), metav1.ListOptions{})
	w.check(err)
	for _, a := range list.Items {
		if a.Spec.NodeName == n.Node {
			names = append(names, a.Name)
		}
	}
	return names
}
