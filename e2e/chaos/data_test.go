package chaos_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
)

var (
	dataRounds = flag.Int("data-rounds", 50, "how many rounds a batch of TestData has")
	dataFaults = flag.Int("data-faults", 1, "in TestData, go on until there were so many faults")
)

const (
	// machinesAtATime is how many worlds with machines are built and played side by side.
	machinesAtATime = 8
	// dataWritten is how long the containers write on once the doctor has come to its end.
	dataWritten = time.Second
)

// dataStories are those in which a wrong write lets two machines have one volume, or takes
// it from under a container.
var dataStories = []story{lostEntry, refusedDetach, forgotten, nodeOff, nodeLost, orphan}

// dataPlan is the rounds of a batch: the fixed ones of those stories in an order of the
// seed's, and then what is drawn.
func dataPlan(batch, n int, seed uint64) []planned {
	list := fixed(quietGuess, seed)
	rand.New(rand.NewPCG(seed, 3)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	list = append(list, plan(batch+len(list)/n+1, 4*n, quietGuess, seed)...)
	list = slices.DeleteFunc(list, func(p planned) bool {
		return !slices.Contains(dataStories, p.story) || *only != "" && string(p.story) != *only
	})
	begin := batch * n % len(list)
	return list[begin:min(begin+n, len(list))]
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

// TestData plays rounds in which machines write to the volumes, and checks each volume's
// records and file system afterwards.
func TestData(t *testing.T) {
	t.Parallel()
	sum, written, volumes := newSummary(), 0, 0
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
			rounds[i].writesOn = dataWritten
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
			if written += n; n > 0 {
				volumes++
			}
		}
		violations := s.judge(rounds)
		for _, v := range violations {
			t.Error(v)
		}
		sum.add(rounds, violations)
		s.cluster.Stop()
		t.Logf("%d rounds, %d faults so far; %d records on %d volumes", sum.rounds, sum.allFaults(), written, volumes)
	}
	if volumes*4 < sum.rounds {
		t.Errorf("only %d of %d volumes were written to", volumes, sum.rounds)
	}
	t.Log("\n" + sum.String())
	if *write && !t.Failed() {
		sum.writeDataDown(t, written, volumes)
	}
}

// TestDataCanFail takes the guard away that keeps a volume on a lost node whose machine may
// be on, and wants the records or the file system to show it.
func TestDataCanFail(t *testing.T) {
	t.Parallel()
	s := setData(t)
	i := slices.IndexFunc(mutants, func(m mutant) bool { return m.name == "without the guard fenced" })
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
	r.writesOn = 10 * time.Second // the attacher, the controller and the kubelet have to act
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
	t.Logf("%d records: %s", n, strings.Join(wrong, "; ")[:min(400, len(strings.Join(wrong, "; ")))])
}
