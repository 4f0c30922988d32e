package driver

import (
	"fmt"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/storage"
)

// stuckAtStorage reports an attach that the storage system's own list explains: it was
// asked for long before the list was taken, and the volume is in a state in which it is
// attached to nothing.
func stuckAtStorage(p *check.Run, truth *storage.Truth, t facts.Task) bool {
	pair, ok := p.TaskPair(t)
	if !ok || t.DeletionTimestamp != nil || truth == nil {
		return false
	}
	entry := truth.Volume(pair.Volume)
	says := entry.Stuck()
	pods := p.TaskPods([]facts.Task{t})
	if says == "" || !entry.Saw(t.Since, facts.StuckDeleting) || len(pods) == 0 {
		return false
	}
	p.Report(finding.Finding{
		Subject:          finding.Object{Kind: "VolumeAttachment", Name: t.Name, UID: t.UID},
		Volume:           pair.Volume,
		Node:             pair.Node,
		PersistentVolume: p.ShortVolume(pair.Volume),
		VolumeAttachment: t.Name,
		Pods:             facts.PodNames(pods),
		Since:            &t.Since,
		Message: fmt.Sprintf("Pod %s waits on node %s for volume %s, and the storage system itself is stuck with it: %s, by %s",
			facts.PodName(pods[0]), t.Spec.NodeName, p.TaskVolume(t), says, entry.Words()),
		Cause:     says + "; the objects in the cluster are as they should be",
		Evidence:  append(facts.TaskEvidence([]facts.Task{t}), entry.Evidence()),
		SelfHeals: finding.SelfHeals{Because: "the attacher asks the driver again, at most 5 min apart, and the attach goes on once the storage system lets it"},
		Advice:    "look at the volume and the machine in the storage system's own console or tools, and act there",
	})
	return true
}
