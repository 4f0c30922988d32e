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
		if err := checkName("metadata.namespace", namespace, validation.IsDNS1123Label); err != nil {
			return err
		}
	}
	switch o := object.(type) {
	case *corev1.Pod:
		return checkName("spec.nodeName", o.Spec.NodeName, validation.IsDNS1123Subdomain)
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
		if err := checkName("spec.nodeName", o.Spec.NodeName, validation.IsDNS1123Subdomain); err != nil {
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
		return func(name string) []string { return apivalidation.NameIsDNSSubdomain(name, false) }
	}
}

// isDriverName: a driver's name may have capitals.
func isDriverName(name string) []string { return validation.IsDNS1123Subdomain(strings.ToLower(name)) }

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
