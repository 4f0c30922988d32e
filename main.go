// Command kubectl-volume_doctor finds out why Kubernetes volumes do not attach
// or detach, and repairs what can be repaired safely. kubectl runs it as
// "kubectl volume-doctor".
package main

import (
	"os"
	"runtime/debug"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // the cloud providers' ways to log in

	"github.com/volume-doctor/kubectl-volume-doctor/cmd"
)

// gcPercent lets the heap grow by a half between two collections, not by as much again:
// nearly all objects of a large cluster stay until the end, so that the rest would only be
// room that a laptop has to have. With a fifth, reading a file takes a quarter more CPU.
// GOGC overrides it.
const gcPercent = 50

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	os.Exit(cmd.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
