package cmd

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/explain"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// parsed makes the command itself parse the words after "kubectl volume-doctor", up to the
// point where it would read a cluster: flags, arguments, kinds and the names of checks and of
// repairs. The objects that it names must be in the snapshot, where there is one.
func parsed(words []string, s *snapshot.Snapshot) error {
	root := newRoot(genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: io.Discard})
	cmd, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	if cmd == root {
		return fmt.Errorf("%q names no command", words)
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	args := cmd.Flags().Args()
	if err := cmd.ValidateArgs(args); err != nil {
		return err
	}
	text := func(name string) string {
		if f := cmd.Flags().Lookup(name); f != nil {
			return strings.Trim(f.Value.String(), "[]")
		}
		return ""
	}
	switch cmd.Name() {
	case "diagnose", "trace", "preflight":
		targets, err := parseTargets(args, text("namespace"))
		if err != nil {
			return err
		}
		if s != nil {
			if err := mustBeKnown(targets, s); err != nil {
				return err
			}
		}
	case "explain":
		if !slices.ContainsFunc(explain.Pages(), func(p explain.Page) bool {
			return p.Code == strings.Join(args, " ") || p.Name == strings.Join(args, " ")
		}) {
			return fmt.Errorf("explain has no page %q", args)
		}
	}
	for check := range strings.SplitSeq(text("check"), ",") {
		if check != "" {
			if _, err := findCheck(check); err != nil {
				return err
			}
		}
	}
	for kind := range strings.SplitSeq(text("allow"), ",") {
		if kind != "" && !slices.Contains(repair.Kinds(), repair.Kind(kind)) {
			return fmt.Errorf("there is no repair %q", kind)
		}
	}
	for node := range strings.SplitSeq(text("fenced"), ",") {
		a := applyFlags{fenced: []string{node}}
		if node != "" && s != nil {
			if err := a.named(&repair.View{Snapshot: s}); err != nil {
				return err
			}
		}
	}
	return nil
}

// ownWords are the words after "volume-doctor"; nil where the command is another one.
func ownWords(argv []string) []string {
	if i := slices.Index(argv, "volume-doctor"); i >= 0 {
		return argv[i+1:]
	}
	return nil
}

// TestPrintedCommandsAreParsed: each command of this tool that any format shows, for any case
// of the corpus, is accepted, with names that the case has.
func TestPrintedCommandsAreParsed(t *testing.T) {
	long.Test(t)
	shown := map[string]map[string]*snapshot.Snapshot{} // by command, then by case
	formats := map[string]int{}
	for _, c := range corpus(t) {
		s := read(t, c)
		view, _ := repair.Examine(s, c.Settings, repair.Consent{}, diagnose.Request{})
		for _, format := range []string{"table", "wide", "markdown", "html", "json"} {
			var b bytes.Buffer
			if err := output.ReportFormats.Print(&b, format, view.Report, output.Options{}); err != nil {
				t.Fatal(err)
			}
			for _, command := range commandsShown(t, format, b.String()) {
				if shown[command] == nil {
					shown[command] = map[string]*snapshot.Snapshot{}
				}
				shown[command][c.Name] = s
				formats[format]++
			}
		}
	}
	all := map[string]bool{}
	for command := range shown {
		all[command] = true
	}
	own := 0
	for command, argv := range pasted(t, all) {
		words := ownWords(argv)
		if words == nil {
			continue
		}
		own++
		for name, s := range shown[command] {
			if err := parsed(words, s); err != nil {
				t.Errorf("%s: %s: %v", name, command, err)
			}
		}
	}
	if own < 80 {
		t.Errorf("only %d commands of this tool are shown", own)
	}
	t.Logf("%d commands of this tool, of %d that are shown: %v", own, len(shown), formats)
}

// TestPagesBeginWithWhatToDo: each page first says what to do now, with commands. Each of
// this tool's commands is accepted, and --apply stands only where there is a repair.
func TestPagesBeginWithWhatToDo(t *testing.T) {
	commands, codes := map[string]bool{}, map[string]finding.Code{}
	for _, p := range explain.Pages() {
		if p.Code == "" {
			continue
		}
		parts := strings.SplitN(p.Text, "\n\n", 5)
		if len(parts) < 5 || !strings.HasPrefix(parts[0], "# "+p.Code+" ") || !strings.HasPrefix(parts[1], "Do this now: ") || strings.HasPrefix(parts[3], " ") {
			t.Errorf("the page of %s begins with %q", p.Code, parts[:min(4, len(parts))])
			continue
		}
		var command string
		for line := range strings.Lines(parts[2] + "\n") {
			body, indented := strings.CutPrefix(line, "    ")
			if !indented {
				t.Errorf("%s: %q is no command", p.Code, line)
			}
			if command += body; strings.HasSuffix(body, "\\\n") {
				continue
			}
			command = strings.TrimSpace(strings.ReplaceAll(command, "\\\n", ""))
			if strings.HasPrefix(command, "kubectl volume-doctor ") {
				commands[command], codes[command+p.Code] = true, finding.Code(p.Code)
			} else if !strings.HasPrefix(command, "kubectl ") && !strings.HasPrefix(command, "journalctl ") && !strings.HasPrefix(command, "systemctl ") {
				t.Errorf("%s: %q is no command", p.Code, command)
			}
			command = ""
		}
	}
	for command, argv := range pasted(t, commands) {
		words := ownWords(argv)
		if words == nil {
			continue
		}
		if err := parsed(words, nil); err != nil {
			t.Errorf("%s: %v", command, err)
		}
		for key, code := range codes {
			if key != command+string(code) || !slices.Contains(words, "--apply") {
				continue
			}
			kinds := repair.KindsFor(code)
			if len(kinds) == 0 {
				t.Errorf("the page of %s says %s, and there is no repair", code, command)
			}
			if i := slices.Index(words, "--allow"); i >= 0 && !slices.Contains(kinds, repair.Kind(words[i+1])) {
				t.Errorf("the page of %s says %s, and its repairs are %v", code, command, kinds)
			}
		}
	}
}
