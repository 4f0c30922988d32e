package diagnose_test

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// later is the cluster after d, in which nothing has changed: leases are still renewed, and
// failures go on.
func later(s *snapshot.Snapshot, d time.Duration) *snapshot.Snapshot {
	o := s.Objects
	o.Leases = slices.Clone(o.Leases)
	for i, lease := range o.Leases {
		if at := lease.Spec.RenewTime; at != nil && s.TakenAt.Sub(at.Time) < time.Minute {
			o.Leases[i] = lease.DeepCopy()
			o.Leases[i].Spec.RenewTime.Time = at.Add(d)
		}
	}
	o.Nodes = slices.Clone(o.Nodes)
	for i, node := range o.Nodes {
		o.Nodes[i] = node.DeepCopy()
		for j := range o.Nodes[i].Status.Conditions {
			c := &o.Nodes[i].Status.Conditions[j]
			if !c.LastHeartbeatTime.IsZero() && s.TakenAt.Sub(c.LastHeartbeatTime.Time) < 10*time.Minute {
				c.LastHeartbeatTime.Time = c.LastHeartbeatTime.Add(d)
			}
		}
	}
	o.Events = slices.Clone(o.Events)
	for i, e := range o.Events {
		if e.Count > 1 || e.Series != nil {
			o.Events[i] = e.DeepCopy()
			o.Events[i].LastTimestamp.Time = e.LastTimestamp.Add(d)
			if o.Events[i].Series != nil {
				o.Events[i].Series.LastObservedTime.Time = e.Series.LastObservedTime.Add(d)
			}
		}
	}
	o.VolumeAttachments = slices.Clone(o.VolumeAttachments)
	for i, va := range o.VolumeAttachments {
		o.VolumeAttachments[i] = va.DeepCopy()
		if e := o.VolumeAttachments[i].Status.AttachError; e != nil {
			e.Time.Time = e.Time.Add(d)
		}
		if e := o.VolumeAttachments[i].Status.DetachError; e != nil {
			e.Time.Time = e.Time.Add(d)
		}
	}
	aged := snapshot.New(s.TakenAt.Add(d), s.Source, o, s.Gaps)
	aged.Controller = s.Controller
	for _, list := range s.Backends {
		list := *list
		list.Taken = list.Taken.Add(d)
		aged.Backends = append(aged.Backends, &list)
	}
	return aged
}

// TestSeverityNeverFalls: while nothing changes, no pod that waits gets a milder finding, and a
// stuck pod stays stuck.
func TestSeverityNeverFalls(t *testing.T) {
	for _, c := range corpus(t) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := c.snapshot(t)
			was := c.diagnose(s)
			for _, d := range []time.Duration{time.Minute, 4 * time.Minute, 15 * time.Minute} {
				is := c.diagnose(later(s, d))
				worst := map[string]finding.Severity{}
				for _, f := range is.Findings {
					for _, pod := range f.Pods {
						if worst[pod] == "" || f.Severity.AtLeast(worst[pod]) {
							worst[pod] = f.Severity
						}
					}
				}
				for _, f := range was.Findings {
					for _, pod := range f.Pods {
						if !slices.ContainsFunc(was.Waiting, func(w finding.Waiting) bool { return w.Pod == pod }) {
							continue
						}
						if !f.SelfHeals.Will && (worst[pod] == "" || !worst[pod].AtLeast(f.Severity)) {
							t.Errorf("%s: %s %s becomes %q after %s", pod, f.Severity, f.Code, worst[pod], d)
						}
					}
				}
				for _, w := range was.Waiting {
					i := slices.IndexFunc(is.Waiting, func(o finding.Waiting) bool { return o.Pod == w.Pod })
					if w.Verdict == finding.Stuck && (i < 0 || is.Waiting[i].Verdict != finding.Stuck) {
						t.Errorf("%s is stuck no more after %s", w.Pod, d)
					}
				}
			}
		})
	}
}

var (
	// waits matches a step that consists of waiting.
	waits = regexp.MustCompile(`(?i)^(wait|do nothing)\b`)
	// leans matches a step that cannot be read without the one before it.
	leans = regexp.MustCompile(`(?i)^(then|also|and)\b`)
)

// TestStepsStandAlone: no step begins with "then", and nobody is told only to wait for
// something that does not heal.
func TestStepsStandAlone(t *testing.T) {
	for _, c := range corpus(t) {
		for _, f := range c.diagnose(c.snapshot(t)).Findings {
			for _, step := range []string{f.Advice, f.ByHand} {
				if leans.MatchString(step) {
					t.Errorf("%s: %s: %q", c.name, f.Code, step)
				}
			}
			if waits.MatchString(f.ByHand) && !f.SelfHeals.Will {
				t.Errorf("%s: %s: %q, and it does not heal", c.name, f.Code, f.ByHand)
			}
		}
	}
}
