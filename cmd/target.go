package cmd

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// target is one KIND/NAME argument.
type target struct {
	kind snapshot.Kind
	name types.NamespacedName
}

// kindNames are the ways in which kubectl names the kinds.
var kindNames = map[string]snapshot.Kind{
	"pod": snapshot.Pods, "pods": snapshot.Pods, "po": snapshot.Pods,
	"pvc": snapshot.Claims, "persistentvolumeclaim": snapshot.Claims, "persistentvolumeclaims": snapshot.Claims,
	"pv": snapshot.Volumes, "persistentvolume": snapshot.Volumes, "persistentvolumes": snapshot.Volumes,
	"node": snapshot.Nodes, "nodes": snapshot.Nodes, "no": snapshot.Nodes,
	"va": snapshot.VolumeAttachments, "volumeattachment": snapshot.VolumeAttachments, "volumeattachments": snapshot.VolumeAttachments,
}

func parseTarget(arg, namespace string) (target, error) {
	kind, name, ok := strings.Cut(arg, "/")
	if !ok || name == "" || strings.Contains(name, "/") {
		return target{}, fmt.Errorf("%q is not KIND/NAME, as in pod/web-0", arg)
	}
	k, ok := kindNames[strings.ToLower(kind)]
	if !ok {
		return target{}, fmt.Errorf("%q is not a kind that can be examined: use pod, pvc, pv, node or volumeattachment", kind)
	}
	t := target{kind: k, name: types.NamespacedName{Name: name}}
	if k == snapshot.Pods || k == snapshot.Claims {
		t.name.Namespace = namespace
	}
	return t, nil
}

// parseTargets reads the arguments; only the given kinds are taken, or any
// where there are none.
func parseTargets(args []string, namespace string, only ...snapshot.Kind) ([]target, error) {
	var targets []target
	for _, arg := range args {
		t, err := parseTarget(arg, namespace)
		if err != nil {
			return nil, err
		}
		if len(only) > 0 && !slices.Contains(only, t.kind) {
			return nil, fmt.Errorf("%q: this command takes %s only", arg, only[0])
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// mustExist refuses a name that is not there: to find nothing wrong with it
// would be a lie.
func (t target) mustExist(s *snapshot.Snapshot) error {
	var exists bool
	switch t.kind {
	case snapshot.Pods:
		exists = s.Pod(t.name) != nil
	case snapshot.Claims:
		exists = s.Claim(t.name) != nil
	case snapshot.Volumes:
		exists = s.Volume(t.name.Name) != nil
	case snapshot.Nodes:
		exists = s.Node(types.NodeName(t.name.Name)) != nil || s.CSINode(types.NodeName(t.name.Name)) != nil
	case snapshot.VolumeAttachments:
		exists = s.VolumeAttachment(t.name.Name) != nil
	default: // parseTarget takes no other kind
	}
	switch {
	case exists:
		return nil
	case !s.Complete(t.kind):
		return fmt.Errorf("%s was not found, and not all %s could be read", t, t.kind)
	default:
		return fmt.Errorf("%s does not exist", t)
	}
}

// asks says whether one of the targets is about the pod, or about its node.
func asks(targets []target) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(targets, func(t target) bool {
			return t.kind == snapshot.Pods && t.name == types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name} ||
				t.kind == snapshot.Nodes && t.name.Name == pod.Spec.NodeName
		})
	}
}

func (t target) String() string {
	name := strings.TrimSuffix(string(t.kind), "s") + " " + t.name.Name
	if t.name.Namespace != "" {
		name += " in namespace " + t.name.Namespace
	}
	return name
}

// concerns says whether the finding is about the target.
func (t target) concerns(f diagnose.Finding, s *snapshot.Snapshot) bool {
	switch t.kind {
	case snapshot.Pods:
		return slices.Contains(f.Pods, t.name.String()) || isSubject(f, "Pod", t.name)
	case snapshot.Nodes:
		return string(f.Node) == t.name.Name || isSubject(f, "Node", t.name)
	case snapshot.Volumes:
		return f.PersistentVolume == t.name.Name || isSubject(f, "PersistentVolume", t.name)
	case snapshot.VolumeAttachments:
		return f.VolumeAttachment == t.name.Name || isSubject(f, "VolumeAttachment", t.name)
	case snapshot.Claims:
		if isSubject(f, "PersistentVolumeClaim", t.name) {
			return true
		}
		claim := s.Claim(t.name)
		return claim != nil && claim.Spec.VolumeName != "" && f.PersistentVolume == claim.Spec.VolumeName
	default:
		return false
	}
}

func isSubject(f diagnose.Finding, kind string, name types.NamespacedName) bool {
	return f.Subject.Kind == kind && f.Subject.Name == name.Name && f.Subject.Namespace == name.Namespace
}

// inNamespace says whether the finding touches the namespace: by its subject,
// by a pod, or by the claim that its volume is bound to.
func inNamespace(f diagnose.Finding, namespace string, s *snapshot.Snapshot) bool {
	if f.Subject.Namespace == namespace {
		return true
	}
	for _, pod := range f.Pods {
		if strings.HasPrefix(pod, namespace+"/") {
			return true
		}
	}
	pv := s.Volume(f.PersistentVolume)
	return pv != nil && pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.Namespace == namespace
}

// narrow keeps the findings that were asked for. What was read as evidence
// stays the whole cluster.
func narrow(r *diagnose.Report, s *snapshot.Snapshot, targets []target, namespace string) {
	r.Keep(func(f diagnose.Finding) bool {
		if namespace != "" && len(targets) == 0 && !inNamespace(f, namespace, s) {
			return false
		}
		return len(targets) == 0 || slices.ContainsFunc(targets, func(t target) bool { return t.concerns(f, s) })
	})
}

// nodesOf are the nodes among the targets.
func nodesOf(targets []target) []types.NodeName {
	var nodes []types.NodeName
	for _, t := range targets {
		nodes = append(nodes, types.NodeName(t.name.Name))
	}
	return nodes
}
