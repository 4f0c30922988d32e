// Package found is what the hunt for a mutant hands back.
package found

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/conformance"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// Result is how a hunt ended.
type Result struct {
	// Rows that were compared.
	Rows int
	// Difference is nil where none was found.
	Difference *Difference
}

// Difference is the first row in which the model and a controller differ.
type Difference struct {
	Release           string
	Seed              uint64
	Row               string
	Model, Controller string
}

// Story is what a controller did in a history.
type Story struct {
	// Name is the random history's seed, or the file of one that is kept.
	Name    string
	Release conformance.Release
	// Ahead are what the controller does and its release does not.
	Ahead   []reconcile.Behaviour
	Request *wire.Request
	Story   *wire.Story
}

// Main is a program that compares what is in the file of its only argument with the model
// that it was built with, and prints the result as JSON.
func Main(compare func(file string) (Result, error)) {
	if len(os.Args) != 2 {
		fmt.Fprintf(os.Stderr, "usage: %s FILE\n", os.Args[0])
		os.Exit(2)
	}
	result, err := compare(os.Args[1])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(result)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
