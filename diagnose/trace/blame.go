package trace

import (
	"regexp"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
)

// driverAnswered are parts of what a call to a CSI driver ends with. A failed mount
// without any of them has failed in the kubelet, before or after its calls.
var driverAnswered = []string{"rpc error:", "code = ", "deadline exceeded", "deadlineexceeded"}

var (
	missingKey = regexp.MustCompile(`references non-existent (?:secret|config) key: (\S+)`)
	// From 1.37 on there is a comma where the path is missing, and a colon where it is of another type.
	missingPath = regexp.MustCompile(`hostPath type check failed[:,] (\S+) is not`)
)

// blame says in the stage who has to act after the failed mount, and whether nobody can.
func (t *tracer) blame(s *Stage, f facts.MountFailure, v *tracedVolume) (never bool) {
	kind, name := facts.MissingObject(f.Reason)
	key, path := missingKey.FindStringSubmatch(f.Reason), missingPath.FindStringSubmatch(f.Reason)
	const again = "; the kubelet looks again after at most 2m2s"
	switch {
	case kind != "":
		what := strings.ToLower(kind) + "/" + name
		s.reason, s.On, s.Ends = "Missing"+kind, "whoever is to create "+what, what+" is created"+again
	case key != nil:
		s.On, s.Ends = "whoever is to add the key "+key[1], "the object that the pod names has the key "+key[1]+again
	case path != nil:
		s.On, s.Ends = "whoever is to make "+path[1]+" on "+t.pod.Spec.NodeName, "the path is there, and of the type that the pod names"+again
	case facts.ContainsAny(f.Reason, "readwriteoncepod access mode"):
		s.On, s.Ends = "the pod that uses it", "that pod ends and the volume is unmounted from it"+again
		if other := t.userOnNode(v); other != nil {
			s.On = "pod " + facts.PodName(other)
		}
	case facts.ContainsAny(f.Reason, "(no csidriver object)"):
		s.On, s.Ends = "whoever is to create csidriver/"+v.Driver, "the CSIDriver says that the driver takes such volumes"+again
	case facts.ContainsAny(f.Reason, "not supported by driver"):
		s.On, s.Ends = "nobody", "the pod is made again without the volume: the modes that a CSIDriver lists cannot be changed"
		return true
	case facts.ContainsAny(f.Reason, "for volume attachment", "volume attachment is being deleted", "external-attacher", "attachdetachment timeout"):
		s.On, s.Ends = theController, "the controller has attached it again"+again
	case v.Driver != "" && !facts.ContainsAny(f.Reason, driverAnswered...):
		s.On = kubeletOf(t.pod.Spec.NodeName)
	}
	return false
}
