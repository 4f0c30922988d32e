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

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/faultproxy"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/invariant"
)

// edit is a change to a file of the command. old must occur once in it, and is replaced by
// new.
type edit struct{ file, old, new string }

// mutant is a doctor that lacks one of the things that keep the real one from doing harm.
type mutant struct {
	name  string
	edits []edit
	// story and attack are a round in which it does harm, and want is what the checker must
	// report.
	story  story
	attack attack
	want   invariant.Invariant
}

// alone is one edit.
func alone(file, old, replacement string) []edit { return []edit{{file, old, replacement}} }

var mutants = []mutant{
	{"without the guard not-elsewhere", alone("repair/nodestatus_guards.go", `notElsewhereGuard,`, ``), usedElsewhere, struck(), invariant.OneNode},
	{"without the guard node-id", alone("repair/nodestatus_guards.go", `nodeIDGuard,`, ``), otherMachine, struck(), invariant.TrueEntry},
	{"without the intent in the journal", alone("repair/apply/send.go", `a.Journal.intent(intent)`, `1, error(nil)`), lostEntry, struck(), invariant.Journaled},
	{
		"without the resourceVersion in the patch",
		alone("repair/operation.go", `patchOp{"replace", resourceVersionPath, Compact(meta.ResourceVersion)}`, `[]patchOp(nil)...`), lostEntry, struck(), invariant.Conditional,
	},
	{"without the guard fenced", alone("repair/detach.go", "notAliveGuard,\n\t\toffGuard,", `notAliveGuard,`), nodeLost, struck(), invariant.InUse},
	{
		"without the guards on what is read anew",
		alone("repair/effect.go", `if no := refusal(v, r); no != nil {`, `if no := refusal(v, r); false {`), forgotten, struck(podComes.strike(faultproxy.Review, "")), invariant.Wanted,
	},
	{
		"without the preconditions of a deletion",
		alone("cluster/write.go", `&metav1.Preconditions{UID: &op.Target.UID, ResourceVersion: &op.Target.ResourceVersion}`, `nil`),
		forgotten, struck(attachedAnew.strike(faultproxy.Write, "")), invariant.InUse,
	},
	{
		"that follows up on an incomplete look", []edit{
			{"repair/apply/next.go", `a.seeOnce(ctx, r.Next.Reads)`, `a.look(ctx)`},
			{"repair/create.go", `if no := refusal(v, r); no != nil {
		return nil, no
	}`, `if err := notUsedOn(v, r, r.Finding.Node); err != nil {
		return nil, notUsedThereGuard.refuse(err)
	}`},
			unseen,
		},
		orphan, between(faultproxy.Internal, "pods", "nodes"), invariant.InUse,
	},
	{
		"that takes what it could not read for a write that was not made", alone("repair/apply/send.go", `a.seeOnce(ctx, w.Reads)`, `a.look(ctx)`),
		lostEntry, lostAnd(faultproxy.TimeoutAfter, "nodes"), invariant.Honest,
	},
	{
		"that takes what it could not read for a deletion that was made", alone("repair/apply/send.go", `a.seeOnce(ctx, w.Reads)`, `a.look(ctx)`),
		forgotten, lostAnd(faultproxy.CutBefore, "volumeattachments"), invariant.Honest,
	},
	{
		"that takes what it could not read for gone already", alone("repair/apply/next.go", `a.seeOnce(ctx, r.Next.Reads)`, `a.look(ctx)`),
		orphan, struck(failing("volumeattachments", 1, faultproxy.Internal, 1)), invariant.NothingLeft,
	},
	{
		"that takes what it could not read for undone", alone("repair/reversal.go", `if err := Complete(v.Snapshot, r.reads); err != nil {`, `if err := Complete(v.Snapshot, r.reads); err != nil && false {`),
		stuckPod, undone(failing("nodes", 0, faultproxy.Internal, always)), invariant.NothingLeft,
	},
	{
		"that takes back on any server", []edit{
			{"cmd/undo.go", `!u.serverMoved && !slices.Equal(`, `false && !slices.Equal(`},
			{"repair/apply/undo.go", `p.Server != here && !a.ServerMoved`, `false && here == ""`},
		},
		stuckPod, elsewhere(), invariant.OwnOnly,
	},
	{
		"that does not compare what was reviewed", alone("repair/apply/approved.go", `if other := fresh.Differs(reviewed); other != "" {`, `if other := fresh.Differs(reviewed); false {`),
		lostEntry, approving(edited), invariant.Approved,
	},
	{"that takes back what has no mark", alone("repair/reversal.go", `if r.ours != nil {`, `if false {`), stuckPod, taken(), invariant.OwnOnly},
	{
		"that shares its journal", []edit{
			{"cmd/journal.go", `fmt.Sprintf("volume-doctor-%s-%x.journal", now.UTC().Format("20060102T150405.000Z"), random)`, `fmt.Sprintf("volume-doctor-%s.journal", now.UTC().Format("20060102"))`},
			{"cmd/journal.go", `if err := lock(j.File); err != nil {`, `if err := lock(j.File); false {`},
			{"cmd/applying.go", `os.O_CREATE|os.O_EXCL`, `os.O_CREATE`},
		},
		lostEntry, attack{twins: true}, invariant.Kept,
	},
}

