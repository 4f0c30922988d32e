package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/volume-doctor/kubectl-volume-doctor/cmd"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/golden"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/mcp"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
)

// state is a cluster that a model is asked about.
type state struct {
	name string
	file string
}

// tokens counts the answer's, without the test's own directory, which is another each time.
func (s state) tokens(answer string) int {
	return mcp.Tokens(strings.ReplaceAll(answer, filepath.Dir(s.file)+string(filepath.Separator), ""))
}

// fortyStates are 30 failure modes of the corpus, one case each, and 10 real threads,
// evenly over both.
func fortyStates(t *testing.T) []state {
	t.Helper()
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	clusters := map[string][]byte{}
	var modes, threads []string
	for _, c := range cases {
		if code, _, _ := strings.Cut(c.Name, "-"); strings.HasPrefix(c.Name, "vd") && !strings.Contains(c.Name, "-near-") && (len(modes) == 0 || !strings.HasPrefix(modes[len(modes)-1], code+"-")) {
			modes, clusters[c.Name] = append(modes, c.Name), c.Cluster
		}
	}
	paths, err := filepath.Glob("testdata/threads/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := "thread " + strings.TrimSuffix(filepath.Base(path), ".txtar")
		threads, clusters[name] = append(threads, name), archive.Files[0].Data
	}
	var states []state
	dir := t.TempDir()
	for _, name := range slices.Concat(drawn(modes, 30), drawn(threads, 10)) {
		file := filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".yaml")
		if err := os.WriteFile(file, clusters[name], 0o600); err != nil {
			t.Fatal(err)
		}
		states = append(states, state{name, file})
	}
	return states
}

// drawn is n of the list, by a hash of each: a new one moves none of the others.
func drawn(list []string, n int) []string {
	hash := func(name string) string { sum := sha256.Sum256([]byte(name)); return string(sum[:]) }
	some := slices.SortedFunc(slices.Values(list), func(a, b string) int { return cmp.Compare(hash(a), hash(b)) })[:n]
	slices.Sort(some)
	return some
}

// model asks a server about the file.
func model(t *testing.T, file string) *sdk.ClientSession {
	t.Helper()
	run := func(_ context.Context, stdout, stderr io.Writer, args ...string) int {
		return cmd.Main(args, strings.NewReader(""), stdout, stderr)
	}
	server, client := sdk.NewInMemoryTransports()
	go func() {
		_ = mcp.New(mcp.Options{Run: run, Base: []string{"--filename=" + file}, OneCluster: true, Limit: mcp.DefaultLimit}).Run(t.Context(), server)
	}()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "a test", Version: "1"}, nil).Connect(t.Context(), client, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func answered(t *testing.T, session *sdk.ClientSession, tool string, arguments map[string]any) string {
	t.Helper()
	result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatal(err)
	}
	return result.Content[0].(*sdk.TextContent).Text
}

// missing is what the answer does not have of the facts that decide about the finding:
// its code, its subject, what is wrong and what to do.
func missing(answer string, f finding.Finding) string {
	has := func(text string) bool {
		return strings.Contains(answer, output.Safe(strings.Join(strings.Fields(text), " ")))
	}
	steps := []string{f.Advice}
	if f.Repair != nil {
		steps = append(steps, f.Repair.ApplyAll)
		if f.Repair.ApplyAll == "" {
			steps = append(steps, f.Repair.Apply)
		}
		if f.Repair.ApplyAll == "" && f.Repair.Apply == "" { // it is refused
			steps = append(steps, f.Repair.SafeOnce)
		}
	} else {
		steps = append(steps, f.AdviceCommands...)
	}
	steps = slices.DeleteFunc(steps, func(s string) bool { return s == "" })
	switch {
	case !has(fmt.Sprintf("%s %s", f.Severity, f.Code)):
		return "the code"
	case !has(f.Subject.Name):
		return "the subject " + f.Subject.Name
	case !has(f.Message) && (f.Headline == "" || !has(f.Headline)):
		return "what is wrong: " + f.Message
	case len(steps) == 0 && !f.SelfHeals.Will:
		return "any step: the report itself has none"
	}
	for _, step := range steps {
		if !has(step) {
			return "what to do: " + step
		}
	}
	return ""
}

// TestModelPage asks a server about forty states. Each answer stays within its tokens
// and has the facts that decide; docs/mcp.md has the table.
func TestModelPage(t *testing.T) {
	const page = "docs/mcp.md"
	var rows strings.Builder
	rows.WriteString("\n| state | causes | `diagnose` | `trace` |\n| --- | --- | ---: | ---: |\n")
	most, states := 0, fortyStates(t)
	for _, s := range states {
		var stdout, stderr bytes.Buffer
		cmd.Main([]string{"diagnose", "-f", s.file, "-o", "json"}, strings.NewReader(""), &stdout, &stderr)
		r := &finding.Report{}
		if err := json.Unmarshal(stdout.Bytes(), r); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		session := model(t, s.file)
		answer := answered(t, session, "diagnose", nil)
		var causes []string
		for _, tree := range r.Roots() {
			causes = append(causes, fmt.Sprintf("%s (%s)", tree[0].Code, tree[0].Severity))
			if what := missing(answer, tree[0]); what != "" {
				t.Errorf("%s: the answer lacks %s:\n%s", s.name, what, answer)
			}
		}
		if len(causes) == 0 {
			causes = []string{"none"}
		}
		traced := "-"
		for _, w := range r.Waiting {
			namespace, pod, _ := strings.Cut(w.Pod, "/")
			text := answered(t, session, "trace", map[string]any{"pod": pod, "namespace": namespace})
			for _, fact := range []string{"verdict: " + strings.ReplaceAll(string(w.Verdict), "-", " "), w.Pod, w.Volume} {
				if !strings.Contains(text, fact) {
					t.Errorf("%s: the trace of %s lacks %q:\n%s", s.name, w.Pod, fact, text)
				}
			}
			most = max(most, s.tokens(text))
			if traced == "-" {
				traced = fmt.Sprint(s.tokens(text))
			}
		}
		most = max(most, s.tokens(answer))
		fmt.Fprintf(&rows, "| %s | %s | %d | %s |\n", s.name, strings.Join(slices.Compact(causes), ", "), s.tokens(answer), traced)
	}
	if len(states) != 40 || most > mcp.MaxTokens {
		t.Errorf("%d states, and %d tokens for one answer", len(states), most)
	}
	fmt.Fprintf(&rows, "\nThe longest of these answers has %d tokens.\n", most)

	example := regexp.MustCompile(`[0-9a-f]{32}`).ReplaceAllString(answered(t, model(t, "testdata/snapshots/lost-node.yaml"), "diagnose", nil), strings.Repeat("5c", 16))
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	fresh := block(t, string(old), "```text\n", example)
	before, _, found := strings.Cut(fresh, "\n| state | ")
	if !found {
		t.Fatalf("%s has no table", page)
	}
	golden.Want(t, page, []byte(before+rows.String()))
}
