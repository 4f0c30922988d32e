package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

const (
	// controllerActs is how long the controller may take to begin an attach or a detach that
	// nothing delays. A judgement: its loop is quick, and its caches follow within seconds.
	controllerActs = 30 * time.Second
	// attacherActs is how long an attacher may take to begin with a new
	// VolumeAttachment: it adds its finalizer before it calls the driver. A
	// judgement: it acts on the event.
	attacherActs = 30 * time.Second
	// attachTakes is the time of one operation of the controller.
	attachTakes = reconcile.CSITimeout
)

// nodeLacksDriver is part of the attacher's message, before it calls the driver, about a node
// on which the driver has not registered.
const nodeLacksDriver = "does not contain driver"

// The actors that have the same name in every cluster.
const (
	// Scheduler is the actor while a pod has no node.
	Scheduler = "the scheduler"
	// Controller is the actor of an attach or a detach that has not begun.
	Controller = "the attach/detach controller"
	// EphemeralController makes the claims of generic ephemeral volumes; it is part of
	// kube-controller-manager.
	EphemeralController = "the ephemeral volume controller"
	// PodCollector removes the pods of nodes that are gone or out of service; it is part of
	// kube-controller-manager.
	PodCollector = "the pod garbage collector"
)

// attachmentOf is the VolumeAttachment of the volume on the pod's node.
func (t *tracer) attachmentOf(v *tracedVolume) *storagev1.VolumeAttachment {
	return t.Snapshot.VolumeAttachment(facts.AttachmentName(v.pair))
}

// attached is the stage in which the driver attaches the volume to the node.
func (t *tracer) attached(v *tracedVolume) Stage {
	if t.pod.Spec.NodeName == "" {
		return after(StageAttached)
	}
	listed := t.node != nil && facts.Lists(t.node, v.Volume)
	va := t.attachmentOf(v)
	s := Stage{Stage: StageAttached, State: StageWaiting, On: Controller}
	if v.Driver != "" && !t.Snapshot.KnowsDriver(v.Driver) { // it may say that its volumes are not attached
		t.doubt(&s, snapshot.CSIDrivers)
	}
	switch {
	case va == nil && v.unsure:
		return unread(StageAttached, snapshot.CSIDrivers)
	case va == nil && v.Driver == "":
		if listed {
			return done(StageAttached, metav1.Time{}, "no object shows it but the list of the node: its plugin has no VolumeAttachment")
		}
		s.Detail, s.Ends = "its plugin has no VolumeAttachment; the node's volumesAttached lacks it", "the controller attaches it"
	case va == nil && !t.knows(snapshot.VolumeAttachments, ""):
		if listed {
			s = done(StageAttached, metav1.Time{}, "as the node's volumesAttached says; not all volumeattachments could be read")
			t.doubt(&s, snapshot.VolumeAttachments)
			return s
		}
		return unread(StageAttached, snapshot.VolumeAttachments)
	case va == nil && listed:
		s.Detail = "volumesAttached lists it, but its VolumeAttachment does not exist: the kubelet will not mount it"
		s.Ends = "the controller looks each minute whether what it holds for attached is, and attaches it again"
		t.doubt(&s, snapshot.Events)
		if _, written := facts.VolumesAttachedWriter(t.node); t.Age(written) < facts.ListsGrace && len(t.mountFailures(v)) == 0 { // the VolumeAttachments may have been listed before
			return t.due(s, written, facts.ListsGrace)
		}
		return t.due(t.withControllerGrace(s, waitsSince(t.pod), attachTakes))
	case va != nil:
		return t.attaching(v, va)
	default:
		s.Detail, s.Ends = "there is no VolumeAttachment "+facts.AttachmentName(v.pair), "the controller creates it"
	}
	if s, held := t.held(v, s); held {
		return s
	}
	if t.mayBeHeld(v) {
		s.Detail += "; another node has the volume, and whether it keeps it is not known: not all persistentvolumes could be read"
		t.doubt(&s, snapshot.Volumes)
	}
	if t.unknownElsewhere(v) {
		t.doubt(&s, snapshot.Volumes)
	}
	if t.node == nil || t.OneNode(v.Volume) {
		t.doubt(&s, snapshot.Nodes) // the node may list the volume as attached, or another node may have it
	}
	if t.node != nil && !t.World.Managed.Has(facts.NodeName(t.node)) {
		s.State, s.On, s.Ends = StageBlocked, Nobody, ""
		s.Detail = "the node lacks the annotation with which the controller cares for it: nobody attaches volumes to it"
		if t.Age(t.node.CreationTimestamp) < facts.ListsGrace { // its kubelet may still be about to write it
			s.State, s.On, s.Ends = StageWaiting, kubeletOf(t.node.Name), "the kubelet writes it once it has registered the driver"
			return t.due(s, t.node.CreationTimestamp, facts.ListsGrace)
		}
		if facts.TakesNoPlugin(t.node) {
			s = t.withoutPlugin(s)
		}
		return t.due(s, waitsSince(t.pod), 0)
	}
	// The controller may still wait in a back-off that no object shows: an attach of the volume may
	// have failed before the pod came.
	since, bound := waitsSince(t.pod), reconcile.BackoffLast+controllerActs
	if at := boundAt(v.pv); at != nil { // until then there was nothing to attach
		since = facts.Latest(since, *at)
	}
	if e := t.attachFailure(v); e != nil && strings.Contains(e.Message, kubeletwords.BeingDetached) {
		since = facts.Latest(since, snapshot.EventTime(e)) // the old VolumeAttachment was still there then
	}
	t.attachWords(v, &s, metav1.Time{})
	if d, denied := t.AttachDenied(t.pod, v.specName()); denied {
		s.State, s.Detail = StageBlocked, s.Detail+": "+d.Text()
		s.On, s.Ends = d.Actor(), "the API server lets the controller create it, which it tries at most "+facts.Rounded(reconcile.BackoffLast)+" apart"
	} else {
		t.doubt(&s, snapshot.Events)
	}
	s = t.due(t.withControllerGrace(s, since, bound))
	switch e, start := t.saidConflict(v), t.ControllerStart(); {
	case !s.Overdue || e == nil:
	case len(t.otherNodes(v)) == 0:
		s.passing = "another node has just released the volume, and the controller attaches it here now"
	case start.IsZero() && !t.knows(snapshot.Leases, metav1.NamespaceSystem):
		s.unread = snapshot.Leases
	case !start.IsZero() && start.Time.Before(snapshot.EventTime(e).Time):
		s.On = "whoever owns the pod"
		s.Said[len(s.Said)-1].Means = "the controller goes by what it read of the volume when the pod came: one node at a time; the volume's modes allow several now"
		s.Ends, s.do = "", step.DeletePod.Of()+", or "+step.RestartManager.Of()+": the controller then reads the modes again"
	}
	return s
}

