// Package found is what the hunt for a mutant hands back.
package found

import (
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
