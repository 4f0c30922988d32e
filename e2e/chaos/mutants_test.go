package chaos_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/invariant"
)

// mutants are doctors that lack one of the things that keep the real one from
// harm, and what the checker must say of them.
var mutants = []struct {
	name string
	// old occurs once in the file and new stands in its place.
	file, old, new string
	story          story
	// race is what the doctor without it does harm in, if anything has to happen.
	race race
	want invariant.Invariant
}{
	{"without the guard not-elsewhere", "repair/nodestatus_guards.go", `{"not-elsewhere", checkNotElsewhere},`, ``, usedElsewhere, "", invariant.OneNode},
	{"without the guard node-id", "repair/nodestatus_guards.go", `{"node-id", checkNodeID},`, ``, otherMachine, "", invariant.TrueEntry},
	{"without the intent in the journal", "repair/write.go", `a.Journal.intent(w.intent)`, `1, error(nil)`, lostEntry, "", invariant.Journaled},
	{
		"without the resourceVersion in the patch", "repair/operation.go",
		`patchOp{"replace", resourceVersionPath, compact(meta.ResourceVersion)}`, `[]patchOp(nil)...`, lostEntry, "", invariant.Conditional,
	},
	{"without the guard fenced", "repair/detach.go", "notAliveGuard,\n\toffGuard,", `notAliveGuard,`, nodeLost, "", invariant.InUse},
	{
		"without the guards on what is read anew", "repair/apply.go",
		`if no := refusal(v, r); no != nil {`, `if no := refusal(v, r); false {`, forgotten, podComes, invariant.Wanted,
	},
	{
		"without the preconditions of a deletion", "cluster/write.go",
		`&metav1.Preconditions{UID: &op.Target.UID, ResourceVersion: &op.Target.ResourceVersion}`, `nil`, forgotten, attachedAnew, invariant.InUse,
	},
}

// TestChaosCanFail plays rounds in which nothing fails but the doctor itself, and
// wants the checker to notice.
func TestChaosCanFail(t *testing.T) {
	t.Parallel()
	s := set(t, cluster)
	var stories []story
	for _, m := range mutants {
		stories = append(stories, m.story)
	}
	binaries := make(chan []string, 1)
	go func() { // while the worlds grow old
		var names []string
		for i, m := range mutants {
			name := filepath.Join(s.dir, fmt.Sprintf("mutant-%d", i))
			if err := mutate(m.file, m.old, m.new, name); err != nil {
				t.Errorf("%s: %v", m.name, err)
			}
			names = append(names, name)
		}
		binaries <- names
	}()
	worlds := s.build("mutant-", stories)
	built := <-binaries
	if t.Failed() {
		t.FailNow()
	}
	s.each(len(mutants), func(i int) error {
		var a attack
		if r := mutants[i].race; r != "" {
			a.strikes = []strike{{class: r.during(), nth: 1, race: r}}
		}
		r := newRound(worlds[i], a, s.proxy, s.dir, *seed)
		r.binary = built[i]
		if err := r.play(t.Context()); err != nil {
			return fmt.Errorf("%s: %w", mutants[i].name, err)
		}
		violations := s.judge([]*round{r})
		if !slices.ContainsFunc(violations, func(v invariant.Violation) bool { return v.Invariant == mutants[i].want }) {
			return fmt.Errorf("a doctor %s violates not %q, but %v", mutants[i].name, mutants[i].want, violations)
		}
		t.Logf("%s: %v", mutants[i].name, violations)
		return nil
	})
}

// mutate builds the command with an edit to one file, in an overlay.
func mutate(file, old, replacement, binary string) error {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/volume-doctor/kubectl-volume-doctor").Output()
	if err != nil {
		return err
	}
	root := strings.TrimSpace(string(out))
	path := filepath.Join(root, file)
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if n := strings.Count(string(source), old); n != 1 {
		return fmt.Errorf("%q occurs %d times in %s, not once", old, n, path)
	}
	edited := binary + ".go"
	if err := os.WriteFile(edited, []byte(strings.Replace(string(source), old, replacement, 1)), 0o600); err != nil {
		return err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: edited}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(binary+".json", overlay, 0o600); err != nil {
		return err
	}
	build := exec.Command("go", "build", "-ldflags=-s -w", "-overlay", binary+".json", "-o", binary, ".")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, text)
	}
	return nil
}
