package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var pvFinalizerWithoutVA = Check{
	Code:     "VD503",
	Name:     "pv-finalizer-without-va",
	Title:    "A persistent volume cannot go because of an attacher's finalizer, though nothing is attached",
	Severity: Warning,
	Needs:    []snapshot.Kind{snapshot.Volumes, snapshot.VolumeAttachments},
	Run:      runPVFinalizerWithoutVA,
}

// finalizerSettles is how long an attacher may take to take its finalizer off:
// it looks at every volume again after 10 min at most.
const finalizerSettles = 15 * time.Minute

func runPVFinalizerWithoutVA(p *Pass) {
	for _, pv := range p.Snapshot.Volumes {
		if pv.DeletionTimestamp == nil || p.Age(*pv.DeletionTimestamp) < finalizerSettles {
			continue // the finalizer is right on any volume that stays
		}
		attached := len(p.attachmentsNaming(pv.Name)) > 0
		if i := slices.IndexFunc(pv.Finalizers, func(f string) bool { return strings.HasPrefix(f, "external-attacher/") }); i >= 0 && !attached {
			p.pvFinalizer(pv, pv.Finalizers[i])
		}
	}
}

func (p *Pass) pvFinalizer(pv *corev1.PersistentVolume, finalizer string) {
	f := Finding{
		Subject:          pvObject(pv),
		PersistentVolume: pv.Name,
		Since:            pv.DeletionTimestamp,
		Message: fmt.Sprintf("Volume %s has been on its way out for %s and cannot go: no VolumeAttachment names it, but the finalizer %s is still there",
			pv.Name, rounded(p.Age(*pv.DeletionTimestamp)), finalizer),
		Cause: "the driver's attacher does not run, or it missed that the last VolumeAttachment went",
		Evidence: []Evidence{
			{"persistentvolume/" + pv.Name, "metadata.deletionTimestamp", stamp(*pv.DeletionTimestamp)},
			{"persistentvolume/" + pv.Name, "metadata.finalizers", fmt.Sprint(pv.Finalizers)},
			{"persistentvolume/" + pv.Name, "status.phase", string(pv.Status.Phase)},
		},
		SelfHeals: SelfHeals{Because: "only the attacher takes the finalizer off, and it has had time to look at the volume again"},
		Advice: fmt.Sprintf("make sure that the driver's attacher runs, then have it look again: kubectl annotate pv %s --overwrite nudged=\"$(date +%%s)\"; "+
			"take the finalizer off by hand only where that attacher is gone for good", pv.Name),
	}
	if pv.Spec.CSI != nil {
		if lease := p.attacherLease(pv.Spec.CSI.Driver); lease != nil && p.Age(renewed(lease)) >= attacherAway {
			f.Cause = "the driver's attacher does not run"
			f.Evidence = append(f.Evidence, leaseEvidence(lease))
		}
	}
	if others := slices.DeleteFunc(slices.Clone(pv.Finalizers), func(other string) bool { return other == finalizer }); len(others) > 0 {
		f.Advice += fmt.Sprintf("; the finalizers %v are there as well and have owners of their own", others)
	}
	p.Report(f)
}
