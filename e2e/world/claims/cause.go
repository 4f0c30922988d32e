package claims

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
)

// The kinds of causes that several codes and actors share.
var (
	detaches  = ofCall("ControllerUnpublishVolume")
	attaches  = ofCall("ControllerPublishVolume")
	mounts    = slices.Concat(ofCall("NodeStageVolume"), ofCall("NodePublishVolume"))
	unmounts  = slices.Concat(ofCall("NodeUnpublishVolume"), ofCall("NodeUnstageVolume"))
	lostNodes = []string{"stop the kubelet", "switch off", "delete the node"}
	// taken are the kinds of what takes an attachment out of the cluster's books, and may
	// leave it in the storage system.
	taken = []string{"delete the attachment", "strip the attachment", "delete the node"}
	// unbinds are the kinds of what parts a volume from its claim: it is released then, and
	// deleted.
	unbinds = []string{"delete the claim", "delete the volume", "remake the claim", "edit the claimRef"}
	// shares are the kinds of what makes the controller attach a volume to a second node that its
	// driver lets one have: the driver refuses.
	shares = []string{"edit the access modes"}
)

// ofCall are the kinds of a call that goes wrong.
func ofCall(call string) []string {
	return []string{call + " refuses", call + " hangs", call + " is slow"}
}

// causes are, for the codes that name a cause, the kinds of what must be wrong with the
// world at that moment, or must have been shortly before it. A code that is not here names
// none, and is counted.
var causes = map[finding.Code][]string{
	"VD102": lostNodes,
	"VD103": slices.Concat(detaches, []string{"stop the attacher"}),
	"VD104": slices.Concat(unmounts, []string{"keep the containers", "stop the kubelet", "switch off"}),
	"VD110": {"taint out-of-service"},
	"VD111": lostNodes,
	"VD112": {"delete the node"},
	"VD114": lostNodes,
	"VD116": slices.Concat(lostNodes, taken),
	"VD119": unbinds,
	"VD122": taken,
	"VD203": {"run a second pod"},
	"VD301": slices.Concat([]string{"drop the entry", "stop the manager"}, taken),
	// the controller computes its next patch from the list as it last read it, and may bring an entry back
	"VD302": slices.Concat([]string{"stop the manager", "drop the entry"}, taken),
	"VD401": slices.Concat(detaches, []string{"stop the attacher"}),
	"VD403": lostNodes,
	"VD404": slices.Concat(attaches, detaches, taken),
	"VD402": {"take the annotation"},
	"VD408": {"take the annotation"},
	"VD410": slices.Concat(attaches, taken, shares),
	"VD411": mounts,
	"VD417": slices.Concat([]string{"keep the containers"}, unmounts),
	"VD501": {"edit the claimRef"},
	"VD504": unbinds,
	"VD513": {"remake the claim", "delete the claim"}, // where its finalizer could not be taken off
	"VD514": unbinds,
	"VD603": {"delete the CSIDriver"},
	"VD604": {"stop the attacher"},
	"VD605": {"stop the attacher"},
	"VD622": {"stop the manager"},
}

// KindsOf are the kinds of causes that a certain finding of the code names; none where it
// names no cause.
func KindsOf(code finding.Code) []string { return causes[code] }

// lasting are the kinds of what nobody undoes. What the controller has begun to attach by access modes
// that were edited, it keeps attaching while the pod lives.
var lasting = []string{"delete the attachment", "strip the attachment", "drop the entry", "delete the claim", "delete the volume", "edit the access modes"}

// traces are the codes of what stands in the objects for good: it may be of long ago.
var traces = []finding.Code{"VD116", "VD119", "VD122", "VD301", "VD302", "VD404", "VD504", "VD513", "VD514"}

// harmless are the kinds of what a cluster copes with by itself.
var harmless = []string{"drain", "delete the pod", "force-delete the pod", "cut all watches", "evict for pressure", "refuse evictions", "run a job", "slow requests"}

// echo is how long a cause that has ended may still be what a pod waits for: the longest
// back-off of the attacher, a call and the controller's next pass.
const echo = 8 * time.Minute

