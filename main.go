// Command kubectl-volume_doctor finds out why Kubernetes volumes do not attach
// or detach, and repairs what can be repaired safely. kubectl runs it as
// "kubectl volume-doctor".
package main

import (
	"os"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // the cloud providers' ways to log in

	"github.com/volume-doctor/kubectl-volume-doctor/cmd"
)

func main() {
	cmd.SaveMemory(50)
	os.Exit(cmd.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
