package scenario_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/faultproxy"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/load"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/scenario"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

const (
	// foundWithin is how long a cause may stay unnamed in a world of the sandbox.
	foundWithin = 3*time.Minute + 30*time.Second
	// older is by how much a world is made older for a check that waits for ten minutes.
	older = 9 * time.Minute
)

// brokenWorlds are the worlds of the sandbox, each with the check that is about it, and the
// repair that is offered.
var brokenWorlds = map[string]struct {
	build  build
	check  string
	repair repair.Kind
	// unrepaired says why no repair is offered.
	unrepaired string
	// late is for a check that waits for longer than a test may.
	late bool
	// driverFails reports whether the report asks for the driver to be fixed first.
	driverFails bool
}{
	"backoff-drop":          {build: scenario.BackoffDrop, check: "inuse-not-attached", repair: repair.PatchNodeStatus},
	"reuse-while-detaching": {build: scenario.ReuseWhileDetaching, check: "reuse-while-detaching", repair: repair.Nudge, driverFails: true},
	"busy-disk":             {build: scenario.BusyDisk, check: "va-stuck-deleting", repair: repair.Nudge, driverFails: true, late: true},
	"two-nodes":             {build: scenario.TwoNodes, check: "rwo-many-consumers", unrepaired: "only its owner can decide which of the two pods has to end"},
	"disk-lost":             {build: scenario.DiskLost, check: "attach-refused", unrepaired: "no object of the cluster is wrong: the storage system lacks the volume"},
	"node-full":             {build: scenario.NodeFull, check: "attach-limit", unrepaired: "a pod has to move to another node, and that is not a repair of a volume"},
	"plugin-missing":        {build: scenario.PluginMissing, check: "csinode-driver-missing", unrepaired: "somebody has to start the driver's node plugin"},
	"taken-elsewhere":       {build: scenario.TakenElsewhere, check: "attach-refused", unrepaired: "the driver does not say which machine has the volume, so that there is nothing to detach"},
}

// TestPrintedCommands follows the README through each broken world of the sandbox: a
// finding of the check that is about it names the pod, and where a repair is offered its
// command is pasted into a shell. It repairs that finding and no other: a second world,
// which is broken alike, stays as it is, and so does everything else in the cluster.
func TestPrintedCommands(t *testing.T) {
	dir, err := command.Build()
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", cluster.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := faultproxy.Start(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Stop)
	s := &screen{kubeconfig: kubeconfig(t, proxy.Session("now", nil))}
	var mu sync.Mutex
	repaired := map[string]bool{} // what the pasted commands were to write to
	t.Run("worlds", func(t *testing.T) {
		for name, broken := range brokenWorlds {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				first := brokenWorld(t, broken.build, name+"-first")
				if broken.repair == "" {
					s.await(t, first, broken.check, func(finding.Finding) bool { return true })
					s.offersNothing(t, first, broken.unrepaired)
					return
				}
				second := brokenWorld(t, broken.build, name+"-second")
				if broken.late {
					makeOlder(t, first)
					makeOlder(t, second)
				}
				offered := func(f finding.Finding) bool { return f.Repair != nil && f.Repair.Apply != "" }
				s.await(t, second, broken.check, offered)
				before := s.await(t, first, broken.check, offered)
				if before.Repair.Kind != string(broken.repair) {
					t.Fatalf("the repair is %s, not %s", before.Repair.Kind, broken.repair)
				}
				target := "nodes " + first.Node
				own := proxy.Session(name, nil)
				if broken.driverFails {
					target = "volumeattachments " + before.VolumeAttachment
					// Any sooner, and the attacher might try again before the command is through.
					own.Hold = func(r faultproxy.Request) {
						if r.Class == faultproxy.Write {
							cluster.Driver.FailUnpublish(nil, first.Subject.Volume.Handle)
						}
					}
				}
				mu.Lock()
				repaired[target] = true
				mu.Unlock()

				s.printed(t, before.Repair.Apply)
				paste(t, dir, kubeconfig(t, own), before.Repair.Apply)
				// The controller may have paused for its longest before the repair.
				if err := fixture.AwaitFor(t.Context(), reconcile.BackoffLast+fixture.Timeout, fixture.PodRunning(cluster.Client(), first.Namespace, first.Subject.Pod)); err != nil {
					t.Fatal(err)
				}
				await(t, fixture.Attached(cluster.Client(), first.Node, first.Subject.Volume))
				report, err := s.fresh(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if f := of(report, first, broken.check); f != nil {
					t.Errorf("the finding is still there: %s", f.Message)
				}
				if f := of(report, second, broken.check); f == nil || !offered(*f) {
					t.Error("the other world's finding was repaired as well")
				}
				await(t, fixture.PodWaiting(cluster.Client(), second.Namespace, second.Subject.Pod))
			})
		}
	})
	writes, err := cluster.Writes(controlplane.UserAdmin)
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]bool{}
	for _, w := range writes {
		if w.ObjectRef != nil && w.ObjectRef.APIGroup != "authorization.k8s.io" { // the command asks what it may do
			written[w.ObjectRef.Resource+" "+w.ObjectRef.Name] = true
		}
	}
	if !maps.Equal(written, repaired) {
		t.Errorf("the commands have written to %v, want %v", slices.Sorted(maps.Keys(written)), slices.Sorted(maps.Keys(repaired)))
	}
}

