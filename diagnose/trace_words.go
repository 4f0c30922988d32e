package diagnose

import (
	"regexp"
	"strings"
)

var missingPattern = regexp.MustCompile(`(?i)\b(secret|configmap) "([^"]+)" not found`)

// missingObject is the ConfigMap or Secret that a mount wants and that is not
// there: the verdict's reason, and the object as kubectl takes it.
func missingObject(reason string) (verdict, object string) {
	m := missingPattern.FindStringSubmatch(reason)
	switch {
	case m == nil:
		return "", ""
	case strings.EqualFold(m[1], "secret"):
		return "MissingSecret", "secret/" + m[2]
	default:
		return "MissingConfigMap", "configmap/" + m[2]
	}
}

// mountWordsMean are parts of what a failed mount says, and what they mean.
var mountWordsMean = []struct{ text, means string }{
	{"volume attachment is being deleted", "the controller is detaching it: the mount waits until it has been attached anew"},
	{"get error for volume attachment", "the kubelet does not see the VolumeAttachment although volumesAttached lists the volume"},
	{"is not attached for volume attachment", "volumesAttached lists it, but its VolumeAttachment says that it is not attached"},
	{"already exists", "an earlier call for the volume still runs: look for the first error, not for this one"},
	{"deadlineexceeded", "the driver did not answer within 2 min: its node plugin hangs, or the storage cannot be reached from the node"},
	{"deadline exceeded", "the driver did not answer within 2 min: its node plugin hangs, or the storage cannot be reached from the node"},
	{"connection refused", "the driver's node plugin does not answer on its socket, although it has registered"},
	{"no such file or directory", "the driver's socket, or the device that it looks for, is not there"},
	{"readwriteoncepod access mode", "another pod on the node has the volume mounted, which only one pod may"},
	{"different selinux label", "a pod with another SELinux label has the volume mounted on the node; it must go first"},
	{"not registered", "the kubelet's caches are not filled yet: it passes within seconds"},
	{"failed to sync", "the kubelet's caches are not filled yet: it passes within seconds, unless the kubelet cannot reach the API server"},
	{"references non-existent", "the object is there but lacks the key that the pod names"},
	{"no relationship found between node", "the API server does not see yet that the pod needs the object, or the object does not exist"},
	{"wrong fs type", "the file system is damaged, or not what the volume says"},
	{"hostpath type check failed", "the path on the node is missing or not of the type that the pod names"},
	{"no matching nodeselectorterms", "the volume may not be used on this node"},
}

func mountMeans(reason string) string {
	for _, w := range mountWordsMean {
		if containsAny(reason, w.text) {
			return w.means
		}
	}
	return ""
}
