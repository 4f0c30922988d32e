package diagnose_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestAdviceNamesItsHits: no advice deletes or restarts something without the number of pods
// that it hits, in the cases and the threads, also with less read.
func TestAdviceNamesItsHits(t *testing.T) {
	for _, c := range corpus(t) {
		s := c.snapshot(t)
		holdsHits(t, c.name, s, diagnose.Diagnose(s, diagnose.Options{Reconcile: c.settings}))
		for _, kind := range []snapshot.Kind{snapshot.Events, snapshot.Leases, snapshot.Pods} {
			s := fewer(s, kind, none)
			holdsHits(t, c.name+" without "+string(kind), s, diagnose.Diagnose(s, diagnose.Options{Reconcile: c.settings}))
		}
	}
	for _, th := range readThreads(t) {
		holdsHits(t, th.name, th.cluster, diagnose.Diagnose(th.cluster, diagnose.Options{}))
	}
}

func TestAdviceOfRandomClustersNamesItsHits(t *testing.T) {
	cases := corpusSnapshots(t)
	rapid.Check(t, func(t *rapid.T) {
		s, settings := testcases.Draw(t, cases), drawSettings(t)
		holdsHits(t, "a random cluster", s, diagnose.Diagnose(s, settings))
	})
}

// amountSaid matches the number of pods that a step hits, in its sentence.
var amountSaid = regexp.MustCompile(`\b(?:[0-9]+ pods?|no pod|an unknown number of pods|that pod alone)\b`)

func holdsHits(t interface{ Errorf(string, ...any) }, name string, s *snapshot.Snapshot, r *finding.Report) {
	for _, f := range r.Findings {
		for _, a := range f.Do {
			if strings.ContainsAny(a.Sentence, "{}") || len(a.Hits) == 0 && !a.Told && slices.ContainsFunc(step.Reaches(), func(r step.Reach) bool { return r.Kind == step.Kind(a.Kind) }) {
				t.Errorf("%s: %s: whom does it hit: %+v", name, f.Code, a)
			}
		}
		for _, st := range f.Steps {
			if !amountSaid.MatchString(st.Says) || st.Hits != nil && *st.Hits != len(st.Pods) {
				t.Errorf("%s: %s: %s hits %v pods (%v): %s", name, f.Code, st.Kind, st.Hits, st.Pods, st.Says)
			}
			if st.Kind != step.DeletePod && st.Hits != nil && !s.Complete(snapshot.Pods) {
				t.Errorf("%s: %s: %s counts pods that were not read: %s", name, f.Code, st.Kind, st.Says)
			}
		}
		for _, command := range f.AdviceCommands {
			deletesNoMount(t, name, s, f, command)
		}
	}
}

var deletes = regexp.MustCompile(`^kubectl delete pod/(\S+) --namespace=(\S+)`)

// deletesNoMount: a command that deletes a pod names a pod of a step, and no mount of another
// pod ends with it, as far as the table of drivers and the objects prove.
func deletesNoMount(t interface{ Errorf(string, ...any) }, name string, s *snapshot.Snapshot, f finding.Finding, command string) {
	m := deletes.FindStringSubmatch(command)
	if m == nil {
		if strings.Contains(command, "delete pod") || strings.Contains(command, "restart") || strings.Contains(command, "drain") {
			t.Errorf("%s: %s: the command %q is none that this test knows", name, f.Code, command)
		}
		return
	}
	pod := s.Pod(types.NamespacedName{Namespace: m[2], Name: m[1]})
	if pod == nil {
		t.Errorf("%s: %s: %s deletes a pod that is not there", name, f.Code, command)
		return
	}
	if !slices.ContainsFunc(f.Steps, func(s finding.Step) bool {
		return s.Kind == step.DeletePod && slices.Contains(s.Pods, m[2]+"/"+m[1]) || s.Kind == step.RestartNodePlugin || s.Kind == step.RestartController
	}) {
		t.Errorf("%s: %s: %s, and no step says whom that hits: %+v", name, f.Code, command, f.Steps)
	}
	for _, driver := range facts.SocketDirectories(pod) {
		for _, user := range s.Pods {
			if user.Spec.NodeName != pod.Spec.NodeName || user.Status.Phase != corev1.PodRunning {
				continue
			}
			for i := range user.Spec.Volumes {
				mount, uses := csiMount(s, user, &user.Spec.Volumes[i], driver)
				mount.HostNetwork = pod.Spec.HostNetwork
				if uses && facts.NodePluginServesMounts(driver, mount) != facts.ServesNone {
					t.Errorf("%s: %s: %s may end the mount of volume %s of pod %s", name, f.Code, command, user.Spec.Volumes[i].Name, facts.PodName(user))
				}
			}
		}
	}
}

// csiMount describes how the driver mounts the pod's volume, and reports whether it does.
func csiMount(s *snapshot.Snapshot, pod *corev1.Pod, v *corev1.Volume, driver string) (facts.Mount, bool) {
	if v.CSI != nil {
		return facts.Mount{Attributes: v.CSI.VolumeAttributes}, v.CSI.Driver == driver
	}
	claim := s.Claim(types.NamespacedName{Namespace: pod.Namespace, Name: reconcile.ClaimName(pod, v)})
	if claim == nil {
		return facts.Mount{}, false
	}
	pv := s.Volume(claim.Spec.VolumeName)
	if pv == nil || pv.Spec.CSI == nil || claim.Status.Phase != corev1.ClaimBound {
		return facts.Mount{}, false
	}
	return facts.Mount{Attributes: pv.Spec.CSI.VolumeAttributes, Shared: slices.Contains(pv.Spec.AccessModes, corev1.ReadWriteMany)}, pv.Spec.CSI.Driver == driver
}
