//go:build unix

package cmd_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestThirdLook: where the second look still only suspects a cause that is certain seconds
// later, --apply counts down and looks a third time, and then has the repair.
func TestThirdLook(t *testing.T) {
	thirdLook(t, time.Date(2026, 11, 20, 9, 59, 52, 0, time.UTC)) // certain at 10:00:30
}

// TestThirdLookOfWhatIsNew: so it is where the first look did not find the cause, and a third
// one finds it for as long as the first two are apart.
func TestThirdLookOfWhatIsNew(t *testing.T) {
	lost := &unstructured.Unstructured{Object: map[string]any{ // there is a second look only where the first finds something
		"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": map[string]any{"namespace": "default", "name": "lost", "uid": "lost", "creationTimestamp": "2026-10-01T10:00:00Z"},
		"spec": map[string]any{"volumeName": "gone"}, "status": map[string]any{"phase": "Lost"},
	}}
	thirdLook(t, time.Date(2026, 11, 20, 9, 59, 36, 0, time.UTC), lost) // found from 9:59:40 on
}

func thirdLook(t *testing.T, at time.Time, more ...*unstructured.Unstructured) {
	t.Parallel()
	server, kubeconfig := newAPI(t, "vd401-near-slow-detach")
	for _, o := range more {
		server.add(o)
	}
	server.now = at
	saved := filepath.Join(t.TempDir(), "repairs")
	out, _ := server.inItsTime(t.TempDir(), "--kubeconfig", kubeconfig, "diagnose", "--check", "VD401,VD504", "--apply", "--save-repairs", saved).CombinedOutput()
	said := string(out)
	if strings.Count(said, "looking again in") != 2 {
		t.Errorf("it does not look three times:\n%s", said)
	}
	if !strings.Contains(said, "repairs saved in "+saved+": 1;") {
		t.Errorf("it does not save the repair:\n%s", said)
	}
}
