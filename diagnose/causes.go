package diagnose

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// A finding follows from another where it goes away by itself once the other is
// mended, or where nothing done about it helps before. That both are about one
// node or driver is no reason: two things may be wrong with it.
//
// A new check needs a row only if its failure is such a cause, or has one. To
// add one: name the codes, say in the match what both must share, and keep a
// case in the corpus in which the row is at work, as TestCausesAreExercised
// asks. Where a check already passes over what another one tells, no row is
// needed: the two are never found together.

// causalRule says that any of the causes brings about any of the effects, where
// they match.
type causalRule struct {
	causes, effects []Code
	// by is what both must share, so that not each cause need be held against each
	// effect; nil where there are no more causes than drivers.
	by    func(Finding) string
	match func(p *Pass, cause, effect Finding) bool
}

// causalRules are in the order of their nearness to the effect: where several
// match, the first names the cause, whose own cause is then another rule's.
var causalRules = []causalRule{
	{codes("VD101", "VD103", "VD104", "VD119"), codes("VD113"), onNode, (*Pass).keepsNode},
	{codes("VD601", "VD604"), codes("VD113"), nil, (*Pass).driverKeepsNode},
	{codes("VD504"), codes("VD119"), ofVolume, (*Pass).sameMissingVolume},
	{codes("VD106"), codes("VD103"), nil, (*Pass).detachedByNewLeader},
	{codes("VD602"), codes("VD104"), onNode, (*Pass).nobodyUnmounts},
	{codes("VD110"), codes("VD602"), onNode, (*Pass).evictsPlugin},
	{codes("VD118"), codes("VD115"), nil, (*Pass).goneWithTheOthers},
	{codes("VD306"), codes("VD304", "VD305"), onNode, (*Pass).inUseListRewritten},
	{codes("VD101"), codes("VD608"), onNode, (*Pass).takesLastPlace},
	{codes("VD604", "VD605"), codes("VD103", "VD401", "VD610"), nil, (*Pass).sameDriver},
	{codes("VD605"), codes("VD405"), nil, (*Pass).sameDriver},
	{codes("VD601", "VD607", "VD612"), codes("VD401"), nil, (*Pass).sameDriver},
	{codes("VD601", "VD604", "VD605", "VD607", "VD612"), codes("VD503"), nil, (*Pass).sameFinalizer},
	{codes("VD601", "VD607", "VD612"), codes("VD104"), nil, (*Pass).nobodyUnmounts},
	{codes("VD609"), codes("VD103", "VD401"), nil, (*Pass).throttledDetach},
}

func onNode(f Finding) string { return string(f.Node) }

func ofVolume(f Finding) string { return f.PersistentVolume }

// kinship says that findings of the codes with the same key show one thing that
// no finding of its own tells of. The worst of them stands for it, and of equals
// the one whose code comes first here; the others follow from that one.
type kinship struct {
	codes []Code
	// key is "" for a finding that shares its cause with no other.
	key func(p *Pass, f Finding) string
}

var kinships = []kinship{
	// A node that is lost. The codes that tell why it was come first.
	{codes("VD117", "VD111", "VD102", "VD403", "VD114", "VD112", "VD115"), (*Pass).lostNodeOf},
	// Nobody attaches for a driver, and no lease tells since when.
	{codes("VD406"), (*Pass).driverOf},
	// An attacher that may not write what it has done.
	{codes("VD405"), (*Pass).driverOf},
	// A storage system that does not answer.
	{codes("VD401", "VD103", "VD610"), (*Pass).silentBackend},
	// A machine that has taken another's name.
	{codes("VD307"), func(_ *Pass, f Finding) string { return string(f.Node) }},
	// A node that lived on while its volumes were detached: one restart clears it.
	{codes("VD116"), func(_ *Pass, f Finding) string { return string(f.Node) }},
	// A driver without a node plugin.
	{codes("VD104"), (*Pass).unpluggedDriver},
	// Pods that share several claims.
	{codes("VD202"), rivals},
	{codes("VD203"), rivals},
}

func codes(list ...Code) []Code { return list }

// areKin says that one finding of the second code may follow from one of the
// first for no other reason than that they share their cause.
func areKin(a, b Code) bool {
	return slices.ContainsFunc(kinships, func(k kinship) bool { return slices.Contains(k.codes, a) && slices.Contains(k.codes, b) })
}

