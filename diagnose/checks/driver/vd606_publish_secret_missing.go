package driver

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

var PublishSecretMissing = check.Check{
	Code:     "VD606",
	Name:     "publish-secret-missing",
	Title:    "A secret that a driver needs to attach and detach does not exist",
	Severity: finding.Error,
	Needs:    check.AttachmentKinds(),
	OfDriver: true,
	Never:    "take finalizers off: the volumes stay attached, and nothing says so",
	Run:      runPublishSecretMissing,
}

func runPublishSecretMissing(p *check.Run) {
	bySecret := map[corev1.SecretReference][]facts.Task{}
	var secrets []corev1.SecretReference
	for _, driver := range p.Attachers() {
		for _, t := range p.Tasks(driver) {
			if ref, ok := p.MissingSecret(t); ok {
				if bySecret[*ref] == nil {
					secrets = append(secrets, *ref)
				}
				bySecret[*ref] = append(bySecret[*ref], t)
			}
		}
	}
	for _, ref := range secrets {
		secretMissing(p, ref, bySecret[ref])
	}
}

func secretMissing(p *check.Run, ref corev1.SecretReference, tasks []facts.Task) {
	pods := taskPods(p.View, tasks)
	f := finding.Finding{
		Subject: finding.Object{Kind: "Secret", Namespace: ref.Namespace, Name: ref.Name},
		Pods:    facts.PodNames(pods),
		Since:   &tasks[0].Since,
		Message: fmt.Sprintf("Secret %s/%s, which driver %s needs, does not exist", ref.Namespace, ref.Name, tasks[0].Spec.Attacher),
		Detail:  "without it the driver neither attaches nor detaches; " + queue(p.View, tasks),
		Cause:   "the secret was deleted or renamed after volumes had been made that name it; a volume's reference to its secret cannot be changed",
		SelfHeals: finding.SelfHeals{Because: "nobody but an operator recreates the secret; the attacher looks for the secret again, at most 5 min apart, " +
			"and goes on once it is there"},
		Advice: fmt.Sprintf("{change} recreate the secret %s/%s with its old content: from a backup, or as a copy of the one that the driver's storage class names now",
			ref.Namespace, ref.Name),
	}
	if name := tasks[0].Spec.Source.PersistentVolumeName; name != nil {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "persistentvolume/" + *name, Field: "spec.csi.controllerPublishSecretRef", Value: ref.Namespace + "/" + ref.Name})
	}
	f.Evidence = append(f.Evidence, taskEvidence(tasks)...)
	if len(pods) == 0 {
		f.Severity = finding.Warning
	}
	p.Report(f)
}
