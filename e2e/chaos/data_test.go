package chaos_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
)

var (
	dataRounds = flag.Int("data-rounds", 50, "how many rounds a batch of TestData has")
	dataFaults = flag.Int("data-faults", 1, "in TestData, go on until there were so many faults")
)

const (
	// machinesAtATime is how many worlds with machines are built and played side by side.
	machinesAtATime = 8
	// dataWritten is how long the containers continue to write after the doctor has ended.
	dataWritten = time.Second
)

// dataStories are the stories in which a wrong write lets two machines have one volume, or
// takes it from under a container.
var dataStories = []story{lostEntry, refusedDetach, forgotten, nodeOff, nodeLost, orphan}

// dataPlan is the rounds of a batch, counted from 0: first the fixed ones of those stories,
// in an order that depends on the seed, and then drawn ones.
func dataPlan(batch, n int, seed uint64) []planned {
	others := func(p planned) bool {
		return !slices.Contains(dataStories, p.story) || *only != "" && string(p.story) != *only
	}
	all := fixed(quietGuess, seed)
	list := slices.DeleteFunc(slices.Clone(all), others)
	rand.New(rand.NewPCG(seed, 3)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	if begin := batch * n; begin < len(list) {
		return list[begin:min(begin+n, len(list))]
	}
	// A batch that begins after the fixed rounds of all stories has only drawn ones.
	drawn := slices.DeleteFunc(plan(batch+len(all), 3*n, quietGuess, seed), others)
	return drawn[:min(n, len(drawn))]
}

// writeOn waits while the containers write.
func writeOn(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(dataWritten):
		return nil
	}
}

// setData is a control plane of its own with disks.
func setData(t *testing.T) *setting {
	t.Helper()
	if why := whyNoData(); why != "" {
		t.Skip(why)
	}
	c, err := controlplane.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	s, err := set(t, c)
	if err != nil {
		t.Fatal(err)
	}
	s.atATime = machinesAtATime
	if s.storage, err = newStorage(t.Context(), s.dir, c.Driver); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestData plays rounds in which machines write to the volumes, and afterwards checks each
// volume's records and file system.
func TestData(t *testing.T) {
	t.Parallel()
	var sum dataSummary
	sum.summary = newSummary()
	for number := 0; number == 0 || sum.allFaults() < *dataFaults && !t.Failed(); number++ {
		s := setData(t)
		planned := dataPlan(number, *dataRounds, *seed)
		var stories []story
		for _, p := range planned {
			stories = append(stories, p.story)
		}
		worlds, err := s.build(fmt.Sprintf("data-%d-", number), stories)
		if err != nil {
			t.Fatal(err)
		}
		rounds := make([]*round, len(worlds))
		for i, w := range worlds {
			rounds[i] = newRound(w, planned[i].attack, s.proxy, s.dir, *seed+uint64(number**dataRounds+i))
			rounds[i].writeOn = writeOn
		}
		err = s.each(len(rounds), func(i int) error {
			if err := rounds[i].play(t.Context()); err != nil {
				return fmt.Errorf("round %s (%s; %s): %w", rounds[i].name, rounds[i].story, rounds[i].attack, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		for _, r := range rounds {
			wrong, n, err := s.storage.verdict(r.volume.Handle, r.volume.PersistentVolume)
			if err != nil {
				t.Errorf("round %s: %v", r.name, err)
			}
			for _, what := range wrong {
				t.Errorf("round %s (%s; %s): %s", r.name, r.story, r.attack, what)
			}
			sum.checked(n, wrong)
		}
		violations := s.judge(rounds)
		for _, v := range violations {
			t.Error(v)
		}
		sum.add(rounds, violations)
		s.cluster.Stop()
		t.Logf("%d faults so far", sum.allFaults())
	}
	if sum.volumes*4 < sum.rounds {
		t.Errorf("only %d of %d volumes were written to", sum.volumes, sum.rounds)
	}
	t.Log("\n" + sum.String())
	if *write && !t.Failed() {
		writeSection(t, "The last long run with data", "Written by `make chaos-data`.\n\n"+sum.String())
	}
}

// TestDataCanFail removes the guard that keeps a volume on a lost node whose machine may be
// on, and checks that the records or the file system show it.
func TestDataCanFail(t *testing.T) {
	t.Parallel()
	s := setData(t)
	i := slices.IndexFunc(mutants, func(m mutant) bool { return m.name == "without the guard fenced" })
	if i < 0 {
		t.Fatal("the mutant has another name")
	}
	binary := filepath.Join(s.dir, "mutant")
	if err := mutate(mutants[i].edits, binary); err != nil {
		t.Fatal(err)
	}
	worlds, err := s.build("data-mutant-", []story{nodeLost})
	if err != nil {
		t.Fatal(err)
	}
	r := newRound(worlds[0], struck(), s.proxy, s.dir, *seed)
	r.binary = binary
	r.writeOn = func(ctx context.Context) error {
		// First the attacher, the controller and the other kubelet must act.
		if err := fixture.AwaitFor(ctx, patience, s.storage.writers(r.volume.PersistentVolume, 2)); err != nil {
			return err
		}
		return writeOn(ctx)
	}
	if err := r.play(t.Context()); err != nil {
		t.Fatal(err)
	}
	wrong, n, err := s.storage.verdict(r.volume.Handle, r.volume.PersistentVolume)
	if err != nil {
		t.Fatal(err)
	}
	if len(wrong) == 0 {
		t.Errorf("a doctor %s lets two machines write, and none of %d records is wrong", mutants[i].name, n)
	}
	t.Logf("%d records, and %d that are lost or broken, or a file system that is: %s", n, len(wrong), strings.Join(wrong[:min(5, len(wrong))], "; "))
}
