package histories

import (
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/conformance"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// slack is how much later than its bound an event may be seen: a pass or two, and one in
// which a patch was lost.
const slack = 5 * wire.Loop

// Result is the result of comparing a history.
type Result struct {
	// Counts are the numbers of compared things, by their names.
	Counts map[string]int
	// Differences are in the order of time.
	Differences []string
}

// moment is a wire.Moment with the model's answer about it.
type moment struct {
	wire.Moment
	// until is when the next one begins.
	until time.Duration
	world *reconcile.World
	plan  *reconcile.Plan
}

// comparison compares one story with the model.
type comparison struct {
	*Result
	request *wire.Request
	story   *wire.Story
	moments []moment
	owed    map[debt]*due
}

// Compare asks the model about each moment of the story and compares the answers with what
// the controller did.
func Compare(release conformance.Release, request *wire.Request, story *wire.Story, ask Asks) *Result {
	c := &comparison{Result: &Result{Counts: map[string]int{}}, request: request, story: story, owed: map[debt]*due{}}
	for i, m := range story.Moments {
		next := moment{Moment: m, until: story.Ended}
		if i+1 < len(story.Moments) {
			next.until = story.Moments[i+1].At
		}
		next.world, next.plan = ask(release, request, story.Began, m)
		c.moments = append(c.moments, next)
	}
	for i := range c.moments {
		m := &c.moments[i]
		c.Counts["moments"]++
		deeds := c.deedsIn(m)
		c.compareDeeds(i, deeds)
		c.compareNow(m, deeds)
		c.compareBounds(i)
	}
	c.Counts["deeds"] = len(story.Deeds)
	return c.Result
}

// Asks is a function that returns the model's answer about a moment.
type Asks func(conformance.Release, *wire.Request, time.Time, wire.Moment) (*reconcile.World, *reconcile.Plan)

// AskModel is package reconcile's answer.
func AskModel(release conformance.Release, request *wire.Request, began time.Time, m wire.Moment) (*reconcile.World, *reconcile.Plan) {
	return AskAhead()(release, request, began, m)
}

// AskAhead asks package reconcile about a controller with behaviours that no release has yet.
func AskAhead(ahead ...reconcile.Behaviour) Asks {
	return func(release conformance.Release, request *wire.Request, began time.Time, m wire.Moment) (*reconcile.World, *reconcile.Plan) {
		w := reconcile.NewWorld(asked(release, request, began, m, nil), reconcile.Options{
			DisableForceDetachOnTimeout: request.DisableForceDetachOnTimeout, VerifySync: request.SyncPeriod, Ahead: ahead,
		})
		return w, w.Reconcile()
	}
}

// asked is the snapshot of a moment.
func asked(release conformance.Release, request *wire.Request, began time.Time, m wire.Moment, log *snapshot.Controller) *snapshot.Snapshot {
	acquired := metav1.NewMicroTime(began.Add(m.Started))
	s := snapshot.New(began.Add(m.At), snapshot.Source{ServerVersion: string(release)}, snapshot.Objects{
		VolumeAttachments: copies(m.VolumeAttachments), Nodes: copies(m.Nodes), Pods: copies(m.Pods),
		Volumes: copies(request.Volumes), Claims: copies(request.Claims), CSIDrivers: copies(request.CSIDrivers),
		Leases: []*coordinationv1.Lease{{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: reconcile.ControllerManager},
			Spec:       coordinationv1.LeaseSpec{AcquireTime: &acquired},
		}},
	}, nil)
	s.Controller = log
	return s
}

// copies keeps the originals from snapshot.New, which takes over its lists.
func copies[T interface{ DeepCopy() T }](list []T) []T {
	all := make([]T, 0, len(list))
	for _, object := range list {
		all = append(all, object.DeepCopy())
	}
	return all
}

func (c *comparison) differ(at time.Duration, pair reconcile.VolumeNode, format string, args ...any) {
	c.Differences = append(c.Differences, fmt.Sprintf("at %s, %s on %s: %s", at, pair.Volume, pair.Node, fmt.Sprintf(format, args...)))
}

// deedsIn are the controller's deeds on the objects of the moment.
func (c *comparison) deedsIn(m *moment) []wire.Deed {
	var deeds []wire.Deed
	for _, d := range c.story.Deeds {
		if d.At > m.At && d.At <= m.until || d.At == m.At && m.At == m.Started {
			deeds = append(deeds, d)
		}
	}
	return deeds
}

