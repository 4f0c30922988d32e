package preflight

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Upgrade reports what the attach/detach controller of another release would decide differently
// about the same objects, what its start forgets, and which volumes its kubelets refuse to share.
// It leaves out what an object that was not read might change.
// Its JSON is a contract, as Report's is.
type Upgrade struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	TakenAt    metav1.Time     `json:"takenAt"`
	Source     snapshot.Source `json:"source"`
	Complete   bool            `json:"complete"`
	Gaps       []snapshot.Gap  `json:"gaps"`

	// From is the release at work, and To the other one.
	From string `json:"from"`
	To   string `json:"to"`
	// Missing are the kinds without which there is no answer.
	Missing []snapshot.Kind `json:"missing,omitempty"`
	// Pods would hang, or wait longer, under To and do not under From.
	Pods []UpgradePod `json:"pods"`
	// Decisions are those that differ.
	Decisions []UpgradeDecision `json:"decisions"`
	// Forgets are pairs that only the controller's memory can hold. An upgrade restarts the
	// controller and loses them.
	Forgets []UpgradeForgets `json:"forgets"`
	// SELinux are the conflicts that come with kubelets of To, on one node or not.
	SELinux []SELinuxConflict `json:"selinux"`
	// Changes are how the two controllers differ, and Bugs which bugs they differ by,
	// whether or not an object here shows it.
	Changes []reconcile.Change `json:"changes"`
	Bugs    []check.BugChange  `json:"bugs"`
	// NotExamined changes with an upgrade, too, and has no part in the answer.
	NotExamined []string `json:"notExamined"`
}

// UpgradeDecision has both controllers' decisions about one pair. A side is absent where the pair
// is in neither of its worlds.
type UpgradeDecision struct {
	Volume           corev1.UniqueVolumeName `json:"volume"`
	Node             types.NodeName          `json:"node"`
	PersistentVolume string                  `json:"persistentVolume,omitempty"`
	Pods             []string                `json:"pods,omitempty"`
	From             *UpgradeVerb            `json:"from,omitempty"`
	To               *UpgradeVerb            `json:"to,omitempty"`
}

// UpgradeVerb is one side of an UpgradeDecision.
type UpgradeVerb struct {
	Verb   reconcile.Verb   `json:"verb"`
	Reason reconcile.Reason `json:"reason"`
	After  string           `json:"after"`
}

// UpgradeForgets is a pair that the controller at work may still want for the pods, and a
// restarted one does not.
type UpgradeForgets struct {
	// Volume is absent where its PersistentVolume is gone and no node lists it.
	Volume           corev1.UniqueVolumeName `json:"volume,omitempty"`
	Node             types.NodeName          `json:"node"`
	PersistentVolume string                  `json:"persistentVolume,omitempty"`
	VolumeAttachment string                  `json:"volumeAttachment,omitempty"`
	Pods             []string                `json:"pods"`
	// Then is what the new controller decides; absent where it does not know the pair.
	Then *UpgradeVerb `json:"then,omitempty"`
	// ForcedAfter is how long after its start it detaches by force unless the volume has
	// been unmounted; absent where it does not.
	ForcedAfter string `json:"forcedAfter,omitempty"`
}

// Detaches reports whether the new controller takes the volume off the node, now or later.
func (f UpgradeForgets) Detaches() bool {
	return f.ForcedAfter != "" || f.Then != nil && (f.Then.Verb == reconcile.Wait || f.Then.Verb == reconcile.Detach || f.Then.Verb == reconcile.ForceDetach)
}

// UpgradePod is a pod and its volume that would wait. The volume has its name in the pod where
// the controller does not attach it, and else the controller's own.
type UpgradePod struct {
	Pod       string                  `json:"pod"`
	Node      types.NodeName          `json:"node"`
	PodVolume string                  `json:"podVolume,omitempty"`
	Volume    corev1.UniqueVolumeName `json:"volume,omitempty"`
	Because   string                  `json:"because"`
}

