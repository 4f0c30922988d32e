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
report, never what is read as evidence.

Exit code: 0 nothing found at or above --fail-on, 1 something found, 2 no answer
(usage, connection, or something could not be read), 3 --apply left something
undone.`,
		Example: `  kubectl volume-doctor diagnose
  kubectl volume-doctor diagnose pod/web-0 -n shop -o wide
  kubectl volume-doctor diagnose -f must-gather/ -o json
  kubectl volume-doctor diagnose pod/web-0 --apply`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := d.complete(cmd, args); err != nil {
				return err
			}
			if err := d.apply.mayAsk(streams.In); err != nil {
				return err
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
	d.apply.add(f)
	for _, flag := range []string{"check", "skip"} {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(checkNames(), cobra.ShellCompDirectiveNoFileComp))
	}
	_ = cmd.RegisterFlagCompletionFunc("fail-on", cobra.FixedCompletions([]string{"error", "warning", "info", "never"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (d *diagnoseFlags) complete(cmd *cobra.Command, args []string) error {
	if err := d.validate(); err != nil {
		return err
	}
	if err := d.outputs.validate(); err != nil {
		return err
	}
	switch diagnose.Severity(d.failOn) {
	case diagnose.Error, diagnose.Warning, diagnose.Info, diagnose.Never:
	default:
		return fmt.Errorf("--fail-on is error, warning, info or never, not %q", d.failOn)
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
	var err error
	if d.checks, err = selectChecks(d.only, d.skip); err != nil {
		return err
	}
	namespace, err := d.namespace()
	if err != nil {
		return err
	}
	d.targets, err = parseTargets(args, namespace)
	return err
}

func (d *diagnoseFlags) run(ctx context.Context, streams genericiooptions.IOStreams) error {
	if d.file != "" {
		s, err := d.readFile(streams)
		if err != nil {
			return err
		}
		d.assumeVersion(s, streams.ErrOut)
		return d.report(streams, s, nil, "")
	}
	c, err := d.connect(streams)
	if err != nil {
		return err
	}
	s, err := c.Snapshot(ctx)
	if err != nil {
		return err
	}
	d.assumeVersion(s, streams.ErrOut)
	var first *diagnose.Report
	if d.persistsFor > 0 {
		first = d.examine(s)
		if len(first.Findings) > 0 {
			fmt.Fprintf(streams.ErrOut, "found %d; looking again in %s to see what persists\n", len(first.Findings), d.persistsFor)
			if err := sleep(ctx, d.persistsFor); err != nil {
				return err
			}
			if s, err = c.Snapshot(ctx); err != nil {
				return err
			}
			d.assumeVersion(s, io.Discard)
		}
	}
	if d.apply.enabled {
		return d.repair(ctx, streams, c, s, first)
	}
	return d.report(streams, s, first, "kubectl volume-doctor diagnose --apply")
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
	view, repairs := d.narrowed(s, earlier)
	return view, repairs, nil
}

func (d *diagnoseFlags) narrowed(s *snapshot.Snapshot, earlier *diagnose.Report) (*repair.View, []repair.Repair) {
	view := repair.Look(s, diagnose.Options{Reconcile: d.options(), Checks: d.checks}, d.apply.consent())
	if earlier != nil {
		view.Report.KeepPersisting(earlier)
	}
	narrow(view.Report, s, d.targets, *d.kube.Namespace)
	return view, repair.Propose(view)
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
	err := d.outputs.print(streams.Out, func(w io.Writer, format string) error {
		return output.PrintReport(w, format, r, output.Options{Color: d.paints(w), Apply: apply})
	})
	switch {
	case err != nil:
		return err
	case atLeast != exitHealthy:
		return exitCode(atLeast)
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