// deedsOnTheSame are the controller's deeds on the same objects up to the end of the moment.
func (c *comparison) deedsOnTheSame(i int) (deeds []wire.Deed) {
	for _, m := range c.moments[c.sameSince(i) : i+1] {
		deeds = append(deeds, c.deedsIn(&m)...)
	}
	return deeds
}

// sameSince is the first of the moments up to this one in which neither an object nor the
// controller has changed.
func (c *comparison) sameSince(i int) int {
	for i > 0 && c.moments[i-1].Objects == c.moments[i].Objects && c.moments[i-1].Started == c.moments[i].Started {
		i--
	}
	return i
}

// otherMemory is the otherMemory of the moment, but "" where the controller remembered the
// same as the model when the objects came to be as they are: its deeds since then are what
// the rows of the decisions are about.
func (c *comparison) otherMemory(i int, volume corev1.UniqueVolumeName) string {
	other := c.moments[i].otherMemory(volume)
	if other != "" && c.moments[c.sameSince(i)].otherMemory(volume) == "" {
		return ""
	}
	return other
}

func pairOf(p wire.Pair) reconcile.VolumeNode {
	return reconcile.VolumeNode{Volume: corev1.UniqueVolumeName(p.Volume), Node: types.NodeName(p.Node)}
}

// compareDeeds checks that each deed is what the model says the controller does now, or
// follows by itself, and does not come too early. It skips deeds on volumes about which the
// running controller remembers something else than one that starts now.
func (c *comparison) compareDeeds(i int, deeds []wire.Deed) {
	m := &c.moments[i]
	for _, deed := range deeds {
		pair := pairOf(deed.Pair)
		switch {
		case m.Blind:
			c.Counts["deeds of a controller that hears of nothing"]++
			continue
		case c.otherMemory(i, pair.Volume) != "":
			c.Counts["deeds by another memory: "+c.otherMemory(i, pair.Volume)]++
			continue
		}
		c.Counts["deeds compared"]++
		c.Counts["deed "+deed.Verb]++
		d := m.plan.Decision(pair)
		if d == nil {
			c.differ(deed.At, pair, "%s, and the model has it in no world", deed.Verb)
			continue
		}
		if why := c.follows(i, d, deed); why != "" {
			c.differ(deed.At, pair, "%s, and the model says %s: %s", deed.Verb, decisionText(d), why)
		}
		c.compareContenders(i, d, deed)
		if len(d.Contenders) > 1 {
			c.Counts["contenders served"]++
		}
	}
}

// compareContenders checks that only one of the contenders is served, and that the model has
// the served node among the contenders of each node that still waits.
func (c *comparison) compareContenders(i int, d *reconcile.Decision, deed wire.Deed) {
	m, deeds := &c.moments[i], c.deedsOnTheSame(i)
	about := func(other wire.Deed, node types.NodeName) bool {
		return other.Volume == deed.Volume && other.Node == string(node)
	}
	for _, node := range d.Contenders {
		if node != d.Node && slices.ContainsFunc(deeds, func(o wire.Deed) bool { return about(o, node) && o.At == deed.At && o.Verb != wire.Forgotten }) {
			c.differ(deed.At, d.VolumeNode, "%s beside a deed on %s, which the model takes for a contender", deed.Verb, node)
		}
	}
	if deed.Verb != string(reconcile.Attach) || d.Verb == reconcile.Attach || m.world.Desired.Find(d.VolumeNode).Spec.MultiAttach() {
		return
	}
	for _, other := range m.plan.OfVolume(d.Volume) {
		waits := other.Verb == reconcile.MultiAttach || other.Reason == reconcile.OperationPending || other.Verb == reconcile.Keep &&
			slices.ContainsFunc(deeds, func(o wire.Deed) bool { return about(o, other.Node) && o.Verb == wire.Forgotten })
		if other.Node == d.Node || !waits {
			continue
		}
		for _, u := range other.Until {
			if u.Then == reconcile.Attach && !slices.Contains(u.Contenders, d.Node) {
				c.differ(deed.At, d.VolumeNode, "Attach, while %s waits, and the model says of that: %s", other.Node, decisionText(&other))
			}
		}
	}
}

