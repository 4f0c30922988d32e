package output

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fatih/color"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubelet"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Plan is the document of both worlds and of the first pass of a controller that has just started
// with them. Its JSON is a contract, like that of finding.Report.
type Plan struct {
	finding.Head

	Actual     []PlanActual     `json:"actual"`
	Desired    []PlanDesired    `json:"desired"`
	Skipped    []PlanSkipped    `json:"skipped"`
	Decisions  []PlanDecision   `json:"decisions"`
	NodeStatus []PlanNodeStatus `json:"nodeStatus"`
	// Controller is the running controller as its log shows it; nil without a log.
	Controller *PlanController `json:"controller,omitempty"`
	// Manager is the running kube-controller-manager as its own endpoints show it; nil if it was
	// not asked.
	Manager *PlanManager `json:"controllerManager,omitempty"`
	// Kubelets are the views of the kubelets whose nodes were named with --kubelet.
	Kubelets []*kubelet.Node `json:"kubelets,omitempty"`
}

// PlanController identifies the controller that wrote the log.
type PlanController struct {
	// Started is when the controller started; absent if the log does not show it.
	Started *metav1.Time `json:"started,omitempty"`
	// Last is the time of the log's last line, which is the age of everything taken from the log.
	Last metav1.Time `json:"last"`
	// Leads reports whether the lease names this controller as the leader, or the controller itself
	// does where leases could not be read.
	Leads bool `json:"leads"`
}

// PlanRemembered is what the running controller remembers about a pair, according to its log.
type PlanRemembered struct {
	// States are the states that are possible according to the log; absent if it says nothing about
	// them.
	States []snapshot.Remembered `json:"states,omitempty"`
	// Since is the time from which States hold.
	Since *metav1.Time `json:"since,omitempty"`
	// Running is the operation that has started and not yet ended.
	Running      snapshot.Operation `json:"running,omitempty"`
	RunningSince *metav1.Time       `json:"runningSince,omitempty"`
	// LastError is the error of the last operation; absent if that operation succeeded.
	LastError   string       `json:"lastError,omitempty"`
	LastErrorAt *metav1.Time `json:"lastErrorAt,omitempty"`
	// NextAttach and NextDetach are the times before which the operation is not retried.
	NextAttach *metav1.Time `json:"nextAttach,omitempty"`
	NextDetach *metav1.Time `json:"nextDetach,omitempty"`
}

// PlanActual is a row of the actual state of the world before the pass.
type PlanActual struct {
	Volume           corev1.UniqueVolumeName `json:"volume"`
	Node             types.NodeName          `json:"node"`
	State            reconcile.AttachState   `json:"state"`
	MountedByNode    bool                    `json:"mountedByNode"`
	DevicePath       string                  `json:"devicePath,omitempty"`
	PersistentVolume string                  `json:"persistentVolume,omitempty"`
	VolumeAttachment string                  `json:"volumeAttachment,omitempty"`
}

// PlanDesired is a row of the desired state of the world.
type PlanDesired struct {
	Volume           corev1.UniqueVolumeName `json:"volume"`
	Node             types.NodeName          `json:"node"`
	Pods             []string                `json:"pods"`
	PersistentVolume string                  `json:"persistentVolume,omitempty"`
}

// PlanSkipped is a pod volume or a VolumeAttachment that enters neither world.
type PlanSkipped struct {
	Pod              string               `json:"pod,omitempty"`
	PodVolume        string               `json:"podVolume,omitempty"`
	VolumeAttachment string               `json:"volumeAttachment,omitempty"`
	Node             types.NodeName       `json:"node,omitempty"`
	Reason           reconcile.SkipReason `json:"reason"`
	Message          string               `json:"message"`
}

