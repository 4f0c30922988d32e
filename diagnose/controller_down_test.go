package diagnose_test

import (
	"slices"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testworld"
)

// TestOldLeasesProveNothing: where the lists of a file are from different times, the lease of
// kube-controller-manager is compared with the other leases, and not with the file's time.
func TestOldLeasesProveNothing(t *testing.T) {
	for _, c := range []struct {
		others float64 // minutes ago
		says   bool
	}{{24.5, false}, {0.1, true}} {
		w := testworld.New().Pending(20).Unattached()
		w.Leases = append(w.Leases[:0], testworld.NewLease("kube-system", "kube-controller-manager", testworld.MinutesAgo(99), testworld.MinutesAgo(25)), testworld.NewLease("kube-node-lease", "n1", testworld.MinutesAgo(99), testworld.MinutesAgo(c.others)))
		if says := slices.ContainsFunc(diagnose.Diagnose(w.Snapshot(), diagnose.Options{}).Findings, func(f finding.Finding) bool { return f.Code == "VD622" }); says != c.says {
			t.Errorf("the other leases were renewed %v minutes ago: %v", c.others, says)
		}
	}
}
