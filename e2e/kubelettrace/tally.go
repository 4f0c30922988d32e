package kubelettrace

import (
	_ "embed" // for the page's text
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

const (
	// machines is how many machines work at the same time.
	machines = 8
	// batchSize is how many pods a machine has at the same time.
	batchSize = 20
)

// tally counts the drawn pods and the results, on all machines.
type tally struct {
	mu      sync.Mutex
	Seed    uint64
	Release string
	Pods    int
	Kinds   map[string]int
	Looks   map[string]int // by when
	Stages  map[string]int // true stages of volumes that waited
	Actors  map[string]int
	// Volumes is the number of compared volumes, and Waited of those that waited.
	Volumes, Waited int
	// Forgotten is the number of volumes that a kubelet has lost.
	Forgotten int
	// Narrowed is the number of volumes whose stage only the kubelet itself showed.
	Narrowed int
	// Wrong is the number of rows that differed.
	Wrong int
	// Nodes is the number of compared plans of nodes, Rows of the rows of all their volumes,
	// and Leftovers of the rows of volumes that no pod wanted. MovedNodes is the number of
	// plans that were not compared.
	Nodes, Rows, Leftovers, MovedNodes int
	// Cured is the number of verdicts whose fault was ended, of pods that start and of pods
	// that end, and Others of the faults of other volumes of these pods that were ended before.
	Cured, Others int
	// Findings is the number of findings whose actors were compared with the verdicts'.
	Findings int
	// Dated is the number of looks that differed because no object could show the truth yet,
	// by the reason.
	Dated map[string]int
	// Said are the texts of the kubelets.
	Said said
	// Moved, Gone and Pending are the numbers of looks that were not compared.
	Moved, Gone, Pending int
}

func newTally(seed uint64, release string) *tally {
	return &tally{Seed: seed, Release: release, Kinds: map[string]int{}, Looks: map[string]int{}, Stages: map[string]int{}, Actors: map[string]int{}, Dated: map[string]int{}, Said: said{}}
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

// cured counts n verdicts whose volume came once its own fault had ended, and the other
// faults that had ended before.
func (t *tally) cured(n, others int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Cured += n
	t.Others += others
}

// reported counts the findings of a report, and where actors differ in it.
func (t *tally) reported(findings, wrong int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Findings += findings
	t.Wrong += wrong
}

// heard counts a volume where the look that also asked the kubelet leaves one stage of
// several.
func (t *tally) heard(l, asked Look) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name := range l.Truth {
		if row, told := l.row(name), asked.row(name); row != nil && told != nil && len(row.Stages) > 0 && len(told.Stages) == 0 {
			t.Narrowed++
		}
	}
}

// hear keeps the texts of the machine's kubelet about the pod.
func (t *tally) hear(root string, seen *snapshot.Snapshot, heard *trace.KubeletView, pod *corev1.Pod, uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Said.hear(root, seen, heard, pod, uid)
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
	return fmt.Sprintf("%s: %d pods drawn with seed %d; %d looks at %d volumes, %d of which waited; %d rows wrong; %d plans of nodes with %d rows, %d of volumes that nobody wanted; %d cured, after %d other faults; not compared: %d moved, %d nodes moved, %d gone; true a moment ago: %v",
		t.Release, t.Pods, t.Seed, t.Compared(), t.Volumes, t.Waited, t.Wrong, t.Nodes, t.Rows, t.Leftovers, t.Cured, t.Others, t.Moved, t.MovedNodes, t.Gone, t.Dated)
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// Compared is the number of compared looks.
func (t *tally) Compared() int { return sum(t.Looks) }

// add puts the counts of another release into the tally.
func (t *tally) add(o *tally) {
	for to, from := range map[*int]int{
		&t.Pods: o.Pods, &t.Volumes: o.Volumes, &t.Waited: o.Waited, &t.Forgotten: o.Forgotten, &t.Narrowed: o.Narrowed, &t.Wrong: o.Wrong,
		&t.Nodes: o.Nodes, &t.Rows: o.Rows, &t.Leftovers: o.Leftovers, &t.MovedNodes: o.MovedNodes,
		&t.Cured: o.Cured, &t.Findings: o.Findings, &t.Others: o.Others, &t.Moved: o.Moved, &t.Gone: o.Gone, &t.Pending: o.Pending,
	} {
		*to += from
	}
	for _, maps := range [][2]map[string]int{{t.Kinds, o.Kinds}, {t.Looks, o.Looks}, {t.Stages, o.Stages}, {t.Actors, o.Actors}, {t.Dated, o.Dated}} {
		for key, n := range maps[1] {
			maps[0][key] += n
		}
	}
}

func (t *tally) file(dir string) string {
	return filepath.Join(dir, fmt.Sprintf("%s-%d.json", t.Release, t.Seed))
}

// save keeps a whole tally in the folder; without one it does nothing.
func (t *tally) save(dir string) error {
	if dir == "" {
		return nil
	}
	text, err := json.Marshal(t)
	if err == nil {
		err = os.WriteFile(t.file(dir), text, 0o644)
	}
	return err
}

// load reads the counts of the same release and seed from the folder, and reports whether
// there were any. It fails if another number of pods was drawn.
func (t *tally) load(dir string, pods int) (bool, error) {
	if dir == "" {
		return false, nil
	}
	text, err := os.ReadFile(t.file(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, t)
	}
	if err == nil && t.Pods != pods {
		err = fmt.Errorf("%s is of %d pods, not %d", t.file(dir), t.Pods, pods)
	}
	return true, err
}

//go:embed page.tmpl
var pageText string

// page is the text of docs/evidence/kubelet.md, with one tally for each release; states are
// the rows of its last table.
func page(tallies []*tally, states []pageState) (string, error) {
	template, err := template.New("page").Parse(pageText)
	if err != nil {
		return "", err
	}
	all := newTally(tallies[0].Seed, "all")
	for _, t := range tallies {
		all.add(t)
	}
	var b strings.Builder
	err = template.Execute(&b, map[string]any{
		"T": all, "Releases": tallies, "Machines": machines, "Batch": batchSize, "States": states, "Plane": Newest,
		"Counts": []counted{{"compared", all.Looks}, {"volume drawn", all.Kinds}, {"true stage", all.Stages}, {"who had to act", all.Actors}},
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
