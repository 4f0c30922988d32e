package driver

import (
	"fmt"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/storage"
)

// stuckAtStorage reports an attach that the storage system's own list explains: the volume is
// attached to nothing, in a state that allows no attach, and the attach was asked for long before
// the list was taken.
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
	f := waitsForStorage(p, t, pair, pods)
	f.Message += ": its storage is stuck"
	f.Detail = fmt.Sprintf("the storage system itself is stuck with it: %s, by %s", says, entry.Words())
	f.Cause = "the objects in the cluster are as they should be"
	f.Evidence = append(f.Evidence, entry.Evidence())
	p.Report(f)
	return true
}
