package conformance

import (
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// TestAhead compares the newest release with each change that no release has yet, as its
// patch makes it, with the model that has the behaviour. It also checks that the comparison
// distinguishes the two: without the behaviour the model must differ from the patched
// controller, and with it from the unpatched one.
func TestAhead(t *testing.T) {
	changes := reconcile.Ahead()
	if len(changes) != len(Patches) {
		t.Errorf("%d behaviours that no release has, and %d patches", len(changes), len(Patches))
	}
	for _, change := range changes {
		t.Run(string(change.Behaviour), func(t *testing.T) {
			patch := strings.TrimPrefix(change.Source, "#")
			if Patches[patch] == "" {
				t.Fatalf("there is no patch for %s", change.Source)
			}
			on := []reconcile.Behaviour{change.Behaviour}
			for _, run := range []struct {
				patch   string
				ahead   []reconcile.Behaviour
				differs bool
			}{{patch, on, false}, {patch, nil, true}, {"", on, true}, {"", nil, false}} {
				total := newTally()
				var first sync.Once
				eachPatched(t, Newest, run.patch, *seed, *clusters/3, func(t *testing.T, o *Oracle, s uint64) {
					c := Random(s)
					c.Ahead = run.ahead
					asked := modes(s)
					if mode, late := lateNews[change.Behaviour]; late {
						c.Live, asked = newsOf(c, s), []Mode{mode}
					}
					for _, mode := range asked {
						result, model, err := compare(o, c, mode, Newest)
						if err != nil {
							t.Errorf("seed %d, %+v: %v", s, mode, err)
							return
						}
						total.add(result, model)
						if len(result.Differences) > 0 && !run.differs {
							first.Do(func() { t.Errorf("seed %d, %+v: %v\n%s", s, mode, result.Differences[0], explain(o, c, mode, Newest)) })
						}
					}
				})
				if differ := len(total.Differences); run.differs != (differ > 0) {
					t.Errorf("patch %q, behaviours %v: %d rows differ", run.patch, run.ahead, differ)
				}
				t.Logf("patch %q, behaviours %v: %d passes, %d of %d rows differ, %d left to chance", run.patch, run.ahead, total.passes, len(total.Differences), total.Rows, total.tolerated())
			}
		})
	}
}

// TestTaintTakenOff shows the purpose of TaintReadsNode: a node is back in service and has
// the volume in use, and the controller has not yet heard of that. Without the change it
// deletes the VolumeAttachment under a running pod.
func TestTaintTakenOff(t *testing.T) {
	pair := Pair{Volume: "kubernetes.io/csi/d^v", Node: "n1"}
	node := &corev1.Node{}
	node.Name = "n1"
	node.Status.VolumesInUse = []corev1.UniqueVolumeName{pair.Volume}
	node.Status.VolumesAttached = []corev1.AttachedVolume{{Name: pair.Volume}}
	c := &Cluster{Live: []*corev1.Node{node.DeepCopy()}}
	node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
	c.Nodes = []*corev1.Node{node}
	for patch, deletes := range map[string]bool{"": true, "141888": false} {
		eachPatched(t, Newest, patch, 0, 1, func(t *testing.T, o *Oracle, _ uint64) {
			answer, err := o.Ask(c, Mode{})
			if err != nil {
				t.Fatal(err)
			}
			if got := answer.Decisions[pair].VolumeAttachment; (got != "") != deletes {
				t.Errorf("patch %q: %+v", patch, answer.Decisions[pair])
			}
		})
	}
}

// TestPatches: a patch fails where its lines are missing, or are there more than once.
func TestPatches(t *testing.T) {
	edits := parsePatch("# why\n--- a/b.go\n@@\n-\tone\n+\ttwo\n+\tthree\n@@\n-five\n--- c.go\n@@\n-x\n+y\n")
	if len(edits) != 2 || len(edits["a/b.go"]) != 2 || edits["c.go"][0] != (edit{"x\n", "y\n"}) {
		t.Fatal(edits)
	}
	if got, err := apply("zero\n\tone\nfive\nsix\n", edits["a/b.go"]); err != nil || got != "zero\n\ttwo\n\tthree\nsix\n" {
		t.Errorf("%q, %v", got, err)
	}
	for _, text := range []string{"five\n", "\tone\n\tone\nfive\n", "a\tone\nfive\n", "\tone\n five\n"} {
		if got, err := apply(text, edits["a/b.go"]); err == nil {
			t.Errorf("%q became %q", text, got)
		}
	}
}
