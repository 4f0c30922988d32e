package trace

import (
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
)

// driverAnswered says that the failure of a volume ends a call to its CSI driver. Any other
// has come from the kubelet, before or after its calls.
func driverAnswered(reason string) bool {
	return facts.ContainsAny(reason, kubeletwords.CallFailed, kubeletwords.CallCode, kubeletwords.ContextDeadline, kubeletwords.DeadlineExceeded)
}

// blame says in the stage who has to act after the failed mount, and whether nobody can.
func (t *tracer) blame(s *Stage, f facts.MountFailure, v *tracedVolume) (never bool) {
	kind, name := facts.MissingObject(f.Reason)
	key, path := kubeletwords.MissingKey.FindStringSubmatch(f.Reason), kubeletwords.MissingPath.FindStringSubmatch(f.Reason)
	const again = "; the kubelet looks again after at most 2m2s"
	switch {
	case kind != "":
		what := strings.ToLower(kind) + "/" + name
		s.reason, s.On, s.Ends = "Missing"+kind, "whoever is to create "+what, what+" is created"+again
	case key != nil:
		s.On, s.Ends = "whoever is to add the key "+key[1], "the object that the pod names has the key "+key[1]+again
	case path != nil:
		s.On, s.Ends = "whoever is to make "+path[1]+" on "+t.pod.Spec.NodeName, "the path is there, and of the type that the pod names"+again
	case facts.ContainsAny(f.Reason, kubeletwords.UsedByOtherPod):
		s.On, s.Ends = "the pod that uses it", "that pod ends and the volume is unmounted from it"+again
		if other := t.userOnNode(v); other != nil {
			s.On = "pod " + facts.PodName(other)
		}
	case facts.ContainsAny(f.Reason, kubeletwords.NoCSIDriver):
		s.On, s.Ends = "whoever is to create csidriver/"+v.Driver, "the CSIDriver says that the driver takes such volumes"+again
	case facts.ContainsAny(f.Reason, kubeletwords.ModeNotSupported):
		s.On, s.Ends = "nobody", "the pod is made again without the volume: the modes that a CSIDriver lists cannot be changed"
		return true
	case facts.ContainsAny(f.Reason, kubeletwords.OfAttachment, kubeletwords.BeingDetached, kubeletwords.OfAttacher, kubeletwords.AttachTimeout):
		s.On, s.Ends = theController, "the controller has attached it again"+again
	case v.Driver != "" && !driverAnswered(f.Reason):
		s.On = kubeletOf(t.pod.Spec.NodeName)
	}
	return false
}
