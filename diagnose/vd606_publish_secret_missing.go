package diagnose

import (
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var publishSecretMissing = Check{
	Code:     "VD606",
	Name:     "publish-secret-missing",
	Title:    "A secret that a driver needs to attach and detach does not exist",
	Severity: Error,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers,
	},
	Run: runPublishSecretMissing,
}

func runPublishSecretMissing(p *Pass) {
	bySecret := map[corev1.SecretReference][]task{}
	var secrets []corev1.SecretReference
	for _, driver := range p.attachers() {
		for _, t := range p.tasks(driver) {
			if ref, ok := p.missingSecret(t); ok {
				if bySecret[*ref] == nil {
					secrets = append(secrets, *ref)
				}
				bySecret[*ref] = append(bySecret[*ref], t)
			}
		}
	}
	for _, ref := range secrets {
		p.secretMissing(ref, bySecret[ref])
	}
}

// secretError are the attacher's words; the drivers see nothing of it.
var secretError = regexp.MustCompile(`(?:failed to load secret|failed to get [a-z]+ publish secret).*not found`)

// missingSecret is the secret that the attacher lately could not find for the
// task. No snapshot holds secrets: what the attacher says must do.
func (p *Pass) missingSecret(t task) (*corev1.SecretReference, bool) {
	if t.failure == nil || !secretError.MatchString(t.failure.Message) || p.Age(t.failure.Time) > attacherRetries || p.Age(t.since) < refusalSettles {
		return nil, false
	}
	var source *corev1.CSIPersistentVolumeSource
	if name := t.Spec.Source.PersistentVolumeName; name != nil {
		if pv := p.Snapshot.Volume(*name); pv != nil {
			source = pv.Spec.CSI
		}
	} else if inline := t.Spec.Source.InlineVolumeSpec; inline != nil {
		source = inline.CSI
	}
	if source == nil || source.ControllerPublishSecretRef == nil {
		return nil, false
	}
	return source.ControllerPublishSecretRef, true
}

// detachLacksSecret says that a detach fails for want of a secret, about which
// publish-secret-missing says more than the checks on detaches that fail.
func (p *Pass) detachLacksSecret(va *storagev1.VolumeAttachment) bool {
	if va.DeletionTimestamp == nil || !p.attachRequired(va.Spec.Attacher) {
		return false
	}
	_, missing := p.missingSecret(task{va, *va.DeletionTimestamp, va.Status.DetachError})
	return missing
}

func (p *Pass) secretMissing(ref corev1.SecretReference, tasks []task) {
	pods := p.taskPods(tasks)
	f := Finding{
		Subject: Object{Kind: "Secret", Namespace: ref.Namespace, Name: ref.Name},
		Pods:    podNames(pods),
		Since:   &tasks[0].since,
		Message: fmt.Sprintf("The secret %s/%s, without which %s neither attaches nor detaches, does not exist: %s",
			ref.Namespace, ref.Name, tasks[0].Spec.Attacher, p.queue(tasks)),
		Cause: "the secret was deleted or renamed after volumes had been made that name it; a volume's reference to its secret cannot be changed",
		SelfHeals: SelfHeals{Because: "the attacher looks for the secret again, at most 5 min apart, and goes on once it is there; nobody makes it anew, " +
			"unless the driver's operator does"},
		Advice: fmt.Sprintf("make the secret %s/%s again, with what it held: from a backup, or as the copy of the one that the driver's storage class names "+
			"now. Taking the finalizers off instead leaves the volumes attached", ref.Namespace, ref.Name),
	}
	if name := tasks[0].Spec.Source.PersistentVolumeName; name != nil {
		f.Evidence = append(f.Evidence, Evidence{"persistentvolume/" + *name, "spec.csi.controllerPublishSecretRef", ref.Namespace + "/" + ref.Name})
	}
	f.Evidence = append(f.Evidence, taskEvidence(tasks)...)
	if len(pods) == 0 {
		f.Severity = Warning
	}
	p.Report(f)
}
