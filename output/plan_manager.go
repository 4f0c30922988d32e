package output

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// PlanManager is what the running kube-controller-manager returned when it was asked.
type PlanManager struct {
	Pod     string            `json:"pod,omitempty"`
	Release string            `json:"release,omitempty"`
	Flags   map[string]string `json:"flags,omitempty"`
	// Held has one row for each CSI driver whose volumes the controller counts.
	Held []PlanHeld `json:"held,omitempty"`
	// Gap says what could not be asked, and why.
	Gap string `json:"gap,omitempty"`
}

// PlanHeld compares the running controller's numbers with the plan's own. Actual or Desired is
// absent if the controller did not report it, or if it changed meanwhile.
type PlanHeld struct {
	Driver string `json:"driver"`
	// Actual is the number of pairs of volume and node that the controller believes attached.
	// RebuiltActual is the same number in the plan; it leaves out pairs without a spec, because the
	// controller does not count those either.
	Actual        *int `json:"actual,omitempty"`
	RebuiltActual int  `json:"rebuiltActual"`
	// Desired is the number of pairs that the controller wants attached. RebuiltDesired is the same
	// number in the plan.
	Desired        *int `json:"desired,omitempty"`
	RebuiltDesired int  `json:"rebuiltDesired"`
	// Unknown are the VolumeAttachments that the controller certainly does not know.
	Unknown []string `json:"unknown,omitempty"`
}

// planManager compares the running controller's counts with those rebuilt from the whole cluster,
// even if only a few nodes are shown.
func planManager(s *snapshot.Snapshot, w *reconcile.World, plan *reconcile.Plan) *PlanManager {
	m := s.Manager
	if m == nil {
		return nil
	}
	p := &PlanManager{Pod: m.Pod, Release: m.Release, Flags: m.Flags, Gap: m.Gap}
	rows := map[string]*PlanHeld{}
	row := func(driver string) *PlanHeld {
		if rows[driver] == nil {
			rows[driver] = &PlanHeld{Driver: driver}
		}
		return rows[driver]
	}
	for _, attached := range w.Actual.Items() {
		if driver, _, ok := reconcile.ParseCSI(attached.Volume); ok && attached.Spec != nil {
			row(driver).RebuiltActual++
		}
	}
	for _, wanted := range w.Desired.Items() {
		if driver, _, ok := reconcile.ParseCSI(wanted.Volume); ok {
			row(driver).RebuiltDesired++
		}
	}
	for _, h := range m.Held {
		if driver, ok := reconcile.DriverOfPlugin(h.Plugin); ok {
			row(driver).Actual, row(driver).Desired = h.Actual, h.Desired
		}
	}
	for _, va := range facts.NewView(s, w, plan).Unheard() {
		if driver, _, ok := reconcile.ParseCSI(va.Volume); ok {
			row(driver).Unknown = append(row(driver).Unknown, va.Name)
		}
	}
	if m.Last == nil {
		return p // the controller returned no counts to compare
	}
	for _, driver := range slices.Sorted(maps.Keys(rows)) {
		p.Held = append(p.Held, *rows[driver])
	}
	return p
}

// text names the drivers for which the running controller's count of attached volumes differs from
// the plan's.
func (m *PlanManager) text() string {
	if m == nil {
		return ""
	}
	var b strings.Builder
	for _, h := range m.Held {
		if h.Actual == nil || *h.Actual == h.RebuiltActual {
			continue
		}
		fmt.Fprintf(&b, "\n%s holds %d volumes of %s for attached, and the plan rebuilds %d", Safe(m.Pod), *h.Actual, Safe(h.Driver), h.RebuiltActual)
		if len(h.Unknown) > 0 {
			fmt.Fprintf(&b, "; it does not know %s", Safe(strings.Join(h.Unknown, ", ")))
		}
		b.WriteString(".\n")
	}
	return b.String()
}
