package output

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/preflight"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// lessOf returns variants of the snapshot, each with its gap: for each kind, without its objects,
// with half of them, and with those of one namespace only.
func lessOf(s *snapshot.Snapshot) map[string]*snapshot.Snapshot {
	made := map[string]*snapshot.Snapshot{}
	make_ := func(name string, o snapshot.Objects, gaps ...snapshot.Gap) {
		less := snapshot.New(s.TakenAt, s.Source, o, append(slices.Clone(s.Gaps), gaps...))
		less.Backends = s.Backends
		made[name] = less
	}
	for _, kind := range append(snapshot.Kinds(), snapshot.Deployments) {
		for _, half := range []int{0, 2} {
			var gaps []snapshot.Gap
			if kind != snapshot.Deployments { // their absence is no gap
				gaps = append(gaps, snapshot.Gap{Kind: kind, Reason: snapshot.ReasonForbidden})
			}
			make_(fmt.Sprintf("%s/%d", kind, half), keepSome(s.Objects, kind, func(i int, _ string) bool { return half > 0 && i%half == 0 }), gaps...)
		}
	}
	namespaces := map[string]bool{}
	for _, pod := range s.Pods {
		namespaces[pod.Namespace] = true
	}
	for namespace := range namespaces {
		o, gaps := s.Objects, []snapshot.Gap{}
		for _, kind := range []snapshot.Kind{snapshot.Pods, snapshot.Claims, snapshot.Events} {
			o = keepSome(o, kind, func(_ int, of string) bool { return of == namespace })
			gaps = append(gaps, snapshot.Gap{Kind: kind, Namespace: namespace, Reason: snapshot.ReasonForbidden})
		}
		make_("namespace "+namespace, o, gaps...)
	}
	return made
}

// keepSome keeps those objects of the kind that keep accepts by index and namespace.
func keepSome(o snapshot.Objects, kind snapshot.Kind, keep func(int, string) bool) snapshot.Objects {
	switch kind {
	case snapshot.VolumeAttachments:
		o.VolumeAttachments = keptOf(o.VolumeAttachments, keep)
	case snapshot.Nodes:
		o.Nodes = keptOf(o.Nodes, keep)
	case snapshot.CSINodes:
		o.CSINodes = keptOf(o.CSINodes, keep)
	case snapshot.CSIDrivers:
		o.CSIDrivers = keptOf(o.CSIDrivers, keep)
	case snapshot.StorageClasses:
		o.StorageClasses = keptOf(o.StorageClasses, keep)
	case snapshot.Volumes:
		o.Volumes = keptOf(o.Volumes, keep)
	case snapshot.Claims:
		o.Claims = keptOf(o.Claims, keep)
	case snapshot.Leases:
		o.Leases = keptOf(o.Leases, keep)
	case snapshot.Events:
		o.Events = keptOf(o.Events, keep)
	case snapshot.Pods:
		o.Pods = keptOf(o.Pods, keep)
	case snapshot.Deployments:
		o.Deployments = keptOf(o.Deployments, keep)
	default:
		panic(kind)
	}
	return o
}

func keptOf[T interface{ GetNamespace() string }](list []T, keep func(int, string) bool) []T {
	var kept []T
	for i, o := range list {
		if keep(i, o.GetNamespace()) {
			kept = append(kept, o)
		}
	}
	return kept
}