// OfUpgrade holds the controller of the release to against the one at work.
func OfUpgrade(s *snapshot.Snapshot, to string, settings reconcile.Options) *Upgrade {
	u := &Upgrade{
		APIVersion: finding.APIVersion, Kind: "Upgrade", TakenAt: metav1.NewTime(s.TakenAt.UTC()),
		Source: s.Source, Gaps: gapsOf(s, preflightNeeds),
		From: s.Source.ServerVersion, To: to,
		Pods: []UpgradePod{}, Decisions: []UpgradeDecision{}, Forgets: []UpgradeForgets{},
		Changes: reconcile.Changes(s.Source.ServerVersion, to), Bugs: check.BugChanges(s.Source.ServerVersion, to),
		Missing:     slices.DeleteFunc(slices.Clone(preflightNeeds), s.Complete),
		NotExamined: []string{"the kubelets' own releases", "which nodes enforce SELinux", "where the scheduler puts pods", "drivers and their sidecars"},
	}
	u.Complete = len(u.Gaps) == 0
	upgraded := *s
	upgraded.Source.ServerVersion = to
	before, after := side(s, settings), side(&upgraded, settings)
	u.decisions(before, after)
	u.pods(before, after)
	u.forgets(s, after)
	u.seLinux(s, after)
	slices.SortFunc(u.Pods, func(a, b UpgradePod) int {
		return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.PodVolume, b.PodVolume), cmp.Compare(a.Volume, b.Volume), cmp.Compare(a.Because, b.Because))
	})
	return u
}

// Hangs reports whether any pod would be worse off: it would wait longer, or its volume would be
// detached from its node.
func (u *Upgrade) Hangs() bool {
	return len(u.Pods) > 0 || slices.ContainsFunc(u.Forgets, UpgradeForgets.Detaches)
}

// forgets lists what the restart loses, whatever the release that starts.
func (u *Upgrade) forgets(s *snapshot.Snapshot, after worlds) {
	for _, lost := range after.Forgotten() {
		if !after.known(lost.VolumeNode) {
			continue
		}
		f := UpgradeForgets{Volume: lost.Volume, Node: lost.Node, PersistentVolume: lost.PersistentVolume, VolumeAttachment: lost.VolumeAttachment}
		for _, pod := range lost.Pods {
			if s.CompleteIn(snapshot.Claims, pod.Namespace) {
				f.Pods = append(f.Pods, pod.String())
			}
		}
		if len(f.Pods) == 0 {
			continue
		}
		if d := after.plan.Decision(lost.VolumeNode); d != nil {
			f.Then = after.verb(lost.VolumeNode)
			if d.Verb == reconcile.ForceDetach {
				f.ForcedAfter = facts.Rounded(d.After)
			}
			for _, until := range d.Until {
				if until.Event == reconcile.MaxWaitForUnmount && until.Then == reconcile.ForceDetach {
					f.ForcedAfter = facts.Rounded(until.After)
				}
			}
		}
		u.Forgets = append(u.Forgets, f)
	}
}

// worlds are one controller's view of the objects.
type worlds struct {
	*reconcile.World
	plan *reconcile.Plan
	// skipped are the pod volumes that the controller does not attach.
	skipped map[podVolume]reconcile.Skipped
	// wanted are the decisions about the volumes that pods want.
	wanted map[podVolume]reconcile.Decision
}

// podVolume names a volume of a pod: by its name in the pod where it is skipped, and else by its
// PersistentVolume, whose unique name may depend on the release.
type podVolume struct {
	pod    types.NamespacedName
	volume string
}

func side(s *snapshot.Snapshot, settings reconcile.Options) worlds {
	w := reconcile.NewWorld(s, settings)
	skipped := map[podVolume]reconcile.Skipped{}
	for _, row := range w.Skipped {
		if row.Pod.Name != "" {
			skipped[podVolume{row.Pod, row.PodVolume}] = row
		}
	}
	side := worlds{w, w.Reconcile(), skipped, map[podVolume]reconcile.Decision{}}
	for _, d := range side.plan.Decisions {
		volume := string(d.Volume)
		if pv := w.Volume(d.Volume); pv != nil {
			volume = pv.Name
		}
		if row := w.Desired.Find(d.VolumeNode); row != nil {
			for _, pod := range row.Pods {
				side.wanted[podVolume{pod, volume}] = d
			}
		}
	}
	return side
}