// PlanDecision is what the first pass does with one pair.
type PlanDecision struct {
	Volume           corev1.UniqueVolumeName `json:"volume"`
	Node             types.NodeName          `json:"node"`
	Verb             reconcile.Verb          `json:"verb"`
	Reason           reconcile.Reason        `json:"reason"`
	After            string                  `json:"after"`
	PersistentVolume string                  `json:"persistentVolume,omitempty"`
	VolumeAttachment string                  `json:"volumeAttachment,omitempty"`
	Holders          []types.NodeName        `json:"holders,omitempty"`
	Contenders       []types.NodeName        `json:"contenders,omitempty"`
	// WaitedFor are the nodes that get the volume only once this one has let go of it.
	WaitedFor []types.NodeName `json:"waitedFor,omitempty"`
	// NotKnown is a kind that was not read in full although the decision depends on it. Verb is
	// then Unknown.
	NotKnown snapshot.Kind `json:"notKnown,omitempty"`
	// MayKeep are the pods for which a running controller may still want the pair, although no
	// object shows it any more. The controller then leaves the pair as it is.
	MayKeep []string `json:"mayKeep,omitempty"`
	// Late is how much later than a new controller a running one may act.
	Late string `json:"late,omitempty"`
	// MayBeForced reports whether a running controller may already have waited long enough to
	// detach by force. In that case it no longer looks at the live node.
	MayBeForced bool `json:"mayBeForced,omitempty"`
	// Overdue is for how long a running controller should have detached by force by now, counted
	// from when the first pod that waits for it came; absent if it may still wait.
	Overdue string `json:"overdue,omitempty"`
	// Until lists the events that end the decision after the pass.
	Until []PlanUntil `json:"until,omitempty"`
	// Remembered is what the log shows about the pair; absent if the log does not mention it.
	Remembered *PlanRemembered `json:"remembered,omitempty"`
}

// PlanNodeStatus is the volumesAttached of a node after the pass.
type PlanNodeStatus struct {
	Node            types.NodeName            `json:"node"`
	VolumesAttached []corev1.UniqueVolumeName `json:"volumesAttached"`
	Added           []corev1.UniqueVolumeName `json:"added"`
	Removed         []corev1.UniqueVolumeName `json:"removed"`
	// Contended are the entries of VolumesAttached that one of several contending nodes loses.
	Contended []corev1.UniqueVolumeName `json:"contended,omitempty"`
	// Flapping are the entries of VolumesAttached that each pass removes and adds again.
	Flapping []corev1.UniqueVolumeName `json:"flapping,omitempty"`
}

