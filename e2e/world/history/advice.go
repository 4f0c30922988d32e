package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/cluster"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/claims"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/repair/apply"
)

// Advice is something that a finding said to do, and what came of it.
type Advice struct {
	// Kind is the kind of the repair, or the verb of the command; "" where nothing was done.
	Kind string
	// Named is all text that says what it is done to.
	Named string
	// Not says why nothing was done.
	Not string
}

// holdFor is how long a repair has to hold, as --settle has it.
const holdFor = 2 * time.Minute

// advised does what the finding of the code says that is about the claim.
func advised(w *World, s Step) (func(*World) error, error) {
	a, err := w.heed(w.ctx, s)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advice = &a
	return nil, err
}

// heed does it: the repair where there is one, or the first action that changes something.
func (w *World) heed(ctx context.Context, s Step) (Advice, error) {
	c, err := w.connect()
	if err != nil {
		return Advice{}, err
	}
	defer c.Close()
	snap, err := w.read(ctx, c)
	if err != nil {
		return Advice{}, err
	}
	consent := repair.Consent{Allow: repair.Kinds()}
	for _, name := range w.off() {
		consent.Fenced = append(consent.Fenced, types.NodeName(name))
	}
	for _, va := range snap.VolumeAttachments {
		if pv := snap.Volume(*va.Spec.Source.PersistentVolumeName); pv != nil && !slices.Contains(w.Driver.AttachedTo(pv.Spec.CSI.VolumeHandle), va.Spec.NodeName) {
			consent.Detached = append(consent.Detached, va.Name)
		}
	}
	view, repairs := repair.Examine(snap, reconcile.Options{}, consent, diagnose.Request{})
	pod, err := w.podOf(s.Claim)
	if err != nil {
		return Advice{Not: "no pod has the claim"}, nil
	}
	i := slices.IndexFunc(view.Report.Findings, func(f finding.Finding) bool {
		return f.Code == s.Code && (f.Names(pod.Namespace+"/"+pod.Name) || slices.ContainsFunc(f.About(), func(name string) bool { return w.has(name, s.Claim) }))
	})
	if i < 0 {
		return Advice{Not: "the copy has no such finding"}, nil
	}
	f := view.Report.Findings[i]
	a := Advice{Named: strings.Join(append(f.About(), f.Message), " ")}
	for _, action := range f.Actions {
		a.Named += " " + action.Sentence + " " + action.Command + fmt.Sprint(action.Hits)
	}
	if j := slices.IndexFunc(repairs, func(r repair.Repair) bool { return r.Finding.Fingerprint == f.Fingerprint }); j >= 0 {
		a.Kind = "repair " + string(repairs[j].Kind)
		a.Named += " " + f.Repair.Does
		applier := apply.Applier{Cluster: mayAll{c}, Consent: consent, Journal: apply.NewJournal(paper{}, time.Now, nil), Wait: cluster.Sleep, HoldFor: holdFor, MaxRepairs: 10}
		results, err := applier.Apply(ctx, repairs[j:j+1])
		for _, r := range results {
			w.Say("%s: %s %s %s", r.Summary, r.Outcome, r.Guard, r.Detail)
			if r.Outcome == apply.Skipped {
				a.Not = "it is skipped: " + r.Guard
			}
		}
		return a, err
	}
	if f.Repair != nil {
		return Advice{Not: "a guard refuses the repair " + f.Repair.Kind}, nil
	}
	for _, action := range f.Actions {
		if !claims.Changes(action) {
			continue
		}
		if a.Kind, err = w.perform(ctx, f, action); errors.Is(err, errUntrue) {
			return Advice{Not: "it is for a machine that is off"}, nil
		} else if errors.Is(err, errNothing) {
			return Advice{Not: fmt.Sprintf("the world has nothing for %q", action.Kind)}, nil
		}
		return a, err
	}
	return Advice{Not: "there is nothing to do any more"}, nil
}

// perform does the action of the finding: by its command or, where it is in words, by its
// kind.
func (w *World) perform(ctx context.Context, f finding.Finding, a finding.Action) (what string, err error) {
	if strings.HasPrefix(a.Command, "kubectl ") {
		if what, err = w.kubectl(ctx, a.Command); !errors.Is(err, errNothing) {
			return what, err
		}
	}
	_, node, _ := strings.Cut(a.Object, "/")
	k := w.Kubelets[cmp.Or(node, string(f.Node))]
	what = string(a.Kind)
	switch step.Kind(a.Kind) {
	case step.DeletePod:
		parts := strings.Split(a.Object, "/")
		if len(parts) != 3 {
			return what, errNothing
		}
		return what, w.client.CoreV1().Pods(parts[1]).Delete(ctx, parts[2], metav1.DeleteOptions{})
	case step.RestartManager:
		w.manager.Kill()
		w.manager.Start()
	case step.RestartController, step.RestartDriver:
		w.attacher.Kill()
		w.attacher.Start()
	case step.RestartKubelet, step.RebootNode:
		if k == nil || !k.Alive() {
			return what, errNothing
		}
		k.Stop()
		if step.Kind(a.Kind) == step.RestartKubelet {
			k.Start()
			return what, nil
		}
		time.Sleep(time.Minute)
		k.Reboot()
	case step.DrainNode:
		if k == nil {
			return what, errNothing
		}
		_, err = drain(w, Step{Node: k.Node, For: goesOn})
		return what, err
	case step.RestartNodePlugin, step.RestartService, step.PowerOff, step.DeleteNode:
		return what, errNothing
	default:
		return what, errNothing
	}
	return what, nil
}

