// Package long marks the tests that take seconds. Only tests import it.
package long

import "testing"

// Test leaves the test to "make whole" where -short is set, as "make unit" does.
func Test(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds: make whole runs it")
	}
}
