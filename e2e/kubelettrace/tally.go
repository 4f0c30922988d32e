package kubelettrace

import (
	_ "embed" // for the page's text
	"fmt"
	"strings"
	"sync"
	"text/template"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
)

const (
	// machines is how many work at the same time.
	machines = 6
	// batchSize is how many pods a machine has at the same time.
	batchSize = 20
)

// tally counts what was drawn and what came of it, on all machines.
type tally struct {
	mu     sync.Mutex
	Seed   uint64
	Pods   int
	Kinds  map[string]int
	Looks  map[string]int // by when
	Stages map[string]int // true stages of volumes that waited
	Actors map[string]int
	// Volumes are those that were compared, and Waited those of them that waited.
	Volumes, Waited int
	// Forgotten are those that a kubelet has lost.
	Forgotten int
	// Wrong are the rows that differed.
	Wrong int
	// Nodes are the plans of nodes that were compared, Rows those of all their volumes,
	// and Leftovers those of volumes that no pod wanted. MovedNodes were not compared.
	Nodes, Rows, Leftovers, MovedNodes int
	// Dated are the looks that differed because no object could show the truth yet, by why.
	Dated map[string]int
	// Moved, Gone and Pending are the looks that were not compared.
	Moved, Gone, Pending int
}

func newTally(seed uint64) *tally {
	return &tally{Seed: seed, Kinds: map[string]int{}, Looks: map[string]int{}, Stages: map[string]int{}, Actors: map[string]int{}, Dated: map[string]int{}}
}

func (t *tally) drew(d *drawnPod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Pods++
	for _, k := range d.kinds {
		t.Kinds[k]++
	}
}

func (t *tally) looked(when string, l Look, wrong []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Looks[when]++
	t.Wrong += len(wrong)
	for _, truth := range l.Truth {
		t.Volumes++
		if truth.Forgotten {
			t.Forgotten++
		}
		if truth.Stage != "" {
			t.Waited++
			t.Stages[string(truth.Stage)]++
			t.Actors[string(truth.Actor)]++
		}
	}
}

// dated counts a look that differed for the reason.
func (t *tally) dated(why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Dated[why]++
}

// rows counts a plan of a node.
func (t *tally) rows(rows, leftovers, wrong int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Nodes++
	t.Rows += rows
	t.Leftovers += leftovers
	t.Wrong += wrong
}

// left counts a look that was not compared.
func (t *tally) left(count *int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*count++
}

func (t *tally) String() string {
	return fmt.Sprintf("%d pods drawn with seed %d; %d looks at %d volumes, %d of which waited; %d rows wrong; %d plans of nodes with %d rows, %d of volumes that nobody wanted; not compared: %d moved, %d nodes moved, %d gone; true a moment ago: %v",
		t.Pods, t.Seed, sum(t.Looks), t.Volumes, t.Waited, t.Wrong, t.Nodes, t.Rows, t.Leftovers, t.Moved, t.MovedNodes, t.Gone, t.Dated)
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

//go:embed page.tmpl
var pageText string

// page is docs/kubelet.md; states are the rows of its last table.
func (t *tally) page(states []pageState) (string, error) {
	template, err := template.New("page").Parse(pageText)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = template.Execute(&b, map[string]any{
		"T": t, "Machines": machines, "Batch": batchSize, "Looks": sum(t.Looks), "States": states, "Release": strings.TrimPrefix(controlplane.KubernetesVersion, "v"),
		"Counts": []counted{{"compared", t.Looks}, {"volume drawn", t.Kinds}, {"true stage", t.Stages}, {"who had to act", t.Actors}},
	})
	return b.String(), err
}

// pageState is a row of the table of states.
type pageState struct{ Name, Stage, Actor, Verdict string }

// counted is a table of the page.
type counted struct {
	Title  string
	Counts map[string]int
}