// TestGapsOfEveryCommand checks that plan, preflight and trace make no statement on an incomplete
// snapshot that they do not make on the complete one. In particular they do not call anything well
// that is not: what cannot be known is "not known".
func TestGapsOfEveryCommand(t *testing.T) {
	said, exempt := map[string]int{}, map[string]int{}
	check := func(t failing, whole *snapshot.Snapshot, settings reconcile.Options) {
		claims, less := fieldsOn(whole, settings), lessOf(whole)
		for _, name := range slices.Sorted(maps.Keys(less)) {
			for claim, value := range fieldsOn(less[name], settings) {
				said[kindOfClaim(claim)]++
				of, there := claims[claim]
				switch {
				case there && of == value:
				case excused(claim, value, name, whole):
					exempt[kindOfClaim(claim)+" without "+strings.Split(name, "/")[0]]++
				default:
					t.Errorf("%s: %s is %q; of the whole cluster it is %q", name, claim, value, of)
				}
			}
		}
	}
	eachCase(t, func(t *testing.T, c corpusCase) { check(t, c.read, c.settings) })
	cases, err := corpus()
	if err != nil {
		t.Fatal(err)
	}
	// Crossed cases: two clusters in one snapshot, whose objects share names.
	shuffled := byHash(cases, *crossingsSeed)
	for i := range *crossings {
		a, b := shuffled[i%len(shuffled)], shuffled[(i+1+i/len(shuffled))%len(shuffled)]
		t.Run(a.name+" with "+b.name, func(t *testing.T) { check(t, testcases.Cross(a.read, b.read), a.settings) })
	}
	t.Run("random clusters", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { check(t, testcases.Draw(t, snapshotsOf(cases)), reconcile.Options{}) })
	})
	for _, kind := range []string{"plan", "skipped", "use", "pod", "node", "held", "preflight", "room", "trace", "time", "stuck", "actual", "exit", "stage", "in", "since", "usual"} {
		if said[kind] == 0 {
			t.Errorf("nothing was said of %s", kind)
		}
	}
	t.Logf("%v claims; not compared: %v", said, exempt)
}

// failing is a test, or one cluster of a property.
type failing interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

func snapshotsOf(cases []corpusCase) []*snapshot.Snapshot {
	var snapshots []*snapshot.Snapshot
	for _, c := range cases {
		if len(c.read.Gaps) == 0 {
			snapshots = append(snapshots, c.read)
		}
	}
	return snapshots
}

// excused reports whether a snapshot without some objects of a kind, or with those of one namespace,
// may make another statement than the whole one.
func excused(claim, value, less string, whole *snapshot.Snapshot) bool {
	isActor := strings.HasSuffix(claim, " actor") || strings.HasPrefix(claim, "on ")
	isBeginning := strings.HasPrefix(claim, "since ") || strings.HasPrefix(claim, "began ")
	switch {
	case strings.HasPrefix(claim, "stuck ") && endsByItself(strings.TrimPrefix(claim, "stuck "), whole):
		return true // the check that says when the wait ends did not run
	case strings.HasPrefix(claim, "skipped ") && value == string(reconcile.PodEnded):
		return true // that holds whether or not its driver attaches
	case strings.HasPrefix(less, string(snapshot.CSIDrivers)):
		return testcases.ChangedItsMind(whole)
	case strings.HasPrefix(less, "namespace "):
		return isActor && testcases.ClaimedTwice(whole)
	case strings.HasPrefix(less, string(snapshot.Leases)):
		// a stuck pod has waited at least since its wait began, though a lease may begin its stage later
		return isBeginning
	case strings.HasPrefix(less, string(snapshot.VolumeAttachments)):
		return strings.HasPrefix(claim, "node ") && twiceAttached(whole)
	}
	return false
}

// endsByItself reports whether a finding of the whole cluster says when the pod's wait ends.
func endsByItself(pod string, whole *snapshot.Snapshot) bool {
	return slices.ContainsFunc(diagnose.Diagnose(whole, diagnose.Options{}).Findings, func(f finding.Finding) bool {
		return f.Names(pod) && f.SelfHeals.Will && f.SelfHeals.After != ""
	})
}

// byHash sorts the cases by a hash of the seed and their name. A new case therefore changes only
// the pairs of its neighbors.
func byHash(cases []corpusCase, seed uint64) []corpusCase {
	hash := func(c corpusCase) [sha256.Size]byte { return sha256.Sum256(fmt.Appendf(nil, "%d %s", seed, c.name)) }
	return slices.SortedFunc(slices.Values(cases), func(a, b corpusCase) int {
		x, y := hash(a), hash(b)
		return bytes.Compare(x[:], y[:])
	})
}

// twiceAttached reports whether two VolumeAttachments attach one volume to one node.
func twiceAttached(s *snapshot.Snapshot) bool {
	seen := map[string]bool{}
	return slices.ContainsFunc(s.VolumeAttachments, func(va *storagev1.VolumeAttachment) bool {
		key := va.Spec.NodeName + " " + ptr.Deref(va.Spec.Source.PersistentVolumeName, va.Name)
		twice := seen[key]
		seen[key] = true
		return twice
	})
}

// crossings is the number of random pairs, and crossingsSeed chooses them.
var (
	crossings     = flag.Int("crossings", 200, "how many crossed clusters TestGapsOfEveryCommand asks")
	crossingsSeed = flag.Uint64("crossings-seed", 1, "of which crossed clusters TestGapsOfEveryCommand asks")
)

