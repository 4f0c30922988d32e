package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	corev1 "k8s.io/api/core/v1"
)

// TestFaults: the failures of the API server and of the network around a write.
func TestFaults(t *testing.T) {
	lost := fmt.Errorf("%w: the connection was cut", repair.ErrUnknownOutcome)
	heartbeat := func(m *memory) {
		m.rewrite("n1", "kubelet", func(n *corev1.Node) { n.Labels = map[string]string{"beat": m.now.String()} })
	}
	for name, test := range map[string]struct {
		fault   func(m *memory)
		outcome Outcome
		detail  string
		writes  int
		journal []Outcome
	}{
		"conflict with the dry run, once": {func(m *memory) {
			m.before = times(1, true, func() error { heartbeat(m); return nil })
		}, Repaired, "", 1, []Outcome{Repaired}},
		"conflict with the write, once": {func(m *memory) {
			m.before = times(1, false, func() error { heartbeat(m); return nil })
		}, Repaired, "", 1, []Outcome{NotWritten, Repaired}},
		"conflict again and again": {func(m *memory) {
			m.before = times(9, false, func() error { heartbeat(m); return nil })
		}, Failed, "changed meanwhile", 0, []Outcome{NotWritten, NotWritten}},
		"answer lost after the write": {func(m *memory) {
			m.after = times(1, false, func() error { return lost })
		}, Repaired, "the answer was lost, but the object shows the write", 1, []Outcome{Repaired}},
		"cut before the write, and the node changed": {func(m *memory) {
			m.before = times(1, false, func() error { heartbeat(m); return lost })
		}, Repaired, "", 1, []Outcome{NotWritten, Repaired}},
		"cut before the write, for good": {func(m *memory) {
			m.before = times(1, false, func() error { return lost })
		}, Unverified, "may still be under way", 0, []Outcome{Unverified}},
		"answer lost, and nobody answers any more": {func(m *memory) {
			m.after = times(1, false, func() error {
				m.looking = func(int) error { return errors.New("no route to host") }
				return lost
			})
		}, Unverified, "no route to host", 1, []Outcome{Unverified}},
		"forbidden by the dry run": {func(m *memory) {
			m.before = times(1, true, func() error { return repair.ErrForbidden })
		}, Failed, "not allowed", 0, nil},
		"forbidden by the write": {func(m *memory) {
			m.before = times(1, false, func() error { return repair.ErrForbidden })
		}, Failed, "not allowed", 0, []Outcome{NotWritten}},
		"the controller overwrites it": {func(m *memory) {
			m.looking = func(n int) error {
				if n == 5 {
					m.rewrite("n1", "kube-controller-manager", func(n *corev1.Node) { n.Status.VolumesAttached = n.Status.VolumesAttached[:1] })
				}
				return nil
			}
		}, Unverified, "something has overwritten it since", 1, []Outcome{Unverified}},
		"the pod goes while it is verified": {func(m *memory) {
			m.looking = func(n int) error {
				if n == 5 {
					m.objects.Pods = m.objects.Pods[:1]
					m.rewrite("n1", "kube-controller-manager", func(n *corev1.Node) { n.Status.VolumesAttached = n.Status.VolumesAttached[:1] })
				}
				return nil
			}
		}, Repaired, "no pod wants it any more", 1, []Outcome{Repaired}},
		"a look fails while it is verified": {func(m *memory) {
			m.looking = func(n int) error {
				if n == 4 {
					return errors.New("too many requests")
				}
				return nil
			}
		}, Repaired, "", 1, []Outcome{Repaired}},
		"the last look fails": {func(m *memory) {
			m.looking = func(n int) error {
				if n == 7 {
					return errors.New("too many requests")
				}
				return nil
			}
		}, Unverified, "too many requests", 1, []Outcome{Unverified}},
		"the pods cannot be read in the end": {func(m *memory) {
			m.looking = func(n int) error {
				if n == 7 {
					m.gaps = gap("pods", "")
				}
				return nil
			}
		}, Unverified, "the pods were not all read", 1, []Outcome{Unverified}},
	} {
		t.Run(name, func(t *testing.T) {
			m := lostEntry(t)
			a, sink := m.applier()
			repairs := m.propose()
			test.fault(m)
			results, err := a.Apply(t.Context(), repairs)
			if err != nil {
				t.Fatal(err)
			}
			r := results[0]
			if r.Outcome != test.outcome || !strings.Contains(r.Detail, test.detail) || len(m.stored) != test.writes {
				t.Errorf("%d writes, %+v\n%s", len(m.stored), r, strings.Join(m.log, "\n"))
			}
			var ended []Outcome
			for _, e := range sink.entries() {
				if e.Type == Ended {
					ended = append(ended, e.Outcome)
				}
			}
			if diff := cmp.Diff(test.journal, ended); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// times runs do before the first n requests that are dry runs, or the first n that are not.
func times(n int, dryRun bool, do func() error) func(repair.Operation, bool) error {
	return func(_ repair.Operation, dry bool) error {
		if dry != dryRun || n == 0 {
			return nil
		}
		n--
		return do()
	}
}

func TestAnswerTooLateIsStillFound(t *testing.T) {
	m := lostEntry(t)
	a, _ := m.applier()
	repairs := m.propose()
	m.before = times(1, false, func() error {
		m.looking = func(n int) error { // the write lands between the third and the fourth look for it
			if n == 5 {
				op := repairs[0].Do
				m.looking = nil
				_, err := m.write(op, false)
				return err
			}
			return nil
		}
		return repair.ErrUnknownOutcome
	})
	results, err := a.Apply(t.Context(), repairs)
	if err != nil || results[0].Outcome != Repaired || len(m.stored) != 1 {
		t.Errorf("%+v, %v", results, err)
	}
}

func TestAdmissionThatChangesTheWriteIsRefused(t *testing.T) {
	m := lostEntry(t)
	repairs := m.propose()
	a, _ := m.applier()
	a.Cluster = meddling{m}
	results, err := a.Apply(t.Context(), repairs)
	if err != nil || results[0].Outcome != Failed || !strings.Contains(results[0].Detail, "would store") || len(m.stored) != 0 {
		t.Errorf("%+v, %v", results, err)
	}
}

// meddling is a memory whose admission plugin drops what a write adds.
type meddling struct{ *memory }

func (m meddling) Do(ctx context.Context, op repair.Operation, dryRun bool) (json.RawMessage, error) {
	before := repair.Compact(m.node(op.Target.Name))
	_, err := m.memory.Do(ctx, op, dryRun)
	return before, err
}