// NewPlan makes the document. It contains only the given nodes, or all nodes if none is given.
func NewPlan(s *snapshot.Snapshot, w *reconcile.World, plan *reconcile.Plan, nodes []types.NodeName) *Plan {
	shown := func(n types.NodeName) bool { return len(nodes) == 0 || slices.Contains(nodes, n) }
	p := &Plan{
		Head: finding.HeadOf("Plan", s), Actual: []PlanActual{}, Desired: []PlanDesired{}, Skipped: []PlanSkipped{},
		Decisions: []PlanDecision{}, NodeStatus: []PlanNodeStatus{},
	}
	p.Controller = planController(w.Memory)
	p.Manager = planManager(s, w, plan)
	volume := func(name corev1.UniqueVolumeName) string {
		if pv := w.Volume(name); pv != nil {
			return pv.Name
		}
		return ""
	}
	for _, row := range w.Actual.Items() {
		if !shown(row.Node) {
			continue
		}
		a := PlanActual{Volume: row.Volume, Node: row.Node, State: row.State, MountedByNode: row.MountedByNode,
			DevicePath: row.DevicePath, PersistentVolume: volume(row.Volume)}
		if s.Node(row.Node) == nil && !s.Complete(snapshot.Nodes) || !w.KnowsDriver(row.Volume) {
			a.State = StateUnknown // the node's volumesAttached may list the volume, or its driver may not attach
		}
		if row.Attachment != nil {
			a.VolumeAttachment = row.Attachment.Name
		}
		p.Actual = append(p.Actual, a)
	}
	slices.SortFunc(p.Actual, func(a, b PlanActual) int { return byPair(a.Volume, b.Volume, a.Node, b.Node) })
	for _, row := range w.Desired.Items() {
		if !shown(row.Node) {
			continue
		}
		d := PlanDesired{Volume: row.Volume, Node: row.Node, PersistentVolume: volume(row.Volume)}
		for _, pod := range row.Pods {
			d.Pods = append(d.Pods, pod.String())
		}
		p.Desired = append(p.Desired, d)
	}
	slices.SortFunc(p.Desired, func(a, b PlanDesired) int { return byPair(a.Volume, b.Volume, a.Node, b.Node) })
	for _, row := range w.Skipped {
		if !shown(row.Node) || w.SkippedUnread(&row) {
			continue
		}
		k := PlanSkipped{PodVolume: row.PodVolume, VolumeAttachment: row.VolumeAttachment, Node: row.Node, Reason: row.Reason, Message: row.Message}
		if row.Pod.Name != "" {
			k.Pod = row.Pod.String()
		}
		p.Skipped = append(p.Skipped, k)
	}
	view := facts.NewView(s, w, plan)
	notKnown := map[reconcile.VolumeNode]bool{}
	waitedFor := waitedForBy(plan)
	wanting := map[corev1.UniqueVolumeName][]*reconcile.VolumeToAttach{}
	for _, row := range w.Desired.Items() {
		wanting[row.Volume] = append(wanting[row.Volume], row)
	}
	for _, d := range plan.Decisions {
		if !shown(d.Node) {
			continue
		}
		after := d.After
		if !slices.ContainsFunc(d.Until, func(u reconcile.Until) bool { return u.Event == reconcile.MaxWaitForUnmount }) {
			after = 0 // another event may end the decision earlier
		}
		row := PlanDecision{Volume: d.Volume, Node: d.Node, Verb: d.Verb, Reason: d.Reason, After: after.String(),
			PersistentVolume: volume(d.Volume), VolumeAttachment: d.VolumeAttachment, Holders: d.Holders, Contenders: d.Contenders, Until: planUntil(d), WaitedFor: waitedFor[d.VolumeNode],
			Remembered: planRemembered(w.Memory, d.VolumeNode), MayBeForced: w.MayBeForced(&d)}
		if overdue := forceOverdue(view, d, wanting[d.Volume]); overdue > 0 {
			row.Overdue = overdue.String()
		}
		for _, pod := range d.MayKeep {
			row.MayKeep = append(row.MayKeep, pod.String())
		}
		if d.Late > 0 {
			row.Late = d.Late.String()
		}
		if kind := w.Unread(d); kind != "" {
			notKnown[d.VolumeNode] = true
			row = PlanDecision{Volume: d.Volume, Node: d.Node, Verb: Unknown, Reason: NotRead, After: "0s",
				PersistentVolume: row.PersistentVolume, NotKnown: kind, Remembered: row.Remembered}
		}
		p.Decisions = append(p.Decisions, row)
	}
	for _, n := range w.NodeStatus(plan) {
		if !shown(n.Node) {
			continue
		}
		known := func(list []corev1.UniqueVolumeName) []corev1.UniqueVolumeName {
			return slices.DeleteFunc(slices.Clone(list), func(v corev1.UniqueVolumeName) bool { return notKnown[reconcile.VolumeNode{Volume: v, Node: n.Node}] })
		}
		row := PlanNodeStatus{Node: n.Node, VolumesAttached: []corev1.UniqueVolumeName{},
			Added: []corev1.UniqueVolumeName{}, Removed: append([]corev1.UniqueVolumeName{}, known(n.Removed)...),
			Contended: known(n.Contended), Flapping: known(n.Flapping)}
		for _, v := range n.VolumesAttached {
			row.VolumesAttached = append(row.VolumesAttached, v.Name)
		}
		p.NodeStatus = append(p.NodeStatus, row)
	}
	return p
}

