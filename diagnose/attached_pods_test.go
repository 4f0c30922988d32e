package diagnose_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testworld"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestPodsWithAttachedVolume checks the number of pods with an attached volume in typed lists: it is
// that of the pods whose own node has the volume, and it is not known where a list that shows this is
// missing, not whole or refused.
func TestPodsWithAttachedVolume(t *testing.T) {
	w := testworld.New()
	none, elsewhere, ended := testworld.NewPod("none", "n1"), testworld.NewPod("elsewhere", "n2"), testworld.NewPod("ended", "n1")
	none.Spec.Volumes = nil
	for _, pv := range w.Volumes {
		pv.Status.Phase = corev1.VolumeBound
	}
	ended.Status.Phase = "Succeeded"
	w.Pods = append(w.Pods, none, elsewhere, ended)
	lists := map[snapshot.Kind]any{
		snapshot.Nodes: w.Nodes, snapshot.Pods: w.Pods, snapshot.Volumes: w.Volumes, snapshot.Claims: w.Claims,
		snapshot.VolumeAttachments: w.VolumeAttachments, snapshot.CSINodes: w.CSINodes, snapshot.CSIDrivers: w.CSIDrivers, snapshot.Leases: w.Leases,
		snapshot.Events: []any{}, snapshot.StorageClasses: []any{},
	}
	known := func(change func(snapshot.Kind, string) string) string {
		t.Helper()
		var text strings.Builder
		for _, r := range snapshot.Resources() {
			if r.Optional {
				continue
			}
			items, err := json.Marshal(lists[r.Kind])
			if err != nil {
				t.Fatal(err)
			}
			text.WriteString(change(r.Kind, fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{},"items":%s}`, r.Version, r.Object+"List", items)) + "\n")
		}
		s, _, err := snapshot.Read("lists.json", strings.NewReader(text.String()), snapshot.ReadOptions{Now: testworld.Now})
		if err != nil {
			t.Fatal(err)
		}
		n := diagnose.Diagnose(s, diagnose.Options{}).Scope.PodsWithAttachedVolume
		if n == nil {
			return "not known"
		}
		return fmt.Sprint(*n)
	}
	if got := known(func(_ snapshot.Kind, list string) string { return list }); got != "1" {
		t.Errorf("of whole lists: %s", got)
	}
	shows := map[snapshot.Kind]bool{
		snapshot.Nodes: true, snapshot.VolumeAttachments: true, snapshot.CSINodes: true, snapshot.CSIDrivers: true, snapshot.Volumes: true, snapshot.Claims: true,
	}
	for _, kind := range snapshot.Kinds() {
		for name, change := range map[string]func(string) string{
			"missing": func(string) string { return "" },
			"not whole": func(list string) string {
				return strings.Replace(list, `"metadata":{}`, `"metadata":{"continue":"x"}`, 1)
			},
		} {
			got := known(func(k snapshot.Kind, list string) string {
				if k == kind {
					return change(list)
				}
				return list
			})
			want := "1"
			if shows[kind] {
				want = "not known"
			} else if kind == snapshot.Pods && name == "missing" {
				want = "0" // of those that were read
			}
			if got != want {
				t.Errorf("%s %s: %s, not %s", kind, name, got, want)
			}
		}
	}
}