// chained is the same of a detach: an attach elsewhere follows it, which was refused meanwhile, so
// that the attacher pauses a second time, for five minutes at most.
const chained = echo + 5*time.Minute

// ElectionTime is what a process takes until its lease shows that it leads.
const ElectionTime = 30 * time.Second

// works reports whether the cause is at work at that moment, or was shortly before.
func (r *Record) works(c Cause, when time.Time) bool {
	after := echo
	if slices.Contains(detaches, c.Kind) {
		after = chained
	}
	return !c.From.After(when) && (slices.Contains(lasting, c.Kind) || c.To.IsZero() || when.Sub(c.To)-r.idle(c.To, when) < after)
}

// idle is for how much of the time between the two moments the controller or the attacher was
// stopped: what follows from a cause stands still meanwhile.
func (r *Record) idle(from, to time.Time) (idle time.Duration) {
	for _, c := range r.Causes { // in the order of their beginnings
		if c.Kind != "stop the manager" && c.Kind != "stop the attacher" {
			continue
		}
		end := to
		if back := c.To.Add(ElectionTime); !c.To.IsZero() && back.Before(to) {
			end = back
		}
		if c.From.After(from) {
			from = c.From
		}
		if end.After(from) {
			idle += end.Sub(from)
			from = end
		}
	}
	return idle
}

// about reports whether the cause can be what a finding is about: of the volume that the
// driver fails, and of the node that is lost.
func (c Cause) about(f finding.Finding) bool {
	_, handle, _ := strings.Cut(string(f.Volume), "^")
	if c.Volume != "" && handle != "" && c.Volume != handle {
		return false
	}
	return !slices.Contains(lostNodes, c.Kind) || c.Node == "" || f.Node == "" || c.Node == string(f.Node)
}

// concerns reports whether the cause is about the claim of a pod that the finding is about.
func (r *Record) concerns(c Cause, f finding.Finding, when time.Time) bool {
	return c.Claim != "" && slices.ContainsFunc(f.About(), func(name string) bool {
		p := r.at(name, when)
		return p != nil && slices.Contains(p.Claims, c.Claim)
	})
}

// cause judges that a certain finding names what was done to the world.
func (j *judging) cause(l Look, f finding.Finding) {
	const judge = "cause"
	if f.Confidence == finding.Suspected {
		return
	}
	if f.Code == "VD409" {
		j.remainder(l, f)
		return
	}
	kinds, known := causes[f.Code]
	if !known {
		j.exempt(judge, string(f.Code)+" names none that is known")
		return
	}
	if f.Code == "VD417" && (strings.Contains(f.Message, "on silent node") || strings.Contains(f.Message, "on out-of-service node")) {
		kinds = lostNodes
	}
	j.Judged[judge]++
	at := func(c Cause) bool {
		return j.works(c, l.ended()) || slices.Contains(traces, f.Code) && !c.From.After(l.ended())
	}
	if !slices.ContainsFunc(j.Causes, func(c Cause) bool {
		return at(c) && slices.Contains(kinds, c.Kind) && (c.about(f) || j.concerns(c, f, l.At))
	}) {
		j.false(judge, string(f.Code), l, fmt.Sprintf("%s certain: %s", f.Code, f.Message), "there was none of: "+strings.Join(kinds, ", "))
	}
}

// remainder judges the finding that stands for all that no other names: something was wrong.
func (j *judging) remainder(l Look, f finding.Finding) {
	const judge = "cause"
	j.Judged[judge]++
	f.Node = "" // the pod may wait on another node than the one that is lost
	if !slices.ContainsFunc(j.Causes, func(c Cause) bool { return !slices.Contains(harmless, c.Kind) && j.works(c, l.ended()) && c.about(f) }) {
		j.false(judge, string(f.Code), l, fmt.Sprintf("%s certain: %s", f.Code, f.Message), "nothing was wrong")
	}
}

// orAttacher follows the driver where no object shows whether what it refused is over.
const orAttacher = " or its external-attacher"