// link names each finding's cause. The findings are in their basic order, in
// which the first of several equals is the cause.
func (p *Pass) link(findings []Finding) {
	byCode := map[Code][]int{}
	for i, f := range findings {
		byCode[f.Code] = append(byCode[f.Code], i)
		findings[i].CausedBy = ""
	}
	for _, rule := range causalRules {
		p.linkEffects(rule, findings, byCode)
	}
	for _, k := range kinships {
		p.linkKin(k, findings, byCode)
	}
}

// linkEffects names the first cause of the rule that matches, of each effect for
// which no rule before has named one.
func (p *Pass) linkEffects(rule causalRule, findings []Finding, byCode map[Code][]int) {
	shared := func(i int) string {
		if rule.by == nil {
			return ""
		}
		return rule.by(findings[i])
	}
	causes := map[string][]int{}
	for _, code := range rule.causes {
		for _, i := range byCode[code] {
			causes[shared(i)] = append(causes[shared(i)], i)
		}
	}
	for _, code := range rule.effects {
		for _, i := range byCode[code] {
			if findings[i].CausedBy != "" {
				continue
			}
			at := slices.IndexFunc(causes[shared(i)], func(cause int) bool { return rule.match(p, findings[cause], findings[i]) })
			if at >= 0 {
				findings[i].CausedBy = findings[causes[shared(i)][at]].Fingerprint
			}
		}
	}
}

func (p *Pass) linkKin(k kinship, findings []Finding, byCode map[Code][]int) {
	first := map[string]int{}
	var kin []int
	for _, code := range k.codes {
		for _, i := range byCode[code] {
			key := k.key(p, findings[i])
			if key == "" || findings[i].CausedBy != "" {
				continue
			}
			kin = append(kin, i)
			if j, ok := first[key]; !ok || findings[i].Severity.rank() > findings[j].Severity.rank() {
				first[key] = i
			}
		}
	}
	for _, i := range kin {
		if j := first[k.key(p, findings[i])]; j != i {
			findings[i].CausedBy = findings[j].Fingerprint
		}
	}
}

// arrange puts each finding directly behind what it follows from. A root stands
// where the worst that follows from it would, and before others if more follows.
func arrange(findings []Finding) []Finding {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(b.Severity.rank()-a.Severity.rank(), byWhat(a, b))
	})
	trees := trees(findings)
	slices.SortStableFunc(trees, func(a, b []Finding) int { return cmp.Or(worst(b)-worst(a), len(b)-len(a), byWhat(a[0], b[0])) })
	return append([]Finding{}, slices.Concat(trees...)...)
}

func worst(findings []Finding) int {
	rank := 0
	for _, f := range findings {
		rank = max(rank, f.Severity.rank())
	}
	return rank
}

// trees are the findings that follow from none of the others, each with all that
// follows from it behind it. Every finding is in one of them, also where a report
// was put together from others or written by hand.
func trees(findings []Finding) [][]Finding {
	causes, followers := causesAmong(findings), map[int][]int{}
	for i, cause := range causes {
		followers[cause] = append(followers[cause], i)
	}
	placed := make([]bool, len(findings))
	var place func(i int) []Finding
	place = func(i int) []Finding {
		if placed[i] {
			return nil
		}
		placed[i] = true
		tree := []Finding{findings[i]}
		for _, follower := range followers[i] {
			tree = append(tree, place(follower)...)
		}
		return tree
	}
	var trees [][]Finding
	for _, root := range followers[-1] {
		trees = append(trees, place(root))
	}
	for i := range findings { // a circle has no root
		if tree := place(i); len(tree) > 0 {
			trees = append(trees, tree)
		}
	}
	return trees
}

// causesAmong are the places of what each finding follows from; -1 where that is
// not among them.
func causesAmong(findings []Finding) []int {
	places := map[string]int{}
	for i, f := range findings {
		if _, taken := places[f.Fingerprint]; !taken && f.Fingerprint != "" {
			places[f.Fingerprint] = i
		}
	}
	causes := make([]int, len(findings))
	for i, f := range findings {
		cause, ok := places[f.CausedBy]
		if !ok || cause == i {
			cause = -1
		}
		causes[i] = cause
	}
	return causes
}

// consequences are how many follow from each finding, directly or not.
func consequences(findings []Finding) []int {
	causes, n := causesAmong(findings), make([]int, len(findings))
	for _, cause := range causes {
		for range findings { // no farther, whatever a report from elsewhere says
			if cause < 0 {
				break
			}
			n[cause]++
			cause = causes[cause]
		}
	}
	return n
}

