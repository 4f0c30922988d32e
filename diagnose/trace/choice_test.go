package trace_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testworld"
)

// TestBlockedExplains: a blocked volume explains a wait before one that is merely under way.
func TestBlockedExplains(t *testing.T) {
	w := withSecret(testworld.New().Pending(0.3).Unattached()).Event("FailedMount", `MountVolume.SetUp failed for volume "keys" : secret "keys" not found`, 0.2).SaidAgain()
	v := traceOf(w).Verdict
	if v.Volume != "keys" || v.Reason != "MissingSecret" {
		t.Errorf("the verdict is %s for volume %q, want MissingSecret for keys: %s", v.Reason, v.Volume, v.Message)
	}
	v = traceOf(withSecret(testworld.New().Pending(0.3).Unattached())).Verdict
	if v.Volume != "data" || v.Stage != trace.StageAttached {
		t.Errorf("nothing is blocked, and the verdict is %s for volume %q: %s", v.Stage, v.Volume, v.Message)
	}
}

// TestWhatTheKubeletMakesIsNotBlamed: of two volumes about which nothing is reported, the one
// that the kubelet makes by itself would be there within seconds.
func TestWhatTheKubeletMakesIsNotBlamed(t *testing.T) {
	v := traceOf(withSecret(testworld.New().Pending(1))).Verdict
	if v.Volume != "data" || len(v.Volumes) > 0 {
		t.Errorf("the verdict names %q %v, want data alone: %s", v.Volume, v.Volumes, v.Message)
	}
}

// TestWhoFailedTheMount: a mount that fails without an answer of the driver has failed in the
// kubelet, unless the words are those of a program or of the kernel, whoever quotes them.
func TestWhoFailedTheMount(t *testing.T) {
	for words, actor := range map[string]string{
		"applyFSGroup failed for vol vol-1: lchown /data/x: read-only file system": "the workload owner",
		"rpc error: code = Internal desc = read-only file system":                  "the workload owner",
		"rpc error: code = Internal desc = the moon is in the way":                 "CSI driver ebs.csi.aws.com on n1",
		`path "/mnt/disks/a" does not exist`:                                       "the node admin",
		`failed to fetch token: serviceaccounts "app" not found`:                   "whoever is to create serviceaccount/app",
		`failed to fetch token: serviceaccounts "app" is forbidden: the moon`:      "the cluster admin",
		`Mount options are not supported for this volume type`:                     "the cluster admin",
		"rpc error: code = Internal desc = mount failed: exit status 32: mount: bad option; for several filesystems (e.g. nfs, cifs) you might need a /sbin/mount.<type> helper program.": "the node admin",
		"rpc error: code = Internal desc = mount failed: exit status 32": "CSI driver ebs.csi.aws.com on n1",
		"no space left on device": "the kubelet of n1",
	} {
		w := testworld.New().Pending(1).Event("FailedMount", `MountVolume.SetUp failed for volume "pv-data" : `+words, 0.1)
		doc := traceOf(w)
		v := doc.Verdict
		if v.Actor != actor {
			t.Errorf("%s: the actor is %q, want %q", words, v.Actor, actor)
		}
		acts := strings.HasPrefix(actor, "CSI driver ") || strings.HasPrefix(actor, "the kubelet of ")
		if ends := doc.Stage().Ends; strings.HasPrefix(ends, "the kubelet tries again") != acts {
			t.Errorf("%s: %q is to act, and %q ends the wait", words, actor, ends)
		}
		if word, _ := kubeletwords.Find(kubeletwords.MountWords, words); word.Permanent != (v.State == finding.Stuck) {
			t.Errorf("%s: no retry can succeed: %t, and the verdict is %s", words, word.Permanent, v.State)
		}
	}
}

// TestStagesOfAJobThatHasEnded: the pod object of a job stays, and does not show what is
// mounted for it.
func TestStagesOfAJobThatHasEnded(t *testing.T) {
	w := testworld.New()
	w.Pod.Status.Phase = corev1.PodSucceeded
	w.Pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: testworld.MinutesAgo(9), FinishedAt: testworld.MinutesAgo(1)}}
	w.Pod.Status.Conditions[1].Status = corev1.ConditionFalse
	traced := traceOf(w)
	at, ok := traced.Standing(traced.Volumes[0])
	if !ok || !slices.Equal(at.Possible, []trace.StageName{trace.StageUnmounted, trace.StageUnstaged}) {
		t.Errorf("it may stand in %v, want unmounted and unstaged: %s", at.Possible, traced.Verdict.Message)
	}
}
