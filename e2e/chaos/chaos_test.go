// Package chaos_test makes everything go wrong at the same time while the command repairs: a
// proxy before the API server disturbs its requests, the command is killed between any two of
// them, and kubelets, the controller and a second doctor race it. Package invariant judges
// the result. See docs/evidence/chaos.md.
package chaos_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
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
	rounds   = flag.Int("rounds", 310, "how many rounds a batch has, which is for one control plane: the more there are, the more each look reads")
	faults   = flag.Int("faults", 1, "after the fixed rounds, go on until there were so many faults")
	seed     = flag.Uint64("seed", 1, "seed of what is random")
	inFlight = flag.Int("in-flight", 60, "how many rounds are played at once")
	every    = flag.Int("every", 6, "of the rounds, and of the doctors that do harm, play one in so many")
	only     = flag.String("world", "", "play only the rounds of this world")
	begin    = flag.Int("batch", 0, "begin with this batch of rounds")
	write    = flag.Bool("write", false, "write the summary into docs/evidence/chaos.md")
)

var options = controlplane.Options{AuditBodies: true}

var cluster *controlplane.Cluster

func TestMain(m *testing.M) {
	os.Exit(controlplane.Main(m, options, func(c *controlplane.Cluster) { cluster = c }))
}

// TestChaos plays its rounds, and as many again on a fresh control plane until enough has
// gone wrong. The worlds of the next batch are built and grow old while one is played.
func TestChaos(t *testing.T) {
	t.Parallel()
	sum := newSummary()
	current, err := prepare(t, cluster, *begin)
	for {
		if err != nil {
			t.Fatal(err)
		}
		var next *batch
		var preparing sync.WaitGroup
		if (current.number+1)**rounds < len(fixed(quietGuess, *seed)) || sum.allFaults()+max(sum.perBatch(), *rounds) < *faults {
			preparing.Go(func() {
				var c *controlplane.Cluster
				if c, err = controlplane.Start(t.Context(), options); err == nil {
					t.Cleanup(c.Stop)
					next, err = prepare(t, c, current.number+1)
				}
			})
		}
		current.play(sum)
		preparing.Wait()
		if current.cluster != cluster {
			current.cluster.Stop()
		}
		if next == nil && err == nil || t.Failed() {
			break
		}
		t.Logf("%d faults so far", sum.allFaults())
		current = next
	}
	t.Log("\n" + sum.String())
	if *write && !t.Failed() {
		sum.writeDown(t)
	}
}

// setting has the cluster and the limits for playing rounds.
type setting struct {
	*testing.T
	cluster *controlplane.Cluster
	proxy   *faultproxy.Proxy
	dir     string
	storage *storage // nil: no data
	atATime int      // how many worlds are built, and rounds played, side by side
}

func set(t *testing.T, c *controlplane.Cluster) (*setting, error) {
	if _, err := command.Build(); err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return nil, err
	}
	proxy, err := faultproxy.Start(config)
	if err != nil {
		return nil, err
	}
	t.Cleanup(proxy.Stop)
	return &setting{t, c, proxy, t.TempDir(), nil, *inFlight}, fixture.Storage(t.Context(), c.Client())
}

// build builds worlds side by side and returns when all are old enough.
func (s *setting) build(prefix string, stories []story) ([]*world, error) {
	worlds := make([]*world, len(stories))
	err := s.each(len(stories), func(i int) error {
		var err error
		worlds[i], err = build(s.Context(), s.cluster, stories[i], fmt.Sprintf("%s%04d", prefix, i), s.storage)
		return err
	})
	if err != nil {
		return nil, err
	}
	var last time.Time
	for _, w := range worlds {
		if w.madeAt.After(last) {
			last = w.madeAt
		}
	}
	time.Sleep(time.Until(last.Add(worldAge)))
	return worlds, nil
}

// each calls f for every number below n, some at once.
func (s *setting) each(n int, f func(int) error) error {
	slots := make(chan struct{}, s.atATime)
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			errs[i] = f(i)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// batch is the rounds of one control plane.
type batch struct {
	*setting
	number int
	worlds []*world
}

// prepare builds the worlds of a batch.
func prepare(t *testing.T, c *controlplane.Cluster, number int) (*batch, error) {
	s, err := set(t, c)
	if err != nil {
		return nil, err
	}
	// The number of requests of an undisturbed run does not depend on the seed, and is known
	// only once the worlds are there: so the plan is made twice.
	stories := []story{lostEntry}
	for _, p := range chosen(plan(number, *rounds, quietGuess, *seed)) {
		stories = append(stories, p.story)
	}
	worlds, err := s.build(fmt.Sprintf("chaos-%d-", number), stories)
	return &batch{s, number, worlds}, err
}

// play plays the rounds and has them judged.
func (b *batch) play(sum *summary) {
	quiet := newRound(b.worlds[0], struck(), b.proxy, b.dir, *seed)
	if err := quiet.play(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Logf("requests of a quiet run: %v", quiet.quiet)
	all := []*round{quiet}
	for i, p := range chosen(plan(b.number, *rounds, quiet.quiet, *seed)) {
		all = append(all, newRound(b.worlds[i+1], p.attack, b.proxy, b.dir, *seed+uint64(b.number**rounds+i)))
	}
	err := b.each(len(all)-1, func(i int) error {
		r := all[i+1]
		if err := r.play(b.Context()); err != nil {
			return fmt.Errorf("round %s (%s; %s): %w", r.name, r.story, r.attack, err)
		}
		return nil
	})
	if err != nil {
		b.Error(err)
	}
	violations := b.judge(all)
	for _, v := range violations {
		b.Error(v)
	}
	sum.add(all, violations)
}

// chosen are the rounds that -every and -world select. The first of each story, and the first
// with each fault, are always among them.
func chosen(list []planned) []planned {
	var some []planned
	seen := map[any]bool{}
	for i, p := range list {
		fresh := !seen[p.story]
		seen[p.story] = true
		for _, s := range p.attack.strikes() {
			fresh = fresh || !seen[s.fault]
			seen[s.fault] = true
		}
		if fresh || i%*every == 0 {
			some = append(some, p)
		}
	}
	return slices.DeleteFunc(some, func(p planned) bool { return *only != "" && string(p.story) != *only })
}

// quietGuess stands for the requests of a run where only the stories of a plan matter.
var quietGuess = map[faultproxy.Class]int{faultproxy.Read: 2}

// judge has the events of the rounds judged.
func (s *setting) judge(rounds []*round) []invariant.Violation {
	s.Helper()
	h := &invariant.History{
		Doctor: controlplane.UserAdmin, Sent: map[string]invariant.Sent{}, Machines: map[string]string{}, Fenced: map[string]bool{}, Peers: map[string]bool{controlplane.UserController: true, controlplane.UserAttacher: true},
	}
	mine := map[string]bool{}
	for _, r := range rounds {
		mine[r.name] = true
		r.mu.Lock()
		maps.Copy(h.Sent, r.sent)
		r.mu.Unlock()
		h.Calls = append(append(h.Calls, r.attached...), s.cluster.Driver.History(r.volume.Handle)...)
		h.Mounts = append(h.Mounts, r.mounts.all()...)
		h.Machines[r.name] = r.machine
		h.Fenced[r.name] = r.story.fences()
		h.Reruns = append(h.Reruns, r.reruns...)
		h.Runs = append(h.Runs, r.runs...)
		h.Journals = append(h.Journals, r.journals("*journal*")...)
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
