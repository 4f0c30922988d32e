package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spf13/cobra"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// target is the subject of the command: one object, or a group of pods.
type target struct {
	kind snapshot.Kind // "" for a group of pods
	name types.NamespacedName
	// group reports whether a pod belongs to the group; nil for one object.
	group func(*corev1.Pod) bool
	// title is the title of the group.
	title string
}

// kindNames are kubectl's names of the kinds.
var kindNames = snapshot.TargetNames()

func parseTarget(arg, namespace string, only ...snapshot.Kind) (target, error) {
	kind, name, ok := strings.Cut(arg, "/")
	if !ok || name == "" || strings.Contains(name, "/") {
		return target{}, fmt.Errorf("%q is not KIND/NAME, as in pod/web-0", arg)
	}
	k, ok := kindNames[strings.ToLower(kind)]
	if len(only) > 0 && !slices.Contains(only, k) {
		return target{}, fmt.Errorf("%q: this command takes %s only", arg, strings.Join(each(only, func(kind snapshot.Kind) string { return string(kind) }), ", "))
	}
	if owner, ok := ownerNames[strings.ToLower(kind)]; ok {
		return podsOf(owner, types.NamespacedName{Namespace: namespace, Name: name}), nil
	}
	if !ok {
		return target{}, fmt.Errorf("%q is not a kind that can be examined: use pod, pvc, pv, node, volumeattachment or what makes pods, such as deployment", kind)
	}
	t := target{kind: k, name: types.NamespacedName{Name: name}}
	if snapshot.ResourceOf(k).Namespaced {
		t.name.Namespace = namespace
	}
	return t, nil
}

// parseTargets reads the arguments as kubectl does: KIND/NAME, or KIND and then the names.
// Only the given kinds are accepted, or any where none are given; a name alone is of the
// first of them.
func parseTargets(args []string, namespace string, only ...snapshot.Kind) ([]target, error) {
	var targets []target
	for _, arg := range withKinds(args, only) {
		t, err := parseTarget(arg, namespace, only...)
		if err != nil {
			return nil, err
		}
		targets = append(targets, t)
	}
	return targets, nil
}

func isKind(word string) bool {
	word = strings.ToLower(word)
	return kindNames[word] != "" || ownerNames[word] != ""
}

// withKinds are the arguments, each as KIND/NAME.
func withKinds(args []string, only []snapshot.Kind) []string {
	if slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, "/") }) {
		return args
	}
	kind := ""
	if len(args) > 1 && isKind(args[0]) {
		kind, args = args[0], args[1:]
	}
	if kind == "" && len(only) > 0 {
		kind = string(only[0])
	}
	if kind == "" {
		return args
	}
	return each(args, func(name string) string { return kind + "/" + name })
}

// exactlyOne takes the name of one object of the kind.
func exactlyOne(kind snapshot.Kind) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch names := withKinds(args, []snapshot.Kind{kind}); {
		case len(names) == 0:
			return fmt.Errorf("this command is about one of the %s: give its name", kind)
		case len(names) > 1:
			return fmt.Errorf("this command is about one of the %s at a time: %q is one too many", kind, names[1])
		default:
			return nil
		}
	}
}

// atLeastOne takes names of objects.
func atLeastOne(of string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 || len(args) == 1 && isKind(args[0]) {
			return fmt.Errorf("this command is about %s: give a name", of)
		}
		return nil
	}
}

// mustExist fails for targets that do not exist: to find nothing wrong with them would be a
// lie.
func mustExist(targets []target, s *snapshot.Snapshot) error {
	for _, t := range targets {
		if err := t.mustExist(s); err != nil {
			return err
		}
	}
	return nil
}

// mustBeKnown is mustExist, but accepts a node that is gone and has left VolumeAttachments
// behind: there are findings about it, with commands that name it.
func mustBeKnown(targets []target, s *snapshot.Snapshot) error {
	return mustExist(slices.DeleteFunc(slices.Clone(targets), func(t target) bool {
		return t.kind == snapshot.Nodes && nodeKnown(s, t.name.Name)
	}), s)
}

// mustExist fails for a target that does not exist: to find nothing wrong with it would be a
// lie.
func (t target) mustExist(s *snapshot.Snapshot) error {
	var exists bool
	kind := cmp.Or(t.kind, snapshot.Pods)
	switch t.kind {
	case "":
		exists = slices.ContainsFunc(s.Pods, t.group)
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
	default: // parseTarget accepts no other kind
	}
	switch {
	case exists:
		return nil
	case !s.Complete(kind):
		text := fmt.Sprintf("%s was not found, and not all %s could be read", t, kind)
		of := slices.DeleteFunc(slices.Clone(s.Gaps), func(g snapshot.Gap) bool { return g.Kind != kind })
		if rights := output.RightsToAsk(of, s.Source.Path != ""); rights != "" {
			text += ": " + rights
		}
		return errors.New(text)
	case t.group != nil:
		return fmt.Errorf("there is no pod of %s", t)
	default:
		return fmt.Errorf("%s does not exist", t)
	}
}

// nodeKnown reports whether the cluster has the node, or a VolumeAttachment that the node
// left behind.
func nodeKnown(s *snapshot.Snapshot, name string) bool {
	return s.Node(types.NodeName(name)) != nil ||
		slices.ContainsFunc(s.VolumeAttachments, func(va *storagev1.VolumeAttachment) bool { return va.Spec.NodeName == name })
}

// asks reports whether one of the targets is the pod, or its node.
func asks(targets []target) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(targets, func(t target) bool {
			return t.group != nil && t.group(pod) || t.kind == snapshot.Pods && t.name == types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name} ||
				t.kind == snapshot.Nodes && t.name.Name == pod.Spec.NodeName
		})
	}
}

func (t target) String() string {
	if t.title != "" {
		return t.title
	}
	name := strings.TrimSuffix(string(t.kind), "s") + " " + t.name.Name
	if t.name.Namespace != "" {
		name += " in namespace " + t.name.Namespace
	}
	return name
}
