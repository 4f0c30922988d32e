package cmd

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"k8s.io/cli-runtime/pkg/printers"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// readTwice looks, and with --for looks again: first is what the first look
// found.
func (d *diagnoseFlags) readTwice(ctx context.Context, c watched, errOut io.Writer) (s *snapshot.Snapshot, first *finding.Report, err error) {
	if s, err = d.take(ctx, c); err != nil {
		return nil, nil, err
	}
	d.assume(s, errOut)
	if d.persistsFor == 0 {
		return s, nil, nil
	}
	first = d.examine(s)
	if len(first.Findings) > 0 {
		if d.apply.enabled {
			if err := d.preview(errOut, s); err != nil {
				return nil, nil, err
			}
		}
		if err := countDown(ctx, errOut, d.persistsFor); err != nil {
			return nil, nil, err
		}
		if s, err = d.take(ctx, c); err != nil {
			return nil, nil, err
		}
		d.assume(s, io.Discard)
	}
	return s, first, nil
}

// preview says what would be repaired, to be read while the second look is waited for.
func (d *diagnoseFlags) preview(w io.Writer, s *snapshot.Snapshot) error {
	view, _, err := d.look(s, nil)
	if err != nil {
		return err
	}
	for _, f := range view.Report.Findings {
		if f.Repair != nil && f.Repair.BlockedBy == "" {
			fmt.Fprintln(w, brief(f))
		}
	}
	return nil
}

// countDown waits. On a terminal it says how long it still does.
func countDown(ctx context.Context, w io.Writer, wait time.Duration) error {
	const words = "looking again in %s to see what persists"
	terminal := underneath(w)
	if !printers.IsTerminal(terminal) {
		fmt.Fprintf(w, words+"\n", wait)
		return sleep(ctx, wait)
	}
	for left := wait; left > 0; left -= time.Second {
		fmt.Fprintf(terminal, "\r"+words+"  ", left.Round(time.Second))
		if err := sleep(ctx, min(left, time.Second)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(terminal)
	return err
}

// take reads what the report rests on. A repair's guards look at the whole cluster, and
// kube-controller-manager's numbers and a storage system's list are about all of it.
func (d *diagnoseFlags) take(ctx context.Context, c watched) (*snapshot.Snapshot, error) {
	if d.apply.enabled || d.controller == controllerAuto || len(d.lists) > 0 || len(d.targets) != 1 || d.targets[0].kind != snapshot.Pods {
		return c.Snapshot(ctx)
	}
	return d.takePod(ctx, c, d.targets[0].name, false)
}

func (d *diagnoseFlags) examine(s *snapshot.Snapshot) *finding.Report {
	return diagnose.Diagnose(s, diagnose.Options{Reconcile: d.options(), Checks: d.checks})
}

// look makes the report that was asked for, with its repairs; what an earlier
// look did not find is left out.
func (d *diagnoseFlags) look(s *snapshot.Snapshot, earlier *finding.Report) (*repair.View, []repair.Repair, error) {
	if err := mustBeKnown(d.targets, s); err != nil {
		return nil, nil, err
	}
	return d.narrowed(s, earlier)
}

// narrowed is look without its demand that the targets exist. It also answers for the
// pods.
func (d *diagnoseFlags) narrowed(s *snapshot.Snapshot, earlier *finding.Report, pods ...string) (*repair.View, []repair.Repair, error) {
	view := repair.Look(s, diagnose.Options{Reconcile: d.options(), Checks: d.checks}, d.apply.consent())
	for _, pod := range toAnswer(d.targets, s, pods) {
		view.Report.Answers = append(view.Report.Answers, diagnose.AnswerFor(s, view.World, view.Plan, view.Report, pod))
	}
	if earlier != nil {
		view.Report.KeepPersisting(earlier)
	}
	narrow(view.Report, s, single(d.targets, s), *d.kube.Namespace, d.apply.enabled)
	if len(d.contexts) > 0 {
		view.Flags = []string{safetext.ContextFlag(*d.kube.Context)}
		for _, f := range view.Report.Findings {
			for i, command := range f.AdviceCommands {
				f.AdviceCommands[i] = safetext.InContext(command, *d.kube.Context)
			}
		}
	} else { // with several clusters it is left out of the one report on all
		if err := d.leaveOut.from(view.Report); err != nil {
			return nil, nil, err
		}
	}
	repairs := repair.Propose(view)
	sayApply(view.Report, slices.Concat(d.taken, d.backendFlags()))
	return view, repairs, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
