package driver

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/storage"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var BackendSideStuck = check.Check{
	Code:     "VD610",
	Name:     "backend-side-stuck",
	Title:    "A driver's words hint that the storage system itself is stuck",
	Severity: finding.Error,
	Needs:    check.AttachmentKinds(snapshot.CSINodes),
	OfDriver: true,
	Yields:   []check.Yield{{To: "VD404", Key: check.OfAttachment}},
	Follows: []check.Relation{
		{From: []finding.Code{"VD604", "VD605"}, Match: check.SameDriver},
	},
	Never: "delete VolumeAttachments: that changes nothing in the storage system",
	Run:   runBackendSideStuck,
}

func runBackendSideStuck(p *check.Run) {
	truth := storage.Of(p.View)
	for _, driver := range p.Attachers() {
		for _, t := range p.Tasks(driver) {
			if stuckAtStorage(p, truth, t) {
				continue
			}
			// va-stuck-deleting reports a detach that fails.
			if t.DeletionTimestamp != nil || t.Failure == nil || p.Age(t.Failure.Time) >= facts.AttacherSilent {
				continue
			}
			if hint, grace := backendHint(p.View, t); hint != "" && p.Lasted(t.Since, grace) {
				backendStuck(p, truth, t, hint)
			}
		}
	}
}

// backendHint is the likely cause by the driver's own message, and how long it may pass as a
// delay; "" where the message is about something else.
func backendHint(p *facts.View, t facts.Task) (string, time.Duration) {
	entry, known := facts.AttachRefusal(t.Spec.Attacher, t.Failure)
	if !known || !facts.FromDriver(t.Failure.Message) {
		return "", 0
	}
	about, _ := entry.Meaning.About()
	switch entry.Meaning {
	case driverwords.BackendBusy, driverwords.BackendStuck, driverwords.MachineBusy, driverwords.OperationPending:
		return facts.Clause(about.Says), facts.StuckDeleting
	case driverwords.TimedOut, driverwords.DriverUnavailable, driverwords.Unreachable:
		return facts.Clause(about.Says), facts.OutageGrace
	case driverwords.AttachedElsewhere, driverwords.MultiAttach:
		// rwo-many-consumers and the like report volumes that only one node may have
		pair, ok := p.TaskPair(t)
		if user, _ := usedElsewhere(p, pair); ok && user != nil && !p.OneNode(pair.Volume) {
			return facts.Clause(about.Says), facts.RefusalGrace
		}
		return "", 0
	default:
		return "", 0
	}
}

func backendStuck(p *check.Run, truth *storage.Truth, t facts.Task, hint string) {
	pair, ok := p.TaskPair(t)
	pods := taskPods(p.View, []facts.Task{t})
	if !ok || len(pods) == 0 {
		return // the attempt is left over: nobody waits
	}
	f := waitsForStorage(p, t, pair, pods)
	f.Message += ": its storage seems stuck"
	f.Said = p.QuoteAttach(t.Spec.Attacher, t.Failure, pods)
	f.Cause = hint
	facts.Hinted(&f)
	entry, known := facts.AttachRefusal(t.Spec.Attacher, t.Failure)
	if known {
		f.KnownFrom = facts.KnownFrom(entry)
	}
	if about, _ := entry.Meaning.About(); known && entry.Helps != about.Helps && !strings.HasPrefix(entry.Helps, step.Wait.Of()) {
		f.Advice = facts.Helps(entry, p.Age(t.Since)) // the advice for this very message, and whom it hits
	} else {
		f.Advice += ": the cluster's own objects are right"
	}
	if user, node := usedElsewhere(p.View, pair); user != nil {
		inUse(p.View, &f, user, node)
	}
	if entry := truth.Volume(pair.Volume); entry != nil {
		if attached, _ := entry.On(pair.Node); attached {
			f.Cause = "the storage system has the volume attached to the node already, and the driver does not come to say so: " + hint
		}
		f.Evidence = append(f.Evidence, entry.Evidence())
	}
	p.Report(f)
}

// waitsForStorage is the common part of both findings: pods wait for an attach that the storage
// system holds up.
func waitsForStorage(p *check.Run, t facts.Task, pair reconcile.VolumeNode, pods []*corev1.Pod) finding.Finding {
	return p.About(facts.Attachment{VolumeAttachment: t.VolumeAttachment, VolumeNode: pair}, finding.Finding{
		Pods:      facts.PodNames(pods),
		Since:     &t.Since,
		Message:   fmt.Sprintf("Pod %s waits on node %s for volume %s", facts.PodName(pods[0]), t.Spec.NodeName, p.TaskVolume(t)),
		Evidence:  taskEvidence([]facts.Task{t}),
		SelfHeals: finding.SelfHeals{Because: "the storage system has to let it go on; the driver is asked again within 5 min"},
		Advice:    "{check} look at the volume and the machine in the storage system's own console or tools, and act there",
	})
}

// usedElsewhere returns a pod on another node that has the volume, and the node; nil where there
// is none.
func usedElsewhere(p *facts.View, pair reconcile.VolumeNode) (*corev1.Pod, types.NodeName) {
	for _, va := range p.Attachments() {
		if va.Volume != pair.Volume || va.Node == pair.Node || !va.Holds() || va.DeletionTimestamp != nil {
			continue
		}
		for _, pod := range p.World.LivePods(va.VolumeNode) {
			if facts.Started(pod) && pod.DeletionTimestamp == nil {
				return pod, va.Node
			}
		}
	}
	return nil, ""
}

// inUse completes the finding about a volume that really is in use.
func inUse(p *facts.View, f *finding.Finding, user *corev1.Pod, node types.NodeName) {
	name := facts.PodName(user)
	f.Message = strings.TrimSuffix(f.Message, ": its storage seems stuck") + ", which node " + string(node) + " has"
	f.Detail = fmt.Sprintf("pod %s uses it there", name)
	f.Cause = "its storage gives it to one node at a time"
	if !p.OneNode(f.Volume) {
		f.Cause = "its access mode lets several nodes have it, and " + f.Cause
	}
	f.Actor = "the workload owner"
	f.Advice = "run the pods of its claim on one node, or {change} give them a volume of a storage class that several nodes may use"
	f.Never = fmt.Sprintf("detach the volume in the storage system: pod %s uses it", name)
	f.SelfHeals.Because = fmt.Sprintf("it is attached once node %s gives it up", node)
}
