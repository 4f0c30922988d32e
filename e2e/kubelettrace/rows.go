package kubelettrace

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubelet"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// planOf is what plan --kubelet says of the node; heard is what its kubelet says itself.
func planOf(s *snapshot.Snapshot, node string, heard *trace.KubeletView) *kubelet.Node {
	world := reconcile.NewWorld(s, reconcile.Options{})
	return kubelet.OfNode(facts.NewView(s, world, world.Reconcile()), types.NodeName(node), heard)
}

// row is the plan's one for the volume of the pod; nil where it has none.
func (l Look) row(name string) *kubelet.Volume {
	of := kubelet.PodVolume{Pod: l.Trace.Pod.Namespace + "/" + l.Trace.Pod.Name, Name: name}
	i := slices.IndexFunc(l.Plan.Volumes, func(v kubelet.Volume) bool { return slices.Contains(v.Pods, of) })
	if i < 0 {
		return nil
	}
	return &l.Plan.Volumes[i]
}

// CompareRows holds the plan's rows of the pod's volumes against the truth.
func (l Look) CompareRows(volumes []Volume) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for _, v := range volumes {
		truth, row := l.Truth[v.Name], l.row(v.Name)
		switch {
		case truth.Forgotten:
			continue // no object shows it
		case row == nil && (truth.Stage != "" || truth.Mounted):
			say("volume %s is mounted (%v) or waits in %s, and has no row", v.Name, truth.Mounted, truth.Stage)
		case row == nil:
		case v.Unused:
			say("nobody mounts volume %s, and it has a row: %+v", v.Name, *row)
		case row.State == trace.StageDone && !truth.Mounted && !truth.Published:
			say("volume %s is not mounted, as its row says", v.Name)
		case row.State == trace.StageDone || truth.Stage == "" && row.State == trace.StageUnknown:
		case truth.Stage == "" && row.Stage != trace.StageUnstaged && row.Stage != trace.StageStopped:
			say("volume %s does not wait, and its row says %s in %s", v.Name, row.State, row.Stage)
		case truth.Stage != "":
			l.compareRow(v, *row, say)
		}
	}
	return wrong
}

// compareRow is for a volume that waits.
func (l Look) compareRow(v Volume, row kubelet.Volume, say func(string, ...any)) {
	truth := l.Truth[v.Name]
	if row.Stage != truth.Stage && !slices.Contains(row.Stages, truth.Stage) {
		say("volume %s waits in %s, and its row says %s %v", v.Name, truth.Stage, row.Stage, row.Stages)
	}
	if !l.acts(row.Actor, truth) {
		say("volume %s waits for %s, and its row says %q", v.Name, truth.Actor, row.Actor)
	}
	if want := nextOf(truth.Stage, v.Device, truth.Done[trace.StageInVolumesAttached] || !v.Attachable); row.Next != want && len(row.Stages) == 0 {
		say("the kubelet is at %s of volume %s, and its row says %s", want, v.Name, row.Next)
	}
	call, calls := callOf[truth.Stage]
	if calls && actorOf(row.Actor) == TheDriver && truth.Actor == TheDriver && !slices.Contains(row.Calls, call) || len(row.Calls) > 0 && truth.Actor != TheDriver {
		say("volume %s waits in %s for %s, and its row says that the driver is called for %v", v.Name, truth.Stage, truth.Actor, row.Calls)
	}
}

var callOf = map[trace.StageName]kubelet.Call{
	trace.StageStaged: kubelet.NodeStage, trace.StageMounted: kubelet.NodePublish, trace.StageUnmounted: kubelet.NodeUnpublish,
}

// nextOf is the operation of the volume manager that repeats while a volume waits in the
// stage.
func nextOf(stage trace.StageName, device, attached bool) kubelet.Operation {
	of := func(files, block kubelet.Operation) kubelet.Operation {
		if device {
			return block
		}
		return files
	}
	switch {
	case stage == trace.StageClaimBound, stage == trace.StageInVolumesInUse:
		return kubelet.AddPodToVolume // nothing here waits for a status to be written
	case stage == trace.StageUnmounted:
		return of(kubelet.UnmountVolume, kubelet.UnmapVolume)
	case !attached:
		return kubelet.VerifyAttached
	default:
		return of(kubelet.MountVolume, kubelet.MapVolume)
	}
}

// CompareLeftovers holds the plan's rows of volumes in use against the kubelet's own
// list: each volume has a row, and one that no pod wants is still in use.
func CompareLeftovers(plan *kubelet.Node, s seen) (rows int, wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	named := map[corev1.UniqueVolumeName]bool{}
	for _, v := range plan.Volumes {
		named[v.Volume] = true
		if len(v.Pods) > 0 {
			continue
		}
		rows++
		if !slices.Contains(s.answer.Kubelet.InUse, v.Volume) {
			say("the kubelet has given volume %s back, and it has a row", v.Volume)
		}
		_, handle, _ := reconcile.ParseCSI(v.Volume)
		stage, actor := trace.StageUnstaged, TheDriver
		if s.publishedForAny(handle) {
			stage = trace.StageUnmounted
		}
		if !s.registered(v.Driver) {
			actor = ThePlugin
		}
		if v.Stage != stage && !slices.Contains(v.Stages, stage) || actorOf(v.Actor) != actor {
			say("nobody wants volume %s, which waits in %s for %s, and its row says %v for %s", v.Volume, stage, actor, v.Stages, v.Actor)
		}
	}
	for _, volume := range s.answer.Kubelet.InUse {
		if !named[volume] {
			say("the kubelet has volume %s, which has no row", volume)
		}
	}
	return rows, wrong
}

// publishedForAny reports whether the driver has the volume published for a pod.
func (s seen) publishedForAny(handle string) bool {
	held := map[types.UID]bool{}
	for _, c := range s.answer.Calls {
		switch {
		case c.Handle != handle || c.Ended.IsZero() || c.Code != 0:
		case c.RPC == wire.Publish:
			held[c.Pod] = true
		case c.RPC == wire.Unpublish:
			delete(held, c.Pod)
		}
	}
	return len(held) > 0
}
