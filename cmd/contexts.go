package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// oneWay are the flags that name one way to one cluster, and oneCluster are other flags that
// work with one cluster only.
var (
	oneWay     = []string{"context", "cluster", "server", "tls-server-name", "certificate-authority", "user", "token", "client-certificate", "client-key"}
	oneCluster = []string{"filename", "controller", "backend", "apply", "events", "selector"}
)

// fleetFlags choose the clusters of a report about several.
type fleetFlags struct {
	contexts []string
	all      bool
	folder   string
}

func (f *fleetFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.contexts, "contexts", nil, "Examine the clusters of these kubeconfig contexts, in one report; * stands for any text, as in 'prod-*'")
	flags.BoolVar(&f.all, "all-contexts", false, "Examine the clusters of all contexts, in one report")
	flags.StringVar(&f.folder, "kubeconfig-dir", "", "Examine the clusters of every kubeconfig in this folder, or those of them that --contexts names")
	_ = cmd.MarkFlagDirname("kubeconfig-dir")
}

// fleetOnly are the flags that are missing in the help of diagnose and listed by the options
// command.
var fleetOnly = []string{"all-contexts", "kubeconfig-dir"}

// chosen is the name of the flag that chooses several clusters; "" where none does.
func (f *fleetFlags) chosen(flags *pflag.FlagSet) string {
	for _, name := range append([]string{"contexts"}, fleetOnly...) {
		if flags.Changed(name) && (name != "all-contexts" || f.all) {
			return name
		}
	}
	return ""
}

func (f *fleetFlags) validate(flags *pflag.FlagSet, args []string) error {
	chosen := f.chosen(flags)
	switch {
	case chosen == "contexts" && len(f.contexts) == 0:
		return errors.New("--contexts names no context")
	case f.all && len(f.contexts) > 0:
		return errors.New("--all-contexts and --contexts exclude each other")
	case f.folder != "" && flags.Changed("kubeconfig"):
		return errors.New("--kubeconfig-dir and --kubeconfig exclude each other")
	}
	for i, name := range f.contexts {
		if name == "" || slices.Contains(f.contexts[:i], name) {
			return fmt.Errorf("--contexts %s: each context is named once", strings.Join(f.contexts, ","))
		}
	}
	for _, flag := range slices.Concat(oneWay, oneCluster) {
		if flags.Changed(flag) {
			return fmt.Errorf("--%s and --%s exclude each other", chosen, flag)
		}
	}
	if len(args) > 0 {
		return fmt.Errorf("--%s examines whole clusters: %q is in one of them; -n narrows the report", chosen, args[0])
	}
	return nil
}

// members are the clusters that the flags choose.
func (f *fleetFlags) members(g *globalFlags) ([]member, error) {
	var all []member
	var err error
	if f.folder != "" {
		if all, err = membersOfFolder(f.folder); err != nil {
			return nil, fmt.Errorf("--kubeconfig-dir: %w", err)
		}
	} else {
		config, err := g.kubeconfig()
		if err != nil {
			return nil, err
		}
		all = membersOfKubeconfig(&config)
	}
	chosen, err := selectMembers(all, f.contexts)
	if err != nil {
		return nil, fmt.Errorf("--contexts: %w", err)
	}
	if len(chosen) == 0 {
		return nil, errors.New("the kubeconfig has no context")
	}
	return chosen, nil
}

// acrossContexts examines several clusters and makes one report about them. A cluster that
// cannot be read is a gap in the report, and does not affect the others.
type acrossContexts struct {
	*examination
	fleet fleetFlags
	// passes are the passes over the clusters, with their limits.
	passes []fleetLimits
}

// there is the result for one cluster.
type there struct {
	report *finding.Report
	// used reports whether the cluster has an object in the namespace of -n: of several
	// clusters one at least must have one.
	used bool
}

// namedUnread is how many clusters the error names where none could be read: all of them were
// named on stderr before.
const namedUnread = 4

func (m *acrossContexts) run(ctx context.Context, streams genericiooptions.IOStreams) error {
	members, err := m.fleet.members(m.globalFlags)
	if err != nil {
		return err
	}
	defer limitMemory()()
	same := map[string]string{}
	for _, member := range members {
		for _, other := range member.Same {
			same[other] = member.Name
		}
	}
	for _, other := range slices.Sorted(maps.Keys(same)) {
		fmt.Fprintf(streams.ErrOut, "note: %s has the server and the user of %s, and is not read again\n", output.Safe(other), output.Safe(same[other]))
	}
	reports, atLeast := make([]*finding.Report, len(members)), exitHealthy
	unread := make([]string, len(members))
	used := false
	var terminal io.Writer
	if t := underneath(streams.ErrOut); printers.IsTerminal(t) {
		terminal = t
	}
	p := newFleetProgress(streams.ErrOut, terminal, len(members))
	look := func(ctx context.Context, i int, l fleetLimits) (there, error) {
		return m.lookAt(ctx, members[i], l, p.Of(members[i].Name))
	}
	err = eachCluster(ctx, len(members), m.passes, look, func(i int, t there, err error) {
		name := members[i].Name
		if err == nil {
			reports[i], used = t.report, used || t.used
			p.Read(t.report)
			return
		}
		atLeast, used = exitNoAnswer, true
		text := safetext.Redact(oneLine(err.Error()))
		unread[i] = name + ": " + text
		p.Unread(name, text)
		reports[i] = &finding.Report{
			Source: snapshot.Source{Context: name},
			Gaps:   []snapshot.Gap{{Kind: finding.Everything, Reason: snapshot.ReasonUnavailable, Detail: text}},
		}
	})
	p.End()
	switch {
	case err != nil:
		return err
	case !slices.Contains(unread, ""):
		why := strings.Join(unread[:min(len(unread), namedUnread)], "; ")
		if more := len(unread) - namedUnread; more > 0 {
			why += fmt.Sprintf("; and %d more", more)
		}
		return fmt.Errorf("no cluster could be read: %s", why)
	case !used:
		return m.unused()
	}
	if err := m.leaveOut.fits(true, each(reports, func(r *finding.Report) snapshot.Source { return r.Source })...); err != nil {
		return err
	}
	all := finding.Merge(reports, same, m.leaveOut.LeaveOut)
	m.leaveOut.sayExpired(streams.ErrOut, all.TakenAt.Time)
	m.leaveOut.sayHidden(all.Suppressed)
	return m.finish(streams, all, atLeast)
}

// lookAt makes the report about one of the clusters.
func (m *acrossContexts) lookAt(ctx context.Context, member member, l fleetLimits, errOut io.Writer) (t there, err error) {
	if member.Err != nil {
		return t, member.Err
	}
	global, one := *m.globalFlags, *m.examination
	global.member, global.budget = &member, &l.Budget
	one.globalFlags = &global
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: errOut}
	c, err := one.connectTo(ctx, streams)
	if err != nil {
		return t, err
	}
	defer c.Close()
	s, first, err := one.readTwice(ctx, c, errOut)
	if err := l.judge(ctx, c.OverBudget(), c.Sent(), err); err != nil {
		return t, err
	}
	if t.used, err = one.usesNamespace(ctx, c.Cluster, s); err != nil {
		return t, err
	}
	view, _, err := one.look(s, first)
	if err != nil {
		return t, err
	}
	t.report = view.Report
	return t, nil
}
