package diagnose_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/scope"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// ofUse removes the pods that no check needs and nobody has asked for, and the kinds that no
// check needs in this snapshot.
func ofUse(s *snapshot.Snapshot, asked func(*corev1.Pod) bool) *snapshot.Snapshot {
	o := s.Objects
	of := facts.NeedsOf(&o).OfUse
	if !scope.AsksForStorageClasses(&o) {
		o.StorageClasses = nil
	}
	if !scope.AsksForDeployments(&o) {
		o.Deployments = nil
	}
	o.Pods = slices.DeleteFunc(slices.Clone(o.Pods), func(pod *corev1.Pod) bool { return !of(pod) && !asked(pod) })
	return remade(s, o, slices.Clone(s.Gaps))
}

// TestPodsOfUse: nothing changes without the other pods: no report, no plan, no trace of a kept
// pod, and no preflight of a node whose pods are kept.
func TestPodsOfUse(t *testing.T) {
	long.Test(t)
	cases := corpusSnapshots(t)
	nobody := func(*corev1.Pod) bool { return false }
	dropped := 0
	same := func(t interface{ Errorf(string, ...any) }, s *snapshot.Snapshot, settings diagnose.Options) {
		less := ofUse(s, nobody)
		dropped += len(s.Pods) - len(less.Pods)
		all, few := diagnose.Diagnose(s, settings), diagnose.Diagnose(less, settings)
		all.Scope, few.Scope = finding.Scope{}, finding.Scope{} // fewer pods were kept
		if diff := gocmp.Diff(all, few, gocmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
			t.Errorf("the report differs:\n%s", diff)
		}
		plan := func(s *snapshot.Snapshot) string {
			world := reconcile.NewWorld(s, settings.Reconcile)
			return fmt.Sprintf("%+v %+v", world.Skipped, asJSON(t, world.Reconcile().Decisions))
		}
		if diff := gocmp.Diff(plan(s), plan(less)); diff != "" {
			t.Errorf("the plan differs:\n%s", diff)
		}
		if len(s.Pods) > 0 {
			pod := s.Pods[len(s.Pods)/2]
			less := ofUse(s, func(p *corev1.Pod) bool { return p == pod })
			if diff := gocmp.Diff(asJSON(t, diagnose.TracePod(s, pod, settings)), asJSON(t, diagnose.TracePod(less, pod, settings))); diff != "" {
				t.Errorf("the trace differs:\n%s", diff)
			}
		}
		for _, node := range s.Nodes {
			less := ofUse(s, func(p *corev1.Pod) bool { return p.Spec.NodeName == node.Name })
			preflight := func(s *snapshot.Snapshot) string {
				return asJSON(t, diagnose.PreflightNode(s, types.NodeName(node.Name), settings))
			}
			if diff := gocmp.Diff(preflight(s), preflight(less)); diff != "" {
				t.Errorf("the preflight differs:\n%s", diff)
			}
		}
	}
	for _, s := range cases {
		same(t, s, diagnose.Options{})
		// Attachers that only their containers show: not the leader, no volumes.
		o := cloned(s.Objects)
		for _, pod := range o.Pods {
			if slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return strings.Contains(c.Image+c.Name, "csi-attacher") }) {
				pod.Name, pod.Spec.Volumes = pod.Name+"-other", nil
			}
		}
		same(t, remade(s, o, slices.Clone(s.Gaps)), diagnose.Options{})
	}
	rapid.Check(t, func(t *rapid.T) { same(t, testcases.Draw(t, cases), drawSettings(t)) })
	if dropped == 0 {
		t.Error("no pod was ever left out: this shows nothing")
	}
}

func asJSON(t interface{ Errorf(string, ...any) }, value any) string {
	text, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Errorf("%v", err)
	}
	return string(text)
}
