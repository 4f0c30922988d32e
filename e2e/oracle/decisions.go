package main

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	adcache "k8s.io/kubernetes/pkg/controller/volume/attachdetach/cache"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
)

// outOfServiceTaint is logged right before a detach is started from a node with
// the taint. Up to 1.26 the start itself is logged as any other.
const outOfServiceTaint = "node has out-of-service taint"

// readDecisions turns the lines of the pass into decisions.
func (r *reading) readDecisions(lines []line) error {
	tainted := map[string]bool{}
	for _, l := range lines {
		if l.msg == outOfServiceTaint {
			tainted[l.node()] = true
		}
		d := decisionOf(l)
		if d.Verb == "" {
			continue
		}
		var ok bool
		if d.Pair, ok = l.pair(); !ok {
			return fmt.Errorf("no pair in log line %q %v", l.msg, l.values)
		}
		wanted, state := len(r.desired[d.Pair].Pods) > 0, r.actual[d.Pair].State
		switch {
		case d.Verb == "Blocked" && state == "Attached" && wanted:
			// The controller does not look at an attached volume while another
			// operation on it runs, and would do nothing if it did.
			d.Verb, d.Reason = "Keep", "WantedAndAttached"
		case d.Verb == "Attach" && state == "Uncertain":
			d.Reason = "AttachUncertain"
		case d.Verb == "Detach" && tainted[d.Node]:
			d.Verb, d.Reason = "ForceDetach", "OutOfServiceTaint"
		}
		if was, twice := r.decisions[d.Pair]; twice {
			return fmt.Errorf("two decisions: %v and %v", was, d)
		}
		r.decisions[d.Pair] = d
	}
	return nil
}

// decisionOf says which branch a line stands for. The zero Decision is none.
func decisionOf(l line) wire.Decision {
	decide := func(verb, reason string) wire.Decision { return wire.Decision{Verb: verb, Reason: reason} }
	switch {
	case l.msg == "Cannot detach volume because it is still mounted":
		return decide("Wait", "StillMounted")
	case l.msg == "attacherDetacher.DetachVolume started":
		return decide("Detach", "NotWanted")
	case l.msg == "attacherDetacher.DetachVolume started: node has out-of-service taint, force detaching":
		return decide("ForceDetach", "OutOfServiceTaint")
	case strings.HasPrefix(l.msg, "attacherDetacher.DetachVolume started: this volume is not safe to detach"):
		return decide("ForceDetach", wire.TimedOut)
	case l.msg == "attacherDetacher.DetachVolume failed to start":
		return decide("Blocked", whyBlocked(l.err))
	case strings.HasPrefix(l.msg, "Operation for volume is already running or still in exponential backoff"):
		return decide(wire.Held, "")
	case strings.HasPrefix(l.msg, "Operation for volume is already running"):
		return decide("Blocked", "OperationPending")
	case l.msg == "Volume attached--touching":
		return decide("Keep", "WantedAndAttached")
	case l.msg == "attacherDetacher.AttachVolume started":
		return decide("Attach", "NotAttached")
	case strings.HasPrefix(l.msg, "Multi-Attach error"), strings.HasPrefix(l.msg, "Waiting for detach"):
		d := decide("MultiAttach", "MultiAttach")
		d.Holders, _ = l.values["attachedTo"].([]string)
		return d
	case l.msg == "attacherDetacher.AttachVolume failed to start":
		return decide("Blocked", fmt.Sprint(l.err))
	default:
		return wire.Decision{}
	}
}

func whyBlocked(err error) string {
	switch text := fmt.Sprint(err); {
	case strings.Contains(text, "FindAttachablePluginByName failed"):
		return "NoPlugin"
	case strings.Contains(text, "SplitUniqueName failed"):
		return "InvalidVolumeName"
	default:
		return text
	}
}

// pair is what a line is about.
func (l line) pair() (wire.Pair, bool) {
	switch v := l.values["volume"].(type) {
	case adcache.VolumeToAttach:
		return pairOf(v.VolumeName, v.NodeName), true
	case adcache.AttachedVolume:
		return pairOf(v.VolumeName, v.NodeName), true
	}
	pair := wire.Pair{Node: l.node()}
	for _, key := range []string{"volumeName", "volumeNames"} {
		if name, ok := l.values[key].(corev1.UniqueVolumeName); ok {
			pair.Volume = string(name)
		}
	}
	return pair, pair.Volume != "" && pair.Node != ""
}

func (l line) node() string {
	if node, ok := l.values["node"].(klog.ObjectRef); ok {
		return node.Name
	}
	node, _ := l.values["nodeName"].(types.NodeName)
	return string(node)
}
