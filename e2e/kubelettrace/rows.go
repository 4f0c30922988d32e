package kubelettrace

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubelet"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// planOf is the result of plan --kubelet for the node; heard is the kubelet's own report.
func planOf(s *snapshot.Snapshot, node string, heard *trace.KubeletView) *kubelet.Node {
	world := reconcile.NewWorld(s, reconcile.Options{})
	return kubelet.OfNode(facts.NewView(s, world, world.Reconcile()), types.NodeName(node), heard)
}

// row is the plan's row for the volume of the pod; nil where it has none.
func (l Look) row(name string) *kubelet.Volume {
	of := kubelet.PodVolume{Pod: l.Trace.Pod.Namespace + "/" + l.Trace.Pod.Name, Name: name}
	i := slices.IndexFunc(l.Plan.Volumes, func(v kubelet.Volume) bool { return slices.Contains(v.Pods, of) })
	if i < 0 {
		return nil
	}
	return &l.Plan.Volumes[i]
}

// CompareRows compares the plan's rows of the pod's volumes with the truth.
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

// compareRow compares the row of a volume that waits.
func (l Look) compareRow(v Volume, row kubelet.Volume, say func(string, ...any)) {
	truth := l.Truth[v.Name]
	if row.Stage != truth.Stage && !slices.Contains(row.Stages, truth.Stage) {
		say("volume %s waits in %s, and its row says %s %v", v.Name, truth.Stage, row.Stage, row.Stages)
	}
	if !l.acts(row.Actor, truth) {
		say("volume %s waits for %s, and its row says %q", v.Name, truth.Actor, row.Actor)
	}
	if want := nextOf(truth, v.Device, truth.Done[trace.StageInVolumesAttached] || !v.Attachable); row.Next != want && len(row.Stages) == 0 {
		say("the kubelet is at %s of volume %s, and its row says %s", want, v.Name, row.Next)
	}
	call, calls := callOf[truth.Stage]
	if calls && actorOf(row.Actor) == TheDriver && truth.Actor == TheDriver && !slices.Contains(row.Calls, call) || len(row.Calls) > 0 && truth.Actor != TheDriver && truth.Also != TheDriver && (!truth.Busy || l.asked) {
		say("volume %s waits in %s for %s, and its row says that the driver is called for %v", v.Name, truth.Stage, truth.Actor, row.Calls)
	}
}

var callOf = map[trace.StageName]kubelet.Call{
	trace.StageStaged: kubelet.NodeStage, trace.StageMounted: kubelet.NodePublish, trace.StageUnmounted: kubelet.NodeUnpublish,
}

// nextOf is the operation of the volume manager that repeats while a volume waits in the true
// stage.
func nextOf(truth Truth, device, attached bool) kubelet.Operation {
	stage := truth.Stage
	reported, needed := truth.Done[trace.StageInVolumesInUse]
	of := func(files, block kubelet.Operation) kubelet.Operation {
		if device {
			return block
		}
		return files
	}
	switch {
	case stage == trace.StageInVolumesInUse && truth.Actor == TheKubelet && needed && !reported: // its status is refused
		return kubelet.ReportVolumesInUse
	case stage == trace.StageClaimBound, stage == trace.StageInVolumesInUse:
		return kubelet.AddPodToVolume
	case stage == trace.StageUnmounted:
		return of(kubelet.UnmountVolume, kubelet.UnmapVolume)
	case !attached:
		return kubelet.VerifyAttached
	default:
		return of(kubelet.MountVolume, kubelet.MapVolume)
	}
}

// CompareLeftovers compares the plan's rows of volumes in use with the kubelet's own list:
// each volume has a row, and a volume that no pod wants is still in use. asked reports
// whether the plan has the kubelet's log.
func CompareLeftovers(plan *kubelet.Node, s seen, asked bool) (rows int, wrong []string) {
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
		stage, actor, states := s.leftover(handle, v.Driver, asked)
		if v.Stage != stage && !slices.Contains(v.Stages, stage) || !namesActor(v, actor) || !slices.Contains(states, v.State) {
			say("nobody wants volume %s, which waits in %s for %s (%v), and its row says %s in %s %v for %s", v.Volume, stage, actor, states, v.State, v.Stage, v.Stages, v.Actor)
		}
	}
	for _, volume := range s.answer.Kubelet.InUse {
		if !named[volume] {
			say("the kubelet has volume %s, which has no row", volume)
		}
	}
	return rows, wrong
}

// namesActor reports whether the row names the actor: it alone where something is known to
// fail, and else as one of those who may have to act, since no object tells what holds a volume
// that no pod wants.
func namesActor(row kubelet.Volume, actor Actor) bool {
	if row.State != trace.StageWaiting {
		return actorOf(row.Actor) == actor
	}
	return slices.ContainsFunc(strings.Split(row.Actor, " or "), func(who string) bool { return actorOf(who) == actor })
}

// leftover is the stage in which a volume that no pod wants waits, the actor, and the states
// that the plan may give. That something fails is known where the driver has not registered,
// and from the kubelet's log.
func (s seen) leftover(handle, driver string, asked bool) (trace.StageName, Actor, []trace.StageState) {
	stage, actor, call := trace.StageUnstaged, TheDriver, wire.Unstage
	if s.publishedForAny(handle) {
		stage, call = trace.StageUnmounted, wire.Unpublish
	}
	switch {
	case !s.registered(driver):
		return stage, ThePlugin, []trace.StageState{trace.StageBlocked}
	case !asked:
		return stage, actor, []trace.StageState{trace.StageWaiting}
	case s.pending(handle): // also a call to mount, which outlives the pod
		return stage, actor, []trace.StageState{trace.StageWaiting, trace.StageBlocked}
	case stage == trace.StageUnstaged && s.elsewhere(handle):
		return stage, NodeAdmin, []trace.StageState{trace.StageBlocked}
	}
	if c, _ := s.last(wire.Stage, handle, ""); c.RPC == wire.Unstage && !c.Ended.IsZero() && c.Code == 0 { // and the kubelet cannot remove the directory
		return stage, TheKubelet, []trace.StageState{trace.StageWaiting, trace.StageBlocked}
	}
	if slices.ContainsFunc(s.answer.Calls, func(c wire.Call) bool { return c.Handle == handle && c.RPC == call && c.Code != 0 }) {
		return stage, actor, []trace.StageState{trace.StageBlocked}
	}
	return stage, actor, []trace.StageState{trace.StageWaiting}
}

// publishedForAny reports whether the driver may have the volume published for a pod that the kubelet
// knows of. One that has started again forgets a call that had failed, and unstages the device.
func (s seen) publishedForAny(handle string) bool {
	held := map[types.UID]bool{}
	for _, c := range s.answer.Calls {
		switch {
		case c.Handle != handle:
		case c.RPC == wire.Publish && (c.Ended.IsZero() || c.Code == 0 || slices.Contains(uncertain, codes.Code(c.Code))):
			held[c.Pod] = true
		case c.RPC == wire.Unpublish && !c.Ended.IsZero() && c.Code == 0:
			delete(held, c.Pod)
		case c.RPC == wire.Unstage:
			clear(held)
		}
	}
	return len(held) > 0
}
