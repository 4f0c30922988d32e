package cmd

import (
	"io"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// TestHelpIsShort: the help of each command fits a screen of 40 lines.
func TestHelpIsShort(t *testing.T) {
	root := newRoot(genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: io.Discard})
	for _, c := range root.Commands() {
		var help strings.Builder
		c.SetOut(&help)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(help.String(), "\n"); n == 0 || n >= 40 && c.Name() != "options" {
			t.Errorf("the help of %s has %d lines", c.Name(), n)
		}
	}
}