// brokenWorld builds a world that goes with the test.
func brokenWorld(t *testing.T, build build, name string) *scenario.World {
	t.Helper()
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

// makeOlder makes the VolumeAttachment of a world older whose detach the driver refuses.
func makeOlder(t *testing.T, w *scenario.World) {
	t.Helper()
	held := strings.TrimSuffix(w.Node, "-second") // the pod waits on the second node
	await(t, fixture.Attachment(cluster.Client(), held, w.Subject.Volume, "failing to detach", func(s fixture.AttachmentState) bool {
		return s.Deleting() && s.Attachment.Status.DetachError != nil
	}))
	if err := load.Backdate(t.Context(), cluster.EtcdURL(), w.Subject.Volume.AttachmentName(held), older); err != nil {
		t.Fatal(err)
	}
}

// kubeconfig is a file that leads to the session.
func kubeconfig(t *testing.T, session *faultproxy.Session) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := session.WriteKubeconfig(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// screen is what somebody sees who calls diagnose again and again. The tests share what
// it shows.
type screen struct {
	kubeconfig string

	mu     sync.Mutex
	report *finding.Report
	at     time.Time
}

// shown is a report that is at most two seconds old.
func (s *screen) shown(ctx context.Context) (*finding.Report, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.at) < 2*time.Second {
		return s.report, nil
	}
	report, err := s.fresh(ctx)
	if err != nil {
		return nil, err
	}
	s.report, s.at = report, time.Now()
	return report, nil
}

// fresh is what diagnose finds now, as its own process prints it.
func (s *screen) fresh(ctx context.Context) (*finding.Report, error) {
	result, err := command.Run(ctx, command.Binary, s.kubeconfig, "diagnose", "-o", "json")
	if err != nil {
		return nil, err
	}
	if result.Code > 1 {
		return nil, fmt.Errorf("exit code %d: %s", result.Code, result.Stderr)
	}
	var report finding.Report
	return &report, json.Unmarshal([]byte(result.Stdout), &report)
}

// await waits for a finding of the check about the world.
func (s *screen) await(t *testing.T, w *scenario.World, check string, wanted func(finding.Finding) bool) finding.Finding {
	t.Helper()
	var found finding.Finding
	err := fixture.AwaitFor(t.Context(), foundWithin, fixture.Condition{
		What: "a finding " + check + " in namespace " + w.Namespace,
		Check: func(ctx context.Context) (bool, []runtime.Object, error) {
			report, err := s.shown(ctx)
			if err != nil {
				return false, nil, err
			}
			f := of(report, w, check)
			if f == nil || !wanted(*f) {
				return false, nil, nil
			}
			found = *f
			return true, nil, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// of is the check's finding that names the world's pod; nil if there is no such finding.
func of(report *finding.Report, w *scenario.World, check string) *finding.Finding {
	i := slices.IndexFunc(report.Findings, func(f finding.Finding) bool {
		return f.Check == check && f.Names(w.Namespace+"/"+w.Subject.Pod)
	})
	if i < 0 {
		return nil
	}
	return &report.Findings[i]
}

// printed: the table has the command on a line of its own.
func (s *screen) printed(t *testing.T, line string) {
	t.Helper()
	table, err := command.Run(t.Context(), command.Binary, s.kubeconfig, "diagnose")
	if err != nil {
		t.Fatal(err)
	}
	if table.Code != 1 || !slices.ContainsFunc(strings.Split(table.Stdout, "\n"), func(l string) bool { return strings.HasSuffix(l, " "+line) }) {
		t.Errorf("exit code %d; the table lacks %q:\n%s", table.Code, line, table.Stdout)
	}
}

// paste has a shell run the command, with nothing added but the answer to its question
// and shorter waits.
func paste(t *testing.T, dir, kubeconfig, line string) {
	t.Helper()
	pasted := line + " --yes --for=1s --settle=2s --journal=" + filepath.Join(t.TempDir(), "journal")
	shell := exec.CommandContext(t.Context(), "sh", "-c", pasted)
	shell.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	if out, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", pasted, err, out)
	}
}

// offersNothing: where no repair is offered, no format has a command for one, and
// --apply leaves everything as it is.
func (s *screen) offersNothing(t *testing.T, w *scenario.World, because string) {
	t.Helper()
	target := []string{"diagnose", "pod/" + w.Subject.Pod, "-n", w.Namespace}
	table, err := command.Run(t.Context(), command.Binary, s.kubeconfig, target...)
	if err != nil {
		t.Fatal(err)
	}
	if table.Code != 1 || strings.Contains(table.Stdout, "--apply\n") {
		t.Errorf("exit code %d, or a repair although %s:\n%s", table.Code, because, table.Stdout)
	}
	applied, err := command.Run(t.Context(), command.Binary, s.kubeconfig, append(target, "--apply", "--yes", "--for=1s", "--journal="+filepath.Join(t.TempDir(), "journal"))...)
	if err != nil {
		t.Fatal(err)
	}
	if applied.Code != 1 || !strings.Contains(applied.Stderr, "there is nothing to repair") {
		t.Errorf("--apply: exit code %d:\n%s%s", applied.Code, applied.Stdout, applied.Stderr)
	}
}
