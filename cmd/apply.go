package cmd

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/repair/apply"
)

// applyFlags are the flags that go with --apply.
type applyFlags struct {
	enabled    bool
	yes        bool
	dryRun     string
	maxRepairs int
	settle     time.Duration
	wait       bool
	// thirdLook reports whether the run may look again when a suspected cause becomes
	// certain: --for does not fix how long to look.
	thirdLook bool
	// whole reports whether each repair is watched for all of settle, also once the pods run.
	whole    bool
	journal  string
	allow    []string
	fenced   []string
	detached []string
	// save is the file of repairs to be reviewed, and approved the reviewed one.
	save     string
	approved string
	// asker is the name of the command that asks for confirmation, where it is not --apply.
	asker string
}

// applyOnly are the flags that have no effect without --apply.
var applyOnly = []string{"yes", "dry-run", "max-repairs", "settle", "wait", "journal", "allow", "fenced", "detached", "save-repairs", "approved"}

// formerNames has the former names of flags, which scripts still use.
var formerNames = map[string]string{"save-plan": "save-repairs", "plan": "approved"}

// defaultSettle is two of the controller's verify syncs: by then it has undone whatever it
// would undo.
const defaultSettle = 2 * reconcile.VerifySyncPeriod

func (a *applyFlags) add(f *pflag.FlagSet) {
	f.BoolVar(&a.enabled, "apply", false, "Make the proposed repairs, after asking")
	f.BoolVar(&a.yes, "yes", false, "With --apply: do not ask")
	f.StringVar(&a.dryRun, "dry-run", "none", "With --apply: write nothing (client), or let the API server check and not store (server)")
	f.Lookup("dry-run").NoOptDefVal = "client"
	f.IntVar(&a.maxRepairs, "max-repairs", 10, "With --apply: stop after this many")
	f.DurationVar(&a.settle, "settle", defaultSettle, "With --apply: how long a repair must hold to count")
	f.BoolVar(&a.wait, "wait", true, "With --apply: watch that each repair holds for all of --settle; left out, until the pods that waited run; false ends when all are written")
	f.StringVar(&a.journal, "journal", "", "With --apply: the file that says what was written, for undo (default volume-doctor-TIME-RANDOM.journal)")
	f.StringSliceVar(&a.allow, "allow", nil, "With --apply: kinds of repair that are never made unasked; explain KIND says why")
	f.StringSliceVar(&a.fenced, "fenced", nil, "With --apply: nodes that you know to be powered off or cut off from the storage")
	f.StringSliceVar(&a.detached, "detached", nil, "With --apply: VolumeAttachments whose volume, as you have seen at the storage system, is not attached to their node")
	f.StringVar(&a.save, "save-repairs", "", "With --apply: write the repairs to this file for review, and nothing to the cluster")
	f.StringVar(&a.approved, "approved", "", "With --apply: make exactly the repairs of this file, or none if the cluster has moved on")
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(cmp.Or(formerNames[name], name))
	})
}

func (a *applyFlags) validate(f *pflag.FlagSet, offline bool) error {
	if !a.enabled {
		for _, name := range applyOnly {
			if f.Changed(name) {
				return fmt.Errorf("--%s goes with --apply", name)
			}
		}
		return nil
	}
	a.whole = f.Changed("wait") || f.Changed("settle")
	switch {
	case offline:
		return errors.New("--apply needs a cluster: a file cannot be repaired")
	case a.unknownMode() != nil:
		return a.unknownMode()
	case a.maxRepairs < 1:
		return fmt.Errorf("--max-repairs must be at least 1, not %d", a.maxRepairs)
	case a.settle < 0:
		return errors.New("--settle must not be negative")
	case !a.wait && f.Changed("settle"):
		return errors.New("--wait=false and --settle exclude each other")
	case a.save != "" && a.approved != "":
		return errors.New("--save-repairs and --approved exclude each other: repairs are saved, reviewed and then made")
	}
	for _, kind := range a.allow {
		if !slices.Contains(repairKinds(), kind) {
			return fmt.Errorf("--allow %s: there is no such kind of repair; there are %s", kind, strings.Join(repairKinds(), ", "))
		}
	}
	return nil
}

func (a *applyFlags) unknownMode() error {
	if slices.Contains([]string{"none", "client", "server"}, a.dryRun) {
		return nil
	}
	return fmt.Errorf("--dry-run is none, client or server, not %q", a.dryRun)
}

