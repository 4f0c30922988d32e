package apply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/golden"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

func TestMain(m *testing.M) { os.Exit(golden.Main(m)) }

// listFault is a failure of one list, with the objects that it leaves: a refused list has
// none, and one that ends early has some.
type listFault struct {
	name   string
	reason string
	half   bool
	slow   bool
}

var listFaults = []listFault{
	{"403", snapshot.ReasonForbidden, false, false},
	{"410", snapshot.ReasonTruncated, true, false},
	{"500", snapshot.ReasonUnavailable, false, false},
	{"cut", snapshot.ReasonTruncated, true, false},
	{"12 s", "", false, true},
}

// minds are the kinds of repair that a pod must stop which comes to the node and runs there
// with the volume.
var minds = []repair.Kind{
	repair.Nudge, repair.CreateAttachment, repair.PruneNodeStatus, repair.Republish, repair.DeleteAttachment, repair.DeleteFencedAttachment,
	repair.UnpublishOrphan, repair.StripFinalizer,
}

// smallReads are the kinds that are read again right before a write.
var smallReads = []snapshot.Kind{snapshot.Nodes, snapshot.VolumeAttachments, snapshot.Pods}

// restsOn are the kinds that the guard alone needs in full; for the guard of the finding,
// those that its check needs.
func restsOn(g repair.Guard, code finding.Code) []snapshot.Kind {
	if g.Name != repair.GuardFinding {
		return g.Kinds
	}
	all := diagnose.Checks()
	return all[slices.IndexFunc(all, func(c check.Check) bool { return c.Code == code })].Needs
}

// reading tests one guard, one kind and one fault, at each reading of a run. It returns the
// number of runs, and of writes that should not have been made.
func reading(t *testing.T, world func(testing.TB) *memory, g repair.Guard, kind snapshot.Kind, f listFault) (runs, writes int) {
	t.Helper()
	run := func(set func(m *memory, r *repair.Repair), allowed int) Result {
		m := world(t)
		r := m.only()
		m.looks = 0
		m.reason, m.half = f.reason, f.half
		// The guard stands alone, with the kinds that it names itself.
		named := repair.Guard{Name: repair.GuardComplete, Check: func(v *repair.View, _ *repair.Repair) error { return repair.Complete(v.Snapshot, g.Kinds) }}
		r.Guards = []repair.Guard{named, g}
		set(m, &r)
		a, _ := m.short()
		a.Options = narrow(r.Finding.Code)
		results, err := a.Apply(t.Context(), []repair.Repair{r})
		if err != nil || len(results) != 1 {
			t.Fatalf("%+v, %v", results, err)
		}
		runs++
		if extra := len(m.stored) - allowed; extra > 0 {
			writes += extra
			t.Errorf("%s, guard %s, %s %s: %d writes, %+v", r.Kind, g.Name, kind, f.name, len(m.stored), results[0])
		}
		return results[0]
	}
	all := func(m *memory, r *repair.Repair) { *r = world(t).only() }
	node := func(r *repair.Repair) string {
		if r.Finding.Holder != "" {
			return string(r.Finding.Holder)
		}
		return string(r.Finding.Node)
	}
	plain := world(t).only()
	if f.slow {
		if slices.Contains(smallReads, kind) {
			run(func(m *memory, r *repair.Repair) { m.nearing = func(int) error { return context.DeadlineExceeded } }, 0)
		}
		if slices.Contains(minds, plain.Kind) {
			for look := 1; look <= 2; look++ { // the first look, by which it was proposed, is the world itself
				run(func(m *memory, r *repair.Repair) {
					all(m, r)
					arrive := func() { m.looked = nil; m.now = m.now.Add(12 * time.Second); m.arrives(node(r)) }
					if look == 1 {
						arrive() // between the two
					} else {
						m.looked = arrive
					}
				}, 0)
			}
		}
		return runs, writes
	}
	// At the first look nothing is proposed.
	m := world(t)
	m.reason, m.half, m.failing = f.reason, f.half, unread(from(1), kind)
	_, repairs := m.view()
	runs++
	for _, r := range repairs {
		if r.Kind == plain.Kind && r.Finding.Fingerprint == plain.Finding.Fingerprint {
			writes++
			t.Errorf("%s is proposed without the %s", r.Kind, kind)
		}
	}
	// The last look, the small reads, and the step after the first write.
	run(func(m *memory, _ *repair.Repair) { m.failing = unread(from(1), kind) }, 0)
	if slices.Contains(smallReads, kind) {
		run(func(m *memory, _ *repair.Repair) { m.nearing = func(int) error { return errors.New(f.name) } }, 0)
	}
	after := run(func(m *memory, r *repair.Repair) {
		all(m, r)
		m.failing = unread(from(2), kind)
	}, 1)
	if slices.Contains(plain.Reads(), kind) && (after.Outcome == Repaired || after.Outcome == DryRun) {
		t.Errorf("%s, %s unread after the write: %s", plain.Kind, kind, after.Outcome)
	}
	return runs, writes
}

