package command_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/scenario"
)

var cluster *controlplane.Cluster

func TestMain(m *testing.M) {
	// The controller has its own period of one minute: the stories last for two.
	os.Exit(controlplane.Main(m, controlplane.Options{}, func(c *controlplane.Cluster) { cluster = c }))
}

type build func(context.Context, *controlplane.Cluster, scenario.Options) (*scenario.World, error)

func newWorld(t *testing.T, build build) *scenario.World {
	t.Helper()
	name := strings.ToLower(t.Name())
	w, err := build(t.Context(), cluster, scenario.Options{Namespace: name, Node: name + "-n1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return w
}

func await(t *testing.T, condition fixture.Condition) {
	t.Helper()
	if err := fixture.Await(t.Context(), condition); err != nil {
		t.Fatal(err)
	}
}

// doctor runs the command as the admin.
func doctor(t *testing.T, args ...string) command.Result {
	t.Helper()
	return doctorAs(t, cluster.Kubeconfig, args...)
}

func doctorAs(t *testing.T, kubeconfig string, args ...string) command.Result {
	t.Helper()
	r, err := command.Run(t.Context(), command.Binary, kubeconfig, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s\nexit code %d\n%s%s", strings.Join(args, " "), r.Code, r.Stdout, r.Stderr)
	return r
}

// find diagnoses the namespace until the check has a finding there: checks wait until a state
// can no longer be in flight.
func find(t *testing.T, w *scenario.World, check string) finding.Finding {
	t.Helper()
	deadline := time.Now().Add(4 * time.Minute)
	for {
		r := doctor(t, "diagnose", "-n", w.Namespace, "-o", "json")
		report := parse[finding.Report](t, r.Stdout)
		if !report.Complete {
			t.Fatalf("the admin cannot read everything: %v", report.Gaps)
		}
		if i := slices.IndexFunc(report.Findings, func(f finding.Finding) bool { return f.Check == check && f.Confidence == "" }); i >= 0 {
			if r.Code != 1 {
				t.Errorf("exit code %d, want 1", r.Code)
			}
			return report.Findings[i]
		}
		if time.Now().After(deadline) {
			t.Fatalf("no finding %s in namespace %s; found %v", check, w.Namespace, report.Findings)
		}
		time.Sleep(2 * time.Second)
	}
}

func parse[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return v
}

func node(t *testing.T, name string) *corev1.Node {
	t.Helper()
	n, err := cluster.Client().CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestBackoffDrop is the case of 2020 on a current release, with the real controller running:
// it is found, previewed, repaired and verified, and not undone while the repair is in use.
func TestBackoffDrop(t *testing.T) {
	t.Parallel()
	w := newWorld(t, scenario.BackoffDrop)
	client := cluster.Client()

	f := find(t, w, "inuse-not-attached")
	volume := w.Subject.Volume
	if f.Subject.Name != w.Subject.Pod || string(f.Node) != w.Node || f.Volume != volume.UniqueName() ||
		f.VolumeAttachment != volume.AttachmentName(w.Node) || f.SelfHeals.Will {
		t.Errorf("the finding is not about the broken pod: %+v", f)
	}
	if f.Repair == nil || f.Repair.Kind != "patch-node-status" || f.Repair.BlockedBy != "" {
		t.Fatalf("repair: %+v", f.Repair)
	}
	await(t, w.Dropped()) // it is still broken

	before := node(t, w.Node)
	for _, mode := range []string{"client", "server"} {
		if r := doctor(t, "diagnose", "-n", w.Namespace, "--for", "1s", "--apply", "--yes", "--dry-run="+mode); r.Code != 1 {
			t.Errorf("--dry-run=%s: exit code %d, want 1: the finding is still there", mode, r.Code)
		}
	}
	if r := doctor(t, "diagnose", "-n", w.Namespace, "--for", "1s", "--apply"); r.Code != 2 || !strings.Contains(r.Stderr, "--yes") {
		t.Errorf("without a terminal and --yes: exit code %d, %s", r.Code, r.Stderr)
	}
	if after := node(t, w.Node); !slices.Equal(before.Status.VolumesAttached, after.Status.VolumesAttached) {
		t.Fatalf("something was written without being asked for: %v", after.Status.VolumesAttached)
	}

	journal := filepath.Join(t.TempDir(), "journal.jsonl")
	r := doctor(t, "diagnose", "-n", w.Namespace, "--for", "5s", "--apply", "--yes", "--journal", journal, "-o", "wide")
	if r.Code != 0 {
		t.Fatalf("--apply: exit code %d, want 0", r.Code)
	}
	if !strings.Contains(r.Stderr, "kubectl patch node") {
		t.Error("--apply does not show the kubectl equivalent")
	}
	await(t, fixture.PodRunning(client, w.Namespace, w.Subject.Pod))
	// --apply came back after two of the controller's syncs, so the entry stays.
	await(t, fixture.Attached(client, w.Node, volume))
	if got := node(t, w.Node).Status.VolumesAttached; len(got) != 2 {
		t.Errorf("volumesAttached lists %v, want both volumes once", got)
	}

	if r := doctor(t, "undo", journal, "--yes"); r.Code != 3 || !strings.Contains(r.Stderr+r.Stdout, "use") {
		t.Errorf("undo while the pod runs: exit code %d, want 3 and the reason", r.Code)
	}
	await(t, fixture.Attached(client, w.Node, volume))
	for _, v := range cluster.Driver.Violations() {
		t.Error(v)
	}
}

// TestReuseWhileDetaching is the same story where the driver cannot detach.
func TestReuseWhileDetaching(t *testing.T) {
	t.Parallel()
	w := newWorld(t, scenario.ReuseWhileDetaching)
	f := find(t, w, "reuse-while-detaching")
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), scenario.DeviceBusy) {
		t.Errorf("the finding does not carry the driver's own words: %s", text)
	}
	if f.Since == nil || f.SelfHeals.Will || f.SelfHeals.Because == "" {
		t.Errorf("since %v, heals %+v", f.Since, f.SelfHeals)
	}
	if f.Subject.Name != w.Subject.Pod && !slices.Contains(f.Pods, w.Namespace+"/"+w.Subject.Pod) {
		t.Errorf("the finding does not name the pod: %s", text)
	}
}
