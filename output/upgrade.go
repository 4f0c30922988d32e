package output

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fatih/color"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/preflight"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
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
		fmt.Fprintf(b, "verdict: %s\n", paint(opts.Color, "unknown", color.FgYellow, color.Bold))
		hanging(b, "not all of these could be read: "+joined(u.Missing, ", ")+"; what rests on them is not known", "  ", opts)
	case len(u.Pods) > 0:
		fmt.Fprintf(b, "verdict: %s\n", paint(opts.Color, count(u.HangingPods(), "pod")+" would hang or wait longer", color.FgRed, color.Bold))
	case u.Hangs():
		fmt.Fprintf(b, "verdict: %s\n", paint(opts.Color, "the restart may take "+count(len(u.Forgets), "volume")+" off a node where a pod may use it", color.FgRed, color.Bold))
	case len(u.Forgets) > 0:
		fmt.Fprintf(b, "verdict: %s\n", paint(opts.Color, "the restart may forget "+count(len(u.Forgets), "attachment")+" that a pod may use", color.FgYellow))
	case len(u.Decisions) > 0:
		fmt.Fprintf(b, "verdict: %s\n", paint(opts.Color, fmt.Sprintf("no pod would wait longer; %s would differ", count(len(u.Decisions), "decision")), color.FgGreen))
	case len(u.SELinux) > 0:
		fmt.Fprintf(b, "verdict: %s\n", paint(opts.Color, "no pod would wait longer where it is now", color.FgGreen))
	default:
		fmt.Fprintf(b, "verdict: %s\n", paint(opts.Color, "the controller would decide the same", color.FgGreen))
	}
	listed(b, "Pods that would hang or wait longer", u.Pods, func(p preflight.UpgradePod) string {
		return fmt.Sprintf("%s on %s, volume %s: %s", p.Pod, p.Node, cmp.Or(p.PodVolume, string(p.Volume)), p.Because)
	}, opts)
	listed(b, "What a restart of the controller may forget", u.Forgets, forgetsText, opts)
	if len(u.Forgets) > 0 {
		hanging(b, "The controller at work may remember what these pods' claims led to when the pods came; a claim, PersistentVolume or Node is gone or another since, and a controller that starts looks it up again. "+
			"Any restart does this, not only an upgrade. Before it, put the claims and volumes right, or let these pods move to other volumes.", "  ", opts)
	}
	listed(b, "Decisions that differ", u.Decisions, func(d preflight.UpgradeDecision) string {
		return fmt.Sprintf("%s on %s: now %s, then %s", d.Volume, d.Node, upgradeVerb(d.From), upgradeVerb(d.To))
	}, opts)
	apart := slices.DeleteFunc(slices.Clone(u.SELinux), func(c preflight.SELinuxConflict) bool { return c.OnOneNode() })
	listed(b, "Pods that could not share a volume on a node that enforces SELinux", apart, seLinuxText, opts)
	listed(b, "What changes in the controller", u.Changes, func(c reconcile.Change) string {
		return fmt.Sprintf("%s: %s (%s)", fromNowOn(c.Comes), c.About, c.Source)
	}, opts)
	listed(b, "Bugs of Kubernetes", u.Bugs, func(bug check.BugChange) string {
		return fmt.Sprintf("%s %s: %s", map[bool]string{true: "comes", false: "fixed"}[bug.Comes], bug.Issue, bug.Does)
	}, opts)
	fmt.Fprintln(b)
	hanging(b, "Not examined: "+strings.Join(u.NotExamined, ", "), "", opts)
	closeTrace(b, opts, u.Source, u.Gaps, nil)
	return nil
}

// forgetsText describes one pair: which pods may use it, and what the new controller does with it.
func forgetsText(f preflight.UpgradeForgets) string {
	text := fmt.Sprintf("%s on %s, which %s may use: ", cmp.Or(string(f.Volume), f.PersistentVolume, f.VolumeAttachment), f.Node, strings.Join(f.Pods, ", "))
	switch {
	case f.Then == nil:
		return text + "the new controller does not know that it is attached, and never detaches it"
	case f.ForcedAfter == "0s":
		return text + "the new controller detaches it by force when it starts, even while it is mounted"
	case f.ForcedAfter != "" && f.Then.Verb == reconcile.Detach:
		return text + "the new controller detaches it when it starts, and by force " + f.ForcedAfter + " later, even while it is mounted"
	case f.ForcedAfter != "":
		return text + "the new controller detaches it once the kubelet has unmounted it, and by force " + f.ForcedAfter + " after its start, even while it is mounted"
	case f.Then.Verb == reconcile.Wait:
		return text + "the new controller detaches it once the kubelet has unmounted it"
	case f.Then.Verb == reconcile.Detach:
		return text + "the new controller detaches it when it starts"
	}
	return text + "the new controller decides " + upgradeVerb(f.Then)
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
