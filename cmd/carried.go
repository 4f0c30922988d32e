package cmd

import (
	"slices"

	"github.com/spf13/pflag"
)

// carried are the flags that a command line for another run repeats: those that name the
// cluster, the user, and the settings of its controller. A token or a password is never
// written down.
var carried = []string{
	"kubeconfig", "cluster", "user", "as", "as-uid", "as-group", "as-user-extra", "server", "tls-server-name", "insecure-skip-tls-verify",
	"certificate-authority", "client-certificate", "client-key", "request-timeout",
	"kubernetes-version", "disable-force-detach-on-timeout", "max-wait-for-unmount", "flex-attachable",
}

// takenOver are the carried flags that are set, for a command line for the same cluster. It
// changes the set: only one goroutine may call it.
func takenOver(flags *pflag.FlagSet) []string {
	return setFlags(flags, func(name string) bool { return slices.Contains(carried, name) })
}

// setFlags are the flags that are set and for which wanted is true, each as --NAME=VALUE.
func setFlags(flags *pflag.FlagSet, wanted func(name string) bool) []string {
	var taken []string
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Changed || !wanted(f.Name) {
			return
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			for _, value := range list.GetSlice() {
				taken = append(taken, "--"+f.Name+"="+value)
			}
			return
		}
		taken = append(taken, "--"+f.Name+"="+f.Value.String())
	})
	slices.Sort(taken)
	return taken
}
