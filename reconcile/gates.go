package reconcile

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/version"
)

// unregisterGates are the feature gates with which kube-controller-manager does not register
// an in-tree plugin and translates its volumes whatever a CSINode says. until is the release
// that dropped the gate. The gate of Ceph RBD is missing: no library that the model is built
// from translates such volumes.
var unregisterGates = []struct{ gate, plugin, until string }{
	{"InTreePluginAWSUnregister", AWSEBSPlugin, "1.31.0"},
	{"InTreePluginAzureDiskUnregister", AzureDiskPlugin, "1.31.0"},
	{"InTreePluginAzureFileUnregister", AzureFilePlugin, "1.31.0"},
	{"InTreePluginGCEUnregister", GCEPDPlugin, "1.31.0"},
	{"InTreePluginOpenStackUnregister", CinderPlugin, "1.31.0"},
	{"InTreePluginPortworxUnregister", PortworxPlugin, "1.36.0"},
	{"InTreePluginvSphereUnregister", VSpherePlugin, "1.31.0"},
}

// FeatureGatesFlag is the flag of kube-controller-manager that sets the feature gates.
const FeatureGatesFlag = "feature-gates"

// rbdGates translate Ceph RBD volumes, or leave their plugin out.
var rbdGates = []string{"CSIMigrationRBD", "InTreePluginRBDUnregister"}

// UnknownGates are the gates that are on and change decisions of the release in a way that
// the model does not know.
func UnknownGates(release string, gates map[string]bool) []string {
	if !BehavioursOf(release).Has(InTreeRBD) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(rbdGates), func(name string) bool { return !gates[name] })
}

// unregistered is the behaviour of a controller that does not register the in-tree plugin. No
// release has it by default while the model asks for it.
func unregistered(plugin string) Behaviour { return Behaviour("Unregistered " + plugin) }

// Gate is a feature gate of kube-controller-manager that changes a decision.
type Gate struct {
	Name string
	// Until is the first release in which the gate has no effect.
	Until string

	behaviour Behaviour
}

// Gates are all feature gates that change a decision of a modelled release, by name.
func Gates() []Gate {
	var all []Gate
	for _, row := range behaviours {
		if row.gate != "" {
			all = append(all, Gate{row.gate, row.gateUntil, row.name})
		}
	}
	for _, g := range unregisterGates {
		all = append(all, Gate{g.gate, g.until, unregistered(g.plugin)})
	}
	slices.SortFunc(all, func(a, b Gate) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// ParseGates reads a value of --feature-gates, as in A=true,kube:B=false. It skips each item
// that is not a gate with a boolean value.
func ParseGates(flag string) map[string]bool {
	gates := map[string]bool{}
	for _, gate := range strings.Split(flag, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(gate), "=")
		if on, err := strconv.ParseBool(value); err == nil {
			gates[strings.TrimPrefix(name, "kube:")] = on
		}
	}
	return gates
}

// Deciding are the gates whose value makes a controller of the release decide otherwise than
// by the release's defaults, sorted.
func Deciding(release string, gates map[string]bool) []Gate {
	v, err := version.ParseGeneric(release)
	if err != nil || len(gates) == 0 {
		return nil
	}
	has := BehavioursOf(release)
	return slices.DeleteFunc(Gates(), func(g Gate) bool {
		on, set := gates[g.Name]
		return !set || !v.LessThan(version.MustParseGeneric(g.Until)) || has.Has(g.behaviour) == on
	})
}

// gated changes the behaviours of a controller of the release to those under these feature
// gates.
func (b Behaviours) gated(release string, gates map[string]bool) {
	for _, g := range Deciding(release, gates) {
		if gates[g.Name] {
			b[g.behaviour] = sets.Empty{}
		} else {
			delete(b, g.behaviour)
		}
	}
}
