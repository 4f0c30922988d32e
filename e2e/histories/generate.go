// Package histories compares what package reconcile says of a controller that is at work, and
// of the time after its first pass, with the attach/detach controllers of Kubernetes
// themselves, over random histories.
//
// A controller lives through each history with all its own timers: the oracle lets time pass
// only while everything waits, so that half an hour takes a fraction of a second. Whenever
// anything has changed, the model is asked about the objects of that moment, and its answer
// is compared with what the controller does from then on.
package histories

import (
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
)

// nodes and volumes are few, so that histories often use the same ones. The first volumes are
// for one node at a time, the last for many.
var (
	nodes   = []string{"n1", "n2", "n3"}
	volumes = []string{"v1", "v2", "v3"}
)

// Generate draws the history of a seed.
func Generate(seed uint64) *wire.Request {
	g := &generator{rand.New(rand.NewPCG(seed, 1))}
	request := &wire.Request{Seed: seed, DisableForceDetachOnTimeout: g.one(6)}
	required := true
	request.CSIDrivers = []*storagev1.CSIDriver{{ObjectMeta: metav1.ObjectMeta{Name: wire.Driver}, Spec: storagev1.CSIDriverSpec{AttachRequired: &required}}}
	for _, name := range volumes {
		modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		if name == volumes[len(volumes)-1] {
			modes[0] = corev1.ReadWriteMany
		}
		pv, claim := wire.HistoryVolume(name, modes...)
		request.Volumes, request.Claims = append(request.Volumes, pv), append(request.Claims, claim)
	}
	for _, name := range nodes {
		node := wire.HistoryNode(name)
		request.Nodes = append(request.Nodes, node)
		for _, volume := range volumes {
			g.before(request, node, volume)
		}
	}
	for range 3 + g.IntN(10) {
		request.History = append(request.History, g.step())
	}
	return request
}

type generator struct{ *rand.Rand }

// one is true once in n times.
func (g *generator) one(n int) bool { return g.IntN(n) == 0 }

func (g *generator) of(list []string) string { return list[g.IntN(len(list))] }

// before draws the objects about a volume on a node at the beginning of the history.
func (g *generator) before(request *wire.Request, node *corev1.Node, volume string) {
	if !g.one(3) {
		return
	}
	if !g.one(3) {
		va := wire.HistoryAttachment(volume, node.Name)
		va.Status.Attached = !g.one(6)
		request.VolumeAttachments = append(request.VolumeAttachments, va)
	}
	if !g.one(3) {
		node.Status.VolumesAttached = append(node.Status.VolumesAttached, corev1.AttachedVolume{Name: wire.UniqueName(volume)})
	}
	if g.one(2) {
		node.Status.VolumesInUse = append(node.Status.VolumesInUse, wire.UniqueName(volume))
	}
	if g.one(2) {
		request.Pods = append(request.Pods, wire.HistoryPod(podName(volume, node.Name), node.Name, volume, ""))
	}
}

// podName is the only name of a pod with the volume on the node.
func podName(volume, node string) string { return fmt.Sprintf("p-%s-%s", volume, node) }

// kinds are the actions with how often each is drawn.
var kinds = []struct {
	do     wire.Action
	weight int
}{
	{wire.RunPod, 8}, {wire.EndPod, 2}, {wire.RemovePod, 7}, {wire.SyncNode, 9}, {wire.Silence, 3}, {wire.Return, 3},
	{wire.DropNode, 2}, {wire.AddNode, 2}, {wire.Taint, 1}, {wire.Untaint, 1}, {wire.Attaching, 3}, {wire.Detaching, 5},
	{wire.DeleteVA, 1}, {wire.StripVA, 1}, {wire.CreateVA, 1}, {wire.Unlist, 1}, {wire.List, 1},
	{wire.LosePatch, 2}, {wire.BreakWatch, 1}, {wire.Restart, 5}, {wire.Nothing, 3},
}

// pauses are the pauses between two steps: around the times for which the controller waits.
var pauses = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 30 * time.Second, 70 * time.Second, 130 * time.Second, 5 * time.Minute, 370 * time.Second, 12 * time.Minute,
}

func (g *generator) step() wire.Step {
	sum := 0
	for _, k := range kinds {
		sum += k.weight
	}
	n := g.IntN(sum)
	var s wire.Step
	for _, k := range kinds {
		if n -= k.weight; n < 0 {
			s.Do = k.do
			break
		}
	}
	s.Node, s.Volume = g.of(nodes), g.of(volumes)
	if g.one(3) {
		s.Volume = volumes[0] // so that several nodes want it
	}
	s.Pod = podName(s.Volume, s.Node)
	modes := []wire.DriverMode{wire.Works, wire.Refuses, wire.Hangs, wire.Forbids}
	s.Mode = modes[g.IntN(len(modes))]
	s.Then = pauses[g.IntN(len(pauses))]
	return s
}
