package check

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
)

// TestUpstreamBugsAreSorted: reconcile.FixedAfter relies on it.
func TestUpstreamBugsAreSorted(t *testing.T) {
	for _, bug := range upstreamBugs {
		if !slices.IsSortedFunc(bug.fixed, func(a, b string) int {
			order, _ := version.MustParseGeneric(a).Compare(b)
			return order
		}) || len(bug.fixed) == 0 || bug.does == "" {
			t.Errorf("%+v", bug)
		}
	}
}
