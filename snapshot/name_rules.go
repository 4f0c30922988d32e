package snapshot

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// wrongName is a name in an object that no API server takes, and the field that has it; zero if
// there is none. Names stand in commands and tell objects apart. Free text, which an API server
// takes as it is, is left alone: handles, UIDs, annotations and the names that a pod or a claim
// refers to.
type wrongName struct{ field, name, reason string }

// checkNames looks at all names of the object, and returns the first that is wrong.
func checkNames(object metav1.Object) wrongName {
	type checked struct {
		field, name string
		rule        func(string) []string
	}
	names := append(make([]checked, 0, 4), // no garbage for most objects
		checked{"metadata.name", object.GetName(), ruleOf(object)}, checked{"metadata.namespace", object.GetNamespace(), isLabel})
	switch o := object.(type) {
	case *corev1.Pod:
		names = append(names, checked{"spec.nodeName", o.Spec.NodeName, isSubdomain})
	case *corev1.PersistentVolume:
		if o.Spec.CSI != nil {
			names = append(names, checked{"spec.csi.driver", o.Spec.CSI.Driver, isDriver})
		}
	case *storagev1.CSINode:
		for _, d := range o.Spec.Drivers {
			names = append(names, checked{"spec.drivers[].name", d.Name, isDriver})
		}
	case *storagev1.VolumeAttachment:
		names = append(names, checked{"spec.nodeName", o.Spec.NodeName, isSubdomain}, checked{"spec.attacher", o.Spec.Attacher, isDriver})
	}
	for _, c := range names {
		if c.name == "" {
			continue // see missingNode
		}
		if wrong := c.rule(c.name); len(wrong) > 0 {
			reason, _, _ := strings.Cut(wrong[0], ", and must")
			reason, _, _ = strings.Cut(reason, " (e.g.")
			return wrongName{c.field, c.name, reason}
		}
	}
	return wrongName{}
}

// missingNode returns the field of an object that must name a node or a driver and is empty; "" if there is none.
// The API server requires both fields of a VolumeAttachment, and binds a pod and sets PodScheduled in one write.
// A pod that ended without a node is valid, and one without containers and volumes is a small example.
func missingNode(object metav1.Object) string {
	switch o := object.(type) {
	case *storagev1.VolumeAttachment:
		switch "" {
		case o.Spec.NodeName:
			return "spec.nodeName"
		case o.Spec.Attacher:
			return "spec.attacher"
		}
	case *corev1.Pod:
		isBound := func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue
		}
		if o.Spec.NodeName == "" && len(o.Spec.Containers)+len(o.Spec.Volumes) > 0 && (o.Status.Phase == corev1.PodRunning || slices.ContainsFunc(o.Status.Conditions, isBound)) {
			return "spec.nodeName"
		}
	}
	return ""
}

// ruleOf follows the API server's validation of each kind.
func ruleOf(object metav1.Object) func(string) []string {
	switch object.(type) {
	case *corev1.Event: // only its place in a URL is checked
		return content.IsPathSegmentName
	case *storagev1.CSIDriver:
		return isDriver
	default:
		return isSubdomain
	}
}

// isDriver: a driver's name may have capitals.
func isDriver(name string) []string { return isSubdomain(strings.ToLower(name)) }

func isLabel(name string) []string {
	if isUsualName(name) && !strings.Contains(name, ".") {
		return nil
	}
	return validation.IsDNS1123Label(name)
}

func isSubdomain(name string) []string {
	if isUsualName(name) {
		return nil
	}
	return apivalidation.NameIsDNSSubdomain(name, false)
}

// isUsualName is true of a subdomain for sure. The library asks a regular expression, which
// takes a tenth of the time that an object takes otherwise.
func isUsualName(name string) bool {
	alphanumeric := func(i int) bool {
		return i >= 0 && i < len(name) && (name[i] >= 'a' && name[i] <= 'z' || name[i] >= '0' && name[i] <= '9')
	}
	for i := range len(name) {
		switch {
		case alphanumeric(i):
		case name[i] == '-' && i > 0 && i < len(name)-1:
		case name[i] == '.' && alphanumeric(i-1) && alphanumeric(i+1):
		default:
			return false
		}
	}
	return name != "" && len(name) <= validation.DNS1123LabelMaxLength
}
