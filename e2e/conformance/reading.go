package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	adcache "k8s.io/kubernetes/pkg/controller/volume/attachdetach/cache"
	"k8s.io/kubernetes/pkg/volume"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// answer reads the controller's worlds and log once the pass is over.
func (o *oracle) answer() (*Answer, error) {
	a := newAnswer()
	lines := o.log.upToPassOver()
	o.readDesired(a)
	o.readActual(a)
	if err := o.readStatus(a); err != nil {
		return nil, err
	}
	events, err := o.warnings()
	if err != nil {
		return nil, err
	}
	operations, err := readDecisions(a, lines)
	if err != nil {
		return nil, err
	}
	readWarnings(a, events)
	o.readSkipped(a, lines)
	if !o.mode.Free {
		if err := o.settle(); err != nil {
			return nil, err
		}
	}
	o.readMountedLater(a)
	if !o.mode.Free {
		for pair, name := range o.finish(operations) {
			d := a.Decisions[pair]
			d.VolumeAttachment = name
			a.Decisions[pair] = d
		}
	}
	return a, nil
}

// readActual reads the actual state of the world after the pass. It is what it
// was before: its operations are still held.
func (o *oracle) readActual(a *Answer) {
	asw := o.actual()
	for _, v := range asw.GetAttachedVolumes() {
		state := reconcile.Uncertain
		if asw.GetAttachState(v.VolumeName, v.NodeName) == adcache.AttachStateAttached {
			state = reconcile.Attached
		}
		a.Actual[Pair{Volume: v.VolumeName, Node: v.NodeName}] = ActualRow{
			State: state, Spec: specOfUpstream(v.VolumeSpec), DevicePath: v.DevicePath, Mounted: v.MountedByNode,
		}
	}
}

func (o *oracle) readMountedLater(a *Answer) {
	for _, v := range o.actual().GetAttachedVolumes() {
		pair := Pair{Volume: v.VolumeName, Node: v.NodeName}
		if row, ok := a.Actual[pair]; ok {
			row.MountedLater = v.MountedByNode
			a.Actual[pair] = row
		}
	}
}

func (o *oracle) readDesired(a *Answer) {
	dsw := o.adc.GetDesiredStateOfWorld()
	for _, node := range o.cluster.nodeNames() {
		if dsw.NodeExists(node) {
			a.Managed.Insert(node)
		}
	}
	for _, v := range dsw.GetVolumesToAttach() {
		var pods []string
		for _, pod := range v.ScheduledPods {
			pods = append(pods, pod.Namespace+"/"+pod.Name)
		}
		a.Desired[Pair{Volume: v.VolumeName, Node: v.NodeName}] = DesiredRow{Spec: specOfUpstream(v.VolumeSpec), Pods: join(pods)}
	}
}

func (o *oracle) readStatus(a *Answer) error {
	nodes, err := o.client.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range nodes.Items {
		a.Status[types.NodeName(nodes.Items[i].Name)] = statusRow(nodes.Items[i].Status.VolumesAttached)
	}
	return nil
}

func specOfUpstream(s *volume.Spec) Spec {
	if s == nil {
		return Spec{}
	}
	return Spec{Source: s.Name(), MultiAttach: volumeutil.IsMultiAttachAllowed(s), Migrated: s.Migrated}
}

// readDecisions turns the lines of the pass into decisions and counts the
// operations that it started.
func readDecisions(a *Answer, lines []line) (operations int, err error) {
	for _, l := range lines {
		d, started := decisionOf(l)
		if d.Verb == "" {
			continue
		}
		pair, ok := l.pair()
		if !ok {
			return 0, fmt.Errorf("no pair in log line %q %v", l.msg, l.values)
		}
		if started {
			operations++
		}
		switch {
		case d.Verb == reconcile.Blocked && a.Actual[pair].State == reconcile.Attached && a.Desired[pair].Pods != "":
			// The controller does not look at an attached volume while another
			// operation on it runs, and would do nothing if it did.
			d = Decision{Verb: reconcile.Keep, Reason: reconcile.WantedAndAttached}
		case d.Verb == reconcile.Attach && a.Actual[pair].State == reconcile.Uncertain:
			d.Reason = reconcile.AttachUncertain
		}
		if was, twice := a.Decisions[pair]; twice {
			return 0, fmt.Errorf("two decisions about %v: %v and %v", pair, was, d)
		}
		a.Decisions[pair] = d
	}
	return operations, nil
}