// repairKinds are the names of all kinds of repair.
func repairKinds() []string {
	return each(repair.Kinds(), func(kind repair.Kind) string { return string(kind) })
}

func (a *applyFlags) consent() repair.Consent {
	return repair.Consent{
		Allow:    each(a.allow, func(kind string) repair.Kind { return repair.Kind(kind) }),
		Fenced:   each(a.fenced, func(node string) types.NodeName { return types.NodeName(node) }),
		Detached: a.detached,
	}
}

// writes reports whether the run is meant to change the cluster.
func (a *applyFlags) writes() bool { return a.mode() == apply.DryRunNone && a.save == "" }

func (a *applyFlags) mode() apply.DryRunMode {
	if a.dryRun == "none" {
		return apply.DryRunNone
	}
	return apply.DryRunMode(a.dryRun)
}

// holdFor is how long a repair must hold to count.
func (a *applyFlags) holdFor() time.Duration {
	if !a.wait {
		return 0
	}
	return a.settle
}

// mayAsk fails early where nobody could answer the question.
func (a *applyFlags) mayAsk(in io.Reader) error {
	if !a.enabled || a.yes || !a.writes() {
		return nil
	}
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return fmt.Errorf("%s asks before it writes, and there is no terminal to answer on: give --yes, or --dry-run=server to see", cmp.Or(a.asker, "--apply"))
}

// named fails on a --fenced or --detached with a misspelt name: the cluster, or what a gone
// node has left in it, must have a node of that name, and the VolumeAttachment must exist.
func (a *applyFlags) named(v *repair.View) error {
	for _, name := range a.detached {
		if v.Snapshot.VolumeAttachment(name) == nil {
			return fmt.Errorf("--detached %s: there is no such VolumeAttachment", name)
		}
	}
	for _, name := range a.fenced {
		if !nodeKnown(v.Snapshot, name) {
			return fmt.Errorf("--fenced %s: there is no such node, and no VolumeAttachment names it", name)
		}
	}
	return nil
}

// reviewed are the repairs of the reviewed file that are still proposed.
func (a *applyFlags) reviewed(v *repair.View, proposed []repair.Repair) ([]repair.Repair, error) {
	file, err := os.Open(a.approved)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	approved, err := apply.ReadApproved(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.approved, err)
	}
	return approved.Choose(v, proposed)
}

// confirmed asks for confirmation. Where a node was said to be fenced it asks for the node's
// name, because a y is typed too quickly for a write that nobody can take back.
func (a *applyFlags) confirmed(streams genericiooptions.IOStreams, repairs []repair.Repair) bool {
	if a.yes || !a.writes() {
		return true
	}
	in := bufio.NewReader(streams.In)
	for _, node := range a.fenced {
		var volumes []string
		for _, r := range repairs {
			if string(r.FencedNode()) == node {
				volumes = append(volumes, output.Safe(r.Finding.PersistentVolume))
			}
		}
		if len(volumes) == 0 {
			continue
		}
		fmt.Fprintf(streams.ErrOut, `You say that node %s is powered off, or cut off from its storage, and stays so.
Not Ready is no proof of that: a node that is cut off goes on writing. If it still
runs, two nodes write to %s, and the data is lost.
Type the name of the node if you have made sure: `, node, strings.Join(volumes, ", "))
		if answer(in) != node {
			return false
		}
	}
	for _, r := range repairs {
		if r.Kind != repair.StripFinalizer || !slices.Contains(a.detached, r.Do.Target.Name) {
			continue
		}
		fmt.Fprintf(streams.ErrOut, `You say that the storage system does not have volume %s attached to node %s.
If it has, nothing will ever detach it, and another node may be given the volume as well.
Type the name of the node if you have seen it there: `, output.Safe(r.Finding.PersistentVolume), output.Safe(string(r.Finding.Node)))
		if answer(in) != string(r.Finding.Node) {
			return false
		}
	}
	return agreed(streams, in, "Make", len(repairs), "repair")
}

// agreed asks for a yes to do something with n things; only a plain yes counts.
func agreed(streams genericiooptions.IOStreams, in *bufio.Reader, do string, n int, thing string) bool {
	what := "this " + thing
	if n > 1 {
		what = fmt.Sprintf("these %d %ss", n, thing)
	}
	fmt.Fprintf(streams.ErrOut, "%s %s now? [y/N] ", do, what)
	yes := strings.ToLower(answer(in))
	return yes == "y" || yes == "yes"
}

func answer(in *bufio.Reader) string {
	line, _ := in.ReadString('\n')
	return strings.TrimSpace(line)
}
