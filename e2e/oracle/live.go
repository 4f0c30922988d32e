package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/volume/attachdetach"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
)

// life is a controller that lives through a history, and one after the other
// where it is restarted.
type life struct {
	*oracle
	cluster *cluster
	random  *rand.Rand
	story   *wire.Story
	began   time.Time
	started time.Duration
	stop    func()
	done    int // steps
	text    *text
	over    chan struct{} // closed once the log is complete

	// blind reports whether the controller hears of no change.
	blind atomic.Bool
	// relisting reports whether the controller begins to hear of changes again.
	relisting bool
	touched   bool
	lose      int    // patches from now on
	last      []byte // the last moment
	// objects are the objects of the last moment, of which there were so many versions.
	objects     wire.Moment
	objectsText []byte
	eventsSeen  int64
	versions    int
}

// live answers a request with a History.
func live(t *testing.T, request *wire.Request) (*wire.Answer, error) {
	if _, err := flexPlugins(); err != nil { // what watches their folder lives outside
		return nil, err
	}
	var story *wire.Story
	err := inBubble(t, func() error {
		l := &life{random: rand.New(rand.NewPCG(request.Seed, 0)), story: &wire.Story{Began: time.Now()}, began: time.Now(), text: newText(), over: make(chan struct{})}
		story = l.story
		return l.through(request)
	})
	if err != nil {
		return nil, err
	}
	return &wire.Answer{Story: story}, nil
}

func (l *life) through(request *wire.Request) error {
	l.cluster = newCluster(fake.NewSimpleClientset(objects(request)...), l)
	if err := l.start(request); err != nil {
		return err
	}
	for _, step := range request.History {
		if step.Do == wire.Restart {
			l.end()
			if err := l.start(request); err != nil {
				return err
			}
		} else if err := l.cluster.do(step); err != nil {
			return fmt.Errorf("%s: %w", step.Do, err)
		}
		l.done++
		for passed := time.Duration(0); passed < step.Then; passed += wire.Loop {
			l.pass()
		}
		if l.blind.Load() {
			l.see()
		}
	}
	l.pass()
	l.story.Ended = l.now()
	l.story.Log = l.text.String()
	l.end()
	close(l.over)
	time.Sleep(3 * time.Minute) // for the operations, which nobody can stop
	return nil
}

func (l *life) now() time.Duration { return time.Since(l.began) }

// pass lets the driver and the kubelets do what is due, looks what there is, and
// waits for the controller's next pass. It is called half-way between two.
func (l *life) pass() {
	l.cluster.work(l.now())
	synctest.Wait()
	l.look()
	time.Sleep(wire.Loop)
	synctest.Wait()
	l.readDeeds()
}

// start builds a controller, lets it hear of everything, and runs it.
func (l *life) start(request *wire.Request) error {
	o := &oracle{request: request, client: l.cluster.client, gate: newGate(false), log: newRecorder()}
	o.gate.off = true
	o.log.text = l.text
	l.oracle, l.touched = o, false
	l.blind.Store(false)
	current.Store(o.log)
	// Without a period, older reflectors wait on a channel that is no bubble's.
	o.factory = informers.NewSharedInformerFactory(o.client, 24*time.Hour)
	o.nodes = &watchedNodes{NodeInformer: o.factory.Core().V1().Nodes()}
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.New(sink{func() *recorder { return o.log }, true})))
	ended := make(chan struct{})
	l.stop = func() {
		cancel()
		<-ended
		o.factory.Shutdown()
	}
	core, storage := o.factory.Core().V1(), o.factory.Storage().V1()
	storage.CSIDrivers().Informer()
	core.Nodes().Informer()
	core.PersistentVolumes().Informer()
	core.PersistentVolumeClaims().Informer()
	storage.CSINodes().Informer()
	storage.VolumeAttachments().Informer()
	if err := o.startInformers(ctx); err != nil {
		close(ended)
		return err
	}
	timers := attachdetach.DefaultTimerConfig
	timers.ReconcilerLoopPeriod = wire.Loop
	var err error
	if o.adc, err = o.newController(ctx, timers); err != nil {
		close(ended)
		return err
	}
	o.probeFlex()
	synctest.Wait()
	if err := o.startInformers(ctx); err != nil {
		close(ended)
		return err
	}
	synctest.Wait()
	l.started = l.now()
	l.lookBefore()
	go func() {
		defer close(ended)
		run(ctx, o.adc)
	}()
	time.Sleep(wire.Loop / 2)
	synctest.Wait()
	l.readDeeds()
	return nil
}

// end stops the controller as the end of its process does.
func (l *life) end() {
	l.gate.kill(l.over)
	l.stop()
	l.cluster.closeWatches()
}

var errLost = errors.New("the patch is lost")
