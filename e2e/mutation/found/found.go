// Package found is what the hunt for a mutant hands back.
package found

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
