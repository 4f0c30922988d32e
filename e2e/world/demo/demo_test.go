// Package demo has the demo of "make demo". It is a test, since virtual time needs one.
package demo

import (
	"flag"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/history"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
)

var (
	show  = flag.Bool("show", false, "print the demo")
	color = flag.Bool("color", false, "in colour")
)

// TestDemo plays the demo: a failure appears, becomes certain and heals, in this order.
func TestDemo(t *testing.T) {
	var said strings.Builder
	out := io.Writer(&said)
	if *show {
		out = io.MultiWriter(&said, os.Stdout)
	}
	if err := history.Demo(t, out, output.Options{Color: *color}); err != nil {
		t.Fatal(err)
	}
	rest := said.String()
	for _, next := range []string{"drains the node", "APPEARED", "VD103", "CHANGED", "works again", "HEALED", "all pods run"} {
		_, after, found := strings.Cut(rest, next)
		if !found {
			t.Fatalf("%q does not follow:\n%s", next, said.String())
		}
		rest = after
	}
	if changed := strings.Count(said.String(), "CHANGED"); changed > 3 {
		t.Errorf("%d lines say that something has changed, and only the time has:\n%s", changed, said.String())
	}
	if *show {
		os.Exit(0) // "PASS" is no part of it
	}
}
