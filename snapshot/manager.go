package snapshot

import (
	"bufio"
	"cmp"
	"slices"
	"time"
)

// ControllerManager is what the kube-controller-manager that leads says about itself
// when it is asked: its pod, and its metrics.
type ControllerManager struct {
	// Pod is the name of its pod in kube-system, "" where none was found.
	Pod string `json:"pod,omitempty"`
	// Identity is the name under which it holds its lease.
	Identity string `json:"identity,omitempty"`
	// Release is its own, "" where nothing tells it.
	Release string `json:"release,omitempty"`
	// Flags are the settings of Settings that its command line has, by name.
	Flags map[string]string `json:"flags,omitempty"`
	// First and Last are when its metrics were read the first and the last time, by
	// the API server's clock. The objects were read in between. nil without metrics.
	First *time.Time `json:"first,omitempty"`
	Last  *time.Time `json:"last,omitempty"`
	// Held is sorted by plugin.
	Held []Held `json:"held,omitempty"`
	// Gap is what could not be asked, and why; "" where nothing is missing.
	Gap string `json:"gap,omitempty"`
}

// Held is how many volumes on nodes the controller's worlds have of one plugin. A
// number is nil where no metric gives it, and where it changed between the readings.
type Held struct {
	// Plugin is as in a metric: kubernetes.io/csi:DRIVER.
	Plugin  string `json:"plugin"`
	Actual  *int   `json:"actual,omitempty"`
	Desired *int   `json:"desired,omitempty"`
}

// Settings are the flags of kube-controller-manager that are kept: those that change
// a decision, or when it is made.
var Settings = []string{"disable-force-detach-on-timeout", "attach-detach-reconcile-sync-period", "disable-attach-detach-reconcile-sync", "flex-volume-plugin-dir", "feature-gates"}

// managerKind is the kind of the document that holds a ControllerManager in a file.
const managerKind = "ControllerManager"

type managerDocument struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	ControllerManager
}

func writeManager(out *bufio.Writer, m *ControllerManager) error {
	if m == nil {
		return nil
	}
	return writeOwn(out, managerDocument{headerVersion, managerKind, *m})
}

func isManager(t typeName) bool { return t == typeName{headerVersion, managerKind} }

func (c *collector) readManager(at place, raw []byte) error {
	var d managerDocument
	if err := c.readOwn(at, managerKind, raw, &d); err != nil {
		return err
	}
	return c.addManager(at, &d.ControllerManager)
}

func (c *collector) addManager(at place, m *ControllerManager) error {
	slices.SortFunc(m.Held, func(a, b Held) int { return cmp.Compare(a.Plugin, b.Plugin) })
	if (m.First == nil) != (m.Last == nil) || len(m.Held) > 0 && m.Last == nil || slices.ContainsFunc(m.Held, Held.isBroken) {
		return at.errorf("%s: a time is missing, or a number is below zero", managerKind)
	}
	if c.manager != nil {
		return at.errorf("a second %s", managerKind)
	}
	c.manager = m
	return nil
}

func (h Held) isBroken() bool {
	return h.Actual != nil && *h.Actual < 0 || h.Desired != nil && *h.Desired < 0
}