// TestGeneratedReadings fails each list on which each guard of each kind of repair rests, in
// each way and at each reading. No write is made. The table in docs/evidence/chaos.md is its count.
func TestGeneratedReadings(t *testing.T) {
	if testing.Short() {
		t.Skip("8,000 runs; make generate and make whole have them")
	}
	var mu sync.Mutex
	rows := map[repair.Kind][]string{}
	seen := map[repair.Kind]bool{}
	total, written := 0, 0
	t.Run("all", func(t *testing.T) {
		for _, world := range worlds[:17] {
			r := world(t).only()
			if seen[r.Kind] {
				continue
			}
			seen[r.Kind] = true
			t.Run(string(r.Kind), func(t *testing.T) {
				t.Parallel()
				var lines []string
				runs, writes := 0, 0
				for _, g := range r.Guards {
					kinds := restsOn(g, r.Finding.Code)
					if g.Name == repair.GuardComplete || len(kinds) == 0 {
						continue
					}
					counts := make([]string, len(listFaults))
					here := 0
					for i, f := range listFaults {
						count := 0
						for _, kind := range kinds {
							n, w := reading(t, world, g, kind, f)
							count, here = count+n, here+w
						}
						counts[i] = fmt.Sprint(count)
						runs += count
					}
					writes += here
					lines = append(lines, fmt.Sprintf("| %s | %s | %s | %s | **%d** |", r.Kind, g.Name, shortly(kinds), strings.Join(counts, " | "), here))
				}
				mu.Lock()
				defer mu.Unlock()
				rows[r.Kind] = lines
				total, written = total+runs, written+writes
			})
		}
	})
	if len(seen) != len(repair.Kinds()) {
		t.Errorf("%d kinds of %d", len(seen), len(repair.Kinds()))
	}
	if t.Failed() {
		return
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d runs, **%d writes**.\n\n| repair | guard | lists that it rests on | 403 | 410 | 500 | cut | 12 s | writes |\n| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n", total, written)
	for _, kind := range repair.Kinds() {
		for _, line := range rows[kind] {
			text.WriteString(line + "\n")
		}
	}
	const path, begin, end = "../../docs/evidence/chaos.md", "<!-- readings -->\n", "<!-- end of readings -->\n"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the table", path)
	}
	golden.Want(t, path, []byte(before+begin+text.String()+end+after))
}

// shortly names the lists in the words of kubectl.
func shortly(kinds []snapshot.Kind) string {
	short := map[snapshot.Kind]string{snapshot.VolumeAttachments: "va", snapshot.Volumes: "pv", snapshot.Claims: "pvc"}
	var names []string
	for _, kind := range kinds {
		if name := short[kind]; name != "" {
			names = append(names, name)
		} else {
			names = append(names, string(kind))
		}
	}
	return strings.Join(names, " ")
}
