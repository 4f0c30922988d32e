package command_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/scenario"
)

var (
	// answerData matches the text between the marks of an answer.
	answerData = regexp.MustCompile(`(?s)<<<data ([0-9a-f]{32})>>>\n(.*)\n<<<end of data ([0-9a-f]{32})>>>\n$`)
	// passing matches what differs between two looks at the same state: times and ages.
	passing = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:]+Z|\b(\d+(h|m|s|d))+\b`)
)

// TestModelContext: the tools' answers over stdio about the real API server are the same as
// the command's output.
func TestModelContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t, scenario.BackoffDrop)
	dir, err := command.Build()
	if err != nil {
		t.Fatal(err)
	}
	server := exec.Command(filepath.Join(dir, command.Binary), "mcp", "--kubeconfig", cluster.Kubeconfig)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "a test", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: server}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := session.Close(); err != nil {
			t.Errorf("the server does not end with its client: %v", err)
		}
	}()
	for _, tc := range []struct {
		tool      string
		arguments map[string]any
		args      []string
		wants     string
	}{
		{"trace", map[string]any{"pod": w.Subject.Pod, "namespace": w.Namespace}, []string{"trace", "pod/" + w.Subject.Pod, "-n", w.Namespace}, "\nverdict: "},
		{"diagnose", map[string]any{"targets": []string{"pod/" + w.Subject.Pod}, "namespace": w.Namespace}, []string{"diagnose", "pod/" + w.Subject.Pod, "-n", w.Namespace}, w.Subject.Pod},
		{"preflight", map[string]any{"node": w.Node}, []string{"preflight", "node/" + w.Node}, "Node " + w.Node},
		{"plan", map[string]any{"nodes": []string{w.Node}}, []string{"plan", "node/" + w.Node}, w.Node},
	} {
		var answer, printed string
		same := func() bool { // the state may change between the two looks
			result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tc.tool, Arguments: tc.arguments})
			if err != nil {
				t.Fatal(err)
			}
			answer = result.Content[0].(*mcp.TextContent).Text
			parts := answerData.FindStringSubmatch(answer)
			if parts == nil || parts[1] != parts[3] {
				t.Fatalf("%s has no marks:\n%s", tc.tool, answer)
			}
			r := doctor(t, append(tc.args, "--kubeconfig", cluster.Kubeconfig)...)
			printed = r.Stdout + warnings(r.Stderr)
			return paragraphs(parts[2]) == paragraphs(printed)
		}
		if !slices.ContainsFunc(make([]struct{}, 5), func(struct{}) bool { return same() }) {
			t.Errorf("%s answers\n%s\nand the command prints\n%s", tc.tool, answer, printed)
		}
		if !strings.Contains(answer, tc.wants) {
			t.Errorf("%s does not say %q:\n%s", tc.tool, tc.wants, answer)
		}
	}
	for _, v := range cluster.Driver.Violations() {
		t.Error(v)
	}
}

// warnings are the warnings in standard error, and the notes, after a blank line.
func warnings(stderr string) string {
	var list string
	for line := range strings.Lines(stderr) {
		if strings.HasPrefix(line, "warning: ") || strings.HasPrefix(line, "note: ") {
			list += line
		}
	}
	if list == "" {
		return ""
	}
	return "\n" + list
}

// paragraphs are the text's paragraphs, sorted, without times and ages.
func paragraphs(text string) string {
	list := strings.Split(strings.TrimSpace(passing.ReplaceAllString(text, "_")), "\n\n")
	slices.Sort(list)
	return strings.Join(list, "\n\n")
}
