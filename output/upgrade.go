package output

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fatih/color"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/preflight"
)

// UpgradeFormats print an upgrade.
var UpgradeFormats = formats[*preflight.Upgrade]{
	{"table", printUpgrade},
	{"json", printJSON[*preflight.Upgrade]},
	{"yaml", printYAML[*preflight.Upgrade]},
}

func printUpgrade(b *strings.Builder, u *preflight.Upgrade, opts Options) error {
	fmt.Fprintf(b, "kube-controller-manager from %s to %s\n", Safe(u.From), Safe(u.To))
	switch {
	case len(u.Missing) > 0:
		names := make([]string, 0, len(u.Missing))
		for _, kind := range u.Missing {
			names = append(names, string(kind))
		}
		fmt.Fprintf(b, "verdict: %s\n", paint(opts.Color, "unknown", color.FgYellow, color.Bold))
		hanging(b, "not all of these could be read: "+strings.Join(names, ", "), "  ", opts)
	case u.Hangs():
		fmt.Fprintf(b, "verdict: %s\n", paint(opts.Color, count(u.HangingPods(), "pod")+" would hang or wait longer", color.FgRed, color.Bold))
	case len(u.Decisions) > 0:
		fmt.Fprintf(b, "verdict: %s\n", paint(opts.Color, fmt.Sprintf("no pod would wait longer; %s would differ", count(len(u.Decisions), "decision")), color.FgGreen))
	case len(u.SELinux) > 0:
		fmt.Fprintf(b, "verdict: %s\n", paint(opts.Color, "no pod would wait longer where it is now", color.FgGreen))
	default:
		fmt.Fprintf(b, "verdict: %s\n", paint(opts.Color, "the controller would decide the same", color.FgGreen))
	}
	for i, p := range u.Pods {
		if i == 0 {
			b.WriteString("\nPods that would hang or wait longer:\n")
		}
		hanging(b, fmt.Sprintf("%s on %s, volume %s: %s", p.Pod, p.Node, cmp.Or(p.PodVolume, string(p.Volume)), p.Because), "  ", opts)
	}
	for i, d := range u.Decisions {
		if i == 0 {
			b.WriteString("\nDecisions that differ:\n")
		}
		hanging(b, fmt.Sprintf("%s on %s: now %s, then %s", d.Volume, d.Node, upgradeVerb(d.From), upgradeVerb(d.To)), "  ", opts)
	}
	apart := slices.DeleteFunc(slices.Clone(u.SELinux), func(c preflight.SELinuxConflict) bool { return c.OnOneNode() })
	for i, c := range apart {
		if i == 0 {
			b.WriteString("\nPods that could not share a volume on a node that enforces SELinux:\n")
		}
		hanging(b, seLinuxText(c), "  ", opts)
	}
	for i, c := range u.Changes {
		if i == 0 {
			b.WriteString("\nWhat changes in the controller:\n")
		}
		hanging(b, fmt.Sprintf("%s: %s (%s)", fromNowOn(c.Comes), c.About, c.Source), "  ", opts)
	}
	for i, bug := range u.Bugs {
		if i == 0 {
			b.WriteString("\nBugs of Kubernetes:\n")
		}
		hanging(b, fmt.Sprintf("%s %s: %s", map[bool]string{true: "comes", false: "fixed"}[bug.Comes], bug.Issue, bug.Does), "  ", opts)
	}
	fmt.Fprintln(b)
	hanging(b, "Not examined: "+strings.Join(u.NotExamined, ", "), "", opts)
	closeTrace(b, opts, u.Gaps, nil)
	return nil
}

func seLinuxText(c preflight.SELinuxConflict) string {
	sides := make([]string, 0, len(c.Sides))
	for _, side := range c.Sides {
		text := side.Pods[0].Pod
		if n := len(side.Pods) - 1; n > 0 {
			text += fmt.Sprintf(" and %d more", n)
		}
		sides = append(sides, fmt.Sprintf("%s (%q)", text, side.Value))
	}
	if len(sides) == 1 {
		return fmt.Sprintf("%s: its containers mount it with several labels: %s", c.Volume, sides[0])
	}
	return fmt.Sprintf("%s: %s differ in %s", c.Volume, strings.Join(sides, " and "), c.Property)
}

func upgradeVerb(v *preflight.UpgradeVerb) string {
	if v == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s (%s)", v.Verb, v.Reason)
}

func fromNowOn(comes bool) string {
	if comes {
		return "from then on"
	}
	return "no longer"
}
