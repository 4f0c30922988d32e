package cmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// lookTwice is the time between the two looks that a run with --apply takes at
// least: a kubelet and the controller have reported by then, so what stands in both
// looks is not in flight.
const lookTwice = reconcile.NodeStatusUpdate + 20*time.Second

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
	selector    string
	leaveOut    leaveOut
	apply       applyFlags

	taken   []string // by the command lines that the report prints
	checks  []check.Check
	targets []target
}

func newDiagnose(g *globalFlags, streams genericiooptions.IOStreams) *cobra.Command {
	d := &diagnoseFlags{globalFlags: g}
	cmd := &cobra.Command{
		Use:   "diagnose [KIND/NAME ...]",
		Short: "Find drift and say what causes it, what heals and what to do",
		Long: `diagnose finds where volumes, nodes and pods have drifted from what the
attach/detach controller believes, and says what causes it, whether it heals by
itself and what to do. KIND is pod, pvc, pv, node or volumeattachment, or what
makes pods, such as deployment. KIND/NAME, -l and -n narrow the report, never the
evidence that it rests on.

Exit code: 0 nothing found at or above --fail-on, 1 something found, 2 no answer
(usage, connection, a gap in what was read), 3 --apply left something undone.`,
		Example: `  kubectl volume-doctor diagnose
  kubectl volume-doctor diagnose pod/web-0 sts/db -n shop -o wide
  kubectl volume-doctor diagnose -f must-gather/ -o json
  kubectl volume-doctor diagnose pod/web-0 --apply
  kubectl volume-doctor diagnose --watch -n shop`,
		ValidArgsFunction: d.completeTargets(streams, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			if d.saved != "" {
				return d.reprint(cmd.Flags(), args, streams)
			}
			d.taken = takenOver(cmd.Flags())
			if err := d.complete(cmd, args); err != nil {
				return err
			}
			if err := d.apply.mayAsk(streams.In); err != nil {
				return err
			}
			if err := d.leaveOut.read(streams.In); err != nil {
				return err
			}
			if err := d.readBackends(streams.In); err != nil {
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
	f.StringVar(&d.failOn, "fail-on", string(finding.Warning), "Exit with 1 from this severity on: error, warning, info or never")
	f.BoolVar(&d.allowGaps, "allow-gaps", false, "Do not fail because something could not be read")
	f.DurationVar(&d.persistsFor, "for", 0, "Look twice, this long apart, and report what is there both times")
	f.StringVarP(&d.selector, "selector", "l", "", "Report on the pods with these labels, as in -l app=web")
	f.BoolVarP(&d.watch, "watch", "w", false, "Follow the cluster and print what appears, changes and heals, until Ctrl-C")
	f.StringVar(&d.saved, "report", "", "Print this report, saved with -o json, in another format; - reads standard input")
	f.StringVar(&d.leaveOut.baseline, "baseline", "", "Report only what this report, saved with -o json, does not have yet; - reads standard input")
	f.StringVar(&d.leaveOut.ignore, "ignore", "", "The file of findings to live with (default "+defaultIgnore+" where it exists)")
	f.StringSliceVar(&d.contexts, "contexts", nil, "Examine the clusters of these kubeconfig contexts, in one report")
	f.BoolVar(&d.events, "events", false, "Also write an event about each finding's subject, once an hour")
	f.BoolVarP(&d.quiet, "quiet", "q", false, "Print nothing but the report, and that only where it has findings or gaps")
	d.addController(cmd)
	d.addBackend(cmd)
	d.apply.add(f)
	d.completeApply(cmd, streams)
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
	if d.controller != "" && d.apply.enabled {
		return fmt.Errorf("--controller and --apply exclude each other: nothing is written on the word of a log")
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
	if d.selector != "" && len(args) > 0 {
		return fmt.Errorf("-l and %q exclude each other: give labels or names", args[0])
	}
	namespace, err := d.namespace()
	if err != nil {
		return err
	}
	if d.targets, err = parseTargets(args, namespace); err != nil {
		return err
	}
	if d.selector != "" {
		if err := d.selectPods(); err != nil {
			return err
		}
	}
	d.asks = asks(d.targets)
	return nil
}

func (d *diagnoseFlags) validatePrinting() error {
	if err := d.validate(); err != nil {
		return err
	}
	if err := d.outputs.validate(); err != nil {
		return err
	}
	switch finding.Severity(d.failOn) {
	case finding.Error, finding.Warning, finding.Info, finding.Never:
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
		d.assume(s, streams.ErrOut)
		if err := d.remember(s, streams); err != nil {
			return err
		}
		d.sayBackends(s, streams)
		d.leaveOut.sayExpired(streams.ErrOut, s.TakenAt)
		if used, err := d.usesNamespace(ctx, nil, s); err != nil || !used {
			return cmp.Or(err, d.unused())
		}
		return d.report(streams, s, nil)
	}
	c, err := d.connectTo(ctx, streams)
	if err != nil {
		return err
	}
	s, first, err := d.readTwice(ctx, c, streams.ErrOut)
	if err != nil {
		return err
	}
	if err := d.remember(s, streams); err != nil {
		return err
	}
	d.sayBackends(s, streams)
	if used, err := d.usesNamespace(ctx, c.Cluster, s); err != nil || !used {
		return cmp.Or(err, d.unused())
	}
	d.leaveOut.sayExpired(streams.ErrOut, s.TakenAt)
	switch {
	case d.apply.enabled:
		return d.repair(ctx, streams, c, s, first)
	case d.events:
		return d.reportAndRecord(ctx, streams, c, s, first)
	default:
		return d.report(streams, s, first)
	}
}

func (d *diagnoseFlags) report(streams genericiooptions.IOStreams, s *snapshot.Snapshot, earlier *finding.Report) error {
	view, _, err := d.look(s, earlier)
	if err != nil {
		return err
	}
	return d.finish(streams, view.Report, exitHealthy)
}

// finish prints the report and turns it into the exit code, of which atLeast is
// already certain.
func (d *diagnoseFlags) finish(streams genericiooptions.IOStreams, r *finding.Report, atLeast int) error {
	stdout := streams.Out
	if d.quiet && len(r.Findings) == 0 && r.Complete {
		stdout = io.Discard
	}
	err := d.outputs.print(stdout, func(w io.Writer, format string) error {
		return output.PrintReport(w, format, r, d.shown(w))
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
func (d *diagnoseFlags) verdict(r *finding.Report) error {
	switch {
	case !r.Complete && !d.allowGaps:
		return exitCode(exitNoAnswer)
	case r.Reaches(finding.Severity(d.failOn)):
		return exitCode(exitFindings)
	default:
		return nil
	}
}