// forceOverdue returns how long ago a running controller should have detached the volume by force
// for the pods that want it on other nodes. It is 0 if the controller may still wait, or if an
// object that was not read may move that time.
func forceOverdue(v *facts.View, d reconcile.Decision, wanting []*reconcile.VolumeToAttach) time.Duration {
	s := v.Snapshot
	i := slices.IndexFunc(d.Until, func(u reconcile.Until) bool { return u.Event == reconcile.MaxWaitForUnmount })
	if i < 0 || len(d.MayKeep) > 0 || slices.ContainsFunc(s.Gaps, func(g snapshot.Gap) bool { return g.Kind != snapshot.StorageClasses }) {
		return 0
	}
	if after, _ := d.Until[i].Running(d); after > 0 {
		return 0
	}
	var pods []*corev1.Pod
	for _, row := range wanting {
		for _, name := range row.Pods {
			if pod := s.Pod(name); pod != nil {
				pods = append(pods, pod)
			}
		}
	}
	told, _ := v.Outstayed(d.Volume, pods)
	var longest time.Duration
	for _, pod := range pods {
		due := facts.Latest(metav1.NewTime(facts.Latest(facts.BoundAt(pod), told).Add(d.Until[i].After)), facts.NotReadySince(s.Node(d.Node)))
		longest = max(longest, s.TakenAt.Sub(due.Time))
	}
	if longest < facts.DetachTakes {
		return 0
	}
	return longest
}

// waitedForBy returns for each volume and node the nodes whose decisions wait for that one to let go
// of it.
func waitedForBy(plan *reconcile.Plan) map[reconcile.VolumeNode][]types.NodeName {
	by := map[reconcile.VolumeNode][]types.NodeName{}
	for _, d := range plan.Decisions {
		if d.Verb != reconcile.MultiAttach && d.Verb != reconcile.Blocked {
			continue
		}
		for _, holder := range d.Holders {
			if holder != d.Node {
				pair := reconcile.VolumeNode{Volume: d.Volume, Node: holder}
				by[pair] = append(by[pair], d.Node)
			}
		}
	}
	return by
}

// Unknown and NotRead replace the verb and the reason of a decision that depends on objects that
// were not read.
const (
	Unknown reconcile.Verb   = "Unknown"
	NotRead reconcile.Reason = "NotRead"
)

// StateUnknown is the state of an attachment whose node or CSIDriver was not read.
const StateUnknown reconcile.AttachState = "Unknown"

func byPair(v1, v2 corev1.UniqueVolumeName, n1, n2 types.NodeName) int {
	return cmp.Or(cmp.Compare(v1, v2), cmp.Compare(n1, n2))
}

// PlanFormats print a plan.
var PlanFormats = formats[*Plan]{
	{"table", func(b *strings.Builder, p *Plan, o Options) error { return printPlanTable(b, p, o, false) }},
	{"wide", func(b *strings.Builder, p *Plan, o Options) error { return printPlanTable(b, p, o, true) }},
	{"tree", printPlanTree},
	{"json", printJSON[*Plan]},
	{"yaml", printYAML[*Plan]},
	{"name", printPlanNames},
}

// nothingPlanned returns the sentence for a plan without decisions. That there are none proves
// something only if all lists were read from which the two worlds are built.
func nothingPlanned(p *Plan) string {
	worlds := []snapshot.Kind{snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSINodes, snapshot.CSIDrivers}
	if slices.ContainsFunc(p.Gaps, func(g snapshot.Gap) bool { return slices.Contains(worlds, g.Kind) }) {
		return "Whether anything is attached or wanted is not known: not all could be read.\n"
	}
	return "Nothing is attached and nothing is wanted.\n"
}

func printPlanTable(b *strings.Builder, p *Plan, opts Options, wide bool) error {
	header := []string{"VERB", "REASON", "AFTER", "NODE", "VOLUME", "PODS"}
	if wide {
		header = append(header, "STATE", "MOUNTED", "VOLUMEATTACHMENT", "NODES", "UNTIL")
	}
	actual, pods := p.byPair()
	var rows [][]string
	var until []string
	for _, d := range p.Decisions {
		pair := reconcile.VolumeNode{Volume: d.Volume, Node: d.Node}
		volume := cmp.Or(d.PersistentVolume, string(d.Volume))
		after := rounded(d.After)
		if d.After == "0s" {
			after = "-"
		}
		row := []string{string(d.Verb), string(d.Reason), after, string(d.Node), volume, or(strings.Join(pods[pair], ","))}
		if wide {
			a := actual[pair]
			row = append(row, or(string(a.State)), fmt.Sprint(a.MountedByNode), or(cmp.Or(d.VolumeAttachment, a.VolumeAttachment)),
				or(nodesText(slices.Concat(d.Holders, d.Contenders))), or(untilText(d)))
		} else {
			until = append(until, untilText(d))
		}
		for i := range row {
			row[i] = Safe(row[i])
		}
		row[0] = paintVerb(d.Verb, row[0], opts)
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		b.WriteString(nothingPlanned(p))
	}
	if err := table(b, header, rows, until, opts); err != nil {
		return err
	}
	b.WriteString(p.Manager.text())
	listed(b, "Skipped by the controller with no more than a log line", p.Skipped, func(s PlanSkipped) string {
		what := fmt.Sprintf("pod %s, volume %s", s.Pod, s.PodVolume)
		if s.VolumeAttachment != "" {
			what = "VolumeAttachment " + s.VolumeAttachment
		}
		return fmt.Sprintf("%s: %s: %s", s.Reason, what, s.Message)
	}, opts)
	writeNodeStatus(b, p.NodeStatus, opts)
	for _, n := range p.Kubelets {
		if err := writeKubelet(b, n, opts, wide); err != nil {
			return err
		}
	}
	planGaps(b, p, opts)
	return nil
}