// decisions compares the rows of both plans.
func (u *Upgrade) decisions(before, after worlds) {
	pairs := map[reconcile.VolumeNode]bool{}
	for _, plan := range []*reconcile.Plan{before.plan, after.plan} {
		for _, d := range plan.Decisions {
			pairs[d.VolumeNode] = true
		}
	}
	for pair := range pairs {
		from, to := before.verb(pair), after.verb(pair)
		if from != nil && to != nil && *from == *to || !before.known(pair) || !after.known(pair) {
			continue
		}
		d := UpgradeDecision{Volume: pair.Volume, Node: pair.Node, From: from, To: to}
		for _, w := range []worlds{before, after} {
			if pv := w.Volume(pair.Volume); pv != nil {
				d.PersistentVolume = pv.Name
			}
			if row := w.Desired.Find(pair); row != nil && d.Pods == nil {
				for _, pod := range row.Pods {
					d.Pods = append(d.Pods, pod.String())
				}
			}
		}
		u.Decisions = append(u.Decisions, d)
	}
	slices.SortFunc(u.Decisions, func(a, b UpgradeDecision) int {
		return cmp.Or(cmp.Compare(a.Volume, b.Volume), cmp.Compare(a.Node, b.Node))
	})
}

// known reports whether no object that was not read might change the decision about the pair.
func (w worlds) known(pair reconcile.VolumeNode) bool {
	if d := w.plan.Decision(pair); d != nil {
		return w.Unread(*d) == ""
	}
	return w.Unread(reconcile.Decision{VolumeNode: pair}) == ""
}

func (w worlds) verb(pair reconcile.VolumeNode) *UpgradeVerb {
	d := w.plan.Decision(pair)
	if d == nil {
		return nil
	}
	return &UpgradeVerb{d.Verb, d.Reason, facts.Rounded(d.After)}
}

// pods are those that the controller serves under From, and not, or later, under To.
func (u *Upgrade) pods(before, after worlds) {
	for key, row := range after.skipped {
		if _, was := before.skipped[key]; !was && !after.SkippedUnread(&row) {
			u.Pods = append(u.Pods, UpgradePod{Pod: row.Pod.String(), Node: row.Node, PodVolume: row.PodVolume,
				Because: "the controller does not attach it: " + row.Message})
		}
	}
	for key, to := range after.wanted {
		from, was := before.wanted[key]
		if !before.known(from.VolumeNode) || !after.known(to.VolumeNode) {
			continue
		}
		because := fmt.Sprintf("the controller decides %s (%s)", to.Verb, to.Reason)
		switch {
		case was && laterThan(to, from):
			because += fmt.Sprintf(" instead of %s (%s)", from.Verb, from.Reason)
		case !was && inTheWay(to.Verb) > 0:
		default:
			continue
		}
		u.Pods = append(u.Pods, UpgradePod{Pod: key.pod.String(), Node: to.Node, Volume: to.Volume, Because: because})
	}
}

// laterThan reports whether a pod gets its volume later, or never, by the first decision.
func laterThan(to, from reconcile.Decision) bool {
	return cmp.Or(cmp.Compare(inTheWay(to.Verb), inTheWay(from.Verb)), cmp.Compare(to.After, from.After)) > 0
}

// inTheWay orders the verbs by how far they keep the volume from a pod that wants it.
func inTheWay(verb reconcile.Verb) int {
	switch verb {
	case reconcile.Keep, reconcile.Attach:
		return 0 // nothing
	case reconcile.Wait, reconcile.MultiAttach:
		return 1 // another node, or an unmount
	default:
		return 2 // a detach, or a plugin that does not exist
	}
}
