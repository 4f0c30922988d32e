package diagnose_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// presupposed are the conditions of warnings, by their words: without them nobody can do what
// the warning is about, or nothing would be lost by it.
var presupposed = []struct {
	words *regexp.Regexp
	there func(*snapshot.Snapshot, finding.Finding) bool
}{
	{regexp.MustCompile(`delete (?:the|a|its) VolumeAttachment`), func(s *snapshot.Snapshot, f finding.Finding) bool {
		return len(s.VolumeAttachments) > 0
	}},
	{regexp.MustCompile(`^delete its VolumeAttachment`), func(_ *snapshot.Snapshot, f finding.Finding) bool { return f.VolumeAttachment != "" }},
	{regexp.MustCompile(`claim of a pod that has run before`), func(s *snapshot.Snapshot, f finding.Finding) bool {
		claim := s.Claim(types.NamespacedName{Namespace: f.Subject.Namespace, Name: f.Subject.Name})
		return claim != nil && claim.Spec.VolumeName != ""
	}},
	{regexp.MustCompile(`file system on a Block volume`), func(s *snapshot.Snapshot, f finding.Finding) bool {
		pv := s.Volume(f.PersistentVolume)
		return pv != nil && facts.VolumeMode(pv) == corev1.PersistentVolumeBlock
	}},
	{regexp.MustCompile(`relabel the node`), func(_ *snapshot.Snapshot, f finding.Finding) bool { return f.Node != "" }},
	{regexp.MustCompile(`(?:or|^)\s?force-delete the pod: (?:data loss|its container)`), func(s *snapshot.Snapshot, f finding.Finding) bool {
		return slices.ContainsFunc(s.Pods, func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil || facts.NodeOf(pod) == f.Node })
	}},
	{regexp.MustCompile(`"no relationship found"`), func(s *snapshot.Snapshot, f finding.Finding) bool {
		return slices.ContainsFunc(f.Evidence, func(e finding.Evidence) bool { return strings.Contains(e.Value, "no relationship found") })
	}},
	{regexp.MustCompile(`^detach it by force`), func(s *snapshot.Snapshot, f finding.Finding) bool {
		return slices.ContainsFunc(s.Nodes, func(node *corev1.Node) bool { return finding.Names(f.Never, node.Name) && node.Name != string(f.Node) })
	}},
	{regexp.MustCompile(`what is mounted for it may stay`), func(_ *snapshot.Snapshot, f finding.Finding) bool {
		return !strings.HasSuffix(f.Message, " to be attached")
	}},
	{regexp.MustCompile(`^set nodeName in`), func(s *snapshot.Snapshot, f finding.Finding) bool {
		pod := s.Pod(types.NamespacedName{Namespace: f.Subject.Namespace, Name: f.Subject.Name})
		return pod != nil && pod.Spec.NodeName == ""
	}},
	{regexp.MustCompile(`^recreate the claim before its data is found`), func(_ *snapshot.Snapshot, f finding.Finding) bool {
		return !strings.Contains(f.Message, "has no node yet")
	}},
	{regexp.MustCompile(`a pod may have the volume mounted`), func(s *snapshot.Snapshot, f finding.Finding) bool {
		return slices.ContainsFunc(s.Pods, func(pod *corev1.Pod) bool {
			return slices.Contains(f.Pods, facts.PodName(pod)) && pod.Spec.NodeName != "" && facts.MayUseVolumes(pod)
		})
	}},
}

// TestNeverFitsTheCause: each finding of any case or thread warns about something, and about nothing
// that cannot be done there.
func TestNeverFitsTheCause(t *testing.T) {
	warned := make([]int, len(presupposed))
	look := func(name string, s *snapshot.Snapshot, r *finding.Report) {
		for _, f := range r.Findings {
			if f.Never == "" {
				t.Errorf("%s: %s warns about nothing: %s", name, f.Code, f.Message)
			}
			for i, p := range presupposed {
				if !p.words.MatchString(f.Never) {
					continue
				}
				warned[i]++
				if !p.there(s, f) {
					t.Errorf("%s: %s: %s\n  do not %s", name, f.Code, f.Message, f.Never)
				}
			}
		}
	}
	for _, c := range corpus(t) {
		s := c.snapshot(t)
		look(c.name, s, diagnose.Diagnose(s, diagnose.Options{Reconcile: c.settings}))
	}
	for _, th := range readThreads(t) {
		look(th.name, th.cluster, diagnose.Diagnose(th.cluster, diagnose.Options{}))
	}
	for i, n := range warned {
		if n == 0 {
			t.Errorf("nothing warns with %s: this shows nothing", presupposed[i].words)
		}
	}
}

// TestNeverFitsTheStage: the warning is about what people try at that point. Each case stands beside
// another of its check, in which somebody would try something else.
func TestNeverFitsTheStage(t *testing.T) {
	for _, c := range []struct {
		name  string
		code  finding.Code
		never string
	}{
		{"vd121-restored", "VD121", "delete the VolumeAttachment: that detaches the new disk, not the old one"},
		{"vd121-deleting", "VD121", "start a pod with the volume on node n1 before its VolumeAttachment is gone: the new disk would be detached under it"},
		{"vd308-csi-detached", "VD308", "delete the VolumeAttachment of a volume that a pod runs with, or patch status.attached"},
		{"vd308-device-missing", "VD308", "patch status.attached, or attach the volume past the cluster: the controller knows nothing of that"},
		{"vd308-storage-attached", "VD308", "detach the volume at the storage system: it is attached where it belongs"},
		{"vd401-near-no-error", "VD409", "delete its VolumeAttachment: its driver may be attaching now"},
		{"vd102-near-many-nodes", "VD409", "recreate the claim: the new one may be empty, and waits for the same"},
		{"vd305-near-lease-stale", "VD409", "delete its VolumeAttachment: the pod does not wait for that"},
		{"vd301-near-no-attach", "VD409", "force-delete the pod: what is mounted for it may stay on the node"},
		{"vd409-terminating-config-map", "VD409", "force-delete the pod: its volume may still be mounted"},
		{"vd409-only-machine", "VD409", "set nodeName in the pod: nobody then checks that its volumes fit there"},
	} {
		r := diagnose.Diagnose(caseNamed(t, c.name).snapshot(t), diagnose.Options{})
		if i := slices.IndexFunc(r.Findings, func(f finding.Finding) bool { return f.Code == c.code }); i < 0 {
			t.Errorf("%s: no %s", c.name, c.code)
		} else if got := r.Findings[i].Never; got != c.never {
			t.Errorf("%s: do not %q, not %q", c.name, got, c.never)
		}
	}
}
