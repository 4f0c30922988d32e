package diagnose

import (
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// remember adds evidence from the controller's log to each finding about a volume on a node. It
// changes nothing else.
func remember(view *facts.View, findings []finding.Finding) {
	for i := range findings {
		f := &findings[i]
		if f.Volume != "" && f.Node != "" {
			f.Evidence = append(f.Evidence, view.Remembered(reconcile.VolumeNode{Volume: f.Volume, Node: f.Node})...)
		}
	}
}
