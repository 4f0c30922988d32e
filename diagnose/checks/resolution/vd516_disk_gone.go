package resolution

import (
	"fmt"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/storage"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var DiskGone = check.Check{
	Code:     "VD516",
	Name:     "disk-gone",
	Title:    "A persistent volume leads to a disk that the storage system's list does not have",
	Severity: finding.Warning,
	Needs:    []snapshot.Kind{snapshot.Volumes, snapshot.Nodes},
	OfList:   true,
	Never:    "delete the claim or the PersistentVolume before you know: they say what the data were, and of whom",
	Run:      runDiskGone,
}

func runDiskGone(p *check.Run) {
	for _, lost := range storage.WithoutDisk(p.View) {
		f := finding.Finding{
			Subject: facts.PvObject(lost.PV), PersistentVolume: lost.PV.Name, Volume: lost.Name,
			Message:   fmt.Sprintf("Volume %s leads to disk %s, which the storage system's list does not have", lost.PV.Name, lost.Handle),
			Detail:    "the list has other disks of this cluster, also where this one would be, and no further page",
			Cause:     "the disk was deleted by somebody outside the cluster, or a filter left it out of the list",
			Evidence:  []finding.Evidence{lost.Evidence()},
			SelfHeals: finding.SelfHeals{Because: "a disk that is gone does not come back; no object of the cluster changes with its disk"},
			Advice:    "{note} ask the storage system for each disk by its id; if one is gone, {change} restore its data from a snapshot or backup into a new claim",
		}
		if ref := lost.PV.Spec.ClaimRef; ref != nil {
			f.Evidence = append(f.Evidence, finding.Evidence{Object: "persistentvolume/" + lost.PV.Name, Field: "spec.claimRef", Value: ref.Namespace + "/" + ref.Name})
		}
		p.Report(f)
	}
}
