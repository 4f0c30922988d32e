package resolution

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var PvFinalizerWithoutVA = check.Check{
	Code:        "VD503",
	Name:        "pv-finalizer-without-va",
	Title:       "A persistent volume cannot go because of an attacher's finalizer, though nothing is attached",
	Severity:    finding.Warning,
	Needs:       []snapshot.Kind{snapshot.Volumes, snapshot.VolumeAttachments},
	OfNamespace: true,
	Follows: []check.Relation{
		{From: []finding.Code{"VD601", "VD604", "VD605", "VD607", "VD612"}, Match: sameFinalizer},
	},
	Never: "take the finalizer off while the attacher lives: it is the only one to know that the volume is detached",
	Run:   runPVFinalizerWithoutVA,
}

// finalizerGrace is how long an attacher may take to remove its finalizer: it looks at every
// volume again.
const finalizerGrace = facts.AttacherResync + 5*time.Minute

func runPVFinalizerWithoutVA(p *check.Run) {
	for _, pv := range p.Snapshot.Volumes {
		if pv.DeletionTimestamp == nil || p.Age(*pv.DeletionTimestamp) < finalizerGrace {
			continue // a volume that stays keeps the finalizer
		}
		attached := len(p.AttachmentsNaming(pv.Name)) > 0
		if i := slices.IndexFunc(pv.Finalizers, func(f string) bool { return strings.HasPrefix(f, reconcile.AttacherFinalizerPrefix) }); i >= 0 && !attached {
			pvFinalizer(p, pv, pv.Finalizers[i])
		}
	}
}

func pvFinalizer(p *check.Run, pv *corev1.PersistentVolume, finalizer string) {
	f := finding.Finding{
		Subject:          facts.PvObject(pv),
		PersistentVolume: pv.Name,
		Since:            pv.DeletionTimestamp,
		Message:          fmt.Sprintf("Volume %s is stuck in Terminating: its finalizer %s is still there", pv.Name, finalizer),
		Detail:           "no VolumeAttachment names it",
		Cause:            "the driver's attacher does not run, or it missed that the last VolumeAttachment went",
		Evidence:         terminating(pv, finding.Evidence{Object: "persistentvolume/" + pv.Name, Field: "status.phase", Value: string(pv.Status.Phase)}),
		SelfHeals:        finding.SelfHeals{Because: "only the attacher takes the finalizer off; it has had time to look at the volume again"},
		Advice:           "{check} make sure that the driver's attacher runs",
		ByHand:           "{change} annotate volume " + pv.Name + ", so that the attacher looks at it again",
		AdviceCommands:   []string{safetext.Kubectl("annotate", "pv/"+pv.Name, "--overwrite", "nudged="+strconv.FormatInt(p.Snapshot.TakenAt.Unix(), 10))},
	}
	if pv.Spec.CSI != nil {
		if lease := p.AttacherLease(pv.Spec.CSI.Driver); lease != nil && p.Age(facts.Renewed(lease)) >= facts.AttacherAway {
			f.Cause = "the driver's attacher does not run"
			f.Evidence = append(f.Evidence, facts.LeaseEvidence(lease))
		}
	}
	if others := slices.DeleteFunc(slices.Clone(pv.Finalizers), func(other string) bool { return other == finalizer }); len(others) > 0 {
		f.Advice += "; its other finalizers are for their owners to take off: " + strings.Join(others, ", ")
	}
	p.Report(f)
}

// sameFinalizer reports whether the volume waits for the attacher of the cause's driver.
func sameFinalizer(p *facts.View, cause, effect finding.Finding) bool {
	pv := p.Snapshot.Volume(effect.PersistentVolume)
	return pv != nil && slices.Contains(pv.Finalizers, reconcile.AttacherFinalizer(p.DriverOf(cause)))
}
