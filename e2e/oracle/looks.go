package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
)

// look adds a Moment to the story where anything is other than at the last one.
func (l *life) look() { l.lookAs(true) }

// lookBefore is look before the controller has any memory.
func (l *life) lookBefore() { l.lookAs(false) }

func (l *life) lookAs(atWork bool) {
	m := wire.Moment{Started: l.started, Blind: l.blind.Load() || l.relisting, Losing: l.lose > 0, Touched: l.touched}
	if events := l.cluster.events.Load(); !atWork || m.Blind || events != l.eventsSeen {
		l.eventsSeen = events
		l.readObjects()
	}
	m.VolumeAttachments, m.Nodes, m.Pods = l.objects.VolumeAttachments, l.objects.Nodes, l.objects.Pods
	m.Objects = l.versions
	if atWork {
		r := &reading{managed: map[string]bool{}, actual: map[wire.Pair]wire.Actual{}, desired: map[wire.Pair]wire.Desired{}}
		l.readDesired(r)
		l.readActual(r)
		m.Actual, m.Desired, m.Operations = values(r.actual), values(r.desired), l.operations()
		slices.SortFunc(m.Actual, func(a, b wire.Actual) int { return comparePairs(a.Pair, b.Pair) })
		slices.SortFunc(m.Desired, func(a, b wire.Desired) int { return comparePairs(a.Pair, b.Pair) })
		slices.SortFunc(m.Operations, func(a, b wire.Operation) int {
			return cmp.Or(comparePairs(a.Pair, b.Pair), cmp.Compare(a.Name, b.Name))
		})
	}
	text, err := json.Marshal([]any{m.Objects, m.Blind, m.Losing, m.Touched, m.Actual, m.Desired, m.Operations})
	l.cluster.must(err)
	if atWork && bytes.Equal(text, l.last) {
		return
	}
	l.last = text
	m.At, m.Step = l.now(), l.done
	l.story.Moments = append(l.story.Moments, m)
}

// readObjects reads all objects and counts them as another version where they have
// changed.
func (l *life) readObjects() {
	objects := wire.Moment{VolumeAttachments: l.cluster.attachments(), Nodes: l.cluster.nodes(), Pods: l.cluster.pods()}
	text, err := json.Marshal(objects)
	l.cluster.must(err)
	if !bytes.Equal(text, l.objectsText) {
		l.objects, l.objectsText = objects, text
		l.versions++
	}
}

func comparePairs(a, b wire.Pair) int {
	return cmp.Or(strings.Compare(a.Volume, b.Volume), strings.Compare(a.Node, b.Node))
}

// operations reads what runs and what has failed (nestedPendingOperations).
func (l *life) operations() []wire.Operation {
	executor := reflect.ValueOf(l.adc).Elem().FieldByName("attacherDetacher").Elem().Elem()
	pending := executor.FieldByName("pendingOperations").Elem().Elem()
	list := pending.FieldByName("operations")
	var all []wire.Operation
	for i := range list.Len() {
		op := list.Index(i)
		key, backoff := op.FieldByName("key"), op.FieldByName("expBackoff")
		o := wire.Operation{
			Pair: wire.Pair{Volume: key.FieldByName("volumeName").String(), Node: key.FieldByName("nodeName").String()},
			Name: op.FieldByName("operationName").String(), Pending: op.FieldByName("operationPending").Bool(),
		}
		if !o.Pending {
			failed := *(*time.Time)(unsafe.Pointer(backoff.FieldByName("lastErrorTime").UnsafeAddr()))
			o.Until = failed.Add(time.Duration(backoff.FieldByName("durationBeforeRetry").Int())).Sub(l.began)
		}
		all = append(all, o)
	}
	return all
}

// forgotten is what the verify sync logs about what it finds missing.
var forgotten = regexp.MustCompile(`^VerifyVolumesAreAttached determined volume "(.*?)" \(spec.Name: .*\) is no longer attached to node "(.*?)"`)

// readDeeds reads what the pass has done off the log.
func (l *life) readDeeds() {
	at := l.now() - wire.Loop/2
	tainted := map[string]bool{}
	for _, line := range l.log.take() {
		if found := forgotten.FindStringSubmatch(line.msg); found != nil {
			l.story.Deeds = append(l.story.Deeds, wire.Deed{Pair: wire.Pair{Volume: found[1], Node: found[2]}, At: at, Verb: wire.Forgotten})
			continue
		}
		if line.msg == outOfServiceTaint {
			tainted[line.node()] = true
		}
		d := decisionOf(line)
		pair, ok := line.pair()
		if !ok {
			continue
		}
		switch {
		case d.Verb == "Detach" && tainted[pair.Node]:
			d.Verb = "ForceDetach"
		case d.Verb != "Attach" && d.Verb != "Detach" && d.Verb != "ForceDetach":
			continue
		}
		l.story.Deeds = append(l.story.Deeds, wire.Deed{Pair: pair, At: at, Verb: d.Verb})
	}
}

// see ends a time in which the controller heard of nothing.
func (l *life) see() {
	l.cluster.failWatches()
	l.blind.Store(false)
	l.relisting = true
	for range 40 { // the reflectors wait before they list again
		l.pass()
	}
	l.relisting = false
}
