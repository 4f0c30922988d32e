package snapshot

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"path"
	"strings"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/yamljson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mustGather is the output of `oc adm inspect`, which `oc adm must-gather` also writes, in one
// folder for each of its images:
//
//	cluster-scoped-resources/GROUP/PLURAL/NAME.yaml
//	namespaces/NAMESPACE/GROUP/PLURAL.yaml
//	namespaces/NAMESPACE/GROUP/PLURAL/NAME.yaml
//	namespaces/NAMESPACE/pods/NAME/NAME.yaml
//	timestamp
//
// It inspects the namespaces of OpenShift's own components, never all namespaces. Leases are the
// exception: it lists them in all namespaces. Kinds without a namespace are complete if the
// inspection finished.
var mustGather = &format{name: "must-gather", singles: true}

func mustGatherFile(segments []string) (bundleFile, bool) {
	for i, s := range segments {
		f := bundleFile{format: mustGather, root: strings.Join(segments[:i], "/")}
		rest := segments[i+1:]
		if len(rest) == 0 || !isYAML(rest[len(rest)-1]) {
			continue
		}
		last := strings.TrimSuffix(rest[len(rest)-1], path.Ext(rest[len(rest)-1]))
		switch {
		case s == "cluster-scoped-resources" && len(rest) == 3 && rest[0] == "core" && rest[1] == "namespaces":
			f.tell = func(r *root, text []byte) {
				var namespace struct{ Metadata namespaceMeta }
				if last == metav1.NamespaceSystem {
					_ = json.Unmarshal(yamlAsJSON(text), &namespace) // a UID that cannot be read tells nothing
				}
				namespace.Metadata.Name = last
				r.noteNamespace(namespace.Metadata)
			}
			return f, true
		case s == "cluster-scoped-resources" && len(rest) == 3 && rest[0] == "config.openshift.io" && rest[1] == "clusteroperators" && last == controllerManager:
			f.tell = tellVersion
			return f, true
		case s == "cluster-scoped-resources" && (len(rest) == 2 || len(rest) == 3):
			f.part.form = oneFile
			plural := last
			if len(rest) == 3 {
				f.part.form, plural = oneEach, rest[1]
			}
			if k := resourceAt(rest[0], plural); k != nil && !k.Namespaced {
				f.part.kind = k.Kind
				return f, true
			}
		case s == "namespaces" && len(rest) == 4 && rest[1] == "pods" && rest[2] == last:
			f.part = partKey{Pods, rest[0], besidePod}
			return f, true
		case s == "namespaces" && (len(rest) == 3 || len(rest) == 4):
			f.part = partKey{namespace: rest[0], form: oneFile}
			plural := last
			if len(rest) == 4 {
				f.part.form, plural = oneEach, rest[2]
			}
			if k := resourceAt(rest[1], plural); k != nil && k.Namespaced {
				f.part.kind = k.Kind
				return f, true
			}
		}
	}
	return bundleFile{}, false
}

func isYAML(name string) bool { return path.Ext(name) == ".yaml" }

// resourceAt returns the resource with that plural in the API group, or nil. The group without a
// name is "core".
func resourceAt(group, plural string) *row {
	for _, s := range resources {
		of, _, named := strings.Cut(s.Version, "/")
		if !named {
			of = "core"
		}
		if of == group && string(s.Kind) == plural {
			return s
		}
	}
	return nil
}

// controllerManager is the cluster operator whose version is the controller's release. The
// clusterversion has OpenShift's own release, which is numbered differently.
const controllerManager = "kube-controller-manager"

func tellVersion(r *root, text []byte) {
	value, err := yamljson.Parse(text)
	if err != nil {
		return
	}
	raw, err := yamljson.JSON(value, maxTold)
	if err != nil {
		return
	}
	var operator struct {
		Status struct {
			Versions []struct{ Name, Version string }
		}
	}
	if json.Unmarshal(raw, &operator) != nil {
		return
	}
	for _, v := range operator.Status.Versions {
		if v.Name == controllerManager && v.Version != "" {
			r.version = "v" + strings.TrimPrefix(plain(v.Version), "v")
		}
	}
}

// stampName is the file to which each inspection adds one line when it begins and one when it ends.
const stampName = "timestamp"

type stamp struct {
	began time.Time
	lines int
}

func (t *tree) stamp(p string, in io.Reader) error {
	lines := bufio.NewScanner(io.LimitReader(in, maxTold))
	var s stamp
	for lines.Scan() {
		text, _, _ := bytes.Cut(lines.Bytes(), []byte(" m=")) // without the reading of Go's monotonic clock
		at, err := time.Parse("2006-01-02 15:04:05.999999999 -0700 MST", string(bytes.TrimSpace(text)))
		if err != nil {
			continue // another file of that name
		}
		if s.lines++; s.began.IsZero() || at.Before(s.began) {
			s.began = at
		}
	}
	if s.lines > 0 {
		t.stamps[strings.TrimSuffix(strings.TrimSuffix(p, stampName), "/")] = s
	}
	return nil
}
