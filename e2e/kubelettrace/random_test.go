package kubelettrace

import (
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubelet"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testworld"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var (
	releasesFlag = flag.String("releases", "newest", "the kubelets to ask: newest, all, or versions with commas between them")
	statesFlag   = flag.Int("states", 100, "how many pods to draw for each release")
	seedFlag     = flag.Uint64("seed", 1, "the seed of what is drawn")
	pagePath     = flag.String("page", "", "the page to write")
	saidPath     = flag.String("said", "", "the file to write with what the kubelets have said")
	talliesPath  = flag.String("tallies", "", "a folder that keeps the tally of each release that is done: a run that was stopped goes on after it")
	recordLooks  = flag.Bool("record", false, "keep what is compared for the tests named TestRecorded...")
)

const (
	// settled is how long nothing may have changed before a look counts: the kubelet's deeds
	// must have reached the API server, and a pod that it could not take up must have been
	// tried again, which takes 2 s.
	settled = 2500 * time.Millisecond
	// settleFor bounds the wait for that; a pod that still changes then is not looked at.
	settleFor = 40 * time.Second
	// saidFor bounds the wait for the kubelet's text about a volume, for one of its pods.
	saidFor = time.Minute
	// young is the age up to which a pod's wait that can end must not be called stuck.
	young = 25 * time.Second
)

// TestRandom draws pods with volumes of all kinds and faults, and compares the trace of each
// with the kubelet: as the pods start, after the kubelet was killed or a driver went away,
// and as they end. The releases follow each other. The machines of one release work side by
// side, each with a share of the pods.
func TestRandom(t *testing.T) {
	needsKubelet(t)
	releases := []string{Newest}
	switch *releasesFlag {
	case "newest":
	case "all":
		releases = Releases()
	default:
		releases = strings.Split(*releasesFlag, ",")
	}
	var tallies []*tally
	for _, release := range releases {
		tally := newTally(*seedFlag, release)
		tallies = append(tallies, tally)
		if done, err := tally.load(*talliesPath, *statesFlag); err != nil {
			t.Fatal(err)
		} else if done {
			t.Log("kept: ", tally)
			continue
		}
		kubelet, err := Build(world.plane, release, os.Stderr)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(release, func(t *testing.T) {
			lanes := min(machines, (*statesFlag+batchSize-1)/batchSize)
			for lane := range lanes {
				t.Run(fmt.Sprint(lane), func(t *testing.T) {
					t.Parallel()
					share := *statesFlag / lanes
					if lane < *statesFlag%lanes {
						share++
					}
					randomLane(t, kubelet, lane, share, tally)
				})
			}
		})
		t.Log(tally)
		if err := tally.save(*talliesPath); err != nil {
			t.Fatal(err)
		}
	}
	saidIn = append(saidIn, tallies...)
	if *pagePath != "" {
		var rows []pageState
		for _, s := range states {
			rows = append(rows, pageState{s.name, string(s.stage), string(s.actor), string(s.verdict)})
		}
		page, err := page(tallies, rows)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(*pagePath, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// randomLane is one machine with its share of the pods, one batch after the other.
func randomLane(t *testing.T, k Kubelet, lane, share int, tally *tally) {
	name := strings.NewReplacer(".", "-").Replace(k.Release)
	stream := fnv.New64()
	_, _ = fmt.Fprintf(stream, "%s/%d", name, lane)
	r := rand.New(rand.NewPCG(*seedFlag, stream.Sum64()))
	m := world.machineOf(t, k, fmt.Sprintf("random-%s-%d", name, lane))
	for batch := 0; share > 0; batch++ {
		n := min(batchSize, share)
		share -= n
		b := &batchRun{T: t, m: m, pods: draw(r, fmt.Sprintf("s%d-%s-%d-%d", *seedFlag, name, lane, batch), m.Node, n), tally: tally, r: r}
		b.run()
	}
}

// batchRun is one batch of pods on a machine.
type batchRun struct {
	*testing.T
	m     *Machine
	pods  []*drawnPod
	tally *tally
	r     *rand.Rand
	// quiet is the time until which events may be about past faults.
	quiet time.Time
	// begun is when the kubelet could begin with the pods.
	begun time.Time
	// cut reports whether the kubelet does not reach the API server.
	cut bool
	// held are the uses that keep volumes busy on the machine.
	held []held
	// verdicts are the verdicts of the last look that were right and name one volume.
	verdicts map[types.UID]trace.Verdict
}

// run is the history of the batch: the pods arrive, some of the possible events of a node
// happen, and the pods end.
func (b *batchRun) run() {
	b.arrive()
	if b.r.IntN(4) == 0 {
		b.restart()
		b.look("as they start, the kubelet having been killed and started")
	} else {
		b.look("as they start")
	}
	if b.r.IntN(2) == 0 {
		b.cured()
	}
	happens := []func(){b.killed, b.driverGone, b.driverSilent, b.healed, b.forced, b.serverAway}
	b.r.Shuffle(len(happens), func(i, j int) { happens[i], happens[j] = happens[j], happens[i] })
	for _, happen := range happens[:b.r.IntN(3)] {
		happen()
	}
	b.end()
	b.clear()
}

// arrive makes the pods; at first the kubelet may not see them, or may not be able to begin.
func (b *batchRun) arrive() {
	create := func() {
		for _, d := range b.pods {
			b.create(d)
		}
	}
	switch b.r.IntN(7) {
	case 3:
		lift := forbidStatus(b.T, b.m.Node)
		create()
		b.begun = time.Now()
		b.look("as they start, while the node's status is refused")
		lift()
		return
	case 0, 1:
		b.ask(wire.Request{Do: wire.NoNetwork})
		create()
		b.awaitNotRegistered()
		b.ask(wire.Request{Do: wire.Network})
		b.quiet = time.Now().Add(networkSaid)
	case 2:
		b.m.line.Cut()
		create()
		b.m.line.Mend()
	default:
		create()
	}
	b.begun = time.Now()
}

func (b *batchRun) restart() {
	b.ask(wire.Request{Do: wire.Kill})
	b.ask(wire.Request{Do: wire.Start})
}

func (b *batchRun) killed() {
	b.restart()
	b.look("after the kubelet was killed and started")
}

// driverGone has a driver go away from the node and return; the kubelet may be restarted
// meanwhile, so that it does not know the driver at all.
func (b *batchRun) driverGone() {
	driver := []string{Files, Disk, EBS}[b.r.IntN(3)]
	b.ask(wire.Request{Do: wire.Unregister, Driver: driver})
	world.await(b.T, "the driver to go", func() (bool, error) {
		there, err := world.registers(b.m.Node, driver)
		return !there && err == nil, err
	})
	if b.r.IntN(3) == 0 {
		b.restart()
		b.look("after a driver has gone, and the kubelet was started again")
	} else {
		b.look("after a driver has gone")
	}
	world.register(b.T, b.m, driver)
	b.look("after it has returned")
}

// driverSilent stops anybody from listening at a driver's socket for a while; the driver
// stays registered.
func (b *batchRun) driverSilent() {
	socket := b.m.socket([]string{Files, Disk, EBS}[b.r.IntN(3)])
	if err := os.Rename(socket, socket+".kept"); err != nil {
		b.Fatal(err)
	}
	b.look("while a driver that is registered does not answer")
	if err := os.Rename(socket+".kept", socket); err != nil {
		b.Fatal(err)
	}
}

// serverAway cuts the machine from the API server for a while.
func (b *batchRun) serverAway() {
	b.m.line.Cut()
	b.cut = true
	b.look("while the API server is away from the node")
	b.m.line.Mend()
	b.cut = false
	b.look("after the API server was away from the node")
}

// healed ends the faults of some pods, and makes the objects that they lack.
func (b *batchRun) healed() {
	var healed []*drawnPod
	namespaces := map[string]bool{}
	for _, d := range b.pods {
		if namespaces[d.pod.Namespace] || b.r.IntN(2) == 0 {
			continue
		}
		namespaces[d.pod.Namespace] = true
		// a cure may have made it
		if err := world.create(d.pod.Namespace, "gone"); err != nil && !apierrors.IsAlreadyExists(err) {
			b.Fatal(err)
		}
	}
	for _, d := range b.pods {
		if !namespaces[d.pod.Namespace] {
			continue
		}
		b.heal(d)
		d.faults, d.attachFails = nil, nil
		for i := range d.volumes {
			if v := &d.volumes[i]; v.Heals {
				v.Local = ""
			}
		}
		healed = append(healed, d)
	}
	b.awaitRetried(healed)
	b.look("after the faults of some have ended")
	for _, d := range healed {
		d.retried = nil
	}
}

// cured ends the faults of pods one after the other: first all except the fault of the volume
// that the verdict names, which must not bring that volume, and then that fault, which must.
// The kubelet is restarted each time, so that it tries immediately.
func (b *batchRun) cured() {
	type wait struct {
		d     *drawnPod
		named string
		whole bool // with this volume the pod has all volumes that it needs
	}
	var list []wait
	others := 0
	for _, d := range b.pods {
		v, ok := b.verdicts[d.uid()]
		if !ok || !b.alone(d) || !d.curable(v.Volume) {
			continue
		}
		w := wait{d: d, named: v.Volume, whole: true}
		for _, o := range d.volumes {
			switch {
			case o.Name == v.Volume:
			case d.curable(o.Name):
				b.cure(d, o.Name)
				others++
			default:
				faulty := slices.ContainsFunc(d.faults, func(f drawnFault) bool { return o.Handle != "" && f.fault.Handle == o.Handle })
				w.whole = w.whole && (o.Unused || o.Local == "" && !faulty && o.Driver != Away)
			}
		}
		list = append(list, w)
	}
	if len(list) == 0 {
		return
	}
	waiting := func() (names []string) {
		truth, _ := b.truth()
		for _, w := range list {
			if t, known := truth[w.d.uid()][w.named]; known && t.Stage != "" {
				names = append(names, fmt.Sprintf("%s of %s, drawn as %v, in %s", w.named, w.d.pod.Namespace, w.d.kinds, t.Stage))
			}
		}
		return names
	}
	b.restart()
	restarted := time.Now()
	b.await("the volumes to wait again", func() (bool, error) {
		names := waiting()
		return longAgo(restarted) && len(names) == len(list), fmt.Errorf("of %d wait %q", len(list), names)
	})
	for _, w := range list {
		b.cure(w.d, w.named)
	}
	b.restart()
	b.await("the volumes to come whose faults have ended", func() (bool, error) {
		names := waiting()
		return len(names) == 0, fmt.Errorf("of %d wait %q", len(list), names)
	})
	for _, w := range list {
		if w.whole {
			b.await("the pod to run whose last fault has ended", func() (bool, error) { return world.runs(w.d.pod.Namespace, w.d.pod.Name) })
		}
	}
	b.tally.cured(len(list), others)
	b.quiet = time.Now().Add(facts.RetrySaid + time.Second)
	b.look("after single faults have ended")
}

// freed is cured for pods that end: the fault of the volume that the verdict names keeps the
// pod, and the faults of its other volumes do not.
func (b *batchRun) freed() {
	named, others := map[*drawnPod]string{}, 0
	_, before := b.truth()
	for _, d := range b.pods {
		v, ok := b.verdicts[d.uid()]
		if !ok || v.Stage != trace.StageUnmounted || !b.alone(d) || !b.release(d, v.Volume, false) {
			continue
		}
		if o := d.volume(v.Volume).inline(d.uid()); o.Driver != "" {
			if _, published := before.last(wire.Publish, o.Handle, d.uid()); !published {
				continue // a kubelet that is started does not know that it may be mounted
			}
		}
		named[d] = v.Volume
		for _, o := range d.volumes {
			if o.Name != v.Volume && b.release(d, o.Name, true) {
				others++
			}
		}
	}
	if len(named) == 0 {
		return
	}
	// left names the pods that are there, those that are gone, and of the former those that wait
	// for more than the named volume, and those that do not wait for it.
	var restarted time.Time
	left := func() (there, gone, more, less []string) {
		truth, now := b.truth()
		for d, name := range named {
			drawn := fmt.Sprintf("%s, drawn as %v, for %s", d.pod.Namespace, d.kinds, name)
			if _, err := world.Client.CoreV1().Pods(d.pod.Namespace).Get(world.plane, d.pod.Name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
				gone = append(gone, drawn)
				continue
			}
			there = append(there, drawn)
			for volume, t := range truth[d.uid()] {
				switch {
				case volume == name && t.Stage == "":
					less = append(less, d.pod.Namespace)
				case volume != name && t.Stage != "" && (t.Busy || time.Since(restarted) < forgets || now.received(wire.Unpublish, d.volume(volume).inline(d.uid()).Handle, restarted)):
					more = append(more, fmt.Sprintf("%s, drawn as %v, for %s in %s for %s", d.pod.Namespace, d.kinds, volume, t.Stage, t.Actor))
				}
			}
		}
		return there, gone, more, less
	}
	b.restart() // its pauses have grown
	restarted = time.Now()
	b.await("the other volumes to be unmounted", func() (bool, error) {
		_, _, more, _ := left()
		return len(more) == 0, fmt.Errorf("there wait %q", more)
	})
	time.Sleep(settled)
	for d, name := range named { // the kubelet that was started may have forgotten the volume
		_, now := b.truth()
		_, known := now.answer.Kubelet.Pods[d.uid()]
		if t := now.down(d.uid(), d.volume(name).inline(d.uid())); t.Forgotten || !known && t.Stage != "" {
			delete(named, d)
		}
	}
	if _, gone, _, less := left(); len(gone) > 0 || len(less) > 0 {
		b.Errorf("%s: only the fault of the volume that the verdict names is left, and gone are %q; not for it wait %q", b.m.Node, gone, less)
		return
	}
	for d, name := range named {
		b.release(d, name, true)
	}
	b.restart()
	b.await("the pods to go whose last fault has ended", func() (bool, error) {
		there, _, _, _ := left()
		return len(there) == 0, fmt.Errorf("there are %q", there)
	})
	b.tally.cured(len(named), others)
}

// forgets is the time after which a kubelet that was started has called every driver whose
// volume it is to unmount: it has not found the others on the node.
const forgets = 20 * time.Second

// held is a use of a volume of the pod.
type held struct {
	pod     *drawnPod
	hold    hold
	release func()
}

// release reports whether something keeps the pod that ends from letting go of the volume,
// and, with do, ends that.
func (b *batchRun) release(d *drawnPod, name string, do bool) (found bool) {
	b.Helper()
	v := d.volume(name)
	for _, f := range slices.Concat(d.faults, d.endFaults) { // a call to mount it that hangs keeps it, too
		if v.Handle == "" || f.fault.Handle != v.Handle || f.fault.RPC == wire.Unstage {
			continue
		}
		found = found || f.fault.RPC == wire.Unpublish
		if do {
			b.ask(wire.Request{Do: wire.SetFault, Driver: f.driver, Fault: wire.Fault{RPC: f.fault.RPC, Handle: f.fault.Handle}})
		}
	}
	for _, h := range b.held {
		if h.pod == d && h.hold.of.Name == name && h.hold.how != mountedElsewhere {
			found = true
			if do {
				h.release()
			}
		}
	}
	return found
}

// await is World.await with more patience: others may use the machine.
func (b *batchRun) await(what string, holds func() (bool, error)) {
	b.Helper()
	var err error
	for end := time.Now().Add(3 * patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		var ok bool
		if ok, err = holds(); ok {
			return
		}
	}
	b.Fatalf("waited %s for %s: %v", 3*patience, what, err)
}

// alone reports whether no other pod shares the volumes of the pod.
func (b *batchRun) alone(d *drawnPod) bool {
	return !slices.ContainsFunc(b.pods, func(o *drawnPod) bool { return o != d && o.pod.Namespace == d.pod.Namespace })
}

// cure ends the faults of one volume. It makes the missing objects, which ends the wait of
// each volume of the pod that lacks the same.
func (b *batchRun) cure(d *drawnPod, name string) {
	b.Helper()
	only := *d
	of := func(v Volume) bool { return v.Name == name }
	handle := d.volume(name).Handle
	only.faults = slices.DeleteFunc(slices.Clone(d.faults), func(f drawnFault) bool { return f.fault.Handle != handle })
	only.attachFails = slices.DeleteFunc(slices.Clone(d.attachFails), func(v Volume) bool { return !of(v) })
	only.endFaults = nil
	b.heal(&only)
	d.faults = slices.DeleteFunc(slices.Clone(d.faults), func(f drawnFault) bool { return f.fault.Handle == handle })
	d.attachFails = slices.DeleteFunc(slices.Clone(d.attachFails), of)
	for i := range d.volumes {
		if v := &d.volumes[i]; of(*v) && v.Heals && v.Local != "" {
			if err := world.create(d.pod.Namespace, "gone"); err != nil {
				b.Fatal(err)
			}
			for j := range d.volumes {
				if d.volumes[j].Heals {
					d.volumes[j].Local = ""
				}
			}
		}
	}
}

// networkSaid is how long the trace believes an event which says that the network of the node
// is not ready, plus the event's whole second.
const networkSaid = 16 * time.Second

// retries bounds the wait for the kubelet to retry a mount whose fault has ended. Its pauses
// are at most that long while it has failed for half a minute.
const retries = 40 * time.Second

// awaitRetried waits until the volumes whose faults have ended are mounted; pods whose
// volumes are not are left out of the looks.
func (b *batchRun) awaitRetried(healed []*drawnPod) {
	end := time.Now().Add(retries)
	for {
		open := 0
		truth, _ := b.truth()
		for _, d := range healed {
			d.retried = nil
			for _, v := range d.volumes {
				if t := truth[d.uid()][v.Name]; t.Stage != "" && v.Local == "" && v.Driver != Away {
					d.retried = append(d.retried, v.Name)
				}
			}
			open += len(d.retried)
		}
		if open == 0 || time.Now().After(end) {
			// The texts about the faults are not repeated, and count until that shows.
			b.quiet = time.Now().Add(facts.RetrySaid + time.Second)
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// forced force-deletes some pods, and makes them again under their names: for a while the
// kubelet has the volumes of both.
func (b *batchRun) forced() {
	for _, d := range b.pods {
		if d.ownsClaim() || d.static() || b.r.IntN(3) > 0 {
			continue
		}
		if err := fixture.ForceDeletePod(world.plane, world.Client, d.pod.Namespace, d.pod.Name); err != nil {
			b.Fatal(err)
		}
		again := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: d.pod.Namespace, Name: d.pod.Name}, Spec: *d.pod.Spec.DeepCopy()}
		pod, err := fixture.CreatePod(world.plane, world.Client, again)
		if err != nil {
			b.Fatal(err)
		}
		d.pod, d.ran, d.remade = pod, false, true
	}
	b.look("after some were force-deleted and made again")
}

// end deletes all pods, some of them while their driver does not release the volumes.
func (b *batchRun) end() {
	for _, d := range b.pods {
		for _, f := range d.endFaults {
			b.ask(wire.Request{Do: wire.SetFault, Driver: f.driver, Fault: f.fault})
		}
		for _, h := range d.holds {
			release, err := b.m.Hold(d.uid(), h)
			if err != nil {
				b.Fatal(err)
			}
			b.held = append(b.held, held{d, h, release})
		}
	}
	for _, d := range b.pods {
		options := metav1.DeleteOptions{}
		if d.static() { // its file is gone, and the kubelet removes the mirror
			options = *metav1.NewDeleteOptions(0)
		}
		err := world.Client.CoreV1().Pods(d.pod.Namespace).Delete(world.plane, d.pod.Name, options)
		if err != nil && !apierrors.IsNotFound(err) {
			b.Fatal(err)
		}
	}
	b.look("as they end")
	if b.r.IntN(3) == 0 {
		b.restart()
		b.look("as they end, after the kubelet was killed and started")
	}
	b.freed()
}

// awaitNotRegistered waits until the kubelet has reported an object as not yet registered,
// where the batch has such an object.
func (b *batchRun) awaitNotRegistered() {
	var namespaces []string
	for _, d := range b.pods {
		for _, v := range d.pod.Spec.Volumes {
			if v.Secret != nil && v.Secret.SecretName == "there" {
				namespaces = append(namespaces, d.pod.Namespace)
			}
		}
	}
	if len(namespaces) == 0 {
		return
	}
	world.await(b.T, "the kubelet to say that a secret is not registered", func() (bool, error) {
		events, err := world.Client.CoreV1().Events(namespaces[0]).List(world.plane, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return strings.Contains(e.Message, `" not registered`) }), nil
	})
}

func (b *batchRun) ask(r wire.Request) wire.Answer {
	b.Helper()
	a, err := b.m.Ask(r)
	if err != nil {
		b.Fatal(err)
	}
	return a
}

// create makes a pod and the objects that it needs.
func (b *batchRun) create(d *drawnPod) {
	b.Helper()
	namespace := d.pod.Namespace
	if d.pod.Name == "web-0" {
		if err := fixture.Namespace(world.plane, world.Client, namespace); err != nil {
			b.Fatal(err)
		}
		if err := world.create(namespace, "there"); err != nil {
			b.Fatal(err)
		}
	}
	for _, c := range d.claims {
		switch {
		case c.own:
		case c.state == claimBound:
			world.claim(b.T, namespace, c.name, c.driver, c.change, nil)
		case c.state == claimPending:
			world.unboundClaim(b.T, namespace, c.name, "")
		case c.state == claimOfAnother:
			world.claim(b.T, namespace, c.name, c.driver, c.change, nil)
			if err := world.Client.CoreV1().PersistentVolumeClaims(namespace).Delete(world.plane, c.name, metav1.DeleteOptions{}); err != nil {
				b.Fatal(err)
			}
			world.unboundClaim(b.T, namespace, c.name, "pv-"+namespace+"-"+c.name)
		}
	}
	for _, f := range d.faults {
		b.ask(wire.Request{Do: wire.SetFault, Driver: f.driver, Fault: f.fault})
	}
	for _, v := range d.attachFails {
		world.attacher(v.Driver).FailPublish(status.Error(codes.FailedPrecondition, volumeLocked), v.Handle)
	}
	pod, err := fixture.CreatePod(world.plane, world.Client, d.pod)
	if err != nil {
		b.Fatal(err)
	}
	d.pod = pod
	for _, c := range d.claims {
		if c.own {
			world.claim(b.T, namespace, c.name, c.driver, c.change, pod)
		}
	}
	b.tally.drew(d)
}

// clear ends the faults and the pods of the batch, and removes everything that would make the
// next look longer.
func (b *batchRun) clear() {
	for _, h := range b.held {
		h.release()
	}
	for _, d := range b.pods {
		b.heal(d)
		_ = fixture.ForceDeletePod(world.plane, world.Client, d.pod.Namespace, d.pod.Name) // it may be gone
	}
	b.restart() // its pauses have grown
	b.await("the pods to go from the machine", func() (bool, error) {
		a := b.ask(wire.Request{Do: wire.Look})
		return len(a.Kubelet.Pods) == 0 && len(a.Kubelet.InUse) == 0, fmt.Errorf("%d pods, in use: %v", len(a.Kubelet.Pods), a.Kubelet.InUse)
	})
	b.ask(wire.Request{Do: wire.Forget})
	for _, d := range b.pods {
		if err := world.empty(d.pod.Namespace); err != nil {
			b.Fatal(err)
		}
	}
}

// heal ends the faults of the pod's volumes.
func (b *batchRun) heal(d *drawnPod) {
	for _, f := range slices.Concat(d.faults, d.endFaults) {
		b.ask(wire.Request{Do: wire.SetFault, Driver: f.driver, Fault: wire.Fault{RPC: f.fault.RPC, Handle: f.fault.Handle}})
	}
	for _, v := range d.attachFails {
		world.attacher(v.Driver).FailPublish(nil, v.Handle)
	}
}

// volumes are the volumes of all pods of the batch.
func (b *batchRun) volumes() (list []Volume) {
	for _, d := range b.pods {
		list = append(list, d.volumes...)
	}
	return list
}

// truth is the truth about each pod; for a pod whose containers have run, it is that they go
// on.
func (b *batchRun) truth() (map[types.UID]map[string]Truth, seen) {
	s, err := world.see(b.m, b.volumes())
	if err != nil {
		b.Fatal(err)
	}
	truth := map[types.UID]map[string]Truth{}
	for _, d := range b.pods {
		told, known := s.answer.Kubelet.Pods[d.uid()]
		d.ran = d.ran || told.Ready
		if !known {
			continue
		}
		truth[d.uid()] = s.truth(d.uid(), d.volumes)
		if d.ran && !told.Terminating {
			for name, t := range truth[d.uid()] {
				t.Stage, t.Actor, t.Done = "", "", nil
				truth[d.uid()][name] = t
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
		moved[d.uid()] = time.Now()
	}
	still := func() int {
		n := 0
		for _, at := range moved {
			if longAgo(at) {
				n++
			}
		}
		return n
	}
	for (still() < len(b.pods) || b.unsaid(last, false)) && time.Since(began) < settleFor || time.Now().Before(b.quiet) ||
		time.Since(began) < saidFor && b.unsaid(last, true) {
		time.Sleep(400 * time.Millisecond)
		next, _ := b.truth()
		for _, d := range b.pods {
			if !same(last[d.uid()], next[d.uid()]) || len(last[d.uid()]) != len(next[d.uid()]) {
				moved[d.uid()] = time.Now()
			}
		}
		last = next
	}
	s, err := world.reader.Snapshot(world.plane)
	if err != nil {
		b.Fatal(err)
	}
	s = ofNode(s, b.m.Node)
	after, seen := b.truth()
	heard, err := b.m.Heard()
	if err != nil {
		b.Fatal(err)
	}
	for _, d := range b.pods {
		b.tally.hear(b.m.root, s, heard, d.pod, d.uid())
	}
	for _, ahead := range []time.Duration{0, 20 * time.Minute} {
		b.oneActor(fmt.Sprintf("%s, %s later", when, ahead), goesOn(s, ahead), goesOnSaying(heard, ahead))
	}
	plan, asked := planOf(s, b.m.Node, nil), planOf(s, b.m.Node, heard)
	b.verdicts = map[types.UID]trace.Verdict{}
	listed := b.leftovers(when, s, plan, seen, false) && b.leftovers(when+", the kubelet being asked", s, asked, seen, true)
	var kept []RecordedPod
	for _, d := range b.pods {
		there := s.Pod(types.NamespacedName{Namespace: d.pod.Namespace, Name: d.pod.Name})
		switch {
		case there == nil || len(after[d.uid()]) == 0:
			b.tally.left(&b.tally.Gone)
			continue
		case !longAgo(moved[d.uid()]) || !same(last[d.uid()], after[d.uid()]):
			b.tally.left(&b.tally.Moved)
			continue
		}
		if len(d.retried) > 0 {
			b.tally.left(&b.tally.Pending)
			continue
		}
		l := lookAt(s, there, plan, nil, after[d.uid()])
		wrong := slices.Concat(l.Compare(d.volumes), l.CompareRows(d.volumes))
		if len(wrong) > 0 {
			old := b.dated(l, seen, d, paused(s, d.uid()))
			others := slices.DeleteFunc(slices.Clone(wrong), func(text string) bool { return isDated(text, old) })
			if len(others) == 0 {
				for _, why := range old {
					b.tally.dated(why)
				}
				b.Logf("true a moment ago: %v: %s/%s %s, %s old, drawn as %v: %v", old, d.pod.Namespace, d.pod.Name, when, time.Since(d.pod.CreationTimestamp.Time), d.kinds, wrong)
				continue
			}
		}
		comes := time.Since(b.oldest(d.pod.Namespace)) < young && !mayBeStuck(d)
		if l.Trace.Verdict.State == finding.Stuck && comes {
			wrong = append(wrong, mayCome+l.Trace.Verdict.Message)
		}
		if len(wrong) == 0 {
			told := lookAt(s, there, asked, heard, l.Truth)
			old := b.dated(told, seen, d, paused(s, d.uid()))
			for _, text := range slices.Concat(told.Compare(d.volumes), told.CompareRows(d.volumes)) {
				if !isDated(text, old) {
					wrong = append(wrong, "the kubelet being asked: "+text)
				}
			}
			b.tally.heard(l, told)
			for _, v := range []trace.Verdict{told.Trace.Verdict, l.Trace.Verdict} {
				if len(wrong) == 0 && v.Actor != "" && v.Volume != "" && len(v.Volumes) <= 1 {
					b.verdicts[d.uid()] = v
				}
			}
		}
		if len(wrong) == 0 {
			kept = append(kept, RecordedPod{Pod: types.NamespacedName{Namespace: there.Namespace, Name: there.Name}, Volumes: d.volumes, Truth: l.Truth, MayCome: comes})
		}
		b.tally.looked(when, l, wrong)
		for _, text := range wrong {
			b.Errorf("%s/%s %s, drawn as %v: %s (said: %q)", d.pod.Namespace, d.pod.Name, when, d.kinds, text, l.Trace.Verdict.Said)
		}
	}
	b.record(when, s, kept, seen, listed)
}

// oneActor compares the actors of findings and verdicts, in the report and in the trace of each pod
// whose kubelet was asked.
func (b *batchRun) oneActor(when string, s *snapshot.Snapshot, heard *trace.KubeletView) {
	b.Helper()
	report := diagnose.Diagnose(s, diagnose.Options{})
	findings, wrong := len(report.Findings), testworld.ActorsDiffer(s, report)
	for _, pod := range s.Pods {
		t := diagnose.TracePod(s, pod, diagnose.Options{Kubelet: heard})
		findings += len(t.Findings)
		for _, text := range testworld.TraceActorsDiffer(s, t) {
			wrong = append(wrong, "the kubelet being asked: "+text)
		}
	}
	b.tally.reported(findings, len(wrong))
	for _, text := range wrong {
		b.Errorf("%s %s: %s", b.m.Node, when, text)
	}
}

// longAgo reports whether a pod that last changed then has settled.
func longAgo(at time.Time) bool { return time.Since(at) >= settled }

// ofNode is the snapshot without the pods of other nodes, which share nothing with those of
// this one. The trace of one pod looks at all pods in the snapshot.
func ofNode(s *snapshot.Snapshot, node string) *snapshot.Snapshot {
	o := s.Objects
	o.Pods = slices.DeleteFunc(slices.Clone(o.Pods), func(pod *corev1.Pod) bool { return pod.Spec.NodeName != node })
	there := map[types.UID]bool{}
	for _, pod := range o.Pods {
		there[pod.UID], there[types.UID(pod.Annotations[corev1.MirrorPodAnnotationKey])] = true, true
	}
	o.Events = slices.DeleteFunc(slices.Clone(o.Events), func(e *corev1.Event) bool { return e.InvolvedObject.Kind == "Pod" && !there[e.InvolvedObject.UID] })
	return snapshot.New(s.TakenAt, s.Source, o, s.Gaps)
}

// record keeps the looks that were compared and right.
func (b *batchRun) record(when string, s *snapshot.Snapshot, kept []RecordedPod, now seen, listed bool) {
	b.Helper()
	if recorder == nil {
		return
	}
	r, err := record(s, b.tally.Release, b.m.Node, when)
	if err != nil {
		b.Fatal(err)
	}
	r.Pods, r.Listed = kept, listed
	r.Answer, r.Registered = now.forRecord()
	if err := recorder.Add(r); err != nil {
		b.Fatal(err)
	}
}

// unsaid reports whether the kubelet has not yet reached the step that keeps a volume from
// being mounted, for the pod or, with anyPod, for one of those that share the volume: on a
// busy machine that takes longer than everything else.
func (b *batchRun) unsaid(truth map[types.UID]map[string]Truth, anyPod bool) bool {
	for _, d := range b.pods {
		for _, v := range d.volumes {
			t := truth[d.uid()][v.Name]
			local := t.Actor == Creator || v.Driver == "" && (t.Actor == NodeAdmin || t.Actor == Nobody)
			if !local || v.Unclaimed || t.Stage == trace.StageUnmounted || b.cut {
				continue
			}
			events, err := world.Client.CoreV1().Events(d.pod.Namespace).List(world.plane, metav1.ListOptions{})
			if err != nil {
				b.Fatal(err)
			}
			if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
				return (anyPod && v.Driver != "" || e.InvolvedObject.UID == d.uid()) && e.Reason == "FailedMount" && strings.Contains(e.Message, v.Name+`"`)
			}) {
				return true
			}
		}
	}
	return false
}

// leftovers compares the plan's rows of the volumes in use, where the kubelet's list agrees
// with the API server's, and reports whether they were compared and right.
func (b *batchRun) leftovers(when string, s *snapshot.Snapshot, plan *kubelet.Node, now seen, asked bool) bool {
	b.Helper()
	node, inUse := s.Node(plan.Node), slices.Sorted(slices.Values(now.answer.Kubelet.InUse))
	if !slices.Equal(inUse, slices.Sorted(slices.Values(node.Status.VolumesInUse))) {
		b.tally.left(&b.tally.MovedNodes)
		return false
	}
	rows, wrong := CompareLeftovers(plan, now, asked)
	b.tally.rows(len(plan.Volumes), rows, len(wrong))
	for _, text := range wrong {
		b.Errorf("%s %s: %s", b.m.Node, when, text)
	}
	return len(wrong) == 0
}

// oldest is when the first pod of the namespace was made. The pods of a namespace share their
// volumes: a fault of a volume is as old as the first pod that wanted it.
func (b *batchRun) oldest(namespace string) time.Time {
	first := time.Now()
	for _, d := range b.pods {
		if at := d.pod.CreationTimestamp.Time; d.pod.Namespace == namespace && at.Before(first) {
			first = at
		}
	}
	return first
}

// remade is when a pod of the namespace was last made again; zero where none was. The
// kubelet's texts about its volumes went with the old pod, and it repeats them after its
// pause.
func (b *batchRun) remade(namespace string) (last time.Time) {
	for _, d := range b.pods {
		if at := d.pod.CreationTimestamp.Time; d.pod.Namespace == namespace && d.remade && at.After(last) {
			last = at
		}
	}
	return last
}

// mayBeStuck reports whether a volume of the pod can never come, or has had its fault for
// longer than the pod is old.
func mayBeStuck(d *drawnPod) bool {
	return slices.ContainsFunc(d.volumes, func(v Volume) bool { return v.Never || v.Unclaimed })
}

// paused reports whether the kubelet has sent so many events about the pod that its recorder
// drops the next ones, for minutes.
func paused(s *snapshot.Snapshot, pod types.UID) bool {
	sent := int32(0)
	for _, e := range s.EventsOf(pod) {
		sent += max(1, e.Count)
	}
	return sent >= 25
}

// volumeNamed finds the volume that a difference is about.
var volumeNamed = regexp.MustCompile(`volume (v\d+)\b`)

// unsaidYet is the reason where no object shows which volume of a pod waits.
const unsaidYet = "nothing was said yet of what is missing"

// isDated reports whether the difference is about a volume whose truth no object can show
// yet. Where nothing was said about the one that waits, that applies to the others, too.
func isDated(text string, old map[string]string) bool {
	for _, why := range old {
		if why == unsaidYet {
			return true
		}
	}
	m := volumeNamed.FindStringSubmatch(text)
	return m != nil && old[m[1]] != ""
}

// dated names the volumes whose truth no object can show yet, each with the reason: the
// driver was called for it after the last text about it, the kubelet has mounted it since and
// might still have been about to repeat the text, or has not yet reached the fault.
func (b *batchRun) dated(l Look, s seen, d *drawnPod, paused bool) map[string]string {
	old := map[string]string{}
	fresh := time.Since(facts.Latest(d.pod.CreationTimestamp, metav1.NewTime(b.begun)).Time) < young
	toldFormer := time.Since(b.remade(d.pod.Namespace)) < reconcile.BackoffLast+facts.RetrySaid
	for _, v := range d.volumes {
		told := l.volume(v.Name)
		if told == nil {
			continue
		}
		if (toldFormer || (paused || fresh && v.Driver == "") && !v.Unclaimed) && v.Local != "" && !slices.ContainsFunc(told.Stages, func(s trace.Stage) bool { return len(s.Said) > 0 }) {
			old[v.Name] = unsaidYet
		}
		if truth := l.Truth[v.Name]; b.cut && v.Attachable && truth.Stage == trace.StageInVolumesInUse && truth.Actor == TheKubelet {
			old[v.Name] = "the kubelet cannot read that it is attached"
		}
		if b.cut && l.Truth[v.Name].Mounted && !facts.Mounted(l.snapshot.Pod(types.NamespacedName{Namespace: d.pod.Namespace, Name: d.pod.Name})) {
			old[v.Name] = "mounted, and the kubelet cannot write it"
		}
		for _, stage := range told.Stages {
			if truth := l.Truth[v.Name]; truth.Stage == trace.StageInVolumesInUse && (truth.Actor == TheKubelet || v.Local != "") && saysMounting(stage) {
				old[v.Name] = "taken up since the kubelet gave up its wait"
			}
			if why := datedStage(l, s, v, stage, paused); why != "" {
				old[v.Name] = why
			}
		}
	}
	return old
}

// saysMounting reports whether the kubelet has said in the stage that it mounts the volume: it
// has taken it up by then.
func saysMounting(stage trace.Stage) bool {
	return slices.ContainsFunc(stage.Said, func(s trace.Said) bool {
		return strings.HasPrefix(s.Text, kubeletwords.Mounting) || strings.HasPrefix(s.Text, kubeletwords.Mapping)
	})
}

// volumeLocked is the message of a driver that refuses to attach.
const volumeLocked = "the volume is locked"

// saysRefused reports whether the attacher has written the driver's refusal.
func saysRefused(status storagev1.VolumeAttachmentStatus) bool {
	return status.AttachError != nil && strings.Contains(status.AttachError.Message, volumeLocked)
}

// written is the status that the external-attacher has written for the volume.
func (l Look) written(v Volume) (status storagev1.VolumeAttachmentStatus) {
	if va := l.snapshot.VolumeAttachment(facts.AttachmentName(reconcile.VolumeNode{Volume: v.Unique, Node: l.Plan.Node})); va != nil {
		status = va.Status
	}
	return status
}

// about are the events about the volume that the text names, of all pods that share it.
func (l Look) about(said trace.Said) (events []*corev1.Event) {
	if text := kubeletwords.Failed.FindStringSubmatch(said.Text); text != nil {
		for _, e := range l.snapshot.Events {
			if m := kubeletwords.Failed.FindStringSubmatch(e.Message); m != nil && m[2] == text[2] && e.InvolvedObject.Namespace == l.Trace.Pod.Namespace {
				events = append(events, e)
			}
		}
	}
	return events
}

// repeats is how long after the text the kubelet may repeat it: its pause is at most as long as
// the volume has failed before. Objects do not show that the kubelet has been started again, with
// short pauses.
func (l Look) repeats(said trace.Said) time.Duration {
	first := said.At.Time
	for _, e := range l.about(said) {
		if at := facts.FirstTime(e).Time; at.Before(first) {
			first = at
		}
	}
	return max(retries, min(said.At.Sub(first), reconcile.BackoffLast)+facts.RetrySaid+time.Second)
}

// pausedFor reports whether the recorder drops what the kubelet would say next about the pod of
// which it has said the text.
func (l Look) pausedFor(said trace.Said) bool {
	return slices.ContainsFunc(l.about(said), func(e *corev1.Event) bool {
		return e.Message == said.Text && paused(l.snapshot, e.InvolvedObject.UID)
	})
}

// datedStage is dated for the texts about one stage of a volume.
func datedStage(l Look, s seen, v Volume, stage trace.Stage, paused bool) string {
	truth := l.Truth[v.Name]
	if stage.Stage == trace.StageAttached && truth.Done[trace.StageAttached] && !l.written(v).Attached {
		return "attached, and the attacher has not written it yet"
	}
	if stage.Stage == trace.StageAttached && truth.Stage == trace.StageAttached && truth.Actor == TheDriver && !saysRefused(l.written(v)) {
		return "refused, and the attacher has not written it yet"
	}
	for _, said := range stage.Said {
		switch {
		case truth.Mounted && stage.State == trace.StageBlocked && said.At != nil && actorOf(stage.On) != Nobody && (paused || l.pausedFor(said)):
			return "mounted since, and the recorder drops what comes next"
		case truth.Mounted && stage.State == trace.StageBlocked && said.At != nil && actorOf(stage.On) != Nobody && l.snapshot.TakenAt.Sub(said.At.Time) < l.repeats(said):
			return "mounted since, when the text might still have been repeated"
		case (truth.Done[stage.Stage] || truth.Stage == stage.Stage && truth.Actor == TheKubelet) && strings.Contains(said.Text, "failed to process volumes") && l.snapshot.TakenAt.Sub(said.At.Time) < facts.PodRetry+facts.RetrySaid+time.Second:
			return "the claim has come since"
		case strings.Contains(said.Text, `" not registered`) && v.Local != "":
			return "the kubelet has not come to what is missing"
		case strings.Contains(said.Text, "not found in the list of registered CSI drivers") && s.registered(v.Driver):
			return "the driver has registered since"
		case said.At != nil && (strings.Contains(said.By, "event FailedM") || strings.Contains(said.By, "log")) && s.pending(v.Handle) &&
			(s.received(wire.Stage, v.Handle, said.At.Add(time.Second)) || s.received(wire.Publish, v.Handle, said.At.Add(time.Second))):
			return "the driver was called again since, and has not answered"
		}
	}
	return ""
}