// actors are, by the words with which a wait names who has to act next, the kinds of causes
// of which one explains that. The controller and the attacher are also waited for while they pause
// after a failure.
var actors = []struct {
	words *regexp.Regexp
	kinds []string
}{
	{regexp.MustCompile(`^CSI driver \S+ on `), slices.Concat(mounts, unmounts)},
	// a driver also refuses what an attacher that was away has left attached
	{regexp.MustCompile(`^CSI driver \S+(` + orAttacher + `)?$`), slices.Concat(attaches, detaches, taken, shares, []string{"stop the attacher"})},
	{regexp.MustCompile(`^the external-attacher of `), slices.Concat(attaches, detaches, []string{"stop the attacher"})},
	{regexp.MustCompile(`^the attach/detach controller$`), slices.Concat(attaches, detaches, lostNodes, lasting, []string{"stop the manager", "stop the attacher", "taint out-of-service"})},
	// the kubelet unmounts for a pod that has just gone
	{regexp.MustCompile(`^the kubelet of `), slices.Concat(lostNodes, unmounts, mounts, []string{"keep the containers", "run a second pod"})},
	{regexp.MustCompile(`^node `), lostNodes},
	{regexp.MustCompile(`^pod `), []string{"run a second pod"}},
	// the controller keeps to the access modes that it has read
	{regexp.MustCompile(`^whoever owns the pod$`), shares},
	{regexp.MustCompile(`^the node plugin of `), lostNodes},
	{regexp.MustCompile(`^` + creates + `persistentvolumeclaim/`), []string{"remake the claim", "delete the claim"}},
	// only the driver's own words lead to the storage
	{regexp.MustCompile(`^the storage admin$`), refusals},
	{regexp.MustCompile(`^` + kubeletwords.Nobody + `$`), slices.Concat(unbinds, []string{"take the annotation"})},
}

// refusals are the calls that the driver answers with words.
var refusals = slices.DeleteFunc(slices.Concat(attaches, detaches, mounts, unmounts), func(kind string) bool { return !strings.HasSuffix(kind, " refuses") })

// kindsOf are the kinds of causes of which one explains that the actor has to act; nil where nothing
// is known of it.
func kindsOf(actor string) []string {
	for _, a := range actors {
		if a.words.MatchString(actor) {
			return a.kinds
		}
	}
	return nil
}

// actor judges who has to act next for a pod that is stuck: it must be the part with which
// something is wrong.
func (j *judging) actor(l Look, w finding.Waiting) {
	const judge = "actor"
	if w.Verdict != finding.Stuck {
		return
	}
	kinds := kindsOf(w.Actor)
	if kinds == nil {
		j.exempt(judge, "nothing is known of "+w.Actor)
		return
	}
	j.Judged[judge]++
	at := func(c Cause) bool { // a volume that its claim has lost stays lost
		return j.works(c, l.ended()) || w.Actor == kubeletwords.Nobody && slices.Contains(unbinds, c.Kind) && !c.From.After(l.ended())
	}
	if !slices.ContainsFunc(j.Causes, func(c Cause) bool { return at(c) && slices.Contains(kinds, c.Kind) }) {
		if strings.HasSuffix(w.Actor, orAttacher) && j.pauses(w.Node, l.At) {
			return
		}
		if j.unshown(l.At, "") {
			j.exempt(judge, "what had been done was not to be seen yet")
			return
		}
		j.false(judge, "", l, fmt.Sprintf("%s is stuck, and %s has to act", w.Pod, w.Actor), "there was none of: "+strings.Join(kinds, ", "))
	}
}

// pauses reports whether the attacher alone has to act: the driver has refused to attach a volume to the
// node, and has since detached that volume from another one.
func (r *Record) pauses(node string, when time.Time) bool {
	refused := map[string]bool{}
	pauses := map[string]bool{}
	for _, t := range r.Tries {
		switch attach := slices.Contains(attaches, t.Call+" refuses"); {
		case t.At.After(when):
		case attach && t.Node == node:
			refused[t.Volume], pauses[t.Volume] = t.Failed, false
		case slices.Contains(detaches, t.Call+" refuses") && t.Node != node && !t.Failed:
			pauses[t.Volume] = refused[t.Volume]
		}
	}
	return slices.Contains(slices.Collect(maps.Values(pauses)), true)
}
