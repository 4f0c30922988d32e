//go:build unix

package cmd_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestThirdLook: where the second look still only suspects a cause that is certain seconds
// later, --apply counts down and looks a third time, and then has the repair.
func TestThirdLook(t *testing.T) {
	thirdLook(t, time.Date(2026, 11, 20, 9, 59, 52, 0, time.UTC)) // certain at 10:00:30
}

// TestThirdLookOfWhatIsNew: so it is where the first look did not find the cause, and a third
// one finds it for as long as the first two are apart.
func TestThirdLookOfWhatIsNew(t *testing.T) {
	thirdLook(t, time.Date(2026, 11, 20, 9, 59, 36, 0, time.UTC)) // found from 9:59:40 on
}

func thirdLook(t *testing.T, at time.Time) {
	t.Parallel()
	server, kubeconfig := newAPI(t, "vd401-near-slow-detach")
	server.now = at
	server.running = time.Now()
	saved := filepath.Join(t.TempDir(), "repairs")
	p := start(t, t.TempDir(), nil, "--kubeconfig", kubeconfig, "diagnose", "--check", "VD401", "--apply", "--save-repairs", saved)
	p.says("repairs saved in " + saved + ": 1;")
	if said := p.stderr(); strings.Count(said, "looking again in") != 2 {
		t.Errorf("it does not look three times:\n%s", said)
	}
}