// planGaps writes what was not read, what is unknown because of it, and how to have it read.
func planGaps(b *strings.Builder, p *Plan, opts Options) {
	ofKubelet := func(g snapshot.Gap) bool {
		return slices.Contains([]snapshot.Kind{trace.KubeletPods, trace.KubeletMetrics, trace.KubeletLog}, g.Kind)
	}
	gaps := eachAskedOnce(p.Gaps)
	for _, text := range gapsTogether(slices.DeleteFunc(slices.Clone(gaps), ofKubelet)...) {
		wrapped(b, "", "gap: "+text+"; what rests on them is not known", opts)
	}
	for _, g := range gaps {
		if ofKubelet(g) {
			wrapped(b, "", "gap: "+gapText(g)+"; its half rests on the objects alone", opts)
		}
	}
	wrapped(b, "", toSend(p.Gaps), opts)
	wrapped(b, "", RightsToAsk(p.Gaps, p.Source.Path != ""), opts)
}

// byPair indexes the actual rows, and the pods that want each volume, by volume and node.
func (p *Plan) byPair() (actual map[reconcile.VolumeNode]PlanActual, pods map[reconcile.VolumeNode][]string) {
	actual, pods = map[reconcile.VolumeNode]PlanActual{}, map[reconcile.VolumeNode][]string{}
	for _, a := range p.Actual {
		actual[reconcile.VolumeNode{Volume: a.Volume, Node: a.Node}] = a
	}
	for _, d := range p.Desired {
		pods[reconcile.VolumeNode{Volume: d.Volume, Node: d.Node}] = d.Pods
	}
	return actual, pods
}

func writeNodeStatus(b *strings.Builder, nodes []PlanNodeStatus, opts Options) {
	var lines strings.Builder
	for _, n := range nodes {
		for _, group := range []struct {
			format  string
			volumes []corev1.UniqueVolumeName
		}{
			{"%s: volumesAttached loses %s", n.Removed},
			{"%s: volumesAttached loses %s unless another contender's node does", n.Contended},
			{"%s: volumesAttached loses and regains %s: its detach cannot start", n.Flapping},
		} {
			for _, v := range group.volumes {
				wrapped(&lines, "  ", fmt.Sprintf(group.format, n.Node, v), opts)
			}
		}
	}
	if lines.Len() > 0 {
		b.WriteString("\nNode status once the pass is over:\n" + lines.String())
	}
}

func paintVerb(v reconcile.Verb, text string, opts Options) string {
	switch v {
	case reconcile.Keep:
		return paint(opts.Color, text, color.FgGreen)
	case reconcile.Attach, reconcile.Detach:
		return paint(opts.Color, text, color.FgCyan)
	case reconcile.Wait:
		return paint(opts.Color, text, color.FgYellow)
	default:
		return paint(opts.Color, text, color.FgRed, color.Bold)
	}
}

func printPlanNames(b *strings.Builder, p *Plan, _ Options) error {
	var names []string
	for _, d := range p.Decisions {
		if d.VolumeAttachment != "" {
			names = append(names, "volumeattachment/"+d.VolumeAttachment)
		}
	}
	return printLines(b, names)
}