// saidConflict is the controller's last event for the pod about a conflict with another node, where
// none keeps the volume from this one; else nil. The controller reads a volume's spec when it adds the
// pod to its desired state (DesiredStateOfWorld.AddPod), and keeps it as long as the pod exists: another
// node may still have the volume, whose modes no longer forbid it. While no controller leads, one has
// to act.
func (t *tracer) saidConflict(v *tracedVolume) *corev1.Event {
	e, decision := t.attachFailure(v), t.Plan.Decision(v.pair)
	if e == nil || decision == nil || decision.Verb != reconcile.Attach || !facts.ContainsAny(e.Message, conflictWords...) || !facts.SaidSince(e, t.pod.CreationTimestamp) ||
		t.ControllerDown() != nil {
		return nil
	}
	return e
}

// conflictWords begin the controller's message about a volume that another node has: the first
// up to 1.36, the second from 1.37 on.
var conflictWords = []string{"Multi-Attach error", "Waiting for detach"}

// attaching is the stage of a volume whose VolumeAttachment exists.
func (t *tracer) attaching(v *tracedVolume, va *storagev1.VolumeAttachment) Stage {
	s := Stage{Stage: StageAttached, State: StageWaiting, On: facts.AttacherOf(va.Spec.Attacher)}
	lease := t.staleLease(&s, va.Spec.Attacher)
	since := facts.Latest(waitsSince(t.pod), va.CreationTimestamp)
	failure := t.AttachError(va)
	registering := time.Duration(0)
	switch {
	case va.DeletionTimestamp != nil:
		s.State, s.Detail = StageBlocked, "its VolumeAttachment is being deleted: a detach that began before must end first"
		s.Ends = "the detach ends; then the controller attaches it again within about 2 min"
		if e := t.DetachError(va); e != nil {
			s.Said = append(s.Said, driverSaid(va, "detachError", e))
		}
		since = facts.Latest(waitsSince(t.pod), *va.DeletionTimestamp)
	case va.Status.Attached:
		var at metav1.Time
		if e := t.AttachSucceeded(t.pod, v.specName()); e != nil {
			at = snapshot.EventTime(e)
		}
		return done(StageAttached, at, "")
	case failure != nil:
		s.State, s.On, s.Detail = StageBlocked, "CSI driver "+va.Spec.Attacher, "the driver fails to attach it"
		if holder := t.NamedNode(facts.Attachment{VolumeAttachment: va, VolumeNode: v.pair}, failure.Message); holder != nil && facts.HeldElsewhere(va.Spec.Attacher, failure.Message) {
			s.Detail += ", and names node " + holder.Name
		}
		s.On = cmp.Or(whoAttaches(t.View, va), s.On)
		if t.MayHaveEnded(va, failure) != nil {
			s.On += " or its external-attacher"
			s.Detail += "; it may have been detached elsewhere since"
		}
		s.Ends = "the attacher asks again, at most 5 min apart; once it succeeds the controller follows within about 2 min"
		said := driverSaid(va, "attachError", failure)
		said.Means = t.attachErrorMeans(failure, va.Spec.Attacher)
		s.Said = append(s.Said, said)
		csiNode := t.Snapshot.CSINode(types.NodeName(t.pod.Spec.NodeName))
		registers := facts.Registers(csiNode, va.Spec.Attacher)
		if csiNode == nil {
			t.doubtState(&s, snapshot.CSINodes)
		}
		switch {
		case !registers && (csiNode != nil || t.knows(snapshot.CSINodes, "")):
			s.State, s.On = StageWaiting, fmt.Sprintf("the node plugin of %s on %s", va.Spec.Attacher, t.pod.Spec.NodeName)
			if reconcile.NodeReady(t.node) && lease == nil { // a new node gets the time that its plugins may take to register
				up := facts.Latest(t.node.CreationTimestamp, facts.ReadyCondition(t.node).LastTransitionTime)
				registering = up.Add(facts.RegistrationGrace).Sub(since.Time)
			}
		case registers && strings.Contains(failure.Message, nodeLacksDriver):
			s.On, s.Detail = facts.AttacherOf(va.Spec.Attacher), "the driver has registered on the node since the attacher last looked"
		}
	case !slices.ContainsFunc(va.Finalizers, func(f string) bool { return strings.HasPrefix(f, reconcile.AttacherFinalizerPrefix) }):
		s.Detail, s.Ends = "its VolumeAttachment has not been touched", "the attacher takes the VolumeAttachment up"
		if t.Age(va.CreationTimestamp) > attacherActs {
			s.State = StageBlocked
			if t.mistyped(&s, v) {
				return t.never(s, since)
			}
			if held := t.AttacherLease(va.Spec.Attacher); held == nil || t.Age(facts.Renewed(held)) > facts.AttacherLeaseGrace {
				s.Detail += ": no attacher of this driver seems to run"
			}
		}
	default:
		s.Detail, s.Ends = "the attacher works on its VolumeAttachment", "the driver answers that the volume is attached"
	}
	refused := facts.RefusalGrace
	if failure != nil {
		refused = facts.CallGrace(va.Spec.Attacher, failure.Message)
	}
	if lease != nil {
		// Nobody asks the driver, which no other VolumeAttachment changes.
		s.State, s.On, refused = StageBlocked, facts.AttacherOf(va.Spec.Attacher), t.attacherReturns(&s, lease, va.Spec.Attacher)
		s.Detail += t.leaseWords(lease)
	}
	if failure != nil && va.DeletionTimestamp == nil && lease == nil && facts.HeldElsewhere(va.Spec.Attacher, failure.Message) {
		if h, held := t.held(v, s); held && t.releases(v) { // the driver has to fail until that node has lost it
			t.doubtAttacher(&h, va.Spec.Attacher, failure)
			return h
		}
		t.doubt(&s, snapshot.Volumes)
		t.doubt(&s, snapshot.VolumeAttachments)
	}
	t.attachWords(v, &s, metav1.Time{})
	if refused > 0 && (s.State != StageBlocked || va.DeletionTimestamp != nil) {
		refused = max(attachTakes, registering)
	}
	s = t.due(s, since, refused)
	t.doubtAttacher(&s, va.Spec.Attacher, cmp.Or(failure, t.DetachError(va)))
	return s
}

