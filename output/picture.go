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
	// affects relates a finding that is about no volume to a pod that it affects.
	affects check.Link = "affects"
)

// edge is one relation between a pod or a node and the volume, as the objects show it.
type edge struct {
	relation check.Link
	// fact describes the edge in a few words.
	fact string
	// object is the pod or the VolumeAttachment; "" for the node's own lists.
	object string
	// there reports whether the relation exists. A missing relation may be what is wrong.
	there bool
	// broken reports whether the finding is about this relation.
	broken bool
}

// mark returns the sign that shows a broken edge without color.
func (e edge) mark() string {
	if e.broken {
		return "✗ "
	}
	return ""
}

// picture holds who wants, holds and reports one volume. The formats tree and html draw it.
type picture struct {
	name   string // the PersistentVolume; if there is none, the unique name
	unique string
	// waiting are the pods that want the volume on no known node: no node is chosen yet, or the
	// volume does not resolve.
	waiting []edge
	nodes   []pictureNode
	// more is the number of nodes that are left out, and morePods the number of pods on them that
	// want the volume.
	more, morePods int
	// subject reports whether name is the object that is wrong, rather than a volume.
	subject bool
}

// drawSubject makes the picture of a finding that is about no volume: its subject and the pods it
// affects.
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

// mostNodes is the largest number of nodes in a picture, unless the finding itself names more. A
// volume may be on thousands of nodes, and each of them may have a finding with a picture.
const mostNodes = 20

// drawnNodes returns the node records that the picture shows, in their order. The nodes that the
// finding is about are always among them.
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

// draw makes the picture of the finding's volume. It returns false if the finding is about no
// volume.
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
	// The finding's own node comes first, for readers who see only the beginning.
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

// absent returns missing if all objects of the kind were read, else unread: an object that was not
// seen is certainly absent only if the list is complete.
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

// breakAt marks the broken relation: on the finding's node, on the holder that keeps the volume
// from that node, or on all nodes if the finding names none.
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
			// If there are several pods or VolumeAttachments, only those that the finding names are
			// marked.
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
	if !marked && len(p.nodes) > 0 { // the VolumeAttachment or pod that the finding names is gone
		for i, e := range p.nodes[0].edges {
			p.nodes[0].edges[i].broken = e.relation == broken
		}
	}
}

// sentence describes the edge in words for readers who cannot see the picture.
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
