// Package long marks the tests that take seconds. Only tests import it.
package long

import "testing"

// Test skips the test where -short is set, as the gate sets it: "make prove PART=whole" runs
// it.
func Test(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds: make prove PART=whole runs it")
	}
}
