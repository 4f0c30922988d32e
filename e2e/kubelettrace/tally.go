package kubelettrace

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// tally counts what was drawn and what came of it.
type tally struct {
	Seed   uint64
	Pods   int
	Kinds  map[string]int
	Looks  map[string]int // by when
	Stages map[string]int // true stages of volumes that waited
	Actors map[string]int
	// Volumes are those that were compared, and Waited those of them that waited.
	Volumes, Waited int
	// Wrong are the rows that differed.
	Wrong int
	// Moved, Gone and Dated are the looks that were not compared.
	Moved, Gone, Dated int
}

func newTally(seed uint64) *tally {
	return &tally{Seed: seed, Kinds: map[string]int{}, Looks: map[string]int{}, Stages: map[string]int{}, Actors: map[string]int{}}
}

func (t *tally) drew(d *drawnPod) {
	t.Pods++
	for _, k := range d.kinds {
		t.Kinds[k]++
	}
}

func (t *tally) looked(when string, l Look, wrong []string) {
	t.Looks[when]++
	t.Wrong += len(wrong)
	for _, truth := range l.Truth {
		t.Volumes++
		if truth.Stage != "" {
			t.Waited++
			t.Stages[string(truth.Stage)]++
			t.Actors[string(truth.Actor)]++
		}
	}
}

func (t *tally) String() string {
	return fmt.Sprintf("%d pods drawn with seed %d; %d looks at %d volumes, %d of which waited; %d rows wrong; not compared: %d moved, %d gone, %d with words older than the last call",
		t.Pods, t.Seed, sum(t.Looks), t.Volumes, t.Waited, t.Wrong, t.Moved, t.Gone, t.Dated)
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// page is docs/kubelet.md.
func (t *tally) page() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# The trace against a real kubelet

This page is written by `+"`make kubelet-oracle`"+`.

The volume manager, the plugin manager with its watcher of sockets, the CSI plugin, the
secret and config map managers and the mounts of Kubernetes 1.36.3 run on a machine in
a mount namespace of its own, against a real API server, attach/detach controller and
external-attacher. The drivers there fail and hang on demand, and know which calls
they received. From these calls, the volume manager's own answers and the node's
registrations follow the stage that each volume of a pod is in and who has to act. The
trace is made of what the API server has at the same moment, as the command reads it.

| what | how many |
| --- | --- |
| pods drawn (seed %d) | %d |
| looks compared | %d |
| volumes compared | %d |
| of them waiting | %d |
| rows that differ: stages, actors, volumes, verdicts | %d |

A row is a stage that the trace says is done or not, the volume, the stage and the actor
of its verdict, "stuck" for what can never come and nothing else of a young pod. A stage
that no object shows counts as wrong if the trace claims it.

`, t.Seed, t.Pods, sum(t.Looks), t.Volumes, t.Waited, t.Wrong)
	table := func(title string, counts map[string]int) {
		fmt.Fprintf(&b, "| %s | how often |\n| --- | --- |\n", title)
		for _, key := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(&b, "| %s | %d |\n", key, counts[key])
		}
		fmt.Fprintln(&b)
	}
	table("compared", t.Looks)
	table("volume drawn", t.Kinds)
	table("true stage", t.Stages)
	table("who had to act", t.Actors)
	fmt.Fprintf(&b, `## Left out

Not compared: %d looks at pods that were still moving, %d at pods that had gone, and %d in
which the driver had been called again since the last event, and had not answered: the
words of the trace are then those of the call before, with its time.

Left to chance: which kinds of volumes meet in a pod, which pods share theirs, and
whether the kubelet is killed or a driver goes while they wait. Not drawn: other
releases than 1.36.3, block devices in use, migrated in-tree volumes, fsGroup, subPath,
SELinux, a node that is not Ready, and an API server that is away.
`, t.Moved, t.Gone, t.Dated)
	return b.String()
}
