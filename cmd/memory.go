package cmd

import (
	"os"
	"runtime/debug"
)

// gcPercent lets the heap grow by a half between two collections, not by as much again:
// nearly all objects of a large cluster stay until the end, so that the rest would only be
// room that a laptop has to have. With a fifth, reading a file takes a quarter more CPU.
const gcPercent = 50

// SaveMemory has the process collect garbage earlier than Go does by itself, unless GOGC
// is set. It reports whether it did.
func SaveMemory() bool {
	if os.Getenv("GOGC") != "" {
		return false
	}
	debug.SetGCPercent(gcPercent)
	return true
}