func kindOfClaim(claim string) string {
	kind := ""
	_, _ = fmt.Sscan(claim, &kind)
	return kind
}

// answersOn returns the statements that the commands make about the snapshot, by what they are
// about. Anything that is not known makes no statement.
func answersOn(s *snapshot.Snapshot, settings reconcile.Options) map[string]string {
	claims := map[string]string{}
	world := reconcile.NewWorld(s, settings)
	plan := world.Reconcile()
	doc := NewPlan(s, world, plan, nil)
	for _, d := range doc.Decisions {
		if d.Verb != Unknown {
			claims[fmt.Sprintf("plan %s %s", d.Volume, d.Node)] = string(d.Verb)
			if d.Overdue != "" {
				claims[fmt.Sprintf("overdue %s %s", d.Volume, d.Node)] = d.Overdue
			}
		}
	}
	for _, a := range doc.Actual {
		if a.State != StateUnknown {
			claims[fmt.Sprintf("actual %s %s", a.Volume, a.Node)] = string(a.State)
		}
	}
	for _, k := range doc.Skipped {
		claims[fmt.Sprintf("skipped %s %s %s", k.Pod, k.PodVolume, k.VolumeAttachment)] = string(k.Reason)
	}
	for _, n := range doc.NodeStatus {
		for _, v := range n.Removed {
			claims[fmt.Sprintf("plan.removed %s %s", v, n.Node)] = "yes"
		}
	}
	view := facts.NewView(s, world, plan)
	report := &finding.Report{SkippedChecks: []finding.SkippedCheck{}}
	for _, claim := range s.Claims {
		useClaims(claims, trace.OfClaim(view, report, claim))
	}
	for _, pv := range s.Volumes {
		useClaims(claims, trace.OfVolume(view, report, pv))
	}
	for _, pod := range s.Pods {
		if trace.MayWait(pod) {
			podClaims(claims, trace.OfPod(view, pod, nil))
		}
	}
	for _, w := range diagnose.Diagnose(s, diagnose.Options{Reconcile: settings}).Waiting {
		if w.Verdict == finding.Stuck {
			claims["stuck "+w.Pod] = "for longer than is usual"
		}
	}
	for _, node := range s.Nodes {
		preflightClaims(claims, world, diagnose.PreflightNode(s, types.NodeName(node.Name), diagnose.Options{Reconcile: settings, Checks: []check.Check{}}))
	}
	return claims
}

// exitClaims adds the exit code of the trace.
func exitClaims(claims map[string]string, of string, document trace.Document) {
	if unknown, wrong := document.Found(false); !unknown {
		claims["exit "+of] = fmt.Sprintf("something is wrong: %v", wrong)
	}
}

func useClaims(claims map[string]string, u *trace.VolumeUse) {
	of := u.Subject.String()
	exitClaims(claims, of, u)
	switch u.Verdict.State {
	case finding.Unsure:
	case finding.NoWait:
		claims["use "+of] = "nothing waits"
	default:
		claims["use "+of] = "waits"
	}
	say := func(kind, what string, answer trace.Answer) {
		if answer != trace.Unknown {
			claims[kind+" "+of+" "+what] = string(answer)
		}
	}
	if v := u.PersistentVolume; v != nil {
		say("use", "attachable", v.Attachable)
	}
	for _, p := range u.Pods {
		say("pod", p.Pod+" mounted", p.Mounted)
	}
	for _, n := range u.Nodes {
		if n.State != trace.NodeReports { // without its VolumeAttachment, nothing more is known about the volume on the node
			claims[fmt.Sprintf("node %s %s", of, n.Node)] = string(n.State)
		}
		say("node", string(n.Node)+" attached", n.InVolumesAttached)
		say("node", string(n.Node)+" in use", n.InVolumesInUse)
	}
	for _, k := range u.Kept {
		say("held", k.Finalizer, k.Holds)
	}
}

