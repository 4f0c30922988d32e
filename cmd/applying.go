package cmd

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/repair/apply"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// applying is diagnose --apply: it makes the proposed repairs and reports what remains.
type applying struct {
	*examination
	flags *applyFlags
	// journal is the file that lists the writes; "" before there is one.
	journal string
}

func (m *applying) run(ctx context.Context, streams genericiooptions.IOStreams) error {
	l, err := m.begin(ctx, streams)
	if err != nil {
		return err
	}
	view, repairs, err := m.look(l.now, l.first)
	if err != nil {
		return err
	}
	if err := m.flags.named(view); err != nil {
		return err
	}
	if m.flags.approved != "" {
		if repairs, err = m.flags.reviewed(view, repairs); err != nil {
			fmt.Fprintf(streams.ErrOut, "error: nothing was written: %s\n", output.Safe(oneLine(err.Error())))
			return exitCode(exitUndone)
		}
	}
	if view, repairs, err = m.lookAgain(ctx, streams.ErrOut, &l, view, repairs); err != nil {
		return err
	}
	r := view.Report
	undone := false
	for _, f := range r.Findings {
		if f.Repair != nil && f.Repair.BlockedBy != "" {
			undone = true
			say(streams.ErrOut, "not repaired: "+brief(f))
			for _, line := range output.NotRepaired(f) {
				fmt.Fprintf(streams.ErrOut, "  %s\n", line)
			}
		}
	}
	writes := once(repairs)
	for _, p := range writes {
		m.describe(streams.ErrOut, p)
	}
	if m.flags.save != "" {
		if err := writeFile(ctx, m.flags.save, apply.Save(view, writes).Write); err != nil {
			return err
		}
		fmt.Fprintf(streams.ErrOut, "repairs saved in %s: %d; nothing was written to the cluster\n", m.flags.save, len(writes))
		return m.finish(streams, r, exitHealthy)
	}
	if len(writes) > 0 {
		if !m.flags.confirmed(streams, writes) {
			fmt.Fprintln(streams.ErrOut, "nothing was written")
			return exitCode(exitUndone)
		}
		results, err := m.carryOut(ctx, streams, l.cluster, writes, notRunning(view.Snapshot, r.Waiting))
		undone = undone || slices.ContainsFunc(results, apply.Result.LeftUndone)
		if err != nil {
			m.offerUndo(streams.ErrOut, l.cluster, nil)
			if len(results) == 0 {
				return err
			}
			fmt.Fprintf(streams.ErrOut, "error: %s\n", oneLine(err.Error()))
			return exitCode(exitUndone)
		}
		if m.flags.mode() == apply.DryRunNone {
			s, err := l.cluster.Snapshot(ctx)
			if err == nil {
				m.assume(s, io.Discard)
				view, _, err = m.narrowed(s, l.first, waited(repairs)...)
			}
			if err != nil {
				m.offerUndo(streams.ErrOut, l.cluster, nil)
				return err
			}
			m.offerUndo(streams.ErrOut, l.cluster, view)
			r = view.Report
		}
	} else if !undone {
		fmt.Fprintln(streams.ErrOut, "there is nothing to repair")
	}
	code := exitHealthy
	if undone {
		code = exitUndone
	}
	return m.finish(streams, r, code)
}

// once keeps the first of the repairs that make the same write: one taint repairs the findings about
// all pods of a node.
func once(repairs []repair.Repair) []repair.Repair {
	written := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(repairs), func(r repair.Repair) bool {
		write := r.Do.Kubectl()
		again := written[write]
		written[write] = true
		return again
	})
}

// waited are the pods for which the repairs were made.
func waited(repairs []repair.Repair) []string {
	var pods []string
	for _, r := range repairs {
		pods = append(pods, r.Finding.About()...)
	}
	slices.Sort(pods)
	return slices.Compact(pods)
}

// soonCertain is the longest time until a suspected cause becomes certain for which --apply
// waits. A judgement: a person stays that long.
const soonCertain = 2 * time.Minute

