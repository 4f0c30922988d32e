package snapshot

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
)

// checkNames refuses an object with a name that no API server takes: names stand
// in commands and tell objects apart. Free text, which an API server takes as it
// is, is left alone: handles, UIDs, annotations and the names that a pod or a
// claim refers to.
func checkNames(object apiObject) error {
	if err := checkName("metadata.name", object.GetName(), ruleOfName(object)); err != nil {
		return err
	}
	if namespace := object.GetNamespace(); namespace != "" {
		if err := checkName("metadata.namespace", namespace, isLabel); err != nil {
			return err
		}
	}
	switch o := object.(type) {
	case *corev1.Pod:
		return checkName("spec.nodeName", o.Spec.NodeName, isSubdomain)
	case *corev1.PersistentVolume:
		if o.Spec.CSI != nil {
			return checkName("spec.csi.driver", o.Spec.CSI.Driver, isDriverName)
		}
	case *storagev1.CSINode:
		for _, d := range o.Spec.Drivers {
			if err := checkName("spec.drivers[].name", d.Name, isDriverName); err != nil {
				return err
			}
		}
	case *storagev1.VolumeAttachment:
		if err := checkName("spec.nodeName", o.Spec.NodeName, isSubdomain); err != nil {
			return err
		}
		return checkName("spec.attacher", o.Spec.Attacher, isDriverName)
	}
	return nil
}

// ruleOfName follows the API server's validation of each kind.
func ruleOfName(object apiObject) func(string) []string {
	switch object.(type) {
	case *corev1.Event: // only its place in a URL is checked
		return content.IsPathSegmentName
	case *storagev1.CSIDriver:
		return isDriverName
	default:
		return isSubdomain
	}
}

// isDriverName: a driver's name may have capitals.
func isDriverName(name string) []string { return isSubdomain(strings.ToLower(name)) }

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

func checkName(field, name string, rule func(string) []string) error {
	if name == "" {
		return nil // that a name must be there is another rule
	}
	if wrong := rule(name); len(wrong) > 0 {
		reason, _, _ := strings.Cut(wrong[0], ", and must")
		reason, _, _ = strings.Cut(reason, " (e.g.")
		return fmt.Errorf("%s %q is a name that no API server accepts: %s", field, plain(name), reason)
	}
	return nil
}
