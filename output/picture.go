package output

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

const (
	wants   = check.Wants
	holds   = check.Holds
	reports = check.Reports
	uses    = check.Uses
	// affects is what a finding about no volume has to do with a pod.
	affects check.Link = "affects"
)

// edge is one relation of one pod or node to the volume, as the objects have it.
type edge struct {
	relation check.Link
	// fact says in a few words what the objects have.
	fact string
	// object is the pod or the VolumeAttachment; "" for a node's own lists.
	object string
	// there says that the relation exists; a missing one may be what is wrong.
	there bool
	// broken says that a finding is about this relation.
	broken bool
}

// mark is what shows a broken edge without colour.
func (e edge) mark() string {
	if e.broken {
		return "✗ "
	}
	return ""
}

// picture is who wants, holds and reports one volume. It is what tree and html
// draw.
type picture struct {
	name   string // the PersistentVolume, else the unique name
	unique string
	// waiting are pods that want the volume and are not known to want it on any
	// of the nodes: their node is not chosen, or the volume does not resolve.
	waiting []edge
	nodes   []pictureNode
	// more are the nodes that are left out, and morePods the pods there that want it.
	more, morePods int
	// subject says that name is no volume but the object that is wrong.
	subject bool
}

// drawSubject makes the picture of a finding about no volume: its object, and the pods
// that it affects.
func drawSubject(f finding.Finding) picture {
	p := picture{name: f.Subject.String(), unique: f.Check, subject: true}
	for _, pod := range f.Pods {
		if pod != f.Subject.Namespace+"/"+f.Subject.Name {
			p.waiting = append(p.waiting, edge{relation: affects, object: pod, fact: "pod " + pod, there: true})
		}
	}
	return p
}

type pictureNode struct {
	name  string
	edges []edge
}

// mostNodes are the nodes of a picture at most, those first that the finding is about: a volume
// may be on thousands, and each of them may have a finding with a picture of all.
const mostNodes = 20

// drawnNodes are the records of the volume's nodes that a picture of the finding has, in
// their order.
func drawnNodes(f finding.Finding, all []finding.NodeRecord) (nodes []finding.NodeRecord) {
	if len(all) <= mostNodes {
		return all
	}
	about := func(record finding.NodeRecord) bool { return record.Node == f.Node || record.Node == f.Holder }
	others := mostNodes
	for _, record := range all {
		if about(record) {
			others--
		}
	}
	for _, record := range all {
		if about(record) {
			nodes = append(nodes, record)
		} else if others > 0 {
			nodes, others = append(nodes, record), others-1
		}
	}
	return nodes
}

// draw makes the picture of the finding's volume; false where the finding is
// about none.
func draw(r *finding.Report, f finding.Finding) (picture, bool) {
	if f.Volume == "" && f.PersistentVolume == "" {
		return picture{}, false
	}
	p := picture{name: cmp.Or(f.PersistentVolume, string(f.Volume)), unique: string(f.Volume)}
	elsewhere := sets.New(f.Pods...)
	if i := slices.IndexFunc(r.Volumes, func(v finding.VolumeRecord) bool { return v.Volume == f.Volume && v.Context == f.Context }); i >= 0 {
		all := r.Volumes[i].Nodes
		nodes := drawnNodes(f, all)
		p.more = len(all) - len(nodes)
		for _, record := range nodes {
			p.nodes = append(p.nodes, drawNode(r, record))
			p.morePods -= len(record.WantedBy)
		}
		for _, record := range all {
			elsewhere.Delete(record.WantedBy...)
			p.morePods += len(record.WantedBy)
		}
	}
	for _, pod := range f.Pods {
		if elsewhere.Has(pod) {
			p.waiting = append(p.waiting, edge{relation: wants, object: pod, fact: "pod " + pod, there: true})
		}
	}
	p.breakAt(f)
	// The node that the finding is about comes first, for those who see no more.
	slices.SortStableFunc(p.nodes, func(a, b pictureNode) int { return b.about(f) - a.about(f) })
	return p, true
}

func (n pictureNode) about(f finding.Finding) int {
	if n.name == string(f.Node) {
		return 1
	}
	return 0
}

