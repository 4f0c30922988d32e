package trace

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
)

// meaning is a part of a message, and what it means.
type meaning struct{ text, means string }

func meaningOf(message string, meanings []meaning) string {
	for _, m := range meanings {
		if facts.ContainsAny(message, m.text) {
			return m.means
		}
	}
	return ""
}

// mountWordsMean are parts of what a failed mount says. The first that is found
// counts: a code of gRPC says less than the words beside it.
var mountWordsMean = []meaning{
	{kubeletwords.BeingDetached, "the controller is detaching it: the mount waits until it has been attached again"},
	{kubeletwords.AttachmentUnread, "the kubelet does not see the VolumeAttachment although volumesAttached lists the volume"},
	{kubeletwords.NotAttached, "volumesAttached lists it, but its VolumeAttachment says that it is not attached"},
	{kubeletwords.StageSecret, "the Secret that the PV names for the driver (nodeStageSecretRef) cannot be read"},
	{kubeletwords.PublishSecret, "the Secret that the PV names for the driver (nodePublishSecretRef) cannot be read"},
	{kubeletwords.ModeNotSupported, "the driver does not take volumes of this kind: its CSIDriver does not list the mode, or is missing"},
	{kubeletwords.NoToken, "the kubelet could not get the token that the driver asks for (tokenRequests of its CSIDriver)"},
	{kubeletwords.OwnershipFailed, "it is mounted, but its files cannot be given to the pod's fsGroup"},
	{kubeletwords.GrowthReadOnly, "the file system must grow, and the volume is mounted read-only"},
	{"already exists", "an earlier call for the volume still runs: look for the first error, not for this one"},
	{"code = aborted", "an earlier call for the volume still runs: look for the first error, not for this one"},
	{kubeletwords.DeadlineExceeded, "the driver did not answer within 2 min: its node plugin hangs, or the storage cannot be reached from the node"},
	{kubeletwords.ContextDeadline, "the driver did not answer within 2 min: its node plugin hangs, or the storage cannot be reached from the node"},
	{"connection refused", "the driver's node plugin does not answer on its socket, although it has registered"},
	{"no such file or directory", "the driver's socket, or the device that it looks for, is not there"},
	{kubeletwords.UsedByOtherPod, "another pod on the node has the volume mounted, which only one pod may"},
	{kubeletwords.LabelMounted, "a pod with another SELinux label has the volume mounted on the node; it must go first"},
	{kubeletwords.NotRegistered, "the kubelet has not begun with the pod, as when the node's network is not ready, and else it passes within seconds; nothing is written once it has"},
	{kubeletwords.CachesEmpty, "the kubelet's caches are not filled yet: it passes within seconds, and nothing is written once it has, unless the kubelet cannot reach the API server"},
	{kubeletwords.KeyMissing, "the object is there but lacks the key that the pod names"},
	{kubeletwords.NotPermitted, "the API server does not see yet that the pod needs the object, or the object does not exist"},
	{"wrong fs type", "the file system is damaged, or not what the volume says"},
	{kubeletwords.PathCheckFailed, "the path on the node is missing or not of the type that the pod names"},
	{kubeletwords.NodeNotAllowed, "the volume may not be used on this node"},
	{"exit status 32", "the mount command of the node failed; its own words say why"},
	{"code = unavailable", "the driver's node plugin does not answer"},
	{"code = notfound", "the driver does not find the volume, or its device on the node"},
	{"code = invalidargument", "the driver does not take what the PV says: its attributes, its file system or its mount options"},
	{"code = permissiondenied", "the storage does not let the driver in: the node's identity, or the driver's Secret"},
	{"code = unauthenticated", "the storage does not let the driver in: the node's identity, or the driver's Secret"},
	{"code = resourceexhausted", "the node, or the storage, has no room for another volume"},
}

// mountMeans says what a failed mount means in the kubelet's release.
func mountMeans(w facts.MountFailure, k facts.KubeletRelease) string {
	switch {
	case facts.ServerUnreached(w.Reason):
		return "the kubelet did not reach the API server, which says nothing of the volume"
	case facts.ContainsAny(w.Reason, kubeletwords.AttachTimeout, kubeletwords.AttacherTimeout):
		if k.Before(attachCheckedOnce) {
			return fmt.Sprintf("volumesAttached lists it and its VolumeAttachment does not say attached; a kubelet of 1.%d waits 10 min for that before it says so", k)
		}
		return "volumesAttached lists it, but its VolumeAttachment does not say attached"
	case strings.Contains(w.Step, kubeletwords.WhileExpanding):
		return "it is mounted only once its file system has grown: " + cmp.Or(meaningOf(w.Reason, mountWordsMean), "the driver fails to expand it on the node")
	default:
		return meaningOf(w.Reason, mountWordsMean)
	}
}

// podErrorsMean are the errors of a volume that the kubelet cannot take up, or
// must not mount yet. It writes them from 1.26 on; see waitWords.
var podErrorsMean = []meaning{
	{kubeletwords.ClaimTerminating, "the claim is being deleted, and nothing protects it any more"},
	{kubeletwords.ClaimUnbound, "the claim is not bound"},
	{kubeletwords.ClaimNamesNone, "the claim names no volume"},
	{kubeletwords.VolumeUnclaimed, "the PV has no claimRef"},
	{kubeletwords.VolumeOfAnother, "the PV is bound to another claim, or to an earlier one of the same name"},
	{kubeletwords.NotPermitted, "the API server does not see yet that the pod needs the object, or the object does not exist"},
	{kubeletwords.ClaimUnread, "the kubelet cannot read the claim"},
	{kubeletwords.VolumeUnread, "the kubelet cannot read the PV"},
	{kubeletwords.ClaimOfAnother, "the claim has the name of the pod's own one and belongs to another"},
	{kubeletwords.BlockMounted, "the volume is a block device, and a container mounts it"},
	{kubeletwords.FilesAsDevice, "the volume has a file system, and a container wants a device"},
	{kubeletwords.NoPlugin, "the kubelet has no plugin for this type of volume: it was removed from Kubernetes, or its driver's directory is missing"},
	{kubeletwords.LabelsInPod, "containers of the pod have different SELinux labels and use the same volume"},
	{kubeletwords.LabelsCollide, "the volume is wanted with two SELinux labels on this node"},
	{kubeletwords.LabelMounted, "a pod with another SELinux label has the volume mounted on the node; it must go first"},
}
