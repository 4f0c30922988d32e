// Package watch_test follows a real cluster through a failure, a restart of its
// API server and a repair by hand.
package watch_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/util/retry"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/scenario"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var cluster *controlplane.Cluster

func TestMain(m *testing.M) {
	os.Exit(controlplane.Main(m, controlplane.Options{}, func(c *controlplane.Cluster) { cluster = c }))
}

const check = "inuse-not-attached"

// TestWatch is the case of 2020 as somebody sees it who was watching.
func TestWatch(t *testing.T) {
	allow(t)
	w := start(t, "diagnose", "--watch", "-n", "watched", "-o", "json")
	world, err := scenario.BackoffDrop(t.Context(), cluster, scenario.Options{Namespace: "watched", Node: "watched-n1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := world.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	appeared := w.await(t, 4*time.Minute, func(e finding.Entry) bool { return e.Change == finding.Appeared && e.Finding.Check == check })

	// While the API server is away nothing heals and nothing is found anew.
	at := len(w.entries)
	cluster.StopAPIServer()
	w.await(t, time.Minute, func(e finding.Entry) bool {
		return e.Change == finding.GapOpened && slices.ContainsFunc(e.Gaps, func(g snapshot.Gap) bool { return g.Kind == snapshot.Pods })
	})
	if err := cluster.ResumeAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.await(t, 3*time.Minute, func(finding.Entry) bool { return w.open() == 0 })
	for _, e := range w.entries[at:] {
		if e.Finding != nil && e.Finding.Check == check {
			t.Errorf("the restart of the API server made it %s", e.Change)
		}
	}

	// The repair, by hand.
	volume := world.Subject.Volume.UniqueName()
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		nodes := cluster.Client().CoreV1().Nodes()
		node, err := nodes.Get(t.Context(), world.Node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Status.VolumesAttached = append(node.Status.VolumesAttached, corev1.AttachedVolume{Name: volume})
		_, err = nodes.UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	healed := w.await(t, 3*time.Minute, func(e finding.Entry) bool { return e.Change == finding.Healed && e.Finding.Check == check })
	if healed.Finding.Fingerprint != appeared.Finding.Fingerprint || healed.After == "" {
		t.Errorf("another one healed: %+v", healed)
	}
	if code := w.interrupt(t); code != 0 {
		t.Errorf("exit code %d once all has healed", code)
	}

	// The objects came by watches: each kind was listed at most once at the start and
	// once after the restart, while dozens of reports were made. An API server that has
	// just started refuses lists until it knows the roles; those cost nothing.
	reads, err := cluster.Audited(func(e *auditv1.Event) bool { return e.User.Username == controlplane.UserViewer })
	if err != nil {
		t.Fatal(err)
	}
	lists, watches, refused := map[string]int{}, 0, 0
	for _, r := range reads {
		switch {
		case r.ObjectRef == nil: // the release and the discovery
		case r.Verb == "list" && r.ResponseStatus != nil && r.ResponseStatus.Code == http.StatusForbidden:
			refused++
		case r.Verb == "list":
			lists[r.ObjectRef.Resource]++
		case r.Verb == "watch":
			watches++
		default:
			t.Errorf("%s of %s", r.Verb, r.RequestURI)
		}
	}
	for resource, n := range lists {
		if n > 2 {
			t.Errorf("%s were listed %d times", resource, n)
		}
	}
	if watches == 0 {
		t.Error("the audit log has no watch")
	}
	t.Logf("lists %v, %d refused, watches that ended %d", lists, refused, watches)
}

// allow gives the viewer, of whom the audit log has all that they ask for, the
// rights that a watch takes and no more.
func allow(t *testing.T) {
	t.Helper()
	verbs := []string{"list", "watch"}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "watcher"},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods", "nodes", "persistentvolumes", "persistentvolumeclaims", "events"}, Verbs: verbs},
			{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"volumeattachments", "csinodes", "csidrivers", "storageclasses"}, Verbs: verbs},
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: verbs},
			{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: verbs},
		},
	}
	rbac := cluster.Client().RbacV1()
	if _, err := rbac.ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: controlplane.UserViewer}},
	}
	if _, err := rbac.ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// process is the command, watching.
type process struct {
	cmd     *exec.Cmd
	lines   chan string
	stderr  *strings.Builder
	entries []finding.Entry
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	dir, err := command.Build()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(filepath.Join(dir, command.Binary), args...), lines: make(chan string), stderr: &strings.Builder{}}
	kubeconfig, err := cluster.KubeconfigFor(controlplane.UserViewer)
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	p.cmd.Stderr = p.stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // fails where it has ended
	go p.read(stdout)
	return p
}

func (p *process) read(stdout io.Reader) {
	defer close(p.lines)
	for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
		p.lines <- scanner.Text()
	}
}

// await reads entries up to one that is asked for.
func (p *process) await(t *testing.T, patience time.Duration, asked func(finding.Entry) bool) finding.Entry {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				t.Fatalf("the command ended\n%s", p.stderr)
			}
			t.Log(line)
			var e finding.Entry
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%v in %s", err, line)
			}
			if p.entries = append(p.entries, e); asked(e) {
				return e
			}
		case <-late:
			t.Fatalf("not within %s, after %d entries", patience, len(p.entries))
		}
	}
}

// open counts the gaps that are open after all entries so far.
func (p *process) open() int {
	n := 0
	for _, e := range p.entries {
		switch e.Change {
		case finding.GapOpened:
			n += len(e.Gaps)
		case finding.GapClosed:
			n -= len(e.Gaps)
		}
	}
	return n
}

// interrupt ends the command as Ctrl-C does, and gives its exit code.
func (p *process) interrupt(t *testing.T) int {
	t.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for line := range p.lines {
		t.Log(line)
	}
	_ = p.cmd.Wait() // an exit code is no failure
	return p.cmd.ProcessState.ExitCode()
}
