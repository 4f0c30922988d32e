// Command kubectl-volume_doctor-serve follows a cluster permanently, and serves its findings
// as metrics. kubectl runs it as "kubectl volume-doctor serve".
package main

import (
	"os"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // the cloud providers' ways to log in

	"github.com/volume-doctor/kubectl-volume-doctor/cmd"
	"github.com/volume-doctor/kubectl-volume-doctor/standing"
)

func main() {
	cmd.SaveMemory(15) // most of the memory of a look is garbage right after it
	os.Exit(standing.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
