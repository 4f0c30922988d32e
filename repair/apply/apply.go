package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// DryRunMode is how far a repair goes, as with kubectl's --dry-run.
type DryRunMode string

// The modes.
const (
	DryRunNone   DryRunMode = ""
	DryRunClient DryRunMode = "client" // nothing is sent but reads
	DryRunServer DryRunMode = "server" // the write is sent, and not stored
)

// firstPause is the pause between the first two looks at a cluster after a write. Each
// further pause is twice as long, because each look reads every object, but none is longer
// than podPause while a pod waits, and with it a person. A judgement: the controller acts
// within seconds, and the prompt is back within 15 s after the pod runs.
const (
	firstPause = 5 * time.Second
	podPause   = 2 * firstPause
)

// Applier carries repairs out, one after the other:
//
//  1. read the objects again; the same finding must be there
//  2. every guard must hold on them
//  3. send the write, worked out again, as a dry run
//  4. write the intent to the journal, on disk
//  5. read again the few objects that the write is about; every guard must hold on them
//  6. send the write with its preconditions; on a conflict begin again, once
//  7. look until the finding has been gone, and the write's effect there, for
//     as long as HoldFor
//  8. write the outcome to the journal
type Applier struct {
	Cluster Cluster
	// Options are the options with which the findings were made.
	Options diagnose.Options
	// Consent is the user's word on facts that no API shows.
	Consent repair.Consent
	Journal *Journal
	// Observe, where it is not nil, is called with every step.
	Observe func(Event)
	// Wait pauses; it returns early with an error if the context ends.
	Wait func(ctx context.Context, d time.Duration) error
	// HoldFor is how long a repair must hold to count.
	HoldFor time.Duration
	// Waited are the pods that waited for a volume, as namespace/name. A repair for some of
	// them counts as done once they run, however short the time since.
	Waited []string
	// MaxRepairs bounds how many writes are begun.
	MaxRepairs int
	DryRun     DryRunMode
	// ServerMoved lets Undo take back writes that went to a server of another address, which
	// is this server by the user's word.
	ServerMoved bool
	// KeepGoing reports whether the run goes on after a failure.
	KeepGoing bool
}

// Apply carries the repairs out and returns the result of each. The error is about the run as
// a whole: rights are missing, so that nothing was done, or the journal cannot be kept, or
// ctx has ended.
func (a *Applier) Apply(ctx context.Context, repairs []repair.Repair) ([]Result, error) {
	repairs = slices.Clone(repairs)
	repair.InOrder(repairs)
	var needs []repair.Permission
	for _, r := range repairs {
		needs = append(needs, r.Needs...)
	}
	if err := a.permitted(ctx, needs); err != nil {
		return nil, err
	}
	tasks := make([]task, 0, len(repairs))
	for i := range repairs {
		proposed := &repairs[i]
		made := proposed
		tasks = append(tasks, task{
			result: Result{Summary: proposed.Summary, Finding: *repair.RefTo(proposed.Finding)},
			prepare: func(v *repair.View) (*repair.Write, error) {
				fresh, err := proposed.Renew(v)
				if err != nil {
					return nil, err
				}
				made = fresh
				return fresh.Write(), nil
			},
			confirm: func(ctx context.Context) (Outcome, string) { return a.confirm(ctx, made) },
		})
	}
	return a.run(ctx, tasks, a.MaxRepairs)
}

// permitted fails if a right is missing: half a run would leave a person with
// half a repair.
func (a *Applier) permitted(ctx context.Context, needs []repair.Permission) error {
	if a.DryRun == DryRunClient || len(needs) == 0 {
		return nil
	}
	var distinct []repair.Permission
	for _, p := range needs {
		if !slices.Contains(distinct, p) {
			distinct = append(distinct, p)
		}
	}
	missing, err := a.Cluster.Can(ctx, distinct)
	if err != nil {
		return fmt.Errorf("ask for the rights that the repairs take: %w", err)
	}
	if len(missing) == 0 {
		return nil
	}
	texts := make([]string, 0, len(missing))
	for _, p := range missing {
		texts = append(texts, p.String())
	}
	return fmt.Errorf("nothing was written: %w: you may not %s", repair.ErrForbidden, strings.Join(texts, "; "))
}

// verify watches the cluster until the repair has held for HoldFor. The controller may still
// overwrite it with its next write: verify shows that nothing undid the repair soon, not that
// nothing ever will. Where the controller may undo it, the repair's Lasts says so.
func (a *Applier) verify(ctx context.Context, r *repair.Repair) (Outcome, string) {
	var waited time.Duration
	pods := slices.DeleteFunc(slices.Clone(r.Finding.About()), func(pod string) bool { return !slices.Contains(a.Waited, pod) })
	for pause := firstPause; ; pause *= 2 {
		var effect repair.Effect
		v, err := a.see(ctx, r.Reads())
		if err != nil {
			effect.Doubt = err.Error()
		} else {
			effect = r.Effect(v)
		}
		switch {
		case effect == repair.Effect{} && len(pods) > 0 && run(v, pods):
			return Repaired, join(fmt.Sprintf("%s (%s after the write); --wait watches on that it stays", areRunning(pods), waited), r.Lasts)
		case effect.NotNeeded:
			return Repaired, "and no longer needed: no pod wants it any more"
		case effect.Overwritten:
			return Unverified, join("something has overwritten it since", r.Lasts)
		case waited >= a.HoldFor && effect.Doubt != "":
			return Unverified, effect.Doubt
		case waited >= a.HoldFor:
			return Repaired, r.Lasts
		}
		if len(pods) > 0 {
			pause = min(pause, podPause)
		}
		pause = min(pause, a.HoldFor-waited)
		if err := a.Wait(ctx, pause); err != nil {
			return Unverified, "written, but interrupted before it had held for " + a.HoldFor.String()
		}
		waited += pause
	}
}

// run reports whether all of the pods run.
func run(v *repair.View, pods []string) bool {
	return !slices.ContainsFunc(pods, func(name string) bool {
		namespace, name, _ := strings.Cut(name, "/")
		pod := v.Snapshot.Pod(types.NamespacedName{Namespace: namespace, Name: name})
		return pod == nil || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning
	})
}

func areRunning(pods []string) string {
	if len(pods) == 1 {
		return "pod " + pods[0] + " is Running"
	}
	return fmt.Sprintf("%d pods are Running, the first is %s", len(pods), pods[0])
}