// decisionOf says which branch a line stands for. The zero Decision is none.
func decisionOf(l line) (d Decision, started bool) {
	switch {
	case l.msg == "Cannot detach volume because it is still mounted":
		return Decision{Verb: reconcile.Wait, Reason: reconcile.StillMounted}, false
	case l.msg == "attacherDetacher.DetachVolume started":
		return Decision{Verb: reconcile.Detach, Reason: reconcile.NotWanted}, true
	case l.msg == "attacherDetacher.DetachVolume started: node has out-of-service taint, force detaching":
		return Decision{Verb: reconcile.ForceDetach, Reason: reconcile.OutOfServiceTaint}, true
	case strings.HasPrefix(l.msg, "attacherDetacher.DetachVolume started: this volume is not safe to detach"):
		return Decision{Verb: reconcile.ForceDetach, Reason: timedOut}, true
	case l.msg == "attacherDetacher.DetachVolume failed to start":
		return Decision{Verb: reconcile.Blocked, Reason: whyBlocked(l.err)}, false
	case strings.HasPrefix(l.msg, "Operation for volume is already running or still in exponential backoff"):
		return Decision{Verb: Held}, false
	case strings.HasPrefix(l.msg, "Operation for volume is already running"):
		return Decision{Verb: reconcile.Blocked, Reason: reconcile.OperationPending}, false
	case l.msg == "Volume attached--touching":
		return Decision{Verb: reconcile.Keep, Reason: reconcile.WantedAndAttached}, false
	case l.msg == "attacherDetacher.AttachVolume started":
		return Decision{Verb: reconcile.Attach, Reason: reconcile.NotAttached}, true
	case strings.HasPrefix(l.msg, "Multi-Attach error"):
		holders, _ := l.values["attachedTo"].([]string)
		return Decision{Verb: reconcile.MultiAttach, Reason: reconcile.AttachedElsewhere, Holders: join(holders)}, false
	case l.msg == "attacherDetacher.AttachVolume failed to start":
		return Decision{Verb: reconcile.Blocked, Reason: reconcile.Reason(fmt.Sprint(l.err))}, false
	default:
		return Decision{}, false
	}
}

// timedOut is the oracle's reason for a forced detach after the time-out.
const timedOut reconcile.Reason = "TimedOut"

func whyBlocked(err error) reconcile.Reason {
	switch text := fmt.Sprint(err); {
	case strings.Contains(text, "FindAttachablePluginByName failed"):
		return reconcile.NoPlugin
	case strings.Contains(text, "SplitUniqueName failed"):
		return reconcile.InvalidVolumeName
	default:
		return reconcile.Reason(text)
	}
}

// pair is what a line is about.
func (l line) pair() (Pair, bool) {
	if v, ok := l.values["volume"].(adcache.VolumeToAttach); ok {
		return Pair{Volume: v.VolumeName, Node: v.NodeName}, true
	}
	var pair Pair
	for _, key := range []string{"volumeName", "volumeNames"} {
		if name, ok := l.values[key].(corev1.UniqueVolumeName); ok {
			pair.Volume = name
		}
	}
	switch node := l.values["node"].(type) {
	case klog.ObjectRef:
		pair.Node = types.NodeName(node.Name)
	default:
		pair.Node, _ = l.values["nodeName"].(types.NodeName)
	}
	return pair, pair.Volume != "" && pair.Node != ""
}

// readWarnings gives each MultiAttach the pods that have the event.
func readWarnings(a *Answer, events []*corev1.Event) {
	warned := func(pod, volume string) bool {
		return slices.ContainsFunc(events, func(e *corev1.Event) bool {
			return e.InvolvedObject.Namespace+"/"+e.InvolvedObject.Name == pod && e.Reason == "FailedAttachVolume" &&
				strings.HasPrefix(e.Message, fmt.Sprintf("Multi-Attach error for volume %q", volume))
		})
	}
	for pair, d := range a.Decisions {
		if d.Verb != reconcile.MultiAttach {
			continue
		}
		row := a.Desired[pair]
		pods := strings.Split(row.Pods, ",")
		d.Warned = join(slices.DeleteFunc(pods, func(pod string) bool { return !warned(pod, row.Spec.Source) }))
		a.Decisions[pair] = d
	}
}
