package resolution

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var ClaimNotBound = check.Check{
	Code:        "VD512",
	Name:        "claim-not-bound",
	Title:       "A pod waits for a claim that gets no volume",
	Severity:    finding.Error,
	Needs:       []snapshot.Kind{snapshot.Pods, snapshot.Claims, snapshot.Volumes, snapshot.StorageClasses},
	OfNamespace: true,
	Follows: []check.Relation{
		{From: []finding.Code{"VD613"}, Match: madeForNode},
		{From: []finding.Code{"VD604"}, Match: sameController},
	},
	Never: "delete the claim of a pod that has run before: find out first what became of its volume",
	Run:   runClaimNotBound,
}

func runClaimNotBound(p *check.Run) {
	for _, claim := range p.Snapshot.Claims {
		if claim.DeletionTimestamp != nil || claim.Status.Phase == corev1.ClaimBound || claim.Status.Phase == corev1.ClaimLost || getsItsOwn(p.View, claim) {
			continue
		}
		// A running pod got its volume through an earlier claim of this name, and does not wait
		// for this one.
		users := slices.DeleteFunc(slices.Clone(p.ClaimUsers(claim)), func(pod *corev1.Pod) bool { return !facts.IsPending(pod) })
		if len(users) == 0 {
			noPodWaits(p, claim)
			continue
		}
		about, kept := p.Unbound(claim), keptOf(p.View, claim)
		since := facts.Latest(about.Since, users[0].CreationTimestamp)
		var why unboundReason
		switch {
		case len(kept) > 0:
			why = unboundReason{keptVolume(p.View, claim, kept), facts.ListsGrace}
		case claim.Spec.VolumeName != "" && p.Snapshot.Volume(claim.Spec.VolumeName) != nil:
			continue // another claim has the volume, and this one rightly waits
		case about.ForNode && slices.ContainsFunc(users, func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" }):
			continue // the scheduler is still choosing, and reports why it cannot
		default:
			why = whyUnbound(p.View, claim, about, users[0], since)
		}
		if !p.Lasted(since, why.granted) {
			continue
		}
		f := why.Finding
		f.Since, f.Pods = &since, facts.PodNames(users)
		f.Message = fmt.Sprintf("Pod %s waits for claim %s/%s: %s", facts.PodName(users[0]), claim.Namespace, claim.Name, f.Message)
		reportUnbound(p, claim, f)
	}
}

// noPodWaits reports a claim whose provisioner fails and for which no pod waits yet.
func noPodWaits(p *check.Run, claim *corev1.PersistentVolumeClaim) {
	about := p.Unbound(claim)
	n := len(about.Failures)
	if claim.Spec.VolumeName != "" || about.ForNode || about.Provisioner == "" || n == 0 || p.Age(snapshot.EventTime(about.Failures[n-1])) > facts.ProvisionSilence ||
		about.Failures[n-1].Reason != "ProvisioningFailed" || len(p.ClaimUsers(claim)) > 0 {
		return
	}
	why := whyUnbound(p.View, claim, about, nil, about.Since)
	if !p.Lasted(about.Since, why.granted) {
		return
	}
	f := why.Finding
	f.Severity, f.Since = finding.Warning, &about.Since
	f.Message = fmt.Sprintf("Claim %s/%s gets no volume: %s", claim.Namespace, claim.Name, f.Message)
	f.Detail = finding.Clauses(f.Detail, "no pod waits for it yet")
	reportUnbound(p, claim, f)
}

func reportUnbound(p *check.Run, claim *corev1.PersistentVolumeClaim, f finding.Finding) {
	f.Subject = facts.ClaimObject(claim)
	if f.AdviceCommands == nil {
		f.AdviceCommands = []string{safetext.Kubectl("describe", "persistentvolumeclaim/"+claim.Name, "-n", claim.Namespace)}
	}
	f.Evidence = append([]finding.Evidence{
		{Object: claimObject(claim), Field: "status.phase", Value: string(cmp.Or(claim.Status.Phase, corev1.ClaimPending))},
	}, f.Evidence...)
	p.Report(f)
}

// getsItsOwn reports whether the claim names a volume that the binder gives it, or that
// claimref-stale reports.
func getsItsOwn(p *facts.View, claim *corev1.PersistentVolumeClaim) bool {
	pv := p.Snapshot.Volume(claim.Spec.VolumeName)
	return pv != nil && (pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.Namespace == claim.Namespace && pv.Spec.ClaimRef.Name == claim.Name)
}

func claimObject(claim *corev1.PersistentVolumeClaim) string {
	return "persistentvolumeclaim/" + facts.ClaimName(claim)
}

// unboundReason is the cause in the finding, and for how long that state is usual.
type unboundReason struct {
	finding.Finding
	granted time.Duration
}

// whyUnbound is why the claim has no volume; since is when the pod began to wait for it.
func whyUnbound(p *facts.View, claim *corev1.PersistentVolumeClaim, about facts.Unbound, pod *corev1.Pod, since metav1.Time) unboundReason {
	switch {
	case claim.Spec.VolumeName != "":
		return unboundReason{finding.Finding{
			Message:   fmt.Sprintf("volume %s does not exist", claim.Spec.VolumeName),
			Detail:    "it asks for that volume",
			Cause:     "the claim was made, or restored, with a volumeName of its own, and the volume was not",
			Evidence:  []finding.Evidence{{Object: claimObject(claim), Field: "spec.volumeName", Value: claim.Spec.VolumeName}},
			SelfHeals: finding.SelfHeals{Because: "the claim is bound to the named volume alone; it is bound once a volume of that name exists"},
			Advice:    "{change} recreate the volume from its disk, or {final} recreate the claim without volumeName to get an empty one",
		}, facts.ListsGrace}
	case about.ForNode:
		return unboundReason{finding.Finding{
			Message:   "the scheduler never chose a node",
			Detail:    fmt.Sprintf("it waits for the scheduler to choose one, but the pod was put on node %s without it", pod.Spec.NodeName),
			Cause:     fmt.Sprintf("the pod has spec.nodeName, so that the scheduler never sees it; storage class %s makes a volume only once the scheduler has chosen", about.Class),
			Evidence:  []finding.Evidence{{Object: "storageclass/" + about.Class, Field: "volumeBindingMode", Value: "WaitForFirstConsumer"}},
			SelfHeals: finding.SelfHeals{Because: "this pod bypasses the scheduler; only that says for which node the volume is made"},
			Never:     "annotate the claim with a node by hand: nobody checks that it fits",
			Advice:    "{change} take spec.nodeName out of the pod's template and choose the node by a nodeSelector, then {final} recreate the pod",
		}, facts.ListsGrace}
	case !about.ClassFound && about.Class != "":
		return unboundReason{finding.Finding{
			Message:   fmt.Sprintf("storage class %s does not exist", about.Class),
			Cause:     "the storage class was never created here, or was renamed or deleted",
			Evidence:  []finding.Evidence{{Object: claimObject(claim), Field: "spec.storageClassName", Value: about.Class}},
			SelfHeals: finding.SelfHeals{Because: "a storage class of that name has to exist first; once there is such a class, the claim is bound within a minute or so"},
			Never:     "guess the provisioner of a class that you create: its volumes stay with that driver",
			Advice:    "{change} create the storage class, or {final} recreate the claim with one that exists: a claim's class cannot be changed",
		}, facts.ListsGrace}
	case about.Provisioner == "":
		return nobodyMakesIt(claim, about)
	case p.Snapshot.Complete(snapshot.Nodes) && selectedNode(claim) != "" && p.Snapshot.Node(selectedNode(claim)) == nil:
		return selectedNodeGone(claim, about)
	default:
		why := notProvisioned(p, claim, about, since)
		if node := selectedNode(claim); node != "" && p.Snapshot.Node(node) == nil {
			mayBeGone(&why.Finding, node)
		}
		return why
	}
}

// mayBeGone says that the claim's node was not read: if it is gone, that is the cause, and not the words.
func mayBeGone(f *finding.Finding, node types.NodeName) {
	f.SelfHeals.Unknown = true
	f.SelfHeals.Because = fmt.Sprintf("whether its node %s still exists is not known; nodes were not read; if it does, %s", node, f.SelfHeals.Because)
	f.Advice = fmt.Sprintf("{check} see whether node %s still exists: if not, the claim has to lose its name first; %s", node, f.Advice)
}

// selectedNode is the node that the scheduler has chosen for the claim; "" for none.
func selectedNode(claim *corev1.PersistentVolumeClaim) types.NodeName {
	return types.NodeName(claim.Annotations[reconcile.SelectedNodeAnnotation])
}

// madeForNode reports whether the cause's node lacks the driver that the provisioner waits for:
// for the volume's place the provisioner needs that node's CSINode, or those of all nodes.
func madeForNode(p *facts.View, cause, effect finding.Finding) bool {
	claim := p.Snapshot.Claim(types.NamespacedName{Namespace: effect.Subject.Namespace, Name: effect.Subject.Name})
	if claim == nil || effect.Said == nil || p.Unbound(claim).Provisioner != p.DriverOf(cause) {
		return false
	}
	return selectedNode(claim) == cause.Node && strings.Contains(effect.Said.Text, "CSINode") ||
		strings.Contains(effect.Said.Text, "no available topology found")
}

// sameController reports whether the claim waits for a provisioner that is down with the attacher:
// both findings rest on its lease.
func sameController(p *facts.View, cause, effect finding.Finding) bool {
	lease := p.ProvisionerDown(p.DriverOf(cause))
	return lease != nil && slices.Contains(effect.Evidence, facts.LeaseEvidence(lease))
}

// whySilent completes the finding about a provisioner that reports nothing, where the objects show
// that its driver is not installed or that its controller is down.
func whySilent(p *facts.View, claim *corev1.PersistentVolumeClaim, about facts.Unbound, f finding.Finding) finding.Finding {
	driver := about.Provisioner
	if lease := p.ProvisionerDown(driver); lease != nil {
		f.Message = fmt.Sprintf("provisioner %s is down", driver)
		f.Detail = finding.Clauses(fmt.Sprintf("the attacher in its pods renewed its lease last at %s", facts.Stamp(facts.Renewed(lease))), f.Detail)
		f.Cause = "the driver's controller does not run"
		f.Evidence = append(f.Evidence, facts.LeaseEvidence(lease))
		p.ExplainDown(&f, lease, facts.IsProvisioner)
		if f.AdviceCommands == nil {
			f.AdviceCommands = []string{}
		}
		return f
	}
	if !p.NotInstalled(driver) {
		return f
	}
	f.Message = fmt.Sprintf("provisioner %s is not installed", driver)
	f.Detail = "there is no CSIDriver of that name, and no node registers it"
	f.Cause = "the driver was never installed, or has been removed"
	f.SelfHeals.Because = "nobody makes the volume"
	f.Advice = fmt.Sprintf("{change} install driver %s, or {final} recreate claim %s with a storage class of another one", driver, facts.ClaimName(claim))
	if meant := p.Meant(driver); meant != "" {
		f.Advice += fmt.Sprintf(", such as %s, which is installed", meant)
	}
	f.AdviceCommands = []string{}
	f.Evidence = append(f.Evidence, finding.Evidence{Object: "csidriver/" + driver, Field: "metadata.name", Value: "there is no such object"},
		finding.Evidence{Object: "csinodes", Field: "spec.drivers", Value: fmt.Sprintf("none of %d lists it", len(p.Snapshot.CSINodes))})
	return f
}

// selectedNodeGone is about a claim whose chosen node was removed before its volume was made. Any
// message of the provisioner about the node has this cause.
func selectedNodeGone(claim *corev1.PersistentVolumeClaim, about facts.Unbound) unboundReason {
	node := selectedNode(claim)
	f := finding.Finding{
		Message:        fmt.Sprintf("its node %s is gone", node),
		Detail:         fmt.Sprintf("the scheduler chose node %s for it, which does not exist any more", node),
		Cause:          "the node was removed before the volume was made; the claim still names it, so that the provisioner makes the volume for it and the scheduler offers no other",
		Evidence:       []finding.Evidence{{Object: claimObject(claim), Field: "metadata.annotations[" + reconcile.SelectedNodeAnnotation + "]", Value: string(node)}},
		Never:          "create a Node of that name by hand: the volume is then made for a machine that does not exist",
		SelfHeals:      finding.SelfHeals{Because: "the claim still names that node; the scheduler chooses again only once the claim names none; some provisioners take the name off, and this one has not"},
		Advice:         "{change} take the node's name off claim " + facts.ClaimName(claim) + ": the scheduler then chooses a node that exists, and the claim has no data yet that could be lost",
		AdviceCommands: []string{safetext.Kubectl("annotate", "persistentvolumeclaim/"+claim.Name, "-n", claim.Namespace, reconcile.SelectedNodeAnnotation+"-")},
	}
	if n := len(about.Failures); n > 0 {
		last := about.Failures[n-1]
		f.Evidence = append(f.Evidence, finding.Evidence{Object: claimObject(claim), Field: "events", Value: fmt.Sprintf("%s at %s: %s", last.Reason, facts.Stamp(snapshot.EventTime(last)), last.Message)})
	}
	return unboundReason{f, facts.ProvisionTakes}
}

// nobodyMakesIt is about a claim that needs a volume made by hand.
func nobodyMakesIt(claim *corev1.PersistentVolumeClaim, about facts.Unbound) unboundReason {
	f := finding.Finding{
		Message:   "no PersistentVolume suits it",
		Detail:    "its storage class makes none",
		Cause:     fmt.Sprintf("volumes of storage class %s are made by hand, and none is left that has the size, the access modes and the labels that the claim asks for", about.Class),
		SelfHeals: finding.SelfHeals{Because: "no PersistentVolume suits the claim; the claim is bound within a minute once one does"},
		Never:     "take the claimRef off a Released volume whose data may be wanted: this claim is then bound to that volume, and its pods write to it",
		Advice:    "{change} create a PersistentVolume of that class, or {final} make a Released one Available again once its data may be given away",
	}
	if about.Class == "" {
		f.Detail = "it names no storage class that would make one"
		f.Cause = "the claim names no storage class, and the cluster had no default class when it was made, or the claim says that it wants none"
		f.Advice = "name a storage class in the claim and {final} recreate it, or mark one as the default, or {change} create a PersistentVolume for it"
	}
	f.Evidence = []finding.Evidence{{Object: claimObject(claim), Field: "spec.storageClassName", Value: cmp.Or(about.Class, "none")}}
	return unboundReason{f, facts.ClaimBinds + facts.ListsGrace}
}

// withoutSource is about a claim that copies another one which does not exist or has no volume
// yet; nil where the other is bound, or there is none.
func withoutSource(p *facts.View, claim *corev1.PersistentVolumeClaim) *finding.Finding {
	from := claim.Spec.DataSourceRef
	if from == nil && claim.Spec.DataSource != nil { // up to 1.21 there is only this
		from = &corev1.TypedObjectReference{Kind: claim.Spec.DataSource.Kind, Name: claim.Spec.DataSource.Name}
	}
	if from == nil || from.Kind != "PersistentVolumeClaim" || from.Namespace != nil && *from.Namespace != claim.Namespace {
		return nil
	}
	name := claim.Namespace + "/" + from.Name
	source := p.Snapshot.Claim(types.NamespacedName{Namespace: claim.Namespace, Name: from.Name})
	f := finding.Finding{
		Message: fmt.Sprintf("its source, claim %s, does not exist", name),
		Cause:   "the claim that it is to be a copy of was deleted, or has another name",
		Evidence: []finding.Evidence{
			{Object: claimObject(claim), Field: "spec.dataSourceRef", Value: "PersistentVolumeClaim " + name},
		},
		SelfHeals: finding.SelfHeals{Because: "the provisioner needs the claim that it copies"},
		Never:     "recreate the claim without its source: it gets an empty volume",
		Advice:    "{final} recreate the claim with the name of a claim that exists, or from a snapshot",
	}
	switch {
	case source == nil:
		return &f
	case source.Status.Phase == corev1.ClaimBound:
		return nil
	case source.Status.Phase == corev1.ClaimLost:
		f.Message = fmt.Sprintf("its source, claim %s, has lost its volume", name)
		f.Cause = "the claim that it is to be a copy of names a volume that is gone"
	default:
		f.Message = fmt.Sprintf("its source, claim %s, is not bound", name)
		f.Cause = "the claim that it is to be a copy of has no volume itself"
		f.SelfHeals.Because = "the source has to be bound first; the provisioner goes on trying until the source is bound"
		f.Advice = fmt.Sprintf("{check} see why claim %s is not bound", name)
		if p.Unbound(source).ForNode {
			f.Cause += ": its storage class makes one only once a pod uses the claim"
			f.Advice = fmt.Sprintf("{change} start a pod that uses claim %s: its volume is made then, and the copy follows", name)
		}
	}
	f.Evidence = append(f.Evidence, finding.Evidence{Object: claimObject(source), Field: "status.phase", Value: string(source.Status.Phase)})
	return &f
}

func lastSaid(e *corev1.Event) string {
	return fmt.Sprintf("%s at %s: %s", e.Reason, facts.Stamp(snapshot.EventTime(e)), e.Message)
}

// beforeIt is the advice while the volume is still to be made, where the usual advice is for an
// existing one. A driver's own entry has its own advice.
var beforeIt = map[driverwords.Meaning]string{
	driverwords.VolumeNotFound: whichVolume,
	driverwords.ObjectNotFound: whichVolume,
	driverwords.BadParameters:  "{change} correct what the message names, in a new storage class, as a class cannot be changed, or in a new claim",
	driverwords.NotRegistered:  "{check} check that the driver's node plugin runs on the node that the message names, and that its registrar reports no error",
}

const whichVolume = "{check} find out which volume the message means: that of the claim is still to be made"

// provisionerNotHeard is about a claim whose provisioner may have reported the cause in events
// that were not read.
func provisionerNotHeard(about facts.Unbound) unboundReason {
	return unboundReason{finding.Finding{
		Severity:  finding.Warning,
		Message:   fmt.Sprintf("provisioner %s has made no volume", about.Provisioner),
		Detail:    "why is not known: not all events could be read",
		Cause:     "the provisioner fails, and its events say why, or it does not run",
		SelfHeals: finding.SelfHeals{Unknown: true, Because: "what the provisioner fails for is not known; one that runs keeps trying"},
		Never:     makeAgain,
		Advice:    fmt.Sprintf("{check} read the events of the claim, and the log of the provisioner of %s", about.Provisioner),
	}, facts.ProvisionSilence + about.Copy}
}

// makeAgain must not be done while the provisioner may have made a part of the volume.
const makeAgain = "recreate the claim again and again: each may leave a disk behind"

// notProvisioned is about a claim whose provisioner fails, or reports nothing.
func notProvisioned(p *facts.View, claim *corev1.PersistentVolumeClaim, about facts.Unbound, since metav1.Time) unboundReason {
	if f := withoutSource(p, claim); f != nil {
		if n := len(about.Failures); n > 0 {
			last := about.Failures[n-1]
			f.Said = facts.QuoteEvent(last)
			f.Evidence = append(f.Evidence, finding.Evidence{Object: claimObject(claim), Field: "events", Value: lastSaid(last)})
		}
		return unboundReason{*f, facts.ProvisionTakes}
	}
	heard := p.Snapshot.CompleteIn(snapshot.Events, claim.Namespace)
	if n := len(about.Failures); !heard && (n == 0 || p.Age(snapshot.EventTime(about.Failures[n-1])) > facts.ProvisionSilence) {
		return provisionerNotHeard(about)
	}
	if !about.Tries.IsZero() {
		return unboundReason{finding.Finding{
			Severity:  finding.Warning,
			Message:   fmt.Sprintf("provisioner %s is still making its volume", about.Provisioner),
			Detail:    fmt.Sprintf("it began to try again %s ago, and has reported no failure", facts.Rounded(p.Age(about.Tries))),
			Cause:     "the driver's calls do not end in time, or the storage system copies much data",
			Evidence:  []finding.Evidence{{Object: claimObject(claim), Field: "events", Value: "Provisioning at " + facts.Stamp(about.Tries)}},
			SelfHeals: finding.SelfHeals{Unknown: true, Because: "it has taken longer than usual; the provisioner goes on trying"},
			Never:     makeAgain,
			Advice:    fmt.Sprintf("{check} read the log of the controller of %s, and look at the storage system for what it does for this volume", about.Provisioner),
		}, p.Takes(about)}
	}
	if len(about.Failures) == 0 {
		return unboundReason{whySilent(p, claim, about, finding.Finding{
			Message: fmt.Sprintf("provisioner %s has made no volume", about.Provisioner),
			Detail:  "the provisioner has said nothing",
			Cause:   fmt.Sprintf("the driver's controller, with its provisioner, does not run, is not installed under the name %s, or hangs", about.Provisioner),
			Evidence: []finding.Evidence{
				{Object: claimObject(claim), Field: "events", Value: "none about a try that failed"},
			},
			SelfHeals: finding.SelfHeals{Because: "the volume is made once the provisioner works; Kubernetes does nothing but wait for it"},
			Never:     makeAgain,
			Advice:    fmt.Sprintf("{check} check that the controller pods of %s run, and read the log of their provisioner", about.Provisioner),
		}), facts.ProvisionSilence}
	}
	last := about.Failures[len(about.Failures)-1]
	if silent := p.Age(snapshot.EventTime(last)); silent > facts.ProvisionSilence {
		return unboundReason{whySilent(p, claim, about, finding.Finding{
			Message:   fmt.Sprintf("provisioner %s has fallen silent", about.Provisioner),
			Detail:    fmt.Sprintf("the provisioner has said nothing for %s; before that it failed", facts.Rounded(silent)),
			Said:      facts.QuoteEvent(last),
			Cause:     "the provisioner does not run any more, or has given up, as some do after 15 attempts; whether the reason that it gave still holds is not known",
			Evidence:  []finding.Evidence{{Object: claimObject(claim), Field: "events", Value: lastSaid(last)}},
			SelfHeals: finding.SelfHeals{Because: "the provisioner has reported nothing; one that tries reports each failure"},
			Never:     makeAgain,
			Advice:    fmt.Sprintf("{check} check that the controller pods of %s run, and read the log of their provisioner: does it still try?", about.Provisioner),
		}), facts.ProvisionTakes}
	}
	f := finding.Finding{
		Message:   fmt.Sprintf("provisioner %s fails to make its volume", about.Provisioner),
		Said:      facts.QuoteEvent(last),
		Cause:     fmt.Sprintf("the provisioner %s says why, in words of its own", about.Provisioner),
		Evidence:  []finding.Evidence{{Object: claimObject(claim), Field: "events", Value: lastSaid(last)}},
		SelfHeals: finding.SelfHeals{Because: "what the provisioner names has to be fixed first; the provisioner keeps trying"},
		Never:     makeAgain,
		Advice:    fmt.Sprintf("{fix} fix what the message names; the log of %s's provisioner has the rest", about.Provisioner),
	}
	if entry, known := facts.DriverSays(about.Provisioner, last.Message); known {
		if usual, _ := entry.Meaning.About(); entry.Helps == usual.Helps {
			entry.Helps = cmp.Or(beforeIt[entry.Meaning], entry.Helps)
		}
		said := facts.Said{Driver: about.Provisioner, Message: last.Message, Claim: claim, Namespace: claim.Namespace}
		entry = p.Settled(entry, said)
		lasts := p.Age(since)
		if p.CopyGoesOn(about) {
			lasts = 0
		}
		f.Cause = facts.WhatItMeans(entry, lasts)
		lookUps := p.LookUps(said)
		if len(lookUps) > 0 {
			f.Cause += "; the objects say: " + strings.Join(lookUps, "; ")
		}
		if node := cmp.Or(selectedNode(claim), p.NodeNamed(about.Provisioner, last.Message)); node != "" {
			entry.Helps = strings.ReplaceAll(entry.Helps, step.RestartNodePlugin.Of(), step.RestartNodePlugin.Of(about.Provisioner+"@"+string(node)))
		}
		f.Advice, f.Actor, f.KnownFrom = facts.Helps(entry, lasts), facts.WhoActs(entry), facts.KnownFrom(entry, lookUps...)
		if facts.Heals(entry, lasts) {
			f.Severity = finding.Warning
			f.SelfHeals = finding.SelfHeals{Unknown: true, Because: "it has taken longer than usual; the provisioner keeps trying, and usually succeeds in the end"}
		}
	}
	return unboundReason{f, p.Takes(about)}
}
