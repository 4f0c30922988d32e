// Package house checks the module's own rules: which package imports which, where a fact may
// stand, what the documents say, and what is generated from the code.
package house

import (
	"fmt"
	"os"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/golden"
)

// TestMain runs the tests in the module's root, from which all paths start.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(golden.Main(m))
}

// contents is the text of a file of the module.
func contents(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
