package snapshot

import (
	"bufio"
	"cmp"
	"slices"
	"time"
)

// ControllerManager is what the leading kube-controller-manager reports when it is asked: its pod
// and its metrics.
type ControllerManager struct {
	// Pod is the name of its pod in kube-system; "" if none was found.
	Pod string `json:"pod,omitempty"`
	// Identity is the name under which it holds its lease.
	Identity string `json:"identity,omitempty"`
	// Release is its own release; "" if it is not known.
	Release string `json:"release,omitempty"`
	// Flags are the flags of Settings on its command line, by name.
	Flags map[string]string `json:"flags,omitempty"`
	// First and Last are the times of the first and the last reading of its metrics, by the API
	// server's clock. The objects were read in between. They are nil without metrics.
	First *time.Time `json:"first,omitempty"`
	Last  *time.Time `json:"last,omitempty"`
	// Held is sorted by plugin.
	Held []Held `json:"held,omitempty"`
	// Gap says what could not be asked, and why; "" if nothing is missing.
	Gap string `json:"gap,omitempty"`
}

// Held counts the pairs of volume and node in the controller's two worlds for one plugin. A number
// is nil if no metric gives it, or if it changed between the readings.
type Held struct {
	// Plugin is the plugin's name in the metrics, such as kubernetes.io/csi:DRIVER.
	Plugin  string `json:"plugin"`
	Actual  *int   `json:"actual,omitempty"`
	Desired *int   `json:"desired,omitempty"`
}

// Settings are the flags of kube-controller-manager that are kept because they change a decision or
// its time.
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
