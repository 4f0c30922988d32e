package kubelettrace

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/recorded"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testworld"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// recordedStates is the number of pods that are drawn for each release, 400 in all, when
// looks are recorded.
const recordedStates = 50

func recordedLooks(t *testing.T) []Recorded {
	t.Helper()
	fingerprint, err := looksOf()
	if err != nil {
		t.Fatal(err)
	}
	looks, err := recorded.Read[Recorded](looksFile, fingerprint)
	if err != nil {
		t.Fatal(err)
	}
	return looks
}

// TestRecordedStates compares the trace and the plan's rows with what the kubelets of all
// releases did, as recorded.
func TestRecordedStates(t *testing.T) {
	pods, compared := map[string]map[string]bool{}, 0
	for _, look := range recordedLooks(t) {
		n, wrong, err := look.Compare()
		if err != nil {
			t.Fatal(err)
		}
		compared += n
		for _, w := range wrong {
			t.Errorf("%s, %s, %s: %s", look.Release, look.Node, look.When, w)
		}
		if pods[look.Release] == nil {
			pods[look.Release] = map[string]bool{}
		}
		for _, p := range look.Pods {
			pods[look.Release][p.Pod.String()] = true
		}
	}
	for _, release := range Releases() {
		// A pod that still changes when the time to settle is over is not looked at.
		if n := len(pods[release]); n < recordedStates*4/5 {
			t.Errorf("only %d pods of the kubelet of %s are recorded", n, release)
		}
	}
	t.Logf("%d volumes compared", compared)
}

// TestRecordedActors: in no look, and not 20 minutes later if everything stays as it is, do a finding
// and the verdict on the same wait name different actors.
func TestRecordedActors(t *testing.T) {
	for _, look := range recordedLooks(t) {
		s, _, err := snapshot.Read("look.json", strings.NewReader(look.Snapshot), snapshot.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, ahead := range []time.Duration{0, 20 * time.Minute} {
			later := goesOn(s, ahead)
			for _, wrong := range testworld.ActorsDiffer(later, diagnose.Diagnose(later, diagnose.Options{})) {
				t.Errorf("%s, %s, %s, %s later: %s", look.Release, look.Node, look.When, ahead, wrong)
			}
		}
	}
}

// TestRecordedTruthMatters changes what a kubelet did, in one way after the other, and checks
// that each change is noticed in one of the looks.
func TestRecordedTruthMatters(t *testing.T) {
	looks := recordedLooks(t)
	spoilers := map[string]func(Truth) Truth{
		"it waits for somebody else": func(truth Truth) Truth { truth.Actor = Other; return truth },
		"it waits in no stage":       func(truth Truth) Truth { truth.Stage = ""; return truth },
		"it waits in another stage": func(truth Truth) Truth {
			if truth.Stage != "" {
				truth.Stage = trace.StageClaimBound
			}
			return truth
		},
		"all is behind it": func(truth Truth) Truth { truth.Done = all(truth.Done, true); return truth },
		"all is ahead":     func(truth Truth) Truth { truth.Done = all(truth.Done, false); return truth },
		"it is not mounted": func(truth Truth) Truth {
			truth.Mounted, truth.Published = false, false
			return truth
		},
		"it waits, being mounted": func(truth Truth) Truth {
			if truth.Mounted {
				truth.Stage, truth.Actor = trace.StageMounted, TheDriver
			}
			return truth
		},
	}
	for name, spoil := range spoilers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, look := range looks {
				spoilt := look
				spoilt.Pods = slices.Clone(look.Pods)
				for i, p := range spoilt.Pods {
					p.Truth = maps.Clone(p.Truth)
					for volume, truth := range p.Truth {
						p.Truth[volume] = spoil(truth)
					}
					spoilt.Pods[i] = p
				}
				if _, wrong, err := spoilt.Compare(); err != nil {
					t.Fatal(err)
				} else if len(wrong) > 0 {
					return
				}
			}
			t.Error("not noticed")
		})
	}
	t.Run("the kubelet has nothing in use", func(t *testing.T) {
		t.Parallel()
		for _, look := range looks {
			if look.Answer.Kubelet == nil {
				continue
			}
			kubelet := *look.Answer.Kubelet
			kubelet.InUse = nil
			look.Answer.Kubelet = &kubelet
			if _, wrong, err := look.Compare(); err != nil {
				t.Fatal(err)
			} else if len(wrong) > 0 {
				return
			}
		}
		t.Error("not noticed")
	})
}

func all(done map[trace.StageName]bool, value bool) map[trace.StageName]bool {
	changed := map[trace.StageName]bool{}
	for stage := range done {
		changed[stage] = value
	}
	return changed
}
