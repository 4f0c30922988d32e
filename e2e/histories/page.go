package histories

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/conformance"
)

// row has the results of one release's histories.
type row struct {
	Release   conformance.Release
	Histories int
	Differing int
	Counts    map[string]int
}

func (r *row) add(result *Result) {
	r.Histories++
	r.Differing += len(result.Differences)
	for name, n := range result.Counts {
		r.Counts[name] += n
	}
}

// otherMemory is the prefix of the counts of deeds that are not compared.
const otherMemory = "deeds by another memory: "

// pageText is the text of docs/evidence/histories.md.
func pageText(rows []row, seed uint64, now time.Time) string {
	var b strings.Builder
	b.WriteString(pageHead)
	b.WriteString("\n## What ran\n\n")
	b.WriteString("| release | histories | seeds | moments | deeds | compared | bounds | differing | date |\n|---|---|---|---|---|---|---|---|---|\n")
	total := map[string]int{}
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %d | %d to %d | %d | %d | %d | %d | %d | %s |\n", r.Release, r.Histories, seed, seed+uint64(r.Histories)-1,
			r.Counts["moments"], r.Counts["deeds"], r.Counts["deeds compared"], r.Counts["bounds"], r.Differing, now.UTC().Format(time.DateOnly))
		for name, n := range r.Counts {
			total[name] += n
		}
	}
	section := func(title, prefix string) {
		b.WriteString("\n" + title + "\n\n| what | times |\n|---|---|\n")
		for _, name := range slices.Sorted(maps.Keys(total)) {
			if rest, ok := strings.CutPrefix(name, prefix); ok {
				fmt.Fprintf(&b, "| %s | %d |\n", rest, total[name])
			}
		}
	}
	section("The deeds that were compared:", "deed ")
	section("Of these, the deeds that a row of `until` foretold (verb, event, deed):", "row ")
	section("The latest moments that were waited for (verb, event):", "bound ")
	fmt.Fprintf(&b, "\nMap order chose %d times among contenders of the pass and %d times among those of a row; %d detaches were done by force, the time-out being over.\n",
		total["contenders served"], total["contenders of a row served"], total["detaches done by force, the time-out being over"])
	section("The deeds that were not compared, by what the controller remembers and no object shows:", otherMemory)
	section("What the logs tell of the controllers' memory, of all pairs at all moments:", "memory: ")
	fmt.Fprintf(&b, "\nBeside these, %d deeds of a controller whose watches were broken.\n", total["deeds of a controller that hears of nothing"])
	return b.String()
}

const pageHead = `# Histories

What the model says of a controller that is at work, and of the time after its first
pass, held against the attach/detach controllers of Kubernetes themselves, over random
histories. ` + "`make histories`" + ` wrote this page; do not edit it. ` + "`make e2e`" + ` compares 100
histories for each release and those that once differed (e2e/histories/testdata). One
that differs is made as short as it goes and written to a file, which belongs there
once the model is right. ` + "`TestComparisonCanFail`" + ` spoils what the model says in sixteen
ways and wants each noticed.

## What is drawn

A cluster of three nodes and three volumes, two of them for one node at a time, with
VolumeAttachments, node statuses and pods that need not agree. Then three to twelve
steps with pauses of a second up to twelve minutes: pods come, end and go; kubelets
mount, unmount and report; nodes fall silent, return, are deleted and replaced, and
are put out of service; the driver works, refuses or hangs, or the API server does not
let it be asked; somebody deletes, strips or restores a VolumeAttachment or edits a
node's volumesAttached; patches of node statuses are lost; watches break; the
controller restarts. One history in six runs with --disable-force-detach-on-timeout.

The controller is upstream's code with its own timers: 6 minutes, 1 minute, 2 minutes and the
back-off are what they are in a cluster. Only the pause between two passes is a second
instead of 100 ms. The clock of the process goes on only while everything waits
(testing/synctest), so that no timing depends on the machine.

## What is compared

Whenever an object or the controller's memory has changed, the model is asked about the
objects of that moment. Until the next change:

- Each attach, detach, forced detach and forgotten attachment has to be what the model
  says that the controller does now, or follow from a row of ` + "`until`" + `, and not before
  the row's ` + "`after`" + `, counted from the start and, for the time-out, from each
  earlier moment at which the model said the same. Of contenders, one is served.
- What the model says that the controller does now has to be begun within five passes,
  unless another operation on the volume runs or waits.
- A row with a ` + "`bound`" + ` has to have come true by then: counted from the start
  for a controller that has just started, and from the snapshot (` + "`running.bound`" + `) for one
  at work, until the objects make the row go. Five seconds are allowed.

## What is left out, and why

The model is a controller that starts on the objects. Where the one at work remembers
something else about the volume, as its caches show, its deeds are counted below and not
compared; its ` + "`running.bound`" + ` is, unless somebody has edited VolumeAttachments or volumesAttached by
hand since it started. Nothing is compared while its watches are broken: it does not see
the objects. While its patches fail, bounds and what it has to begin now are not compared. Which of several contenders is served is map order.

A detach for which the time-out is over is logged, counted and done as a forced one, without
the last look at the node. For how long a running controller has counted no object
shows, so that either is taken once it has been at work for six minutes.

A pair without a VolumeAttachment that is to be detached may be forgotten first, and that
is counted: the minute's verification falls into the pass of its detach, or the detach
waits for another one of the volume that fails and is tried again.

FC, iSCSI and flexvolumes are in no history: they have no VolumeAttachment that could
fail, and the first pass over them is compared on [conformance.md](conformance.md).
`