// doubtAttacher notes in the stage that an unread lease may show that no attacher runs any more. Nobody then
// asks the driver again that has said this, and a wait does not end in its time.
func (t *tracer) doubtAttacher(s *Stage, driver string, said *storagev1.VolumeError) {
	if !t.Snapshot.Complete(snapshot.Leases) {
		s.unseen = cmp.Or(s.unseen, snapshot.Leases)
	}
	switch {
	case !t.AttacherMayBeGone(driver):
	case said != nil:
		s.unread = snapshot.Leases
	case !s.Overdue:
		s.untimed = cmp.Or(s.untimed, snapshot.Leases)
	}
}

func driverSaid(va *storagev1.VolumeAttachment, field string, e *storagev1.VolumeError) Said {
	return Said{By: va.Spec.Attacher + ", " + field + " of volumeattachment/" + va.Name, At: unlessZero(e.Time), Text: e.Message}
}

// attachErrorMeans is the consequence of a driver's refusal in this release.
func (t *tracer) attachErrorMeans(e *storagev1.VolumeError, driver string) string {
	if e.ErrorCode == nil || *e.ErrorCode != facts.ResourceExhausted {
		return ""
	}
	d := t.Snapshot.CSIDriver(driver)
	switch {
	case t.kubelet.Before(facts.LimitRejection):
		return fmt.Sprintf("the node has no room for another volume; a kubelet of 1.%d goes on waiting", t.kubelet)
	case d != nil && d.Spec.NodeAllocatableUpdatePeriodSeconds != nil:
		return "the node has no room for another volume; the kubelet gives up after 2m3s and rejects the pod (VolumeAttachmentLimitExceeded)"
	case d != nil:
		return "the node has no room for another volume; the pod goes on waiting, because the CSIDriver has no nodeAllocatableUpdatePeriodSeconds"
	default:
		return "the node has no room for another volume"
	}
}

