package command_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/scenario"
)

var (
	// soak is by default longer than every threshold for operations in flight, except those
	// of five minutes and more.
	soak      = flag.Duration("soak", 3*time.Minute+30*time.Second, "how long pods are moved about")
	writeSoak = flag.Bool("write-soak", false, "write what the soak counted into docs/evidence/modes.md")
)

const (
	// movers is the number of pods that move from node to node, visitors of those that come
	// with a volume of their own and go with it.
	movers, visitors = 3, 2
	// soakLooks is the pause between two runs of the command.
	soakLooks = 2 * time.Second
	// stay is how long a pod runs before it moves or goes.
	stay = time.Second
)

// counted has the counts of a soak.
type counted struct{ created, moved, deleted, runs atomic.Int64 }

// TestMovingPodsAreNotReported moves pods from node to node, sometimes starting the next
// before the last has ended, and creates and deletes others with their volumes. The command
// looks all the while: a change in flight is no finding, not even for information.
func TestMovingPodsAreNotReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, scenario.Healthy)
	second, err := w.AddNode(t.Context(), w.Node+"-second")
	if err != nil {
		t.Fatal(err)
	}
	nodes := []string{w.Node, second.Node()}
	ctx, cancel := context.WithTimeout(t.Context(), *soak+2*fixture.Timeout)
	defer cancel()
	began := time.Now()
	end := began.Add(*soak)
	var n counted
	var all sync.WaitGroup
	errs := make(chan error, movers+visitors)
	for i := range movers {
		all.Go(func() { errs <- n.move(ctx, w, fmt.Sprintf("mover-%d", i), nodes, end) })
	}
	for i := range visitors {
		all.Go(func() { errs <- n.visit(ctx, w, fmt.Sprintf("visitor-%d", i), nodes[i%2], end) })
	}
	go func() { all.Wait(); close(errs) }()

	ticker := time.NewTicker(soakLooks)
	defer ticker.Stop()
	for moving := true; moving; {
		select {
		case err, ok := <-errs:
			if err != nil {
				t.Fatal(err)
			}
			moving = ok
		case <-ticker.C:
			quiet(t, w)
			n.runs.Add(1)
		}
	}
	for _, v := range cluster.Driver.Violations() {
		t.Error(v)
	}
	text := fmt.Sprintf("In %s on the real control plane %d pods with volumes were created, %d\n"+
		"moved to another node and %d deleted. The command looked %d times meanwhile and\n"+
		"found nothing, not even for information.",
		time.Since(began).Round(time.Second), n.created.Load(), n.moved.Load(), n.deleted.Load(), n.runs.Load())
	t.Log(text)
	if *writeSoak && !t.Failed() {
		writeDown(t, text)
	}
}

// move moves a pod with one volume from node to node.
func (n *counted) move(ctx context.Context, w *scenario.World, name string, nodes []string, end time.Time) error {
	client := cluster.Client()
	v, err := fixture.BoundVolume(ctx, client, w.Namespace, name, corev1.ReadWriteOnce)
	if err != nil {
		return err
	}
	pod := ""
	for i := 0; time.Now().Before(end); i++ {
		next := fixture.Pod(w.Namespace, fmt.Sprintf("%s-%d", name, i), nodes[i%2], v.Claim)
		overlap := i%3 == 0
		if pod != "" && !overlap {
			if err := n.end(ctx, w.Namespace, pod); err != nil {
				return err
			}
		}
		if err := n.create(ctx, next); err != nil {
			return err
		}
		if pod != "" {
			n.moved.Add(1)
			if overlap {
				if err := n.end(ctx, w.Namespace, pod); err != nil {
					return err
				}
			}
		}
		if err := runs(ctx, w.Namespace, next.Name); err != nil {
			return err
		}
		pod = next.Name
	}
	return nil
}

// visit creates a pod with a volume and deletes both, again and again.
func (n *counted) visit(ctx context.Context, w *scenario.World, name, node string, end time.Time) error {
	client := cluster.Client()
	for i := 0; time.Now().Before(end); i++ {
		v, err := fixture.BoundVolume(ctx, client, w.Namespace, fmt.Sprintf("%s-%d", name, i), corev1.ReadWriteOnce)
		if err != nil {
			return err
		}
		if err := n.create(ctx, fixture.Pod(w.Namespace, v.Claim, node, v.Claim)); err != nil {
			return err
		}
		if err := runs(ctx, w.Namespace, v.Claim); err != nil {
			return err
		}
		if err := n.end(ctx, w.Namespace, v.Claim); err != nil {
			return err
		}
		// As in a cluster, the claim goes first, and the volume with the detach.
		if err := client.CoreV1().PersistentVolumeClaims(w.Namespace).Delete(ctx, v.Claim, metav1.DeleteOptions{}); err != nil {
			return err
		}
		if err := client.CoreV1().PersistentVolumes().Delete(ctx, v.PersistentVolume, metav1.DeleteOptions{}); err != nil {
			return err
		}
		if err := fixture.Await(ctx, fixture.Detached(client, node, v)); err != nil {
			return err
		}
	}
	return nil
}

// runs waits until the pod runs, and lets it run for a while.
func runs(ctx context.Context, namespace, pod string) error {
	if err := fixture.Await(ctx, fixture.PodRunning(cluster.Client(), namespace, pod)); err != nil {
		return err
	}
	time.Sleep(stay)
	return nil
}

func (n *counted) create(ctx context.Context, pod *corev1.Pod) error {
	_, err := fixture.CreatePod(ctx, cluster.Client(), pod)
	n.created.Add(1)
	return err
}

func (n *counted) end(ctx context.Context, namespace, pod string) error {
	if err := fixture.DeletePod(ctx, cluster.Client(), namespace, pod); err != nil {
		return err
	}
	n.deleted.Add(1)
	return fixture.Await(ctx, fixture.PodGone(cluster.Client(), namespace, pod))
}

// quiet diagnoses the whole cluster and fails where a finding is about the world, whose
// namespace is part of the names of its nodes and volumes.
func quiet(t *testing.T, w *scenario.World) {
	t.Helper()
	r, err := command.Run(t.Context(), command.Binary, cluster.Kubeconfig, "diagnose", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	if r.Stdout == "" {
		t.Fatalf("diagnose: exit code %d: %s", r.Code, r.Stderr)
	}
	report := parse[finding.Report](t, r.Stdout)
	if !report.Complete {
		t.Fatalf("not everything could be read: %v", report.Gaps)
	}
	for _, f := range report.Findings {
		about := append([]string{f.Subject.Namespace, f.Subject.Name, string(f.Node), f.PersistentVolume, string(f.Volume)}, f.Pods...)
		if slices.ContainsFunc(about, func(s string) bool { return strings.Contains(s, w.Namespace) }) {
			t.Fatalf("a finding while pods move: %+v", f)
		}
	}
}

// writeDown puts the summary at the end of docs/evidence/modes.md.
func writeDown(t *testing.T, summary string) {
	t.Helper()
	const (
		path    = "../../docs/evidence/modes.md"
		heading = "\n## And nothing where all is well\n"
	)
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(string(page), heading)
	text := before + heading + "\nWritten by `make soak`.\n\n" + summary + "\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
