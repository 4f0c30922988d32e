// Package chaos_test lets everything go wrong at once while the command repairs:
// a proxy before the API server spoils its requests, it is killed between any
// two of them, and kubelets, the controller and a second doctor race it. What
// came of it is for package invariant to judge. See docs/chaos.md.
package chaos_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/faultproxy"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/invariant"
)

var (
	rounds   = flag.Int("rounds", 200, "how many rounds one control plane sees")
	faults   = flag.Int("faults", 1, "go on with further control planes until there were so many faults")
	seed     = flag.Uint64("seed", 1, "seed of what is random")
	inFlight = flag.Int("in-flight", 40, "how many rounds are played at once")
	write    = flag.Bool("write", false, "write the summary into docs/chaos.md")
)

var options = controlplane.Options{AuditBodies: true}

var cluster *controlplane.Cluster

func TestMain(m *testing.M) {
	os.Exit(controlplane.Main(m, options, func(c *controlplane.Cluster) { cluster = c }))
}

// TestChaos plays its rounds, and as many again on a fresh control plane until
// enough has gone wrong.
func TestChaos(t *testing.T) {
	t.Parallel()
	sum := newSummary()
	c := cluster
	for batch := 0; ; batch++ {
		play(t, c, sum, *seed+uint64(batch), batch == 0)
		if c != cluster {
			c.Stop()
		}
		if t.Failed() || sum.allFaults() >= *faults {
			break
		}
		t.Logf("%d faults so far", sum.allFaults())
		var err error
		if c, err = controlplane.Start(t.Context(), options); err != nil {
			t.Fatal(err)
		}
	}
	t.Log("\n" + sum.String())
	if *write && !t.Failed() {
		sum.writeDown(t)
	}
}

// setting is what rounds are played on.
type setting struct {
	*testing.T
	cluster *controlplane.Cluster
	proxy   *faultproxy.Proxy
	dir     string
}

func set(t *testing.T, c *controlplane.Cluster) *setting {
	t.Helper()
	if _, err := command.Build(); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := faultproxy.Start(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Stop)
	if err := fixture.Storage(t.Context(), c.Client()); err != nil {
		t.Fatal(err)
	}
	return &setting{t, c, proxy, t.TempDir()}
}

// build builds worlds side by side and returns when all are old enough.
func (s *setting) build(prefix string, stories []story) []*world {
	s.Helper()
	worlds := make([]*world, len(stories))
	s.each(len(stories), func(i int) error {
		var err error
		worlds[i], err = build(s.Context(), s.cluster, stories[i], fmt.Sprintf("%s%04d", prefix, i))
		return err
	})
	if s.Failed() {
		s.FailNow()
	}
	var last time.Time
	for _, w := range worlds {
		if w.madeAt.After(last) {
			last = w.madeAt
		}
	}
	time.Sleep(time.Until(last.Add(worldAge)))
	return worlds
}

// each calls f for every number below n, some at once.
func (s *setting) each(n int, f func(int) error) {
	slots := make(chan struct{}, *inFlight)
	var all sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if err := f(i); err != nil {
				s.Error(err)
			}
		})
	}
	all.Wait()
}

// play plays the rounds of one control plane and has them judged.
func play(t *testing.T, c *controlplane.Cluster, sum *summary, seed uint64, first bool) {
	s := set(t, c)
	// How long a run is when nothing goes wrong does not depend on the seed, and
	// is not known before the worlds are there: so the plan is made twice.
	stories := make([]story, 0, *rounds)
	for _, p := range plan(*rounds, quietGuess, seed, first) {
		stories = append(stories, p.story)
	}
	worlds := s.build(fmt.Sprintf("chaos-%d-", seed), append([]story{lostEntry}, stories...))
	quiet := newRound(worlds[0], attack{}, s.proxy, s.dir, seed)
	if err := quiet.play(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("requests of a quiet run: %v", quiet.counts)
	all := []*round{quiet}
	for i, p := range plan(*rounds, quiet.counts, seed, first) {
		all = append(all, newRound(worlds[i+1], p.attack, s.proxy, s.dir, seed+uint64(i)))
	}
	s.each(len(all)-1, func(i int) error {
		r := all[i+1]
		if err := r.play(t.Context()); err != nil {
			return fmt.Errorf("round %s (%s; %s): %w", r.name, r.story, r.attack, err)
		}
		return nil
	})
	violations := s.judge(all)
	for _, v := range violations {
		t.Error(v)
	}
	sum.add(all, violations)
}

// quietGuess is a plan's idea of a run for which only the stories count.
var quietGuess = map[faultproxy.Class]int{faultproxy.Read: 2}

// judge puts together what has happened in the rounds.
func (s *setting) judge(rounds []*round) []invariant.Violation {
	s.Helper()
	h := &invariant.History{Doctor: controlplane.UserAdmin, Sent: map[string]invariant.Sent{}, Machines: map[string]string{}, Fenced: map[string]bool{}}
	mine := map[string]bool{}
	for _, r := range rounds {
		mine[r.name] = true
		r.mu.Lock()
		maps.Copy(h.Sent, r.sent)
		r.mu.Unlock()
		h.Calls = append(h.Calls, s.cluster.Driver.History(r.volume.Handle)...)
		h.Mounts = append(h.Mounts, r.mounts.all()...)
		h.Machines[r.name] = r.machine
		h.Fenced[r.name] = r.story == nodeOff
		h.Reruns = append(h.Reruns, r.reruns...)
	}
	var err error
	h.Audit, err = s.cluster.Audited(func(e *auditv1.Event) bool {
		if e.User.Username != controlplane.UserAdmin {
			return true
		}
		session, _, _ := strings.Cut(string(e.AuditID), ".")
		return mine[session[:max(0, strings.LastIndex(session, "-"))]]
	})
	if err != nil {
		s.Fatal(err)
	}
	return h.Check()
}