// attachFailure is the controller's last event for the pod about a failed attach of the volume;
// nil where there is none.
func (t *tracer) attachFailure(v *tracedVolume) *corev1.Event {
	return t.LastAttachEvent(t.pod, v.specName(), facts.AttachFailedReason)
}

// attachWords quotes that event in the stage, where it is not older than since.
func (t *tracer) attachWords(v *tracedVolume, s *Stage, since metav1.Time) {
	e := t.attachFailure(v)
	if e != nil && facts.SaidSince(e, since) && (len(s.Said) == 0 || !strings.Contains(e.Message, s.Said[0].Text)) {
		s.Said = append(s.Said, quote(e, attachMeans(e.Message)))
	}
}

func attachMeans(message string) string {
	switch {
	case facts.ContainsAny(message, kubeletwords.AttacherTimeout, kubeletwords.AttachTimeout, "Attach timeout for volume"):
		return "the controller waited 2 min for the attacher; it tries again after a pause of at most 2m2s"
	case facts.ContainsAny(message, conflictWords...):
		return "this event is written once when the wait began, not each time the controller looks"
	case strings.Contains(message, kubeletwords.BeingDetached):
		return "an earlier detach of the volume from this node has not ended"
	case facts.ContainsAny(message, "attaching volumes from the kubelet is not supported"):
		return "the node lacks the annotation with which the controller cares for it, so that its kubelet tries by itself, which it cannot do with CSI"
	case strings.Contains(message, nodeLacksDriver):
		return "the driver's node plugin has not registered on the node"
	default:
		return ""
	}
}

// specName is the name of the volume in the events of the controllers and the kubelet.
func (v *tracedVolume) specName() string {
	if v.pv != nil {
		return v.pv.Name
	}
	return v.Name
}