// unseen makes the doctor write on its last whole look alone.
var unseen = edit{"repair/apply/send.go", `if err := a.stillSafe(request, v, w, again); err != nil {`, `if err := error(nil); err != nil {`}

// lostAnd is a write that goes wrong, together with the next list of a kind.
func lostAnd(fault faultproxy.Fault, kind string) attack {
	return struck(strike{class: faultproxy.Write, nth: 1, fault: fault}, failing(kind, 1, faultproxy.Internal, 1))
}

// TestChaosCanFail plays rounds in which only the doctor itself is faulty, and checks that
// the checker notices.
func TestChaosCanFail(t *testing.T) {
	t.Parallel()
	s, err := set(t, cluster)
	if err != nil {
		t.Fatal(err)
	}
	var some []mutant
	for i, m := range mutants {
		if string(m.story) == *only || *only == "" && i%*every == 0 {
			some = append(some, m)
		}
	}
	var stories []story
	for _, m := range some {
		stories = append(stories, m.story)
	}
	binaries := make(chan []string, 1)
	go func() { // while the worlds grow old
		var names []string
		for i, m := range some {
			name := filepath.Join(s.dir, fmt.Sprintf("mutant-%d", i))
			if err := mutate(m.edits, name); err != nil {
				t.Errorf("%s: %v", m.name, err)
			}
			names = append(names, name)
		}
		binaries <- names
	}()
	worlds, err := s.build("mutant-", stories)
	built := <-binaries
	if err != nil {
		t.Fatal(err)
	}
	if t.Failed() {
		t.FailNow()
	}
	err = s.each(len(some), func(i int) error {
		r := newRound(worlds[i], some[i].attack, s.proxy, s.dir, *seed)
		r.binary = built[i]
		if err := r.play(t.Context()); err != nil {
			return fmt.Errorf("%s: %w", some[i].name, err)
		}
		violations := s.judge([]*round{r})
		if testing.Verbose() && *only != "" {
			for _, run := range r.runs {
				t.Logf("%s: exit code %d: %s", run.Name, run.Code, run.Said)
			}
		}
		if !slices.ContainsFunc(violations, func(v invariant.Violation) bool { return v.Invariant == some[i].want }) {
			return fmt.Errorf("a doctor %s violates not %q, but %v", some[i].name, some[i].want, violations)
		}
		t.Logf("%s: %v", some[i].name, violations)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// mutate builds the command with the edits, in an overlay.
func mutate(edits []edit, binary string) error {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/volume-doctor/kubectl-volume-doctor").Output()
	if err != nil {
		return err
	}
	root := strings.TrimSpace(string(out))
	edited := map[string]string{}
	for _, e := range edits {
		path := filepath.Join(root, e.file)
		copied := binary + "-" + strings.ReplaceAll(e.file, "/", "-")
		from := path
		if edited[path] != "" {
			from = copied
		}
		source, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if n := strings.Count(string(source), e.old); n != 1 {
			return fmt.Errorf("%q occurs %d times in %s, not once", e.old, n, path)
		}
		if err := os.WriteFile(copied, []byte(strings.Replace(string(source), e.old, e.new, 1)), 0o600); err != nil {
			return err
		}
		edited[path] = copied
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": edited})
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
