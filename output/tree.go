package output

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/fatih/color"
	"github.com/xlab/treeprint"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// printReportTree draws the volume of each cause with its related nodes. Below each node stand its
// VolumeAttachment, its lists and its pods. A cross marks what is wrong.
func printReportTree(b *strings.Builder, r *finding.Report, opts Options) error {
	for i, group := range r.Roots() {
		f := group[0]
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(b, "%s  %s  %s\n", paintSeverity(f.Severity, opts), visible(string(f.Code)), visible(f.Check)+suspected(f))
		wrapped(b, "  ", visible(attributed(r, f.Text())), opts)
		tree := treeprint.New()
		if p, ok := draw(r, f); ok {
			p.tree(tree.AddBranch("volume "+visible(p.name)), opts)
		} else {
			tree.AddNode(crossed("✗ "+visible(f.Subject.String()), opts))
		}
		for _, line := range byCheck(group[1:]) {
			tree.AddNode(line)
		}
		b.WriteString(branches(tree))
	}
	end(b, r, opts)
	return nil
}

func (p picture) tree(t treeprint.Tree, opts Options) {
	for _, n := range p.nodes {
		branch := t.AddBranch("node " + visible(n.name))
		for _, r := range []check.Link{holds, reports, uses, wants} {
			for _, e := range n.edges {
				if e.relation == r {
					branch.AddNode(e.line(opts))
				}
			}
		}
	}
	if p.more > 0 {
		more := "and " + count(p.more, "more node")
		if p.morePods > 0 {
			more += ", with " + count(p.morePods, "pod")
		}
		t.AddNode(more)
	}
	for _, e := range p.waiting {
		t.AddNode(e.line(opts))
	}
}

func (e edge) line(opts Options) string {
	text := e.fact
	if e.relation == holds && e.there {
		text = fmt.Sprintf("VolumeAttachment %s: %s", e.object, e.fact)
	}
	text = e.mark() + visible(text)
	if e.broken {
		return crossed(text, opts)
	}
	return text
}

func crossed(text string, opts Options) string {
	return paint(opts.Color, text, color.FgRed, color.Bold)
}

// byCheck returns one line for each check with the number of its findings, in the order in which
// the checks first occur.
func byCheck(consequences []finding.Finding) []string {
	return texts(byCode(consequences), func(same []finding.Finding) string {
		line := fmt.Sprintf("from it follows %s %s: %s", same[0].Code, same[0].Check, same[0].Subject)
		if more := len(same) - 1; more > 0 {
			line += fmt.Sprintf(" and %d more", more)
		}
		return visible(line)
	})
}

// byCode groups the findings by code.
func byCode(findings []finding.Finding) [][]finding.Finding {
	return finding.Alike(findings, func(f finding.Finding) string { return string(f.Code) })
}

// branches prints the tree without its root, which has no name. It replaces treeprint's no-break
// spaces by blanks, because no-break spaces are lost when the text is copied.
func branches(t treeprint.Tree) string {
	_, text, _ := strings.Cut(t.String(), "\n")
	return strings.ReplaceAll(text, "\u00a0", " ")
}

// printPlanTree draws each volume with its nodes, and for each node what the pass does and which
// pods want the volume there.
func printPlanTree(b *strings.Builder, p *Plan, opts Options) error {
	if len(p.Decisions) == 0 && len(p.Kubelets) == 0 {
		b.WriteString(nothingPlanned(p))
		planGaps(b, p, opts)
		return nil
	}
	actual, wanted := p.byPair()
	tree := treeprint.New()
	var volume treeprint.Tree
	for i, d := range p.Decisions {
		if i == 0 || d.Volume != p.Decisions[i-1].Volume {
			volume = tree.AddBranch("volume " + visible(cmp.Or(d.PersistentVolume, string(d.Volume))))
		}
		node := volume.AddBranch("node " + visible(string(d.Node)))
		decision := fmt.Sprintf("%s: %s", d.Verb, d.Reason)
		if d.After != "0s" {
			decision += " after " + rounded(d.After)
		}
		node.AddNode(paintVerb(d.Verb, visible(decision), opts))
		pair := reconcile.VolumeNode{Volume: d.Volume, Node: d.Node}
		if a, ok := actual[pair]; ok {
			state := "attached"
			if a.State == reconcile.Uncertain {
				state = "uncertain whether attached"
			}
			if a.MountedByNode {
				state += "; assumed to be mounted"
			}
			node.AddNode(visible(state))
			if a.VolumeAttachment != "" {
				node.AddNode("VolumeAttachment " + visible(a.VolumeAttachment))
			}
		}
		for _, pod := range wanted[pair] {
			node.AddNode("pod " + visible(pod))
		}
	}
	b.WriteString(branches(tree))
	for _, n := range p.Kubelets {
		if err := writeKubelet(b, n, opts, false); err != nil {
			return err
		}
	}
	planGaps(b, p, opts)
	return nil
}
