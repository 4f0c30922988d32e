package cmd

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/volume-doctor/kubectl-volume-doctor/cluster"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// examination is the part of every mode of diagnose that works on a snapshot: the checks to
// run, the targets, the findings to leave out of the report, and how to print it.
type examination struct {
	reportPrinter
	checks []check.Check
	// needsList reports whether the user named a check that finds nothing without a storage
	// system's list.
	needsList bool
	targets   []target
	selector  string
	leaveOut  leaveOut
	// persistsFor is the time between two looks, of whose findings the report keeps those of
	// both; 0 for one look.
	persistsFor time.Duration
	// since has the times at which earlier looks first had their findings: --watch and serve
	// look again and again.
	since map[string]metav1.Time
	// repairs reports whether repairs are to be made, with this consent.
	repairs bool
	consent repair.Consent
	// several reports whether this is one of several clusters, for one report about all.
	several bool
	// briefed has the fingerprints of the findings that --apply has printed.
	briefed map[string]bool
	// taken are the flags for the command lines that the report prints.
	taken []string
}

// looked is the result of the first reading: the snapshot, the findings of the first of two
// looks, and the cluster unless it was a file.
type looked struct {
	cluster watched
	now     *snapshot.Snapshot
	first   *finding.Report
}

// begin reads the file or the cluster.
func (e *examination) begin(ctx context.Context, streams genericiooptions.IOStreams) (l looked, err error) {
	if e.file != "" {
		if l.now, err = e.readFile(streams); err != nil {
			return l, err
		}
		e.assume(l.now, streams.ErrOut)
	} else {
		if l.cluster, err = e.connectTo(ctx, streams); err != nil {
			return l, err
		}
		if l.now, l.first, err = e.readTwice(ctx, l.cluster, streams.ErrOut); err != nil {
			return l, err
		}
	}
	if err := e.remember(l.now, streams); err != nil {
		return l, err
	}
	e.sayBackends(l.now, streams)
	if e.needsList && len(l.now.Backends) == 0 {
		l.now.Gaps = append(l.now.Gaps, snapshot.Gap{Kind: snapshot.StorageList, Reason: snapshot.ReasonNotGiven, Detail: "was not given: add --backend FILE"})
	}
	e.leaveOut.sayExpired(streams.ErrOut, l.now.TakenAt)
	used, err := e.usesNamespace(ctx, l.cluster.Cluster, l.now)
	if err == nil && !used {
		err = e.unused()
	}
	return l, err
}

// readTwice looks, and with --for looks again: first is the report of the first look.
func (e *examination) readTwice(ctx context.Context, c watched, errOut io.Writer) (s *snapshot.Snapshot, first *finding.Report, err error) {
	if s, err = c.Snapshot(ctx); err != nil {
		return nil, nil, err
	}
	e.assume(s, errOut)
	if e.persistsFor == 0 {
		return s, nil, nil
	}
	first = e.examine(s)
	if len(first.Findings) > 0 {
		if e.repairs {
			if err := e.preview(errOut, s); err != nil {
				return nil, nil, err
			}
		}
		if slices.ContainsFunc(first.Findings, func(f finding.Finding) bool { return f.Follow > 0 }) {
			c.FollowAttachments(ctx)
		}
		if err := countDown(ctx, errOut, e.persistsFor); err != nil {
			return nil, nil, err
		}
		if s, err = c.Snapshot(ctx); err != nil {
			return nil, nil, err
		}
		e.assume(s, io.Discard)
	}
	return s, first, nil
}

// preview prints what would be repaired, to be read while waiting for the second look.
func (e *examination) preview(w io.Writer, s *snapshot.Snapshot) error {
	view, _, err := e.look(s, nil)
	if err != nil {
		return err
	}
	for _, f := range view.Report.Findings {
		if f.Repair != nil && (f.Repair.BlockedBy == "" || f.Confidence == finding.Suspected) {
			e.show(w, f)
		}
	}
	return nil
}

// show prints the finding in a line, once.
func (e *examination) show(w io.Writer, f finding.Finding) {
	if e.briefed[f.Fingerprint] {
		return
	}
	if e.briefed == nil {
		e.briefed = map[string]bool{}
	}
	e.briefed[f.Fingerprint] = true
	say(w, brief(f))
}

// sleep waits for the time to pass, or for the context to end. Tests put another function in its
// place, so that they need not wait.
var sleep = cluster.Sleep

// countDown waits. On a terminal it shows the time that is left.
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

func (e *examination) examine(s *snapshot.Snapshot) *finding.Report {
	return diagnose.Diagnose(s, diagnose.Options{Reconcile: e.options(), Checks: e.checks})
}

// look makes the requested report, with its repairs; it leaves out what an earlier look did
// not find.
func (e *examination) look(s *snapshot.Snapshot, earlier *finding.Report) (*repair.View, []repair.Repair, error) {
	if err := mustBeKnown(e.targets, s); err != nil {
		return nil, nil, err
	}
	return e.narrowed(s, earlier)
}

// narrowed is look without the requirement that the targets exist. The report also answers
// for the named pods.
func (e *examination) narrowed(s *snapshot.Snapshot, earlier *finding.Report, pods ...string) (*repair.View, []repair.Repair, error) {
	request := diagnose.Request{
		Checks: e.checks, Answer: toAnswer(e.targets, s, pods), Earlier: earlier, Since: e.since,
		Settings: slices.Concat(e.taken, e.backendFlags()), File: e.file,
		Scope: scopeOf(s, single(e.targets, s), *e.kube.Namespace, e.repairs),
	}
	if e.member != nil { // with several clusters it is left out of the one report about all
		request.Name, request.Flags = e.member.Name, e.member.Flags()
		request.Settings = append(request.Flags[1:], request.Settings...)
	} else {
		if err := e.leaveOut.fits(false, s.Source); err != nil {
			return nil, nil, err
		}
		request.LeaveOut = e.leaveOut.LeaveOut
	}
	request.Scope.Of = about(e.targets, *e.kube.Namespace)
	view, repairs := repair.Examine(s, e.options(), e.consent, request)
	if e.member == nil {
		e.leaveOut.sayHidden(view.Report.Suppressed)
	}
	return view, repairs, nil
}
