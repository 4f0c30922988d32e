package cmd

import (
	"slices"

	"github.com/spf13/pflag"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
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

// sayApply gives every repair of the report that can be made its command line, with the flags
// in taken.
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

// commandLine is a command line of the tool for the same cluster; the words in last come
// after the flags that name the cluster.
func commandLine(context string, taken, words []string, last ...string) string {
	words = append([]string{"volume-doctor"}, words...)
	if context != "" {
		words = append(words, "--context="+context)
	}
	return safetext.Kubectl(append(append(words, taken...), last...)...)
}

// pointedAt is the narrowest target for diagnose that has the finding. A finding about no
// target is found by its check.
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

// sayFile has the commands of this program that the findings advise read the file of the report. The
// repairs of a file are for its cluster, so --apply keeps its line.
func sayFile(r *finding.Report, file string) {
	if file == "" || file == "-" {
		return
	}
	read := func(command *string) {
		if words, ok := safetext.KubectlWords(*command); ok && words[0] == "volume-doctor" {
			*command = safetext.WithFlags(*command, "--filename="+file)
		}
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		for j := range f.AdviceCommands {
			read(&f.AdviceCommands[j])
		}
		for j := range f.Do {
			read(&f.Do[j].Command)
		}
	}
}
