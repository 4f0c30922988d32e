package repair

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestVolumeMadeAgain: where the PersistentVolume of an attachment is gone, the report has
// the whole object that lets the attacher detach, and no repair that would strip the
// finalizer instead. Where something may use the disk, or the objects do not show which disk
// it is, the report has no such object.
func TestVolumeMadeAgain(t *testing.T) {
	vd119 := func(s *snapshot.Snapshot) (*View, *finding.Finding) {
		v := Look(s, diagnose.Options{}, Consent{})
		propose(v)
		if i := slices.IndexFunc(v.Report.Findings, func(f finding.Finding) bool { return f.Code == "VD119" }); i >= 0 {
			return v, &v.Report.Findings[i]
		}
		return v, nil
	}
	for name, claim := range map[string]string{
		"vd119-handle-known": "default/only-to-detach", "vd119-claim-lost": "default/data",
		"vd119-deleting": "", "vd119-unmounting": "", "vd119-not-ready": "", "vd119-disk-of-another": "", "vd119-pod-runs": "", "vd119-node-gone": "", "vd119-no-finalizer": "",
	} {
		t.Run(name, func(t *testing.T) {
			s := corpusCase(t, name)
			_, f := vd119(s)
			if f == nil {
				t.Fatal("no VD119")
			}
			if claim == "" {
				if len(f.AdviceCommands) > 0 {
					t.Errorf("the volume is to be made again by %v", f.AdviceCommands)
				}
				return
			}
			if f.Repair != nil || len(f.AdviceCommands) != 1 || !strings.Contains(f.Advice, "--detached="+f.VolumeAttachment) {
				t.Fatalf("repair %+v, advice %q, commands %v", f.Repair, f.Advice, f.AdviceCommands)
			}
			manifest, found := strings.CutPrefix(f.AdviceCommands[0], "printf %s '")
			manifest, piped := strings.CutSuffix(manifest, "' | kubectl create -f -")
			var pv corev1.PersistentVolume
			if err := json.Unmarshal([]byte(manifest), &pv); !found || !piped || err != nil {
				t.Fatalf("%s: %v", f.AdviceCommands[0], err)
			}
			ref := pv.Spec.ClaimRef
			if pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain || ref == nil || ref.UID == "" || ref.Namespace+"/"+ref.Name != claim ||
				len(pv.Spec.AccessModes) == 0 || pv.Spec.Capacity.Storage().IsZero() {
				t.Errorf("the volume is %+v", pv.Spec)
			}
			s.Volumes = append(s.Volumes, &pv)
			s = withLists(s)
			after, again := vd119(s)
			if again != nil {
				t.Errorf("with the volume there is still %s", again.Message)
			}
			driver, handle, ok := after.Facts.AskedDisk(s.VolumeAttachment(f.VolumeAttachment))
			if !ok || driver != "ebs.csi.aws.com" || handle != "vol-1" {
				t.Errorf("the attacher would detach %s of %s (%t)", handle, driver, ok)
			}
		})
	}
}
