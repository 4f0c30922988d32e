package cmd

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// lookTwice is the time between the two looks that a run with --apply takes at
// least: a kubelet reports within 10 s and the controller within 7 s, so what
// stands in both looks is not on its way.
const lookTwice = 30 * time.Second

type diagnoseFlags struct {
	*globalFlags
	outputs     outputFlags
	only, skip  []string
	failOn      string
	allowGaps   bool
	persistsFor time.Duration
	saved       string
	quiet       bool
	events      bool
	contexts    []string
	watch       bool
	leaveOut    leaveOut
	apply       applyFlags

	checks  []diagnose.Check
	targets []target
}

func newDiagnose(g *globalFlags, streams genericiooptions.IOStreams) *cobra.Command {
	d := &diagnoseFlags{globalFlags: g}
	cmd := &cobra.Command{
		Use:   "diagnose [KIND/NAME ...]",
		Short: "Find drift and say what causes it, what heals and what to do",
		Long: `diagnose reads the cluster or a file, finds where volumes, nodes and pods have
drifted from what the attach/detach controller believes, and says for each
finding what causes it, whether it heals by itself and what repairs it.

KIND is pod, pvc, pv, node or volumeattachment. Arguments and -n narrow the
report, never the evidence that it rests on.

Exit code: 0 nothing found at or above --fail-on, 1 something found, 2 no answer
(usage, connection, or something could not be read), 3 --apply left something
undone.`,
		Example: `  kubectl volume-doctor diagnose
  kubectl volume-doctor diagnose pod/web-0 -n shop -o wide
  kubectl volume-doctor diagnose -f must-gather/ -o json
  kubectl volume-doctor diagnose -o json=report.json -o html=report.html
  kubectl volume-doctor diagnose --report report.json -o markdown
  kubectl volume-doctor diagnose pod/web-0 --apply
  kubectl volume-doctor diagnose --watch -n shop`,
		ValidArgsFunction: d.completeTargets(streams, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			if d.saved != "" {
				return d.reprint(cmd.Flags(), args, streams)
			}
			if err := d.complete(cmd, args); err != nil {
				return err
			}
			if err := d.apply.mayAsk(streams.In); err != nil {
				return err
			}
			if err := d.leaveOut.read(streams.In); err != nil {
				return err
			}
			if d.quiet {
				streams.ErrOut = io.Discard
			}
			if d.watch {
				return d.follow(cmd.Context(), streams)
			}
			if len(d.contexts) > 0 {
				return d.acrossContexts(cmd.Context(), streams)
			}
			return d.run(cmd.Context(), streams)
		},
	}
	f := cmd.Flags()
	d.outputs.add(cmd, output.ReportFormats())
	f.StringSliceVar(&d.only, "check", nil, "Run only these checks (names or codes)")
	f.StringSliceVar(&d.skip, "skip", nil, "Do not run these checks (names or codes)")
	f.StringVar(&d.failOn, "fail-on", string(diagnose.Warning), "Exit with 1 from this severity on: error, warning, info or never")
	f.BoolVar(&d.allowGaps, "allow-gaps", false, "Do not fail because something could not be read")
	f.DurationVar(&d.persistsFor, "for", 0, "Look twice, this long apart, and report what is there both times")
	f.BoolVar(&d.watch, "watch", false, "Follow the cluster and print what appears, changes and heals, until Ctrl-C")
	f.StringVar(&d.saved, "report", "", "Print this report, saved with -o json, in another format; - reads standard input")
	f.StringVar(&d.leaveOut.baseline, "baseline", "", "Report only what this report, saved with -o json, does not have yet; - reads standard input")
	f.StringVar(&d.leaveOut.ignore, "ignore", "", "The file of findings to live with (default "+defaultIgnore+" where it exists)")
	f.StringSliceVar(&d.contexts, "contexts", nil, "Examine the clusters of these kubeconfig contexts, in one report")
	f.BoolVar(&d.events, "events", false, "Also write an event about each finding's subject, once an hour")
	f.BoolVarP(&d.quiet, "quiet", "q", false, "Print nothing but the report, and that only where it has findings or gaps")
	d.apply.add(f)
	for _, flag := range []string{"check", "skip"} {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(checkNames(), cobra.ShellCompDirectiveNoFileComp))
	}
	_ = cmd.RegisterFlagCompletionFunc("fail-on", cobra.FixedCompletions([]string{"error", "warning", "info", "never"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (d *diagnoseFlags) complete(cmd *cobra.Command, args []string) error {
	if err := d.validatePrinting(); err != nil {
		return err
	}
	if d.file != "" && d.persistsFor > 0 {
		return fmt.Errorf("--for looks at a cluster twice: a file does not change")
	}
	if d.persistsFor < 0 {
		return fmt.Errorf("--for must not be negative")
	}
	if err := d.apply.validate(cmd.Flags(), d.file != ""); err != nil {
		return err
	}
	if d.apply.enabled && !cmd.Flags().Changed("for") {
		d.persistsFor = lookTwice
	}
	if d.apply.enabled && d.persistsFor == 0 {
		return fmt.Errorf("--apply looks twice before it writes: give --for a time, or leave it out for %s", lookTwice)
	}
	if d.quiet && d.apply.enabled {
		return fmt.Errorf("--quiet and --apply exclude each other: what is written is said")
	}
	if err := d.validateEvents(); err != nil {
		return err
	}
	if err := d.validateWatch(cmd); err != nil {
		return err
	}
	var err error
	if d.checks, err = selectChecks(d.only, d.skip); err != nil {
		return err
	}
	if cmd.Flags().Changed("contexts") {
		return validateContexts(d.contexts, cmd.Flags(), args)
	}
	namespace, err := d.namespace()
	if err != nil {
		return err
	}
	d.targets, err = parseTargets(args, namespace)
	d.asks = asks(d.targets)
	return err
}

func (d *diagnoseFlags) validatePrinting() error {
	if err := d.validate(); err != nil {
		return err
	}
	if err := d.outputs.validate(); err != nil {
		return err
	}
	switch diagnose.Severity(d.failOn) {
	case diagnose.Error, diagnose.Warning, diagnose.Info, diagnose.Never:
		return nil
	default:
		return fmt.Errorf("--fail-on is error, warning, info or never, not %q", d.failOn)
	}
}

func (d *diagnoseFlags) run(ctx context.Context, streams genericiooptions.IOStreams) error {
	if d.file != "" {
		s, err := d.readFile(streams)
		if err != nil {
			return err
		}
		d.assumeVersion(s, streams.ErrOut)
		d.leaveOut.sayExpired(streams.ErrOut, s.TakenAt)
		return d.report(streams, s, nil, "")
	}
	c, err := d.connect(streams)
	if err != nil {
		return err
	}
	s, first, err := d.readTwice(ctx, c, streams.ErrOut)
	if err != nil {
		return err
	}
	d.leaveOut.sayExpired(streams.ErrOut, s.TakenAt)
	switch {
	case d.apply.enabled:
		return d.repair(ctx, streams, c, s, first)
	case d.events:
		return d.reportAndRecord(ctx, streams, c, s, first)
	default:
		return d.report(streams, s, first, "kubectl volume-doctor diagnose --apply")
	}
}

// readTwice looks, and with --for looks again: first is what the first look
// found.
func (d *diagnoseFlags) readTwice(ctx context.Context, c watched, errOut io.Writer) (s *snapshot.Snapshot, first *diagnose.Report, err error) {
	if s, err = d.take(ctx, c); err != nil {
		return nil, nil, err
	}
	d.assumeVersion(s, errOut)
	if d.persistsFor == 0 {
		return s, nil, nil
	}
	first = d.examine(s)
	if len(first.Findings) > 0 {
		fmt.Fprintf(errOut, "looking again in %s to see what persists\n", d.persistsFor)
		if err := sleep(ctx, d.persistsFor); err != nil {
			return nil, nil, err
		}
		if s, err = d.take(ctx, c); err != nil {
			return nil, nil, err
		}
		d.assumeVersion(s, io.Discard)
	}
	return s, first, nil
}

// take reads what the report rests on. A repair's guards look at the whole cluster.
func (d *diagnoseFlags) take(ctx context.Context, c watched) (*snapshot.Snapshot, error) {
	if d.apply.enabled || len(d.targets) != 1 || d.targets[0].kind != snapshot.Pods {
		return c.Snapshot(ctx)
	}
	return d.takePod(ctx, c, d.targets[0].name, false)
}

func (d *diagnoseFlags) examine(s *snapshot.Snapshot) *diagnose.Report {
	return diagnose.Diagnose(s, diagnose.Options{Reconcile: d.options(), Checks: d.checks})
}

// look makes the report that was asked for, with its repairs; what an earlier
// look did not find is left out.
func (d *diagnoseFlags) look(s *snapshot.Snapshot, earlier *diagnose.Report) (*repair.View, []repair.Repair, error) {
	for _, t := range d.targets {
		if err := t.mustExist(s); err != nil {
			return nil, nil, err
		}
	}
	return d.narrowed(s, earlier)
}

func (d *diagnoseFlags) narrowed(s *snapshot.Snapshot, earlier *diagnose.Report) (*repair.View, []repair.Repair, error) {
	view := repair.Look(s, diagnose.Options{Reconcile: d.options(), Checks: d.checks}, d.apply.consent())
	if earlier != nil {
		view.Report.KeepPersisting(earlier)
	}
	narrow(view.Report, s, d.targets, *d.kube.Namespace)
	if len(d.contexts) == 0 { // else it is left out of the one report on all
		if err := d.leaveOut.from(view.Report); err != nil {
			return nil, nil, err
		}
	}
	return view, repair.Propose(view), nil
}

func (d *diagnoseFlags) report(streams genericiooptions.IOStreams, s *snapshot.Snapshot, earlier *diagnose.Report, apply string) error {
	view, _, err := d.look(s, earlier)
	if err != nil {
		return err
	}
	return d.finish(streams, view.Report, apply, exitHealthy)
}

// finish prints the report and turns it into the exit code, of which atLeast is
// already certain.
func (d *diagnoseFlags) finish(streams genericiooptions.IOStreams, r *diagnose.Report, apply string, atLeast int) error {
	stdout := streams.Out
	if d.quiet && len(r.Findings) == 0 && r.Complete {
		stdout = io.Discard
	}
	err := d.outputs.print(stdout, func(w io.Writer, format string) error {
		return output.PrintReport(w, format, r, output.Options{Color: d.paints(w), Apply: apply})
	})
	switch {
	case err != nil:
		return err
	case atLeast != exitHealthy:
		return exitCode(atLeast)
	default:
		return d.verdict(r)
	}
}

// verdict is the exit code that the report alone has.
func (d *diagnoseFlags) verdict(r *diagnose.Report) error {
	switch {
	case !r.Complete && !d.allowGaps:
		return exitCode(exitNoAnswer)
	case r.Reaches(diagnose.Severity(d.failOn)):
		return exitCode(exitFindings)
	default:
		return nil
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
