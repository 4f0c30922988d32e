package cmd

import (
	"slices"

	"github.com/spf13/pflag"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// carried are the flags that a command line for another run takes over: those that
// say which cluster, as whom, and how its controller is set. A token or a password
// is never written down.
var carried = []string{
	"kubeconfig", "cluster", "user", "as", "as-uid", "as-group", "as-user-extra", "server", "tls-server-name", "insecure-skip-tls-verify",
	"certificate-authority", "client-certificate", "client-key", "request-timeout",
	"kubernetes-version", "disable-force-detach-on-timeout", "max-wait-for-unmount", "flex-attachable",
}

// takenOver are those of the carried flags that are set, for a command line of the
// same cluster. It changes the set: only one goroutine may ask.
func takenOver(flags *pflag.FlagSet) []string {
	return setFlags(flags, func(name string) bool { return slices.Contains(carried, name) })
}

// setFlags are the flags that are set and wanted, each as --NAME=VALUE.
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

// sayApply gives every repair of the report that can be made the command line that
// makes it, with the flags taken over.
func sayApply(r *finding.Report, taken []string) {
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.Repair == nil || len(f.Repair.Commands) == 0 {
			continue
		}
		words := append([]string{"diagnose"}, pointedAt(*f)...)
		f.Repair.Apply = commandLine(r.Source.Context, taken, words, append([]string{"--apply"}, f.Repair.Needs...)...)
	}
	sayApplyAll(r, taken)
	for i := range r.Findings {
		r.Findings[i].Actions = finding.ActionsOf(r.Findings[i], r.TakenAt.Time)
	}
}

// commandLine calls the tool for the same cluster; last are the words behind the flags
// that name it.
func commandLine(context string, taken, words []string, last ...string) string {
	words = append([]string{"volume-doctor"}, words...)
	if context != "" {
		words = append(words, "--context="+context)
	}
	return safetext.Kubectl(append(append(words, taken...), last...)...)
}

// pointedAt is the narrowest target that has the finding, as diagnose takes it. A
// finding about none of them is found by its check.
func pointedAt(f finding.Finding) []string {
	for _, r := range snapshot.Resources() {
		if len(r.Names) == 0 || r.Object != f.Subject.Kind {
			continue
		}
		words := []string{r.Names[0] + "/" + f.Subject.Name}
		if r.Namespaced {
			words = append(words, "-n", f.Subject.Namespace)
		}
		return words
	}
	if f.VolumeAttachment != "" {
		return []string{"volumeattachment/" + f.VolumeAttachment}
	}
	return []string{"--check=" + f.Check}
}