func drawNode(r *finding.Report, record finding.NodeRecord) pictureNode {
	n := pictureNode{name: string(record.Node)}
	for _, pod := range record.WantedBy {
		n.edges = append(n.edges, edge{relation: wants, object: pod, fact: "pod " + pod, there: true})
	}
	if len(record.WantedBy) == 0 {
		n.edges = append(n.edges, edge{relation: wants, fact: absent(r, snapshot.Pods, "no pod wants it here", "pods were not read")})
	}
	for _, va := range record.Attachments {
		n.edges = append(n.edges, edge{relation: holds, object: va.Name, fact: attachmentFact(va), there: true})
	}
	if len(record.Attachments) == 0 {
		n.edges = append(n.edges, edge{relation: holds, fact: absent(r, snapshot.VolumeAttachments, "no VolumeAttachment", "attachments were not read")})
	}
	if record.VolumesAttached == nil || record.VolumesInUse == nil {
		fact := absent(r, snapshot.Nodes, "no Node object", "the node was not read")
		return pictureNode{n.name, append(n.edges, edge{relation: reports, fact: fact}, edge{relation: uses, fact: fact})}
	}
	n.edges = append(n.edges,
		edge{relation: reports, there: *record.VolumesAttached, fact: "volumesAttached " + listsIt(*record.VolumesAttached)},
		edge{relation: uses, there: *record.VolumesInUse, fact: "volumesInUse " + listsIt(*record.VolumesInUse)})
	return n
}

// absent is what may be said of something that was not seen: that it is not
// there only where all was read.
func absent(r *finding.Report, kind snapshot.Kind, missing, unread string) string {
	if slices.ContainsFunc(r.Gaps, func(g snapshot.Gap) bool { return g.Kind == kind }) {
		return unread
	}
	return missing
}

func listsIt(lists bool) string {
	if lists {
		return "lists it"
	}
	return "lacks it"
}

func attachmentFact(va finding.AttachmentRecord) string {
	fact := "not attached"
	if va.Attached {
		fact = "attached"
	}
	if va.Deleting {
		fact += ", being deleted"
	}
	return fact
}

// breakAt marks the relation that the finding is about: on its node, on the
// holder that keeps the volume from it, or on all where it names none.
func (p *picture) breakAt(f finding.Finding) {
	about, known := checkOf(f.Code)
	if !known {
		about.Code = f.Code
	}
	broken := about.Link()
	at := f.Node
	if broken == holds && f.Holder != "" {
		at = f.Holder
	}
	marked, pods := false, sets.New(f.Pods...)
	for i := range p.nodes {
		n := &p.nodes[i]
		if at != "" && n.name != string(at) {
			continue
		}
		for j := range n.edges {
			e := &n.edges[j]
			// Of several pods or VolumeAttachments, those that the finding names.
			named := e.object == "" || e.relation == wants && (len(f.Pods) == 0 || pods.Has(e.object)) ||
				e.relation == holds && (f.VolumeAttachment == "" || f.VolumeAttachment == e.object)
			if e.relation == broken && named {
				e.broken, marked = true, true
			}
		}
	}
	for i := range p.waiting {
		if broken == wants || !marked {
			p.waiting[i].broken, marked = true, true
		}
	}
	if !marked && len(p.nodes) > 0 { // a VolumeAttachment or pod that is gone
		for i, e := range p.nodes[0].edges {
			p.nodes[0].edges[i].broken = e.relation == broken
		}
	}
}

// sentence describes the edge for those who see no picture.
func (e edge) sentence(node string) string {
	where := ""
	if node != "" {
		where = " on node " + node
	}
	text := ""
	switch {
	case e.relation == affects:
		text = "it affects pod " + e.object
	case e.relation == wants && e.there:
		text = fmt.Sprintf("pod %s wants it%s", e.object, where)
	case e.relation == holds && e.there:
		text = fmt.Sprintf("VolumeAttachment %s%s: %s", e.object, where, e.fact)
	default:
		text = fmt.Sprintf("%s%s", e.fact, where)
	}
	if e.broken {
		return "wrong: " + text
	}
	return text
}