// fieldsOn returns the same as answersOn, with the fields of each pod's wait.
func fieldsOn(s *snapshot.Snapshot, settings reconcile.Options) map[string]string {
	claims := answersOn(s, settings)
	world := reconcile.NewWorld(s, settings)
	view := facts.NewView(s, world, world.Reconcile())
	for _, pod := range s.Pods {
		if !trace.MayWait(pod) {
			continue
		}
		known := trace.OfPod(view, pod, nil).Known()
		of := known.Pod.String()
		for _, v := range known.Volumes {
			for _, s := range v.Stages {
				stageClaims(claims, fmt.Sprintf("%s %s %s", of, v.Name, s.Stage), s)
			}
		}
		if v := known.Verdict; v.Volume != "" {
			claims["volume "+of] = v.Volume
		}
		if v := known.Verdict; v.Stage != "" {
			claims["in "+of] = string(v.Stage)
			if v.Since != nil {
				claims["since "+of] = facts.Stamp(*v.Since)
			}
			if v.UsualBound != "" {
				claims["usual "+of] = v.UsualBound
			}
			if v.DueAt != nil {
				claims["due "+of] = facts.Stamp(*v.DueAt)
			}
		}
	}
	return claims
}

// stageClaims adds the fields of a stage. A stage in an unknown state makes no statement by that.
func stageClaims(claims map[string]string, of string, s trace.Stage) {
	if s.State != trace.StageUnknown {
		claims["stage "+of] = string(s.State)
	}
	if s.On != "" {
		claims["on "+of] = s.On
	}
	if s.Since != nil {
		claims["began "+of] = facts.Stamp(*s.Since)
	}
	if s.UsualBound != "" {
		claims["bound "+of] = s.UsualBound
	}
	if s.Overdue {
		claims["overdue "+of] = "yes"
	}
}

// podClaims adds who has to act for the pod, and the stage in which it waits.
func podClaims(claims map[string]string, t *trace.Trace) {
	of := t.Pod.String()
	exitClaims(claims, of, t)
	switch {
	case t.Verdict.State == finding.Unsure && !t.Verdict.Undated:
	case t.Verdict.State == finding.NoWait:
		claims["trace "+of] = "waits for no volume"
	default:
		claims["trace "+of] = "waits for a volume"
		if !t.Verdict.Undated {
			claims["time "+of] = string(t.Verdict.State)
		}
		if t.Verdict.Actor == "" {
			return
		}
		claims["trace "+of+" actor"] = fmt.Sprintf("%s %v %s", t.Verdict.Stage, t.Verdict.Stages, t.Verdict.Actor)
	}
}

func preflightClaims(claims map[string]string, world *reconcile.World, p *preflight.Preflight) {
	because := func(of, why string) {
		claims[of+" "+why] = "yes"
		// the weaker claim
		claims[of+" "+strings.Replace(why, "its kubelet does not", "its kubelet may not be able to", 1)] = "yes"
	}
	for name, scenario := range map[string]preflight.Scenario{"drain": p.Drain, "loss": p.Loss} {
		of := fmt.Sprintf("preflight %s %s ", p.Node, name)
		for _, w := range scenario.Waits {
			if w.For != preflight.WaitsForUnknown {
				claims[of+w.Pod+" "+w.PersistentVolume] = fmt.Sprintf("%s %v", w.For, w.Never)
				if w.AtMost != "" { // else no bound is given
					claims[of+w.Pod+" "+w.PersistentVolume+" at most"] = w.AtMost
				}
				for _, why := range strings.Split(w.Because, "; ") {
					because(of+w.Pod+" "+w.PersistentVolume, why)
				}
			}
		}
		for _, h := range scenario.Hangs {
			// What is said of a volume is said of each PV that stands for it.
			volumes := []string{string(h.Volume), h.PersistentVolume}
			for _, pv := range world.Volumes(h.Volume) {
				volumes = append(volumes, pv.Name)
			}
			for _, why := range strings.Split(h.Because, "; ") {
				for _, volume := range volumes {
					if volume != "" {
						because(of+volume+" hangs:", why)
					}
				}
			}
		}
		if len(p.Missing) == 0 { // else the page says what is missing, and prints no number
			claims[of+"hangs"] = fmt.Sprint(len(scenario.Hangs))
		}
	}
	if p.Ready != nil {
		claims[fmt.Sprintf("preflight %s ready", p.Node)] = fmt.Sprint(*p.Ready)
	}
	if p.Lost {
		claims[fmt.Sprintf("preflight %s lost", p.Node)] = "yes"
	}
	for _, r := range p.Room {
		claims[fmt.Sprintf("room %s %s", p.Node, r.Driver)] = fmt.Sprintf("%d %d %v", r.Moving, r.Lacking, r.Unlimited)
	}
}