// has reports whether the pod has the claim.
func (w *World) has(pod, claim string) bool {
	namespace, name, _ := strings.Cut(pod, "/")
	p, err := w.objects.Pods.Pods(namespace).Get(name)
	return err == nil && slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
	})
}

// off are the nodes whose machines are off, which no API shows.
func (w *World) off() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for _, c := range w.causes {
		if (c.Kind == "switch off" || c.Kind == "delete the node") && c.To.IsZero() {
			names = append(names, c.Node)
		}
	}
	return names
}

// errUntrue says that the condition does not hold under which a command is to be given.
var errUntrue = errors.New("it is not so")

var (
	taints  = regexp.MustCompile(`^kubectl taint nodes? (?:node/)?(\S+) ([^=\s]+)=([^:\s]*):(\S+)$`)
	deletes = regexp.MustCompile(`^kubectl delete pods?[/ ](\S+)( .*)?$`)
)

// kubectl gives the command, and returns its verb. The error is errNothing for a command
// that nobody knows here.
func (w *World) kubectl(ctx context.Context, command string) (verb string, err error) {
	if m := taints.FindStringSubmatch(command); m != nil {
		if m[2] == corev1.TaintNodeOutOfService && !slices.Contains(w.off(), m[1]) {
			return "", errUntrue
		}
		return "kubectl taint", w.changeNode(m[1], false, func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: m[2], Value: m[3], Effect: corev1.TaintEffect(m[4])})
		})
	}
	if m := deletes.FindStringSubmatch(command); m != nil {
		return "kubectl delete pod", w.client.CoreV1().Pods(Namespace).Delete(ctx, m[1], metav1.DeleteOptions{})
	}
	return "", errNothing
}

// mayAll is a cluster in which everything is allowed: that of the world asks nobody.
type mayAll struct{ *cluster.Cluster }

func (mayAll) Can(context.Context, []repair.Permission) ([]repair.Permission, error) { return nil, nil }

// paper is a journal that nobody reads.
type paper struct{}

func (paper) Write(text []byte) (int, error) { return len(text), nil }
func (paper) Sync() error                    { return nil }

// Deeds counts what came of what findings say to do.
type Deeds struct {
	// Not are those that were not done, by why.
	Not  map[string]int
	Done []Outcome
}

// Outcome is what came of one.
type Outcome struct {
	Code finding.Code
	Kind string
	// Needed reports that without it nothing would have changed, Cured that its pod runs
	// at the end, or its finding is gone, and Lasted that this was so for ten minutes.
	Needed, Cured, Lasted bool
	// Harm is what else ended that nothing named.
	Harm string
}

func (o Outcome) String() string {
	return fmt.Sprintf("needed %t, cured %t, lasted %t %s", o.Needed, o.Cured, o.Lasted, o.Harm)
}

// lasts is how long what was done has to last.
const lasts = 10 * time.Minute

// judge judges what was done in one copy by what became of another one, to which nothing was done. drained counts
// the pods that a drain of the history has evicted in the first one alone: a budget that ends, or an answer
// that is lost, lets it at another time.
func (d *Deeds) judge(q claims.Question, left *claims.Record, acted Played) (o Outcome, drained int) {
	if acted.Advice.Not != "" || acted.Advice.Kind == "" {
		d.Not[acted.Advice.Not]++
		return Outcome{Code: q.Code, Kind: "not done: " + acted.Advice.Not}, 0
	}
	r := acted.Record
	o.Code, o.Kind = q.Code, acted.Advice.Kind
	since := r.Serves(q.Claim)
	o.Cured = !since.IsZero() && !r.Last(q)
	o.Lasted = o.Cured && r.Ended.Sub(since) >= lasts
	o.Needed = left.Serves(q.Claim).IsZero() || left.Last(q)
	moment := r.Began.Add(q.At)
	spared := left.Lost(left.Began.Add(q.At))
	for pod, claim := range r.Lost(moment) {
		alone := false
		for _, c := range spared {
			alone = alone || c == claim
		}
		_, name, _ := strings.Cut(pod, "/")
		switch {
		case alone || claim == q.Claim || strings.Contains(acted.Advice.Named, name):
		case slices.Contains(r.Drained, pod):
			drained++
		default:
			o.Harm += fmt.Sprintf("pod %s ended, which nothing named; ", pod)
		}
	}
	d.Done = append(d.Done, o)
	return o, drained
}
