package check

import (
	"fmt"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// lostNodeHeadline is for findings about one node that is lost or gone.
func lostNodeHeadline(p *facts.View, f finding.Finding) string {
	if alias := p.AliveAs(f.Node); alias != nil {
		return fmt.Sprintf("Node %s is alive as node %s, and volumes are still attached to it", f.Node, alias.Node.Name)
	}
	if p.Snapshot.Node(f.Node) == nil {
		return fmt.Sprintf("Node %s is gone, and volumes are still attached to it", f.Node)
	}
	return fmt.Sprintf("Node %s is lost and holds volumes", f.Node)
}

// unusedHeadline is for findings about one volume.
func unusedHeadline(_ *facts.View, f finding.Finding) string {
	return fmt.Sprintf("Volume %s is still attached to nodes that do not use it", f.PersistentVolume)
}

// ofDriver puts the finding's driver into the text.
func ofDriver(text string) func(*facts.View, finding.Finding) string {
	return func(p *facts.View, f finding.Finding) string { return fmt.Sprintf(text, p.DriverOf(f)) }
}

// ofNodeName puts the finding's node into the text.
func ofNodeName(text string) func(*facts.View, finding.Finding) string {
	return func(_ *facts.View, f finding.Finding) string { return fmt.Sprintf(text, f.Node) }
}
