package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// lookTwice is the shortest time between the two looks of a run with --apply: a kubelet and
// the controller have reported by then, so that a finding of both looks is not in flight.
const lookTwice = reconcile.NodeStatusUpdate + 20*time.Second

// diagnoseFlags are the flags of diagnose: those for every mode, and those that choose one.
type diagnoseFlags struct {
	examination
	only, skip []string
	saved      string
	events     bool
	fleet      fleetFlags
	watch      bool
	apply      applyFlags
}

func newDiagnose(g *globalFlags, streams genericiooptions.IOStreams) *cobra.Command {
	d := &diagnoseFlags{examination: examination{reportPrinter: reportPrinter{globalFlags: g}}}
	cmd := &cobra.Command{
		Use:   "diagnose [KIND/NAME ...]",
		Short: "Find drift and say what causes it, what heals and what to do",
		Long: `diagnose finds where volumes, nodes and pods have drifted from what the controller
believes, and says why, whether it heals by itself and what to do. KIND is pod, pvc,
pv, node or volumeattachment, or what makes pods, such as deployment. KIND/NAME, -l
and -n narrow the report, never the evidence that it rests on.

Exit code: 0 nothing found at or above --fail-on, 1 something found, 2 no answer
(usage, connection, a gap in what was read), 3 --apply left something undone.`,
		Example: `  kubectl volume-doctor diagnose pod/web-0 sts/db -n shop -o wide
  kubectl volume-doctor diagnose -f must-gather/ -o json
  kubectl volume-doctor diagnose pod/web-0 --apply
  kubectl volume-doctor diagnose --watch -n shop`,
		ValidArgsFunction: d.completeTargets(streams, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := d.mode(cmd, args, streams.In)
			if err != nil {
				return err
			}
			if d.quiet {
				streams.ErrOut = io.Discard
			}
			return m.run(cmd.Context(), streams)
		},
	}
	f := cmd.Flags()
	d.outputs.add(cmd, output.ReportFormats.Names())
	addNarrowing(cmd, &d.only, &d.skip, &d.leaveOut)
	f.StringVar(&d.failOn, "fail-on", string(finding.Warning), "Exit with 1 from this severity on: error, warning, info or never")
	f.BoolVar(&d.allowGaps, "allow-gaps", false, "Do not fail because something could not be read")
	f.DurationVar(&d.persistsFor, "for", 0, "Look twice, this long apart, and report what is there both times")
	f.StringVarP(&d.selector, "selector", "l", "", "Report on the pods with these labels, as in -l app=web")
	f.BoolVarP(&d.watch, "watch", "w", false, "Follow the cluster and print what appears, changes and heals, until Ctrl-C")
	f.StringVar(&d.saved, "report", "", "Print this report, saved with -o json, in another format; - reads standard input")
	f.StringVar(&d.leaveOut.baseline, "baseline", "", "Report only what this report, saved with -o json, does not have yet; - reads standard input")
	d.fleet.add(cmd)
	f.BoolVar(&d.events, "events", false, "Also write an event about each finding's subject, once an hour")
	f.BoolVarP(&d.quiet, "quiet", "q", false, "Print nothing but the report, and that only where it has findings or gaps")
	d.addController(cmd)
	d.addBackend(cmd)
	d.apply.add(f)
	d.completeApply(cmd, streams)
	_ = cmd.RegisterFlagCompletionFunc("fail-on", cobra.FixedCompletions([]string{"error", "warning", "info", "never"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// addNarrowing adds the flags that leave out checks and findings.
func addNarrowing(cmd *cobra.Command, only, skip *[]string, leaveOut *leaveOut) {
	f := cmd.Flags()
	f.StringSliceVar(only, "check", nil, "Run only these checks (names or codes)")
	f.StringSliceVar(skip, "skip", nil, "Do not run these checks (names or codes)")
	f.StringVar(&leaveOut.ignore, "ignore", "", "The file of findings to live with (default "+defaultIgnore+" where it exists)")
	for _, flag := range []string{"check", "skip"} {
		_ = cmd.RegisterFlagCompletionFunc(flag, completeChecks)
	}
}

// mode is one way in which diagnose works.
type mode interface {
	run(context.Context, genericiooptions.IOStreams) error
}

// mode is the mode that the flags choose. By then the flags, and the files that they name,
// have been read and validated; no cluster has been read.
func (d *diagnoseFlags) mode(cmd *cobra.Command, args []string, stdin io.Reader) (mode, error) {
	if d.saved != "" {
		return &reprint{reportPrinter: d.reportPrinter, saved: d.saved}, mayReprint(cmd.Flags(), args)
	}
	d.taken = takenOver(cmd.Flags())
	if err := d.complete(cmd, args); err != nil {
		return nil, err
	}
	if err := d.apply.mayAsk(stdin); err != nil {
		return nil, err
	}
	if err := d.leaveOut.read(d.file, stdin, cmd.ErrOrStderr()); err != nil {
		return nil, err
	}
	if err := d.readBackends(stdin); err != nil {
		return nil, err
	}
	switch {
	case d.watch:
		return &watch{examination: &d.examination}, nil
	case d.several:
		passes, err := fleetPasses(*d.kube.Timeout, d.persistsFor)
		return &acrossContexts{&d.examination, d.fleet, passes}, err
	case d.apply.enabled:
		return &applying{examination: &d.examination, flags: &d.apply}, nil
	default:
		return &reporting{examination: &d.examination, events: d.events}, nil
	}
}

// complete validates the flags and arguments, and derives from them what to examine.
func (d *diagnoseFlags) complete(cmd *cobra.Command, args []string) error {
	if err := d.validate(); err != nil {
		return err
	}
	switch {
	case d.file != "" && d.persistsFor > 0:
		return errors.New("--for looks at a cluster twice: a file does not change")
	case d.persistsFor < 0:
		return errors.New("--for must not be negative")
	}
	if err := d.apply.validate(cmd.Flags(), d.file != ""); err != nil {
		return err
	}
	if d.apply.enabled && !cmd.Flags().Changed("for") {
		d.persistsFor, d.apply.thirdLook = lookTwice, true
	}
	switch {
	case d.apply.enabled && d.persistsFor == 0:
		return fmt.Errorf("--apply looks twice before it writes: give --for a time, or leave it out for %s", lookTwice)
	case d.controller != "" && d.apply.enabled:
		return errors.New("--controller and --apply exclude each other: nothing is written on the word of a log")
	case d.quiet && d.apply.enabled:
		return errors.New("--quiet and --apply exclude each other: what is written is said")
	case d.events && d.file != "":
		return errors.New("--events writes to a cluster: it does not go with -f")
	case d.events && d.apply.enabled:
		return errors.New("--events and --apply exclude each other: a repair writes its own event")
	}
	if d.watch {
		if err := mayWatch(cmd.Flags(), d.outputs); err != nil {
			return err
		}
	}
	d.repairs, d.consent = d.apply.enabled, d.apply.consent()
	var err error
	if d.checks, err = selectChecks(d.only, d.skip); err != nil {
		return err
	}
	d.needsList = len(d.only) > 0 && slices.ContainsFunc(d.checks, func(c check.Check) bool { return c.OfList })
	if d.several = d.fleet.chosen(cmd.Flags()) != ""; d.several {
		return d.fleet.validate(cmd.Flags(), args)
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
