package auth_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
)

// TestWatch: to follow a cluster takes the watcher's role beside the reader's,
// and without any right of it something is said to be missing.
func TestWatch(t *testing.T) {
	broken(t)
	all := roles(t)
	reader, role := all["volume-doctor-reader"], all["volume-doctor-watcher"]
	kubeconfig, subject := viewer(t)
	grant(t, subject, reader, role)
	awaitRights(t, kubeconfig, reader.Name, "")
	awaitRights(t, kubeconfig, role.Name, "")
	var mark int
	follow := func() (asked, refused []string, r command.Result) {
		requests(t, controlplane.UserViewer, &mark)
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second) // it never ends by itself
		defer cancel()
		r, err := command.Run(ctx, command.Binary, kubeconfig, "diagnose", "--watch")
		must(t, err)
		time.Sleep(time.Second) // a watch is in the log once it has ended
		asked, refused = requests(t, controlplane.UserViewer, &mark)
		return asked, refused, r
	}
	asked, refused, r := follow()
	// An API server that streams lists is not asked to list.
	asked = slices.DeleteFunc(asked, func(right string) bool { return slices.Contains(rights(reader), right) })
	if !slices.Equal(asked, rights(role)) || len(refused) > 0 {
		t.Errorf("asked for\n%s\nrefused %v; the role has\n%s\n%s%s", strings.Join(asked, "\n"), refused, strings.Join(rights(role), "\n"), r.Stdout, r.Stderr)
	}
	for _, lost := range rights(role) {
		replace(t, without(role, lost))
		awaitRights(t, kubeconfig, role.Name, lost)
		_, refused, r := follow()
		if !slices.Contains(refused, lost) {
			t.Errorf("without %q: nothing was refused but %v", lost, refused)
		}
		kind, _, _ := strings.Cut(strings.TrimPrefix(lost, "watch "), ".")
		if kind != "deployments" && !strings.Contains(r.Stdout+r.Stderr, kind) {
			t.Errorf("without %q: nobody is told\n%s%s", lost, r.Stdout, r.Stderr)
		}
	}
}
