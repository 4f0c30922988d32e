package history

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/preflight"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/api"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/bubble"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// TestUpgrade: what "preflight upgrade" says that the controller at work remembers and one that
// starts does not, the one at work keeps in a copy of the world that is left alone, and the one
// that starts takes off its node, once that is lost, in a copy in which it is restarted; and
// nothing else.
func TestUpgrade(t *testing.T) {
	const asked, restarted, judged = 4 * time.Minute, 4*time.Minute + 10*time.Second, 16 * time.Minute
	for name, step := range map[string]Step{
		"nothing is changed":             {At: 2 * time.Minute, Do: "cut all watches"},
		"a claimRef is edited":           {At: 2 * time.Minute, Do: "edit the claimRef", Claim: "web0"},
		"access modes are edited":        {At: 2 * time.Minute, Do: "edit the access modes", Claim: "web0"},
		"the CSIDriver is deleted":       {At: 2 * time.Minute, Do: "delete the CSIDriver"},
		"a node loses its annotation":    {At: 2 * time.Minute, Do: "take the annotation", Node: "@web0"},
		"a claim is gone under its pod":  {At: 2 * time.Minute, Do: "delete the claim", Claim: "web0"},
		"a volume is gone under its pod": {At: 2 * time.Minute, Do: "delete the volume", Claim: "web0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play := func(steps ...Step) (forgotten []string, kept map[string]bool) {
				bubble.Run(t, limit, func(t *testing.T) {
					ctx, cancel := context.WithCancel(context.Background())
					defer func() {
						cancel()
						time.Sleep(ends)
					}()
					w, err := NewWorld(ctx, Small)
					if err != nil {
						t.Error(err)
						return
					}
					defer func() {
						cancel()
						w.Wait()
					}()
					for _, s := range steps {
						w.run(func() {
							time.Sleep(s.At - w.Since())
							w.do(ctx, s)
						})
					}
					time.Sleep(settles)
					claims := w.claimsByHandle()
					time.Sleep(asked - w.Since())
					c, err := w.connect()
					if err != nil {
						t.Error(err)
						return
					}
					defer c.Close()
					s, err := w.read(ctx, c)
					if err != nil {
						t.Error(err)
						return
					}
					for _, f := range preflight.OfUpgrade(s, api.Version, reconcile.Options{}).Forgets {
						if f.Detaches() {
							_, handle, _ := strings.Cut(string(f.Volume), "^")
							forgotten = append(forgotten, claims[handle])
						}
					}
					before := w.attached(t, claims)
					time.Sleep(judged - w.Since())
					after := w.attached(t, claims)
					kept = map[string]bool{}
					for pair, claim := range before {
						_, kept[claim] = after[pair]
					}
				})
				return forgotten, kept
			}
			// No controller takes a mounted volume off a node that is Ready.
			lost := Step{At: 5 * time.Minute, Do: "stop the kubelet", Node: "@web0"}
			forgotten, left := play(step, lost)
			_, anew := play(step, lost, Step{At: restarted, Do: "stop the manager", For: time.Second})
			for claim, kept := range left {
				switch forgets := slices.Contains(forgotten, claim); {
				case !kept:
					t.Errorf("the controller at work has let go of the volume of %s", claim)
				case forgets && anew[claim]:
					t.Errorf("that of %s is said to be forgotten, and the controller that starts keeps it", claim)
				case !forgets && !anew[claim]:
					t.Errorf("the controller that starts has let go of that of %s, which is not said to be forgotten", claim)
				}
			}
			t.Logf("said to be forgotten %v, kept by the controller that starts %v", forgotten, anew)
		})
	}
}

// claimsByHandle are the names of the claims of the volumes that there are.
func (w *World) claimsByHandle() map[string]string {
	volumes, _ := w.objects.Volumes.List(labels.Everything())
	claims := map[string]string{}
	for _, pv := range volumes {
		claims[pv.Spec.CSI.VolumeHandle] = pv.Spec.ClaimRef.Name
	}
	return claims
}

// attached are the VolumeAttachments that nobody has deleted, by their names, which are of a
// volume and a node, with their claims: where a pod runs differs from copy to copy.
func (w *World) attached(t *testing.T, claims map[string]string) map[string]string {
	t.Helper()
	list, err := w.client.StorageV1().VolumeAttachments().List(w.ctx, metav1.ListOptions{})
	if err != nil {
		t.Error(err)
		return nil
	}
	names := map[string]string{}
	for _, va := range list.Items {
		if va.DeletionTimestamp == nil {
			uid, _ := strings.CutPrefix(*va.Spec.Source.PersistentVolumeName, "pvc-")
			names[va.Name] = claims["vol-"+uid[:8]] // the volume may be gone
		}
	}
	return names
}
