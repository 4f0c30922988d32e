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

// PlanManager is what the running kube-controller-manager told when it was asked.
type PlanManager struct {
	Pod     string            `json:"pod,omitempty"`
	Release string            `json:"release,omitempty"`
	Flags   map[string]string `json:"flags,omitempty"`
	// Held has a row for each CSI driver whose volumes it counts.
	Held []PlanHeld `json:"held,omitempty"`
	// Gap is what could not be asked, and why.
	Gap string `json:"gap,omitempty"`
}

// PlanHeld compares the numbers of the running controller with the plan's own. One of
// its numbers is absent where it does not tell, or it changed meanwhile.
type PlanHeld struct {
	Driver string `json:"driver"`
	// Actual is of volumes on nodes that it holds for attached; RebuiltActual of those in actual
	// that have a spec, without which it does not count them.
	Actual        *int `json:"actual,omitempty"`
	RebuiltActual int  `json:"rebuiltActual"`
	// Desired is of volumes on nodes that it wants attached; RebuiltDesired of those in desired.
	Desired        *int `json:"desired,omitempty"`
	RebuiltDesired int  `json:"rebuiltDesired"`
	// Unknown are the VolumeAttachments that it certainly does not know.
	Unknown []string `json:"unknown,omitempty"`
}

// planManager compares what the running controller holds with what is rebuilt of the
// whole cluster, however few nodes are shown.
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
		return p // nothing was counted that could be compared
	}
	for _, driver := range slices.Sorted(maps.Keys(rows)) {
		p.Held = append(p.Held, *rows[driver])
	}
	return p
}

// text names the drivers for which the running controller holds other volumes than were
// rebuilt.
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
