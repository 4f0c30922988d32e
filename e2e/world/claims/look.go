package claims

import (
	"fmt"
	"strings"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Look is one report on a world.
type Look struct {
	// At is the world's time; the report has seconds only.
	At     time.Time
	Report finding.Report
	// Until is when the last list was read, where that took its time: what was done by then may
	// be in the report.
	Until time.Time
	// Snapshot is what was read.
	Snapshot *snapshot.Snapshot
	// Attachments tells of the VolumeAttachments that were read, in short, for the world's log.
	Attachments string
	// Attached are the names of those that are simply attached.
	Attached []string
}

// ended is when the look ended.
func (l Look) ended() time.Time {
	if l.Until.IsZero() {
		return l.At
	}
	return l.Until
}

// attachments are the VolumeAttachments, with the state of each that is not simply attached, whatever
// the driver has said of them.
func (l Look) attachments() string {
	return strings.Join(l.Attached, " ") + strings.ReplaceAll(l.Attachments, ", refused", "")
}

// Exit is the exit code that the command ends with.
func (l Look) Exit() int {
	switch {
	case len(l.Report.Gaps) > 0:
		return 2
	case l.Report.Summary.Error+l.Report.Summary.Warning > 0:
		return 1
	default:
		return 0
	}
}

// Waiting is what the report has about the pod; nil for nothing.
func (l Look) Waiting(pod string) *finding.Waiting {
	for i := range l.Report.Waiting {
		if l.Report.Waiting[i].Pod == pod {
			return &l.Report.Waiting[i]
		}
	}
	return nil
}

// Key is what differs from one look to the next when something happens, and not because
// time passes.
func (l Look) Key() string {
	return l.text(func(f finding.Finding) string { return f.Fingerprint }, func(finding.Waiting) string { return "" })
}

// String is the look in short.
func (l Look) String() string {
	return l.text(func(f finding.Finding) string { return f.Message }, func(w finding.Waiting) string {
		if w.DueAt == nil {
			return ""
		}
		return ", due at " + w.DueAt.UTC().Format(time.TimeOnly)
	})
}

func (l Look) text(of func(finding.Finding) string, due func(finding.Waiting) string) string {
	var s strings.Builder
	fmt.Fprintf(&s, "exit %d%s", l.Exit(), l.Attachments)
	if len(l.Report.Gaps) > 0 {
		fmt.Fprintf(&s, ", gaps %v", l.Report.Gaps)
	}
	for _, f := range l.Report.Findings {
		fmt.Fprintf(&s, "\n%s %s %s, %s: %s", f.Code, f.Severity, confidence(f), heals(f.SelfHeals), of(f))
	}
	for _, x := range l.Report.Waiting {
		fmt.Fprintf(&s, "\n%s: %s, stage %s, actor %s%s", x.Pod, x.Verdict, x.Stage, x.Actor, due(x))
	}
	return s.String()
}

func heals(h finding.SelfHeals) string {
	switch {
	case h.Unknown:
		return "may heal"
	case !h.Will:
		return "does not heal"
	case h.After == "":
		return "heals"
	default:
		return "heals within " + h.After
	}
}
