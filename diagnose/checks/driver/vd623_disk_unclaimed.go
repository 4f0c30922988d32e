package driver

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/storage"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var DiskUnclaimed = check.Check{
	Code:     "VD623",
	Name:     "disk-unclaimed",
	Title:    "The storage system has a disk that was made for a persistent volume, and none names it",
	Severity: finding.Info,
	Needs:    []snapshot.Kind{snapshot.Volumes},
	OfList:   true,
	Never:    "delete a disk on the word of this list: another cluster may use it, or somebody may keep it on purpose",
	Run:      runDiskUnclaimed,
}

func runDiskUnclaimed(p *check.Run) {
	for _, d := range storage.Unclaimed(p.Snapshot, p.World) {
		f := finding.Finding{
			Subject: finding.Object{Kind: "CSIDriver", Name: d.Driver}, Volume: reconcile.CSIVolumeName(d.Driver, d.ID),
			Message:   fmt.Sprintf("Disk %s is attached to nothing, and no PersistentVolume names it", d.ID),
			Detail:    "nothing on the disk shows whose it is: it may be another one's",
			Cause:     "its PersistentVolume had the policy Retain and was deleted, or was deleted without its finalizers, or the whole cluster was",
			Evidence:  []finding.Evidence{d.Evidence()},
			SelfHeals: finding.SelfHeals{Because: "a provisioner knows no disk but those that PersistentVolumes name"},
			Advice:    "{note} ask whoever owned its claim whether the data are wanted; a new PersistentVolume with its id as volumeHandle leads to them again",
		}
		if d.Ours {
			f.Detail = "it bears the mark of this cluster"
		}
		if d.Detached != nil {
			f.Since = &metav1.Time{Time: *d.Detached}
		}
		p.Report(f)
	}
}