// follows says why a deed does not follow from a decision; "" where it does.
func (c *comparison) follows(i int, d *reconcile.Decision, deed wire.Deed) string {
	if string(d.Verb) == deed.Verb {
		return ""
	}
	if c.timedOut(&c.moments[i], deed) {
		updated := func(u reconcile.Until) bool { return u.Event == reconcile.NodeUpdate && u.Then == reconcile.Detach }
		if d.Verb == reconcile.Detach || slices.ContainsFunc(d.Until, updated) {
			c.Counts["detaches done by force, the time-out being over"]++
			return ""
		}
	}
	if c.verifiedFirst(i, d, deed) {
		c.Counts["forgotten before its detach was done"]++
		return ""
	}
	why := "nothing leads to it"
	for _, u := range d.Until {
		if !leadsTo(u, deed.Verb) {
			continue
		}
		if early := c.early(i, d, u, deed.At); early != "" {
			why = early
			continue
		}
		c.Counts["row "+string(d.Verb)+" "+string(u.Event)+" "+deed.Verb]++
		if len(u.Contenders) > 1 {
			c.Counts["contenders of a row served"]++
		}
		return ""
	}
	return why
}

// verifiedFirst reports whether a pair that is to be detached is forgotten first, because it
// has no VolumeAttachment: its detach has begun in the very pass that then verifies the
// attachments (reconciler.go reconcile, then sync), or cannot begin because another operation
// on the volume runs or waits.
func (c *comparison) verifiedFirst(i int, d *reconcile.Decision, deed wire.Deed) bool {
	m := &c.moments[i]
	if deed.Verb != wire.Forgotten || d.Verb != reconcile.Detach || deed.At-m.Started < m.world.VerifySync()-wire.Loop {
		return false
	}
	attachment := slices.ContainsFunc(m.VolumeAttachments, func(va *storagev1.VolumeAttachment) bool {
		return va.Spec.NodeName == string(d.Node) && wire.UniqueName(*va.Spec.Source.PersistentVolumeName) == d.Volume
	})
	return !attachment && (m.busy(d.Volume) || slices.Contains(c.story.Deeds, wire.Deed{Pair: deed.Pair, At: deed.At, Verb: string(d.Verb)}))
}

// timedOut reports whether the deed may be a detach after the time-out: the controller has
// been at work for that long.
func (c *comparison) timedOut(m *moment, deed wire.Deed) bool {
	switchedOff := c.request.DisableForceDetachOnTimeout && m.world.Behaviours.Has(reconcile.ForceDetachSwitch)
	return deed.Verb == string(reconcile.ForceDetach) && !switchedOff &&
		deed.At-m.Started >= reconcile.DefaultMaxWaitForUnmount-wire.Loop
}

func leadsTo(u reconcile.Until, verb string) bool {
	if verb == wire.Forgotten {
		return u.Event == reconcile.VerifySync
	}
	return string(u.Then) == verb
}

// early says how much a deed came before its time, by the model's row in any of the moments
// since which the row has stayed the same; "" where it did not.
func (c *comparison) early(i int, d *reconcile.Decision, u reconcile.Until, at time.Duration) string {
	if at-c.moments[i].Started < u.After-wire.Loop && u.Event != reconcile.Backoff {
		return fmt.Sprintf("%s after the start, before %s", at-c.moments[i].Started, u.After)
	}
	for ; i >= 0; i-- {
		m := &c.moments[i]
		was := m.plan.Decision(d.VolumeNode)
		if was == nil || was.Verb != d.Verb || m.Started != c.moments[len(c.moments)-1].Started && m.Started > at {
			return ""
		}
		row := slices.IndexFunc(was.Until, func(o reconcile.Until) bool { return o.Event == u.Event && o.Then == u.Then })
		if row < 0 || m.Started < c.startedAt(at) {
			return ""
		}
		if after, _ := was.Until[row].Running(*was); u.Event == reconcile.MaxWaitForUnmount && at-m.At < after-wire.Loop {
			return fmt.Sprintf("%s after %s, at which it is not before %s", at-m.At, m.At, after)
		}
	}
	return ""
}

// startedAt is the start of the controller that was at work at that time.
func (c *comparison) startedAt(at time.Duration) (started time.Duration) {
	for i := range c.moments {
		if s := c.moments[i].Started; s <= at {
			started = max(started, s)
		}
	}
	return started
}

func decisionText(d *reconcile.Decision) string {
	text := fmt.Sprintf("%s (%s)", d.Verb, d.Reason)
	if len(d.Contenders) > 0 {
		text += fmt.Sprintf(" of %s", d.Contenders)
	}
	for _, u := range d.Until {
		text += fmt.Sprintf("; %s from %s to %s: %s", u.Event, u.After, u.Bound, u.Then)
		if len(u.Contenders) > 0 {
			text += fmt.Sprintf(" of %s", u.Contenders)
		}
	}
	return text
}
