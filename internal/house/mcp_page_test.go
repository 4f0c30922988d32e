package house

import (
	"bytes"
	"context"
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

// modes and threads are the states, of 30 failure modes and 10 real threads. They are listed
// by name, so that a new check does not change the page.
var (
	modes = strings.Fields("vd101-just-old-enough vd102-controller-restarted vd103-attacher-gone-since vd108-being-deleted " +
		"vd111-count-down vd112-attached-elsewhere vd115-machine-not-found vd119-deleting vd125-nobody-waits " +
		"vd304-both-lists vd310-label-lost vd401-attacher-down vd403-just-old-enough " +
		"vd406-no-attacher-at-all vd409-strange-words vd410-another-machine vd412-block-is-mounted " +
		"vd501-bound-to-another vd502-nobody-uses-it vd507-both-attached vd508-left-over " +
		"vd509-next-pod-waits vd602-just-old-enough vd605-begun-and-not-recorded vd607-known-rename " +
		"vd612-azure-disk vd614-plugin-evicted vd616-kubelet-restarted vd618-new-kubelet vd620-two-pods")
	threads = strings.Fields("cinder-detach-from-renamed-nodes cinder-node-shut-down kubrix-rolling-update linstor-detach-404 " +
		"longhorn-not-ready-for-workloads oci-in-transit-encryption powerstore-node-powered-down " +
		"rook-cephfs-no-attacher vsphere-detach-from-deleted-node vsphere-disk-not-seen")
)

// tokens is the number of tokens in the answer, without the test's own directory, which
// differs each time.
func (s state) tokens(answer string) int {
	return mcp.Tokens(strings.ReplaceAll(answer, filepath.Dir(s.file)+string(filepath.Separator), ""))
}

// fortyStates are the states of modes and of threads, each in a file.
func fortyStates(t *testing.T) []state {
	t.Helper()
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	clusters := map[string][]byte{}
	names := slices.Clone(modes)
	for _, c := range cases {
		clusters[c.Name] = c.Cluster
	}
	for _, thread := range threads {
		archive, err := txtar.ParseFile("testdata/threads/" + thread + ".txtar")
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, "thread "+thread)
		clusters["thread "+thread] = archive.Files[0].Data
	}
	var states []state
	dir := t.TempDir()
	for _, name := range names {
		if clusters[name] == nil {
			t.Fatalf("there is no case %s", name)
		}
		file := filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".yaml")
		if err := os.WriteFile(file, clusters[name], 0o600); err != nil {
			t.Fatal(err)
		}
		states = append(states, state{name, file})
	}
	return states
}

// model is a client of a server on the file.
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

// wrapper matches gRPC's prefix of a driver's message.
var wrapper = regexp.MustCompile(`^rpc error: code = \w+ desc = `)

// undone matches what is said in the advice of a command that stands there.
var undone = regexp.MustCompile(`(?: \((?:can|cannot) be undone(?:; ended pods stay away)?\)|; (?:can|cannot) be undone(\)))`)

// missing is what the answer lacks of the facts that decide about the finding: its code, its
// subject, the fault and what to do.
func missing(answer string, f finding.Finding) string {
	answer = undone.ReplaceAllString(answer, "$1")
	has := func(text string) bool {
		return strings.Contains(answer, undone.ReplaceAllString(output.Safe(strings.Join(strings.Fields(text), " ")), "$1"))
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
	case (!has(f.Message) || !has(f.Detail)) && (f.Headline == "" || !has(f.Headline)):
		return "what is wrong: " + f.Text()
	case f.Said != nil && !has(fmt.Sprintf("%q", wrapper.ReplaceAllString(f.Said.Text, ""))):
		return "what was said: " + f.Said.Text
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

// TestGeneratedModelPage asks a server about forty states. Each answer stays within its
// tokens and has the facts that decide; docs/mcp.md shows one answer, and
// docs/evidence/mcp.md has the table.
func TestGeneratedModelPage(t *testing.T) {
	const page, lengths = "docs/mcp.md", "docs/evidence/mcp.md"
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
	// their number changes with each new check
	example = regexp.MustCompile(`\d+ checks,`).ReplaceAllString(example, "all checks,")
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	golden.Want(t, page, []byte(block(t, string(old), "```text\n", example)))
	if old, err = os.ReadFile(lengths); err != nil {
		t.Fatal(err)
	}
	before, _, found := strings.Cut(string(old), "\n| state | ")
	if !found {
		t.Fatalf("%s has no table", lengths)
	}
	golden.Want(t, lengths, []byte(before+rows.String()))
}
