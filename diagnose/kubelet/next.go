package kubelet

import (
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// Operation is a step of the kubelet's volume manager, by the name of the function that takes
// the step.
type Operation string

// The operations, in the order of a volume's life on the node.
const (
	// AddPodToVolume: the populator adds the volume to the desired state of the world
	// (processPodVolumes, desired_state_of_world_populator.go).
	AddPodToVolume Operation = "AddPodToVolume"
	// ReportVolumesInUse: the kubelet writes the volume into the node's volumesInUse
	// (GetVolumesInUse, volume_manager.go).
	ReportVolumesInUse Operation = "GetVolumesInUse"
	// VerifyAttached: the kubelet looks for the volume in the node's volumesAttached
	// (reconciler_common.go: waitForVolumeAttach).
	VerifyAttached Operation = "VerifyControllerAttachedVolume"
	MountVolume    Operation = "MountVolume"
	MapVolume      Operation = "MapVolume" // of a Block volume
	// StopContainers: the pod worker ends the containers before anything is unmounted.
	StopContainers Operation = "SyncTerminatingPod"
	UnmountVolume  Operation = "UnmountVolume"
	UnmapVolume    Operation = "UnmapVolume"
	UnmountDevice  Operation = "UnmountDevice"
	UnmapDevice    Operation = "UnmapDevice"
)

// Call is a method of the CSI node service, by its name.
type Call string

// The calls.
const (
	NodeStage     Call = "NodeStageVolume"
	NodePublish   Call = "NodePublishVolume"
	NodeUnpublish Call = "NodeUnpublishVolume"
	NodeUnstage   Call = "NodeUnstageVolume"
)

// next is the operation that the kubelet tries for a volume that stands there. attached reports
// whether the node lists the volume as attached, or does not have to.
func next(s trace.Standing, block, attached bool) Operation {
	of := func(files, device Operation) Operation {
		if block {
			return device
		}
		return files
	}
	stage := s.Stage.Stage
	if len(s.Possible) > 0 {
		stage = s.Possible[0]
	}
	switch {
	case stage == trace.StageClaimBound, stage == trace.StageInVolumesInUse && (len(s.Stage.Said) > 0 || s.Stage.On == trace.Nobody):
		return AddPodToVolume
	case stage == trace.StageInVolumesInUse:
		return ReportVolumesInUse
	case stage == trace.StageStopped:
		return StopContainers
	case stage == trace.StageUnmounted:
		return of(UnmountVolume, UnmapVolume)
	case stage == trace.StageUnstaged && !s.NeverMounted:
		return of(UnmountDevice, UnmapDevice)
	case !attached:
		return VerifyAttached
	default:
		return of(MountVolume, MapVolume)
	}
}

// pause is the longest time between two tries of an operation that fails; 0 where the kubelet
// tries it in each of its loops.
func (o Operation) pause() time.Duration {
	switch o {
	case AddPodToVolume:
		return facts.PodRetry
	case ReportVolumesInUse:
		return reconcile.NodeStatusUpdate
	case MountVolume, MapVolume, UnmountVolume, UnmapVolume, UnmountDevice, UnmapDevice:
		return reconcile.BackoffLast
	default:
		return 0
	}
}

// calls are the calls that the kubelet may make to the driver in the stages of the row.
func (v *Volume) calls() (list []Call) {
	stages := v.Stages
	if len(stages) == 0 {
		stages = []trace.StageName{v.Stage}
	}
	for _, stage := range stages {
		if call, ok := callsOf[stage]; ok {
			list = append(list, call)
		}
	}
	return list
}

var callsOf = map[trace.StageName]Call{
	trace.StageStaged: NodeStage, trace.StageMounted: NodePublish, trace.StageUnmounted: NodeUnpublish, trace.StageUnstaged: NodeUnstage,
}
