package blocked

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/storage"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var MountRefused = check.Check{
	Code:     "VD411",
	Name:     "mount-refused",
	Title:    "A volume cannot be mounted on a node, for a reason whose words are known",
	Severity: finding.Error,
	Needs:    check.AttachmentKinds(snapshot.CSINodes, snapshot.Events),
	Yields: []check.Yield{
		{To: "VD308", Key: check.OfAttachment},
		{To: "VD412", Key: check.OfPersistentVolume},
		{To: "VD511", Key: check.OfPersistentVolume},
		{To: "VD602", Key: check.OfPodsOnNode},
		{To: "VD615", Key: check.OfPodsOnNode},
		{To: "VD616", Key: check.OfPodsOnNode},
		{To: "VD621", Key: check.OfPodsOnNode},
	},
	Follows: []check.Relation{
		{From: []finding.Code{"VD307"}, Share: check.OnNode, Match: sameAttachment},
	},
	Never: "format a volume because its file system is not recognised",
	Run:   runMountRefused,
}

func runMountRefused(p *check.Run) {
	var refusals []refusal
	for _, pod := range p.PendingPods() {
		if p.Snapshot.Node(facts.NodeOf(pod)) == nil || reconcile.PodTerminated(pod) || facts.HasCondition(pod, corev1.PodReadyToStartContainers) {
			continue // past the mounts the kubelet starts the sandbox
		}
		events := facts.InOrder(p.EventsOf(pod))
		for i := range pod.Spec.Volumes {
			if failures := p.MountFailuresIn(events, pod, p.KubeletName(pod, &pod.Spec.Volumes[i]), pod.Spec.Volumes[i].Name); len(failures) > 0 {
				if r, ok := mountRefusal(p.View, pod, &pod.Spec.Volumes[i], failures); ok {
					refusals = append(refusals, r)
				}
			}
		}
	}
	reportRefusals(p, refusals, "mount", "the kubelet tries again, at most 2m2s apart")
}

// mountRefusal is what the failures of one volume mean. There is none for one
// that is not attached: what it waits for comes before the mount.
func mountRefusal(p *facts.View, pod *corev1.Pod, v *corev1.Volume, failures []facts.MountFailure) (refusal, bool) {
	last, since := failures[len(failures)-1], facts.FailingSince(failures)
	driver, volume := p.CsiVolume(pod, v)
	entry, known := facts.DriverSays(driver, last.Reason)
	grace := facts.MountFails
	if entry.Meaning == driverwords.NotRegistered {
		grace = facts.RegistrationGrace
	}
	if !entry.Layer.Sure() && facts.ContainsAny(last.Reason, kubeletwords.ModeNotSupported) {
		return refusal{}, false // the kubelet's words, of which permanently-unmountable knows more
	}
	if !known || p.Age(since) <= grace || p.Age(facts.EventTime(last.Event)) > facts.MountRetries {
		return refusal{}, false
	}
	r := refusal{
		driver:   driver,
		volume:   p.KubeletName(pod, v),
		node:     facts.NodeOf(pod),
		entry:    entry,
		actor:    facts.BlameFor(kubeletwords.MountWords, last.Reason, p.Whose(pod, v, driver)).Actor,
		pods:     []*corev1.Pod{pod},
		since:    since,
		said:     last.Reason,
		evidence: finding.Evidence{Object: "event/" + last.Event.Namespace + "/" + last.Event.Name, Field: "message", Value: last.Event.Message},
		one:      finding.Finding{Subject: mountSubject(p, pod, driver, entry.Meaning, last), Volume: volume.Volume},
	}
	if !slices.Contains(ofFileSystem, entry.Meaning) {
		r.one.Never = "force-delete the pod: what is mounted for it may stay on the node"
	}
	r.one.Said = facts.QuoteEvent(last.Event)
	r.one.Said.Text = last.Reason
	if facts.Heals(entry, p.Age(since)) || entry.Actor.Heals() {
		r.actor = "" // it ends by itself
	}
	r.says = facts.Acting(facts.WhatItSays(entry, p.Age(since)), r.actor)
	if o := r.one.Subject; o.Kind == "Secret" || o.Kind == "ConfigMap" {
		r.says = facts.Acting(fmt.Sprintf("%s %s does not exist", o.Kind, o.Name), r.actor)
	}
	if held := heldBy(p, r.volume); held != nil && entry.Meaning == driverwords.AttachedElsewhere {
		r.one.Evidence = append(r.one.Evidence, held.Evidence())
	}
	pair := reconcile.VolumeNode{Volume: volume.Volume, Node: facts.NodeOf(pod)}
	if name := facts.AttachmentName(pair); name != "" {
		va := p.Snapshot.VolumeAttachment(name)
		if va == nil || !facts.Holds(va) {
			return refusal{}, false
		}
		r.one.VolumeAttachment = va.Name
	}
	return r, true
}

// sameAttachment reports whether both findings are about one VolumeAttachment: what is
// attached to another machine cannot be mounted here, whatever the driver says of it.
func sameAttachment(_ *facts.View, cause, effect finding.Finding) bool {
	return cause.VolumeAttachment != "" && cause.VolumeAttachment == effect.VolumeAttachment
}

// ofFileSystem are the meanings that tempt people to format a volume.
var ofFileSystem = []driverwords.Meaning{driverwords.FilesystemDamaged, driverwords.WrongFilesystem, driverwords.StorageError, driverwords.VolumeFailed}

// heldBy is what the storage system's list says of the volume where some machine has it, nil
// for nothing: also of one whose driver attaches nothing.
func heldBy(p *facts.View, volume string) *storage.Entry {
	pv := p.Snapshot.Volume(volume)
	if pv == nil || pv.Spec.CSI == nil {
		return nil
	}
	entry := storage.Of(p).Volume(reconcile.CSIVolumeName(pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle))
	if entry == nil || len(entry.Holders) == 0 {
		return nil
	}
	return entry
}

// mountSubject is the driver or the object that is missing, and else the pod.
func mountSubject(p *facts.View, pod *corev1.Pod, driver string, meaning driverwords.Meaning, failure facts.MountFailure) finding.Object {
	if meaning == driverwords.NotRegistered && driver != "" {
		return p.DriverObject(driver)
	}
	if kind, name := facts.MissingObject(failure.Reason); kind != "" && !failure.Stages() {
		return finding.Object{Kind: kind, Namespace: pod.Namespace, Name: name}
	}
	return facts.PodObject(pod)
}
