package blocked

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/storage"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var MountRefused = check.Check{
	Code:        "VD411",
	Name:        "mount-refused",
	Title:       "A volume cannot be mounted on a node, for a reason whose words are known",
	Severity:    finding.Error,
	Needs:       check.AttachmentKinds(snapshot.CSINodes, snapshot.Events),
	OfNamespace: true,
	OfDriver:    true,
	Yields: []check.Yield{
		{To: "VD308", Key: check.OfAttachment},
		{To: "VD412", Key: check.OfPersistentVolume},
		{To: "VD511", Key: check.OfPersistentVolume},
		{To: "VD615", Key: check.OfPodsOnNode},
		{To: "VD616", Key: check.OfPodsOnNode},
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
			continue // after the mounts the kubelet starts the sandbox
		}
		for i := range pod.Spec.Volumes {
			if failures := p.MountFailures(pod, p.KubeletName(pod, &pod.Spec.Volumes[i]), pod.Spec.Volumes[i].Name); len(failures) > 0 {
				if r, ok := mountRefusal(p.View, pod, &pod.Spec.Volumes[i], failures); ok {
					refusals = append(refusals, r)
				}
			}
		}
	}
	reportRefusals(p, refusals, "mount", "kubelet", "2m2s")
}

// mountRefusal is the meaning of the failures of one volume. A volume that is not attached, or
// whose driver is not registered on the node, has none: its wait comes before the mount. Nor has
// one that its driver never takes: what was said before comes to nothing.
func mountRefusal(p *facts.View, pod *corev1.Pod, v *corev1.Volume, failures []facts.MountFailure) (refusal, bool) {
	if claim := p.ClaimOf(pod, v); claim != nil && p.VolumeOf(claim) == nil {
		return refusal{}, false // nor has one whose claim leads to no volume
	}
	last, since := failures[len(failures)-1], facts.FailingSince(failures)
	driver, volume := p.CsiVolume(pod, v)
	if _, registered := p.NodeID(facts.NodeOf(pod), driver); driver != "" && !registered || p.RefusesInline(v) {
		return refusal{}, false
	}
	whose := p.Whose(pod, v, driver)
	entry, known := facts.MountSays(kubeletwords.MountWords, last.Reason, whose)
	grace := facts.MountFails
	if entry.Meaning == driverwords.NotRegistered {
		grace = facts.RegistrationGrace
	}
	blame := facts.BlameFor(kubeletwords.MountWords, last.Reason, whose)
	if whose.Inline && blame.Permanent { // VD412 reports it; for a PersistentVolume, this yields to it
		return refusal{}, false
	}
	if !known || p.Age(since) <= grace || p.Age(snapshot.EventTime(last.Event)) > facts.MountRetries {
		return refusal{}, false
	}
	r := refusal{
		driver:   driver,
		volume:   p.KubeletName(pod, v),
		node:     facts.NodeOf(pod),
		entry:    entry,
		actor:    blame.Actor,
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
	if before, ok := facts.ErrorBefore(driver, last.Reason, failures); ok {
		r.follows(p, before)
	}
	if m := missingIn(pod, v, last.Reason); m.object.Name != "" {
		r.lacks, r.helps, r.one.Never = m.lacks(), m.helps(entry.Helps), m.never(driver)
	}
	if twin := p.Twin(pod, v); twin != "" && entry.Meaning == driverwords.WrongFilesystem {
		r.objects, r.helps = twin+", and one XFS file system is mounted once on a machine", facts.HelpsTwin()
	}
	if sharers := p.Sharers(pod, reconcile.ClaimName(pod, v)); entry.Meaning == driverwords.StaleMount && len(sharers) > 0 && reconcile.ClaimName(pod, v) != "" {
		r.objects = fmt.Sprintf("pod %s uses the same volume on the node: it may have the same dead mount, and keeps it there until it ends, too", facts.PodName(sharers[0]))
		r.helps = fmt.Sprintf("{check} see whether the volume still answers in pod %s; %s; {do} where it does not answer there, %s as well: the node keeps a dead mount until all its pods have ended",
			strings.Join(facts.PodNames(sharers), " and "), facts.Clause(entry.Helps), step.DeletePod.Of(facts.PodNames(sharers)...))
	}
	if held := heldBy(p, r.volume); held != nil && entry.Meaning == driverwords.AttachedElsewhere {
		r.one.Evidence = append(r.one.Evidence, held.Evidence())
	}
	pair := reconcile.VolumeNode{Volume: volume.Volume, Node: facts.NodeOf(pod)}
	if name := facts.AttachmentName(pair); name != "" {
		va := p.Snapshot.VolumeAttachment(name)
		unseen := entry.Meaning == driverwords.NotAttached && facts.ContainsAny(last.Reason, kubeletwords.AttachmentUnread) // but it is there
		if va == nil || !facts.Holds(va) || last.QuotesAttach() || unseen {
			return refusal{}, false
		}
		r.one.VolumeAttachment = va.Name
		if node := p.Snapshot.Node(pair.Node); entry.Meaning == driverwords.NotAttached && va.CreationTimestamp.Before(&node.CreationTimestamp) {
			r.helps = fmt.Sprintf("{check} check in the storage system to which machine the volume is attached: Node %s was made again after that, and may be another machine; "+
				"if it is, {reversible} cordon node %s; {do} {delete-pod}, so that the volume is detached, and attached where its successor goes", node.Name, node.Name)
			r.one.Evidence = append(r.one.Evidence,
				finding.Evidence{Object: "volumeattachment/" + va.Name, Field: "metadata.creationTimestamp", Value: facts.Stamp(va.CreationTimestamp)},
				finding.Evidence{Object: "node/" + node.Name, Field: "metadata.creationTimestamp", Value: facts.Stamp(node.CreationTimestamp)})
		}
	}
	return r, true
}

// sameAttachment reports whether both findings are about one VolumeAttachment. A volume that is
// attached to another machine cannot be mounted here, whatever the driver's message.
func sameAttachment(_ *facts.View, cause, effect finding.Finding) bool {
	return cause.VolumeAttachment != "" && cause.VolumeAttachment == effect.VolumeAttachment
}

// ofFileSystem are the meanings that tempt people to format a volume.
var ofFileSystem = []driverwords.Meaning{driverwords.FilesystemDamaged, driverwords.WrongFilesystem, driverwords.StorageError, driverwords.VolumeFailed}

// heldBy is the storage system's entry for a volume that some machine has; else nil. It exists
// for drivers that attach nothing, too.
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

// mountSubject is the driver or the missing object, or else the pod.
func mountSubject(p *facts.View, pod *corev1.Pod, driver string, meaning driverwords.Meaning, failure facts.MountFailure) finding.Object {
	if meaning == driverwords.NotRegistered && driver != "" {
		return p.DriverObject(driver)
	}
	if kind, name := facts.MissingObject(failure.Reason); kind != "" && !failure.Stages() {
		return finding.Object{Kind: kind, Namespace: namespaceOf(failure.Reason, pod), Name: name}
	}
	return facts.PodObject(pod)
}

// missing is a Secret or a ConfigMap that does not exist or lacks a key.
type missing struct {
	object finding.Object
	key    string
}

// missingIn reads the missing object from the kubelet's reason; its name is "" where it is not
// known.
func missingIn(pod *corev1.Pod, v *corev1.Volume, reason string) missing {
	if kind, name := facts.MissingObject(reason); kind != "" {
		return missing{object: finding.Object{Kind: kind, Namespace: namespaceOf(reason, pod), Name: name}}
	}
	m := kubeletwords.MissingKey.FindStringSubmatch(reason)
	if m == nil {
		return missing{}
	}
	return missing{holderOf(pod, v, m[1], strings.HasPrefix(reason, "configmap")), m[1]}
}

// namespaceOf is the namespace of the object in the reason: a driver's Secret may be in any
// namespace.
func namespaceOf(reason string, pod *corev1.Pod) string {
	if m := kubeletwords.DriversSecret.FindStringSubmatch(reason); m != nil {
		return m[1]
	}
	return pod.Namespace
}

func (m missing) lacks() string {
	what := "does not exist"
	if m.key != "" {
		what = "lacks the key " + m.key
	}
	return fmt.Sprintf("%s %s/%s %s", m.object.Kind, m.object.Namespace, m.object.Name, what)
}

// never is what is tempting where the object is missing.
func (m missing) never(driver string) string {
	what, then := "it", "the pod would start without what belongs in it"
	if m.key != "" {
		what = "the key"
	}
	if driver != "" {
		then = "the driver would refuse it in other words"
	}
	return fmt.Sprintf("create %s empty to have one: %s", what, then)
}

// helps is the advice with the object's name. Where several objects are missing, the advice may be
// about another one.
func (m missing) helps(helps string) string {
	o := fmt.Sprintf("%s %s/%s", m.object.Kind, m.object.Namespace, m.object.Name)
	for _, words := range []string{"the Secret or the ConfigMap", "the Secret", "the ConfigMap"} {
		if strings.Contains(helps, words) {
			helps = strings.Replace(helps, words, o, 1)
			break
		}
	}
	if m.key == "" {
		return strings.Replace(helps, "that the message names", "that the driver asks for", 1)
	}
	return strings.Replace(helps, "the key", "the key "+m.key, 1)
}

// holderOf is the ConfigMap or Secret of the pod's volume that should have the key; its name is
// "" where the volume does not show it.
func holderOf(pod *corev1.Pod, v *corev1.Volume, key string, configMap bool) finding.Object {
	o := finding.Object{Kind: "Secret", Namespace: pod.Namespace}
	has := func(items []corev1.KeyToPath) bool {
		return slices.ContainsFunc(items, func(item corev1.KeyToPath) bool { return item.Key == key })
	}
	if configMap {
		o.Kind = "ConfigMap"
	}
	switch {
	case configMap && v.ConfigMap != nil:
		o.Name = v.ConfigMap.Name
	case !configMap && v.Secret != nil:
		o.Name = v.Secret.SecretName
	case v.Projected != nil:
		for _, source := range v.Projected.Sources {
			if configMap && source.ConfigMap != nil && has(source.ConfigMap.Items) {
				o.Name = source.ConfigMap.Name
			}
			if !configMap && source.Secret != nil && has(source.Secret.Items) {
				o.Name = source.Secret.Name
			}
		}
	}
	return o
}