// lookAgain looks a third time where a repairable cause is suspected and will soon be
// certain.
func (m *applying) lookAgain(ctx context.Context, w io.Writer, l *looked, view *repair.View, repairs []repair.Repair) (*repair.View, []repair.Repair, error) {
	var at time.Time
	for _, f := range view.Report.Findings {
		if s := f.Settles; f.Repair != nil && s != nil && s.At.Sub(l.now.TakenAt) <= soonCertain && s.At.After(at) {
			at = s.At.Time
		}
	}
	if at.IsZero() || !m.flags.thirdLook {
		return view, repairs, nil
	}
	if err := m.preview(w, l.now); err != nil {
		return nil, nil, err
	}
	second := l.now
	err := countDown(ctx, w, at.Sub(second.TakenAt)+time.Second)
	if err == nil {
		l.now, err = l.cluster.Snapshot(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	m.assume(l.now, io.Discard)
	if l.now.TakenAt.Sub(second.TakenAt) >= m.persistsFor { // what the first look did not find yet has persisted as well
		l.first = m.examine(second)
	}
	return m.look(l.now, l.first)
}

// describe prints the write, and how to make it by hand; a JSON patch only with -o wide. The
// finding is printed above it only once.
func (m *applying) describe(w io.Writer, p repair.Repair) {
	undo := p.Undoing()
	if p.ByHand || p.Undo == nil {
		undo += ": " + p.WhyNot
	}
	m.show(w, p.Finding)
	say(w, fmt.Sprintf("%s for %s: %s (risk %s, %s)", p.Kind, p.Finding.Subject, p.Summary, p.Risk, undo))
	if p.Do.Patch == nil || slices.Contains(m.outputs.values, "wide") {
		fmt.Fprintf(w, "  the same by hand:\n  %s\n", output.Safe(p.Do.Kubectl()))
	}
}

// brief is the finding in one line.
func brief(f finding.Finding) string {
	return fmt.Sprintf("%s %s %s", f.Severity, f.Code, f.Text())
}

func (m *applying) carryOut(ctx context.Context, streams genericiooptions.IOStreams, c watched, repairs []repair.Repair, waiting []string) ([]apply.Result, error) {
	applier := &apply.Applier{
		Cluster:    c,
		Options:    diagnose.Options{Reconcile: m.options(), Checks: m.checks},
		Consent:    m.consent,
		Observe:    narrate(streams.ErrOut),
		Wait:       sleep,
		HoldFor:    m.flags.holdFor(),
		MaxRepairs: m.flags.maxRepairs,
		DryRun:     m.flags.mode(),
	}
	if !m.flags.whole {
		applier.Waited = waiting
	}
	if applier.DryRun != apply.DryRunNone {
		return applier.Apply(ctx, repairs)
	}
	if err := c.ProveClock(ctx); err != nil {
		return nil, fmt.Errorf("nothing was written: %w", err)
	}
	name, flags := m.flags.journal, os.O_CREATE
	if name == "" {
		name, flags = journalName(time.Now()), os.O_CREATE|os.O_EXCL
	}
	file, earlier, err := openJournal(ctx, name, flags)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	interruptsOf(ctx).exitsWith(exitUndone)
	applier.Journal = apply.NewJournal(file, time.Now, earlier)
	fmt.Fprintf(streams.ErrOut, "journal: %s\n", name)
	m.journal = name
	return applier.Apply(ctx, repairs)
}

// offerUndo names the command that takes the writes back, where one can be taken back, and says
// what refuses that on the objects of the view. The view is nil where nobody has looked since.
func (m *applying) offerUndo(w io.Writer, c watched, v *repair.View) {
	if m.journal == "" {
		return
	}
	entries, can := undoable(m.journal)
	if !can {
		return
	}
	when := "to take it back"
	if v != nil {
		if no := apply.RefusedNow(v, entries); no != nil {
			if no.SafeOnce == "" { // no command would help
				say(w, "undo would refuse: "+no.Reason)
				return
			}
			say(w, "undo would refuse now: "+no.Reason+"; to make it safe: "+no.Safe())
			when += " after that"
		}
	}
	fmt.Fprintf(w, "%s: %s\n", when, repair.CommandLine(c.Context(), m.taken, []string{"undo", m.journal}))
}

// notRunning are the waiting pods that do not run yet. Only such a pod can show that a repair
// worked: one that ran before proves nothing by running.
func notRunning(s *snapshot.Snapshot, waiting []finding.Waiting) (pods []string) {
	for _, w := range waiting {
		namespace, name, _ := strings.Cut(w.Pod, "/")
		if pod := s.Pod(types.NamespacedName{Namespace: namespace, Name: name}); pod != nil && pod.Status.Phase != corev1.PodRunning {
			pods = append(pods, w.Pod)
		}
	}
	return pods
}

// undoable is what the journal lists, and whether undo can ever take back any of it.
func undoable(journal string) (entries []apply.Entry, can bool) {
	file, err := os.Open(journal)
	if err != nil {
		return nil, true // undo itself will say why not
	}
	defer file.Close()
	entries, _, err = apply.ReadJournal(file)
	return entries, err != nil || apply.CanUndo(entries)
}