// listed is the stage in which the controller lists the volume in the node's volumesAttached.
func (t *tracer) listed(v *tracedVolume) Stage {
	if t.pod.Spec.NodeName == "" {
		return after(StageInVolumesAttached)
	}
	if stage, known := t.readNode(StageInVolumesAttached); !known {
		return stage
	}
	if facts.Lists(t.node, v.Volume) {
		return done(StageInVolumesAttached, metav1.Time{}, "in volumesAttached of "+t.node.Name)
	}
	if v.unsure {
		return unread(StageInVolumesAttached, snapshot.CSIDrivers)
	}
	s := Stage{Stage: StageInVolumesAttached, State: StageWaiting, On: Controller,
		Detail: "volumesAttached of " + t.node.Name + " lacks it, and the kubelet mounts only what that lists; it writes no event about it",
		Ends:   "the controller lists it once its attach has ended"}
	since, bound := waitsSince(t.pod), facts.AttachGrace
	va := t.attachmentOf(v)
	if e := t.AttachSucceeded(t.pod, v.specName()); e != nil {
		since, bound = facts.Latest(since, snapshot.EventTime(e)), facts.ReuseGrace
	} else if va != nil && va.CreationTimestamp.Before(&since) {
		bound = facts.ReuseGrace
	} else if va != nil {
		since = facts.Latest(since, va.CreationTimestamp)
	}
	if e := t.attachFailure(v); e != nil && t.AttachSucceeded(t.pod, v.specName()) == nil { // it may be in its back-off
		if recorderPauses(t.View, t.pod) { // it may have failed as lately as another of the pod's volumes
			e = t.lastEvent(facts.AttachFailedReason)
		}
		since, bound = facts.Latest(since, snapshot.EventTime(e)), facts.AttachGrace
	}
	if !t.knows(snapshot.Events, t.pod.Namespace) {
		bound = facts.AttachGraceUnseen
	}
	t.doubt(&s, snapshot.VolumeAttachments) // they show since when, and whether another node has it
	if t.OneNode(v.Volume) {
		t.doubt(&s, snapshot.Nodes) // another one may have it
	}
	if t.mayBeHeld(v) {
		t.doubt(&s, snapshot.Volumes)
	}
	s = t.due(t.withControllerGrace(s, since, bound))
	if va != nil && va.Status.Attached { // behind the controller's back, where another node has it
		if h, held := t.held(v, s); held && s.Overdue {
			return h
		} else if held && dueBefore(s, h) {
			s.dueAt = h.dueAt // that is waited for next
		}
	}
	t.doubt(&s, snapshot.Events) // they may show a failure, that it takes too long already, or that the kubelet tries the mount
	if s.Overdue {
		s.Ends = "the controller writes the list again at the next attach to or detach from this node, or when it restarts; not for this volume alone"
	}
	return s
}

// withControllerGrace grants a controller that has just started, or may have, the time to process
// what it finds.
func (t *tracer) withControllerGrace(s Stage, since metav1.Time, bound time.Duration) (Stage, metav1.Time, time.Duration) {
	switch {
	case t.ControllerJustStarted():
		s.Detail += "; the controller has just started"
		return s, facts.Latest(since, t.ControllerStart()), max(bound, facts.ControllerGrace)
	case !t.knows(snapshot.Leases, metav1.NamespaceSystem):
		if t.Age(since) > bound { // it may be overdue, and so before what merely waits
			t.doubt(&s, snapshot.Leases)
		}
		return s, since, max(bound, facts.ControllerGrace)
	default:
		return s, since, bound
	}
}

// releases reports whether the controller has to detach the volume from each other node that has
// it: it never does what another has made a VolumeAttachment for.
func (t *tracer) releases(v *tracedVolume) bool {
	return !slices.ContainsFunc(t.holders(v), func(holder types.NodeName) bool {
		return t.Snapshot.VolumeAttachment(facts.AttachmentName(reconcile.VolumeNode{Volume: v.Volume, Node: holder})) == nil
	})
}

// whoAttaches is who has to act after the error of an attach; "" where the message does not show
// it, or may be about something that is over.
func whoAttaches(p *facts.View, va *storagev1.VolumeAttachment) string {
	e := p.AttachError(va)
	entry, known := facts.AttachRefusal(va.Spec.Attacher, e)
	if !known || !p.StillRefused(e) || attachedElsewhere(p, va) && facts.HeldElsewhere(va.Spec.Attacher, e.Message) || p.MayHaveEnded(va, e) != nil {
		return ""
	}
	return facts.WhoActs(entry)
}

// attachedElsewhere reports whether there is another VolumeAttachment of the volume.
func attachedElsewhere(p *facts.View, va *storagev1.VolumeAttachment) bool {
	volume, err := p.World.AttachmentVolume(va)
	return err == nil && slices.ContainsFunc(p.AttachmentsOf(volume), func(other facts.Attachment) bool { return other.Name != va.Name })
}
