package cmd

import (
	"os"
	"runtime/debug"
)

// SaveMemory lets the heap grow by percent between two collections of garbage, instead of by its
// whole size, unless GOGC is set: nearly all objects of a large cluster live until the end, so
// that more room would only cost a laptop memory.
func SaveMemory(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
