package kubelettrace

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
)

var (
	statesFlag = flag.Int("states", 60, "how many pods to draw")
	seedFlag   = flag.Uint64("seed", 1, "the seed of what is drawn")
	pagePath   = flag.String("page", "", "the page to write")
)

const (
	// batchSize is how many pods a machine has at the same time.
	batchSize = 20
	// settled is how long nothing may have moved before a look counts: what the kubelet
	// has done must have reached the API server.
	settled = 1500 * time.Millisecond
	// settleFor bounds the wait for that; what moves on is not looked at.
	settleFor = 20 * time.Second
	// young is how old a pod may be for a wait that can end not to be stuck yet.
	young = 25 * time.Second
)

// TestRandom draws pods with volumes of all kinds and faults, and holds the trace of
// each against the kubelet: as they start, after the kubelet was killed or a driver
// went, once the faults are gone, and as they end.
func TestRandom(t *testing.T) {
	needsKubelet(t)
	r := rand.New(rand.NewPCG(*seedFlag, 0))
	tally := newTally(*seedFlag)
	m := world.Machine(t, "random")
	for batch := 0; tally.Pods < *statesFlag; batch++ {
		n := min(batchSize, *statesFlag-tally.Pods)
		pods := draw(r, fmt.Sprintf("s%d-%d", *seedFlag, batch), m.Node, n)
		b := &batchRun{T: t, m: m, pods: pods, tally: tally, r: r}
		b.run()
		if t.Failed() {
			return
		}
	}
	t.Log(tally)
	if *pagePath != "" {
		if err := os.WriteFile(*pagePath, []byte(tally.page()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// batchRun is one batch of pods on a machine.
type batchRun struct {
	*testing.T
	m     *Machine
	pods  []*drawnPod
	tally *tally
	r     *rand.Rand
}

func (b *batchRun) run() {
	for _, d := range b.pods {
		b.create(d)
	}
	b.look("as they start")
	switch b.r.IntN(3) {
	case 0:
		b.ask(wire.Request{Do: wire.Kill})
		b.ask(wire.Request{Do: wire.Start})
		b.look("after the kubelet was killed and started")
	case 1:
		b.ask(wire.Request{Do: wire.Unregister, Driver: Files})
		world.await(b.T, "the driver to go", func() (bool, error) {
			there, err := world.registers(b.m.Node, Files)
			return !there && err == nil, err
		})
		b.look("after a driver has gone")
		world.register(b.T, b.m, Files)
		b.look("after it has returned")
	}
	for _, d := range b.pods {
		for _, f := range d.endFaults {
			b.ask(wire.Request{Do: wire.SetFault, Driver: f.driver, Fault: f.fault})
		}
	}
	for _, d := range b.pods {
		err := world.Client.CoreV1().Pods(d.pod.Namespace).Delete(world.plane, d.pod.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			b.Fatal(err)
		}
	}
	b.look("as they end")
	b.clear()
}

func (b *batchRun) ask(r wire.Request) wire.Answer {
	b.Helper()
	a, err := b.m.Ask(r)
	if err != nil {
		b.Fatal(err)
	}
	return a
}

// create makes a pod and what it needs.
func (b *batchRun) create(d *drawnPod) {
	b.Helper()
	namespace := d.pod.Namespace
	if d.pod.Name == "web-0" {
		if err := fixture.Namespace(world.plane, world.Client, namespace); err != nil {
			b.Fatal(err)
		}
		there := metav1.ObjectMeta{Name: "there", Namespace: namespace}
		if _, err := world.Client.CoreV1().Secrets(namespace).Create(world.plane, &corev1.Secret{ObjectMeta: there}, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		if _, err := world.Client.CoreV1().ConfigMaps(namespace).Create(world.plane, &corev1.ConfigMap{ObjectMeta: there}, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	for _, c := range d.claims {
		switch c.state {
		case claimBound:
			world.claim(b.T, namespace, c.name, c.driver, c.change)
		case claimPending:
			world.unboundClaim(b.T, namespace, c.name, "")
		case claimOfAnother:
			world.claim(b.T, namespace, c.name, c.driver, c.change)
			if err := world.Client.CoreV1().PersistentVolumeClaims(namespace).Delete(world.plane, c.name, metav1.DeleteOptions{}); err != nil {
				b.Fatal(err)
			}
			world.unboundClaim(b.T, namespace, c.name, "pv-"+namespace+"-"+c.name)
		}
	}
	for _, f := range d.faults {
		b.ask(wire.Request{Do: wire.SetFault, Driver: f.driver, Fault: f.fault})
	}
	for _, handle := range d.attachFails {
		world.Cluster.Driver.FailPublish(status.Error(codes.FailedPrecondition, "the volume is locked"), handle)
	}
	pod, err := fixture.CreatePod(world.plane, world.Client, d.pod)
	if err != nil {
		b.Fatal(err)
	}
	d.pod = pod
	b.tally.drew(d)
}

// clear ends the faults and the pods of the batch.
func (b *batchRun) clear() {
	for _, d := range b.pods {
		for _, f := range slices.Concat(d.faults, d.endFaults) {
			b.ask(wire.Request{Do: wire.SetFault, Driver: f.driver, Fault: wire.Fault{RPC: f.fault.RPC, Handle: f.fault.Handle}})
		}
		for _, handle := range d.attachFails {
			world.Cluster.Driver.FailPublish(nil, handle)
		}
		_ = fixture.ForceDeletePod(world.plane, world.Client, d.pod.Namespace, d.pod.Name) // it may be gone
	}
}

// volumes are those of all pods of the batch.
func (b *batchRun) volumes() (list []Volume) {
	for _, d := range b.pods {
		list = append(list, d.volumes...)
	}
	return list
}

// truth is that of each pod; of one whose containers have run it is that they go on.
func (b *batchRun) truth() (map[types.UID]map[string]Truth, seen) {
	s, err := world.see(b.m, b.volumes())
	if err != nil {
		b.Fatal(err)
	}
	truth := map[types.UID]map[string]Truth{}
	for _, d := range b.pods {
		told, known := s.answer.Kubelet.Pods[d.pod.UID]
		d.ran = d.ran || told.Ready
		if !known {
			continue
		}
		truth[d.pod.UID] = s.truth(d.pod.UID, d.volumes)
		if d.ran && !told.Terminating {
			for name, t := range truth[d.pod.UID] {
				t.Stage, t.Actor, t.Done = "", "", nil
				truth[d.pod.UID][name] = t
			}
		}
	}
	return truth, s
}

// look waits until the pods have settled and compares the trace of each with the truth.
func (b *batchRun) look(when string) {
	b.Helper()
	last, _ := b.truth()
	moved := map[types.UID]time.Time{}
	began := time.Now()
	for _, d := range b.pods {
		moved[d.pod.UID] = began
	}
	still := func() int {
		n := 0
		for _, at := range moved {
			if time.Since(at) >= settled {
				n++
			}
		}
		return n
	}
	for still() < len(b.pods) && time.Since(began) < settleFor {
		time.Sleep(200 * time.Millisecond)
		now, _ := b.truth()
		for _, d := range b.pods {
			if !same(last[d.pod.UID], now[d.pod.UID]) || len(last[d.pod.UID]) != len(now[d.pod.UID]) {
				moved[d.pod.UID] = time.Now()
			}
		}
		last = now
	}
	s, err := world.reader.Snapshot(world.plane)
	if err != nil {
		b.Fatal(err)
	}
	after, seen := b.truth()
	for _, d := range b.pods {
		there := s.Pod(types.NamespacedName{Namespace: d.pod.Namespace, Name: d.pod.Name})
		switch {
		case there == nil || len(after[d.pod.UID]) == 0:
			b.tally.Gone++
			continue
		case time.Since(moved[d.pod.UID]) < settled || !same(last[d.pod.UID], after[d.pod.UID]):
			b.tally.Moved++
			continue
		}
		l := Look{Trace: diagnose.TracePod(s, there, diagnose.Options{}), Truth: after[d.pod.UID]}
		if dated(l, seen, d) {
			b.tally.Dated++
			continue
		}
		wrong := l.Compare(d.volumes)
		if l.Trace.Verdict.State == finding.Stuck && time.Since(d.pod.CreationTimestamp.Time) < young && !mayBeStuck(d) {
			wrong = append(wrong, "it may still come, and the verdict is stuck: "+l.Trace.Verdict.Message)
		}
		b.tally.looked(when, l, wrong)
		for _, text := range wrong {
			b.Errorf("%s/%s %s, drawn as %v: %s", d.pod.Namespace, d.pod.Name, when, d.kinds, text)
		}
	}
}

// mayBeStuck says that something of the pod can never come, or has been wrong for
// longer than the pod is old.
func mayBeStuck(d *drawnPod) bool {
	return slices.ContainsFunc(d.volumes, func(v Volume) bool { return v.Never || v.Unclaimed })
}

// dated says that the driver was called for a volume after the last that was said of
// it: no object shows how that call stands.
func dated(l Look, s seen, d *drawnPod) bool {
	for _, v := range d.volumes {
		told := l.volume(v.Name)
		if told == nil {
			continue
		}
		for _, stage := range told.Stages {
			for _, said := range stage.Said {
				if strings.Contains(said.Text, "not found in the list of registered CSI drivers") && s.registered(v.Driver) {
					return true // it has registered since
				}
				if said.At != nil && strings.Contains(said.By, "event FailedM") &&
					(s.received(wire.Stage, v.Handle, said.At.Add(time.Second)) || s.received(wire.Publish, v.Handle, said.At.Add(time.Second))) &&
					s.pending(v.Handle) {
					return true
				}
			}
		}
	}
	return false
}
