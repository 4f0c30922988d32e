package diagnose_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
)

// TestHealthIsEvidence: the health of a claim that the driver reports is evidence of the
// findings about its volume, and of no others.
func TestHealthIsEvidence(t *testing.T) {
	long.Test(t)
	c := caseNamed(t, "vd401-driver-refuses")
	s := c.snapshot(t)
	for _, claim := range s.Claims {
		if claim.Name == "data" {
			claim.Status.HealthStatus = &corev1.VolumeHealthStatus{HealthConditions: []corev1.VolumeHealthCondition{
				{Status: corev1.VolumeHealthInaccessible, Reason: "KeyRevoked", Message: "the key of the volume was revoked"}}}
		}
	}
	want := finding.Evidence{Object: "persistentvolumeclaim/default/data", Field: "status.healthStatus", Value: "Inaccessible, KeyRevoked: the key of the volume was revoked"}
	about := 0
	for _, f := range c.diagnose(s).Findings {
		has := slices.Contains(f.Evidence, want)
		if has != (f.PersistentVolume == "pv-data") {
			t.Errorf("%s about %q: evidence %v", f.Code, f.PersistentVolume, f.Evidence)
		}
		if has {
			about++
		}
	}
	if about == 0 {
		t.Error("no finding is about the volume")
	}
}