func byWhat(a, b Finding) int {
	return cmp.Or(cmp.Compare(a.Code, b.Code),
		cmp.Compare(a.Subject.Namespace, b.Subject.Namespace), cmp.Compare(a.Subject.Name, b.Subject.Name),
		cmp.Compare(a.Volume, b.Volume), cmp.Compare(a.Node, b.Node))
}

// driverOf is the driver that the finding is about; "" where it is about none.
func (p *Pass) driverOf(f Finding) string {
	if f.Subject.Kind == "CSIDriver" {
		return f.Subject.Name
	}
	if va := p.Snapshot.VolumeAttachment(f.VolumeAttachment); va != nil {
		return va.Spec.Attacher
	}
	driver, _, _ := reconcile.ParseCSI(f.Volume)
	return driver
}

func (p *Pass) sameDriver(cause, effect Finding) bool {
	driver := p.driverOf(cause)
	return driver != "" && driver == p.driverOf(effect)
}

// sameFinalizer says that the volume waits for the driver's own attacher.
func (p *Pass) sameFinalizer(cause, effect Finding) bool {
	pv := p.Snapshot.Volume(effect.PersistentVolume)
	return pv != nil && slices.Contains(pv.Finalizers, "external-attacher/"+attacherName(p.driverOf(cause)))
}

// nobodyUnmounts says that the kubelet has no node plugin to ask, for want of
// the driver.
func (p *Pass) nobodyUnmounts(cause, effect Finding) bool {
	return p.sameDriver(cause, effect) && (cause.Node == "" || cause.Node == effect.Node) && p.unpluggedDriver(effect) != ""
}

// unpluggedDriver is the finding's driver and node, if the one is not registered
// on the other.
func (p *Pass) unpluggedDriver(f Finding) string {
	driver := p.driverOf(f)
	if driver == "" || !p.Snapshot.Complete(snapshot.CSINodes) || registers(p.Snapshot.CSINode(f.Node), driver) {
		return ""
	}
	return driver + " " + string(f.Node)
}

// evictsPlugin says that the driver is missing because the taint has no node
// plugin run on the node: one that is there fails for a reason of its own.
func (p *Pass) evictsPlugin(taint, driver Finding) bool {
	node := p.Snapshot.Node(taint.Node)
	return node != nil && taint.Node == driver.Node && len(p.nodePlugins(node, "/plugins/"+driver.Subject.Name)) == 0
}

// inUseListRewritten says that somebody who should not has written to
// volumesInUse; left alone the kubelet puts it right. An entry of volumesAttached
// stays lost when the writing ends: that is a failure of its own.
func (p *Pass) inUseListRewritten(cause, effect Finding) bool {
	node := p.Snapshot.Node(cause.Node)
	if node == nil || cause.Node != effect.Node {
		return false
	}
	writer, _ := listWriter(node, "volumesInUse")
	return writer != "" && !byRights(writer) && !p.customary("volumesInUse", writer)
}

// keepsNode says that the cause's VolumeAttachment is the only one that the node
// waits for. Where there are several each of them keeps it.
func (p *Pass) keepsNode(cause, effect Finding) bool {
	return cause.Node == effect.Node && p.waitsOnlyFor(effect, func(va *storagev1.VolumeAttachment) bool { return va.Name == cause.VolumeAttachment })
}

func (p *Pass) driverKeepsNode(cause, effect Finding) bool {
	return p.waitsOnlyFor(effect, func(va *storagev1.VolumeAttachment) bool {
		return deleting(va) && va.Spec.Attacher == p.driverOf(cause)
	})
}

func (p *Pass) waitsOnlyFor(f Finding, is func(*storagev1.VolumeAttachment) bool) bool {
	node := p.Snapshot.Node(f.Node)
	return node != nil && !slices.ContainsFunc(p.leftOn(node), func(l leftover) bool { return !is(l.va) })
}

func (p *Pass) sameMissingVolume(cause, effect Finding) bool {
	return cause.PersistentVolume == effect.PersistentVolume && p.Snapshot.Volume(cause.PersistentVolume) == nil
}

