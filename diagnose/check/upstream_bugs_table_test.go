package check

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
)

// TestUpstreamBugsAreSorted: reconcile.FixedAfter needs the releases in ascending order.
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
