package snapshot

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mustGather is the output of `oc adm inspect`, which `oc adm must-gather` also writes, in one
// folder for each of its images, with a file named timestamp.
//
// It inspects the namespaces of OpenShift's own components, never all namespaces. Leases are the
// exception: it lists them in all namespaces. Kinds without a namespace are complete if the
// inspection finished.
var mustGather = &format{name: "must-gather", singles: true}

var mustGatherPaths = []bundlePath{
	{format: mustGather, path: "timestamp", tell: always(tellTimes)},
	{format: mustGather, path: "cluster-scoped-resources/core/namespaces/NAME.yaml", tell: tellNamespace},
	{format: mustGather, path: "cluster-scoped-resources/config.openshift.io/clusteroperators/" + controllerManager + ".yaml", tell: always(tellVersion)},
	{format: mustGather, path: "cluster-scoped-resources/GROUP/PLURAL.yaml", holds: inGroup},
	{format: mustGather, path: "cluster-scoped-resources/GROUP/PLURAL/NAME.yaml", form: oneEach, holds: inGroup},
	{format: mustGather, path: "namespaces/NAMESPACE/pods/NAME/NAME.yaml", form: besidePod, holds: isOf(Pods)},
	{format: mustGather, path: "namespaces/NAMESPACE/GROUP/PLURAL.yaml", holds: inGroup},
	{format: mustGather, path: "namespaces/NAMESPACE/GROUP/PLURAL/NAME.yaml", form: oneEach, holds: inGroup},
}

// inGroup compares GROUP, which is "core" for the group without a name, and PLURAL.
func inGroup(r *row, words map[string]string) bool {
	return words["GROUP"] == cmp.Or(r.Group(), "core") && words["PLURAL"] == string(r.Kind)
}

// isOf makes the holds of a path that only objects of the kind have.
func isOf(kind Kind) func(*row, map[string]string) bool {
	return func(r *row, _ map[string]string) bool { return r.Kind == kind }
}

func tellNamespace(words map[string]string) func(*root, []byte) {
	return func(r *root, text []byte) {
		var namespace struct{ Metadata namespaceMeta }
		if words["NAME"] == metav1.NamespaceSystem {
			_ = json.Unmarshal(yamlAsJSON(text), &namespace) // a UID that cannot be read tells nothing
		}
		namespace.Metadata.Name = words["NAME"]
		r.noteNamespace(namespace.Metadata)
	}
}

// controllerManager is the cluster operator whose version is the controller's release. The
// clusterversion has OpenShift's own release, which is numbered differently.
const controllerManager = "kube-controller-manager"

func tellVersion(r *root, text []byte) {
	var operator struct {
		Status struct {
			Versions []struct{ Name, Version string }
		}
	}
	if json.Unmarshal(yamlAsJSON(text), &operator) != nil {
		return
	}
	for _, v := range operator.Status.Versions {
		if v.Name == controllerManager && v.Version != "" {
			r.version = "v" + strings.TrimPrefix(plain(v.Version), "v")
		}
	}
}

// tellTimes reads the file to which each inspection adds a line when it begins and one when it ends.
func tellTimes(r *root, text []byte) {
	for line := range bytes.Lines(text) {
		line, _, _ = bytes.Cut(line, []byte(" m=")) // without the reading of Go's monotonic clock
		at, err := time.Parse("2006-01-02 15:04:05.999999999 -0700 MST", string(bytes.TrimSpace(line)))
		if err != nil {
			continue // another file of that name
		}
		if r.stamped++; r.began.IsZero() || at.Before(r.began) {
			r.began = at
		}
	}
}