// detachedByNewLeader says that the detach which fails is one of those that the
// new leader asked for.
func (p *Pass) detachedByNewLeader(cause, effect Finding) bool {
	return p.remember().evidence.get(cause.Fingerprint, func(string) sets.Set[string] {
		objects := sets.New[string]()
		for _, e := range cause.Evidence {
			objects.Insert(e.Object)
		}
		return objects
	}).Has("volumeattachment/" + effect.VolumeAttachment)
}

// goneWithTheOthers says that the node is among those from which the driver's
// volumes were not detached when they all went.
func (p *Pass) goneWithTheOthers(cause, effect Finding) bool {
	return p.sameDriver(cause, effect) && p.Snapshot.Node(effect.Node) == nil &&
		slices.ContainsFunc(p.attachmentsOn(effect.Node), func(va *storagev1.VolumeAttachment) bool {
			return va.Spec.Attacher == p.driverOf(cause) && holds(va)
		})
}

// takesLastPlace says that all that pods want there fits once the volume that
// nothing uses is off the node.
func (p *Pass) takesLastPlace(unused, full Finding) bool {
	if unused.Node != full.Node || !p.sameDriver(unused, full) {
		return false
	}
	driver := p.driverOf(full)
	l := p.loads()[nodeDriver{string(full.Node), driver}]
	return l != nil && l.held.Has(unused.Volume) && l.all()-1 <= limitOf(p.Snapshot.CSINode(full.Node), driver)
}

func (p *Pass) throttledDetach(cause, effect Finding) bool {
	return p.sameDriver(cause, effect) && throttled(p.driverSaid(effect))
}

// driverSaid are the driver's last words on the finding's attachment.
func (p *Pass) driverSaid(f Finding) string {
	va := p.Snapshot.VolumeAttachment(f.VolumeAttachment)
	switch {
	case va == nil:
		return ""
	case va.DeletionTimestamp != nil && va.Status.DetachError != nil:
		return va.Status.DetachError.Message
	case va.DeletionTimestamp == nil && va.Status.AttachError != nil:
		return va.Status.AttachError.Message
	default:
		return ""
	}
}

// silentBackend is the driver with what it says, if that is that nobody answers
// it. The same words of two volumes prove one cause only where they speak of
// neither: that one volume is busy says nothing of another. An attempt that is
// Aborted meets an earlier one for the same volume.
func (p *Pass) silentBackend(f Finding) string {
	words := p.driverSaid(f)
	if !unanswered(words) || throttled(words) || containsAny(words, "Aborted") {
		return ""
	}
	return p.driverOf(f) + " " + words
}

// lostNodeOf is the finding's node, if it is lost.
func (p *Pass) lostNodeOf(f Finding) string {
	if reconcile.NodeReady(p.Snapshot.Node(f.Node)) {
		return ""
	}
	return string(f.Node)
}

// rivals are the pods that wait for what a node's pods hold.
func rivals(_ *Pass, f Finding) string { return string(f.Node) + " " + strings.Join(f.Pods, " ") }

// workloads are what made the pods, as namespace/Kind/name; sorted. A ReplicaSet
// that a Deployment made counts as that.
func (p *Pass) workloads(pods []string) []string {
	var names []string
	for _, pod := range p.named(pods) {
		owner := metav1.GetControllerOf(pod)
		switch {
		case owner == nil || owner.Kind == "Node": // nobody's, or a static pod
		case deploymentOf(pod) != "":
			names = append(names, pod.Namespace+"/Deployment/"+deploymentOf(pod))
		default:
			names = append(names, pod.Namespace+"/"+owner.Kind+"/"+owner.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// claims are those through which the pods use the volume, as namespace/name;
// sorted.
func (p *Pass) claims(pods []string, pv string) []string {
	var names []string
	for _, pod := range p.named(pods) {
		for i := range pod.Spec.Volumes {
			claim := p.Snapshot.Claim(claimKey(pod, reconcile.ClaimName(pod, &pod.Spec.Volumes[i])))
			if claim != nil && pv != "" && claim.Spec.VolumeName == pv {
				names = append(names, claim.Namespace+"/"+claim.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (p *Pass) named(pods []string) []*corev1.Pod {
	var list []*corev1.Pod
	for _, name := range pods {
		namespace, name, _ := strings.Cut(name, "/")
		if pod := p.Snapshot.Pod(types.NamespacedName{Namespace: namespace, Name: name}); pod != nil {
			list = append(list, pod)
		}
	}
	return list
}
