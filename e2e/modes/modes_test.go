// Package modes_test provokes the commonest failure modes on a real control plane, all side
// by side, and checks that the command finds each by its name.
package modes_test

import (
	"context"
	"flag"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/recording"
)

var (
	update = flag.Bool("update", false, "write docs/evidence/modes.md")
	some   = flag.String("some", "", "provoke only the modes with these names, separated by commas, and leave the page alone")
)

const (
	// lookEvery is the pause between two runs of the command.
	lookEvery = 10 * time.Second
	// foundWithin is how long it may take to find the modes whose checks need no later
	// moment: the longest threshold among them is 5 min, and a lost node takes one more to be
	// noticed.
	foundWithin = 9 * time.Minute
	// ahead is up to how far in the future the final snapshot is diagnosed: the longest
	// threshold there is 30 min, from the last failure on.
	ahead = 33 * time.Minute
	// atOnce is how many modes are provoked at a time.
	atOnce = 8
)

var cluster *controlplane.Cluster

func TestMain(m *testing.M) {
	options := controlplane.Options{Controllers: []string{
		controlplane.NodeLifecycle, controlplane.TaintEviction, controlplane.PodCollector, controlplane.GarbageCollector,
		controlplane.VolumeBinder, controlplane.VolumeProtection, controlplane.ClaimProtection,
		controlplane.Deployments, controlplane.ReplicaSets, controlplane.StatefulSets,
	}}
	os.Exit(controlplane.Main(m, options, func(c *controlplane.Cluster) { cluster = c }))
}

// mode is a failure mode and the check that is to find it.
type mode struct {
	// name is the mode's namespace and a part of the name of all its objects. No name is part
	// of another.
	name string
	// story describes the mode, for docs/evidence/modes.md.
	story string
	// check is the check of the mode's finding, and also are those of its consequences.
	check string
	also  []string
	// later reports whether the check waits for longer than a test can: the mode is found in
	// the final snapshot, diagnosed as of a later moment. All objects of such a mode stay as
	// they are until then.
	later bool
	// announced reports whether the test does not wait until the finding is certain: it is
	// enough that it is suspected, and says when it will be certain.
	announced bool
	// aged reports whether the story's first pod must come to nodes that are older than a
	// driver may take to register: until then no check blames one.
	aged bool
	// idles reports whether the story mostly waits, so that it takes none of the slots.
	idles bool
	// heals reports whether the control plane ends the fault by itself, possibly before this
	// test does.
	heals bool
	// alone reports whether no other mode may be provoked at the same time.
	alone bool
	// provoke makes it happen.
	provoke func(context.Context, *stage)
}

// causeNamed reports whether the mode's check names a cause. Only the remainder names none.
func (m mode) causeNamed() bool { return m.check != diagnose.PodStuck.Name }

func allModes() []mode {
	all := slices.Concat(volumeModes, claimModes, driverModes, refusalModes, mountModes, registrationModes, nodeModes)
	if *some == "" {
		return all
	}
	return slices.DeleteFunc(all, func(m mode) bool { return !slices.Contains(strings.Split(*some, ","), m.name) })
}

func TestModes(t *testing.T) {
	if *serveFor != 0 {
		t.Skip("TestServing provokes the modes")
	}
	modes := allModes()
	ready(t, modes)
	recorded := recording.Serve(t, cluster.Kubeconfig)
	bystander(t)
	outcomes := map[string]*outcome{}
	for _, m := range modes {
		outcomes[m.name] = newOutcome(m)
	}
	over := provokeAll(t, modes, outcomes)
	watch(t, modes, outcomes)
	over()
	lookAhead(t, modes, outcomes)
	for _, m := range modes {
		outcomes[m.name].complain(t, m)
	}
	alerted(t, modes, outcomes, recorded)
	if *some != "" {
		return
	}
	t.Run("Rights", func(t *testing.T) { rights(t) })
	if !t.Failed() {
		page(t, modes, outcomes)
	}
}

// ready prepares the control plane for the modes.
func ready(t *testing.T, modes []mode) {
	t.Helper()
	distinct(t, modes)
	if err := fixture.Storage(t.Context(), cluster.Client()); err != nil {
		t.Fatal(err)
	}
	if err := startDrivers(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := command.Build(); err != nil {
		t.Fatal(err)
	}
}

// bystander is a node that stays Ready: where all nodes of a cluster fall silent, the node
// lifecycle controller concludes that it is itself cut off and taints none.
func bystander(t *testing.T) {
	s := newStage(t.Context(), "bystander")
	t.Cleanup(s.close)
	if s.nodes(t.Context(), "a"); s.err != nil {
		t.Fatal(s.err)
	}
}

// distinct makes sure that an object's mode can be told by its name.
func distinct(t *testing.T, modes []mode) {
	for _, a := range modes {
		for _, b := range modes {
			if a.name != b.name && strings.Contains(a.name, b.name) {
				t.Fatalf("mode %s has the name of mode %s in its own", a.name, b.name)
			}
		}
	}
}

// provokeAll plays the modes that must be alone, begins the others, and returns while their
// stories go on; over waits for their end.
func provokeAll(t *testing.T, modes []mode, outcomes map[string]*outcome) (over func()) {
	provoke := func(m mode) {
		s := newStage(t.Context(), m.name)
		s.aged = m.aged
		t.Cleanup(s.close)
		m.provoke(t.Context(), s)
		if s.err != nil {
			t.Errorf("%s: %v", m.name, s.err)
		}
		outcomes[m.name].end(s.err)
	}
	for _, m := range modes {
		if m.alone {
			provoke(m)
		}
	}
	var all sync.WaitGroup
	for _, m := range modes {
		if m.aged || m.idles {
			all.Go(func() { provoke(m) })
		}
	}
	slots := make(chan struct{}, atOnce)
	all.Go(func() {
		for _, m := range modes {
			if m.alone || m.aged || m.idles {
				continue
			}
			slots <- struct{}{}
			all.Go(func() {
				provoke(m)
				<-slots
			})
		}
	})
	return all.Wait
}
