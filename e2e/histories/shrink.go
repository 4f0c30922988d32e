package histories

import (
	"slices"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
)

// shrinkTries bounds how often a history is replayed to shorten it.
const shrinkTries = 60

// Shrink removes from a history, one after the other, the things without which it still
// differs.
func Shrink(request *wire.Request, differs func(*wire.Request) bool) *wire.Request {
	tries := 0
	try := func(shorter wire.Request) bool {
		tries++
		if tries > shrinkTries || len(shorter.History) == 0 || !differs(&shorter) {
			return false
		}
		request = &shorter
		return true
	}
	for i := len(request.History) - 1; i >= 0; i-- {
		shorter := *request
		shorter.History = slices.Delete(slices.Clone(request.History), i, i+1)
		try(shorter)
	}
	for i := len(request.Pods) - 1; i >= 0; i-- {
		shorter := *request
		shorter.Pods = slices.Delete(slices.Clone(request.Pods), i, i+1)
		try(shorter)
	}
	for i := len(request.VolumeAttachments) - 1; i >= 0; i-- {
		shorter := *request
		shorter.VolumeAttachments = slices.Delete(slices.Clone(request.VolumeAttachments), i, i+1)
		try(shorter)
	}
	for i, node := range request.Nodes {
		empty := node.DeepCopy()
		empty.Status.VolumesAttached, empty.Status.VolumesInUse = nil, nil
		shorter := *request
		shorter.Nodes = slices.Clone(request.Nodes)
		shorter.Nodes[i] = empty
		try(shorter)
	}
	for i, step := range request.History {
		for _, pause := range pauses {
			if pause >= step.Then {
				break
			}
			shorter := *request
			shorter.History = slices.Clone(request.History)
			shorter.History[i].Then = pause
			if try(shorter) {
				break
			}
		}
	}
	return request
}
