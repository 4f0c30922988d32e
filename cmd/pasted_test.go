package cmd

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// hostileNames have a meaning for a shell.
var hostileNames = []string{
	"$(touch x)", "`touch x`", "';touch x;'", `";touch x;"`, ";touch x", "\ntouch x\n", "a b  c", `\`, "-", "it's", "$HOME", "*", "&& touch x", "| touch x", "> x", "!!", "\x1b[31m", "\u202e", "\xff",
}

// hostileSnapshot makes every name and UID end, or begin, with the text, in messages too, except
// that it leaves those in spared messages as they are everywhere. Computed names of
// VolumeAttachments are computed again.
func hostileSnapshot(s *snapshot.Snapshot, text string, spareMessages bool) *snapshot.Snapshot {
	known := map[string]bool{}
	objects := reflect.ValueOf(&s.Objects)
	eachString(objects, "", func(path, name string) string {
		field := path[strings.LastIndexByte(path, '.')+1:]
		if (strings.HasSuffix(path, ".ObjectMeta.Name") || field == "Namespace" || field == "UID" || field == "VolumeAttributesClassName") && !strings.Contains(path, "CSIDrivers") && !strings.HasSuffix(path, ".Leases.ObjectMeta.Name") &&
			name != "kube-system" { // the controller's lease is in it, whatever the other names
			known[name] = name != ""
		}
		return name
	})
	bad := func(name string) string {
		if text == "-" {
			return text + name
		}
		return name + text
	}
	if spareMessages {
		eachString(objects, "", func(path, said string) string {
			if strings.HasSuffix(path, ".Message") {
				for _, word := range namesInMessage.FindAllString(said, -1) {
					known[word] = false
				}
			}
			return said
		})
	}
	type attached struct{ handle, driver, node string }
	nameOf := func(a attached) string {
		return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(a.handle+a.driver+a.node)))
	}
	var disks [][2]string // of volumes, and of those that only a node still names
	for _, pv := range s.Volumes {
		if pv.Spec.CSI != nil {
			disks = append(disks, [2]string{pv.Spec.CSI.VolumeHandle, pv.Spec.CSI.Driver})
		}
	}
	for _, node := range s.Nodes {
		for _, v := range node.Status.VolumesAttached {
			if driver, handle, ok := strings.Cut(strings.TrimPrefix(string(v.Name), "kubernetes.io/csi/"), "^"); ok {
				disks = append(disks, [2]string{handle, driver})
			}
		}
	}
	computed := map[string]attached{}
	for _, va := range s.VolumeAttachments {
		for _, disk := range disks {
			if a := (attached{disk[0], disk[1], va.Spec.NodeName}); va.Name == nameOf(a) {
				computed[va.Name] = a
			}
		}
	}
	eachString(objects, "", func(path, name string) string {
		if strings.HasSuffix(path, ".Message") {
			return namesInMessage.ReplaceAllStringFunc(name, func(word string) string {
				if known[word] {
					return bad(word)
				}
				return word
			})
		}
		if !known[name] {
			return name
		}
		if strings.HasSuffix(path, ".HolderIdentity") { // as the external-attacher writes it
			if name = notInLease.ReplaceAllString(bad(name), "-"); strings.HasSuffix(name, "-") {
				name += "X"
			}
			return name
		}
		if a, ok := computed[name]; ok {
			a.node = bad(a.node)
			return nameOf(a)
		}
		return bad(name)
	})
	return snapshot.New(s.TakenAt, s.Source, s.Objects, s.Gaps)
}

var (
	notInLease = regexp.MustCompile(`[^a-zA-Z0-9]`)
	// namesInMessage matches each word that may be a name.
	namesInMessage = regexp.MustCompile(`[\w.-]*\w`)
)

// preformatted matches the commands of the findings. The checks' pages at the end of the
// report belong to explain.
var preformatted = regexp.MustCompile(`(?s)class="command"><pre>(.*?)</pre>`)

// commandsShown are the command lines of the report in the format.
func commandsShown(t *testing.T, format, text string) []string {
	t.Helper()
	var commands []string
	begins := func(line string) bool {
		return strings.HasPrefix(line, "kubectl ") || strings.HasPrefix(line, "printf ")
	}
	switch format {
	case "json", "yaml":
		var r finding.Report
		if err := yaml.Unmarshal([]byte(text), &r); err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		for _, f := range r.Findings {
			commands = append(commands, f.AdviceCommands...)
			if f.Repair != nil {
				commands = append(commands, f.Repair.Commands...)
				for _, line := range []string{f.Repair.Apply, f.Repair.ApplyAll} {
					if line != "" {
						commands = append(commands, line)
					}
				}
			}
		}
	case "html":
		for _, m := range preformatted.FindAllStringSubmatch(text, -1) {
			commands = append(commands, html.UnescapeString(m[1]))
		}
	case "markdown":
		fence := ""
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			switch {
			case fence == "" && strings.HasPrefix(line, "```") && strings.HasSuffix(line, "`sh"):
				fence = strings.TrimSuffix(line, "sh")
			case line == fence:
				fence = ""
			case fence != "":
				commands = append(commands, line)
			}
		}
	case "junit", "sarif":
		if format == "junit" {
			var b strings.Builder
			decoder := xml.NewDecoder(strings.NewReader(text))
			for {
				token, err := decoder.Token()
				if err != nil {
					break
				}
				if data, ok := token.(xml.CharData); ok {
					b.Write(data)
				}
			}
			text = b.String()
		} else {
			var document any
			if err := json.Unmarshal([]byte(text), &document); err != nil {
				t.Fatal(err)
			}
			text = texts(document)
		}
		for line := range strings.Lines(text) {
			_, command, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			if begins(command) {
				commands = append(commands, command)
			}
		}
	default:
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(strings.TrimPrefix(line, "  do ")); begins(line) {
				commands = append(commands, line)
			}
		}
	}
	return commands
}

// texts are all strings of a JSON document, one after the other.
func texts(document any) string {
	switch d := document.(type) {
	case string:
		return d + "\n"
	case []any:
		var b strings.Builder
		for _, item := range d {
			b.WriteString(texts(item))
		}
		return b.String()
	case map[string]any:
		var b strings.Builder
		for _, item := range d {
			b.WriteString(texts(item))
		}
		return b.String()
	}
	return ""
}

// TestPastedCommands: every command that any format shows, with hostile names everywhere,
// runs only kubectl, and kubectl gets each name unchanged.
func TestPastedCommands(t *testing.T) {
	long.Test(t)
	cases, plain := casesWithCommands(t)
	for i, text := range hostileNames {
		t.Run(fmt.Sprintf("%q", text), func(t *testing.T) {
			t.Parallel()
			hostile, shown := map[string]bool{}, map[string]bool{} // commands: those with all names hostile, and all
			codes := map[finding.Code]bool{}
			look := func(c *testcases.Case, spareMessages bool) {
				request := diagnose.Request{}
				if i%2 == 0 {
					request.Flags = []string{"--context=" + text}
				}
				view, repairs := repair.Examine(hostileSnapshot(read(t, c), text, spareMessages), c.Settings, repair.Consent{}, request)
				for _, f := range view.Report.Findings {
					codes[f.Code] = codes[f.Code] || len(f.AdviceCommands) > 0
				}
				if len(repairs) == 0 && !slices.ContainsFunc(view.Report.Findings, func(f finding.Finding) bool { return len(f.AdviceCommands) > 0 }) {
					return
				}
				note := func(commands []string) {
					for _, command := range commands {
						shown[command], hostile[command] = true, hostile[command] || !spareMessages
					}
				}
				for _, format := range output.ReportFormats.Names() {
					var b bytes.Buffer
					if err := output.ReportFormats.Print(&b, format, view.Report, output.Options{}); err != nil {
						t.Fatal(err)
					}
					note(commandsShown(t, format, b.String()))
				}
				for _, p := range repairs {
					var b bytes.Buffer
					wide := &applying{examination: &examination{reportPrinter: reportPrinter{outputs: outputFlags{values: []string{"wide"}}}}}
					wide.describe(&b, p)
					note(commandsShown(t, "by hand", b.String()))
				}
			}
			for _, c := range cases {
				look(c, false)
				if strconv.Quote(text) != `"`+text+`"` { // a message escapes it, so that no finding rests on the message
					look(c, true)
				}
			}
			for code := range plain {
				if !codes[code] {
					t.Errorf("no command of %s is shown", code)
				}
			}
			if len(shown) < 20 {
				t.Fatalf("%d commands are shown", len(shown))
			}
			for command, argv := range pasted(t, shown) {
				byName := hostile[command] && argv[0] != "create" && !slices.Contains(argv, "--raw") && !slices.ContainsFunc(argv, ofController) && !slices.ContainsFunc(argv, computedName.MatchString)
				if byName && !slices.ContainsFunc(argv, func(word string) bool { return strings.Contains(word, text) }) {
					t.Errorf("%s\nruns kubectl with %q", command, argv)
				}
			}
		})
	}
}

// casesWithCommands are a few cases for each code whose advice has commands and for each kind
// of repair, and those codes.
func casesWithCommands(t *testing.T) ([]*testcases.Case, map[finding.Code]bool) {
	t.Helper()
	const few = 2
	var cases []*testcases.Case
	codes, seen := map[finding.Code]bool{}, map[string]int{}
	for _, c := range corpus(t) {
		view, _ := repair.Examine(read(t, c), c.Settings, repair.Consent{}, diagnose.Request{})
		wanted := false
		note := func(key string) {
			seen[key]++
			wanted = wanted || seen[key] <= few
		}
		for _, f := range view.Report.Findings {
			if len(f.AdviceCommands) > 0 {
				codes[f.Code] = true
				note(string(f.Code))
			}
			if f.Repair != nil && len(f.Repair.Commands) > 0 {
				note(f.Repair.Kind)
			}
		}
		if wanted {
			cases = append(cases, c)
		}
	}
	return cases, codes
}

// ofController reports whether the word names kube-controller-manager, whose name nobody else
// has.
func ofController(word string) bool { return strings.HasSuffix(word, "kube-controller-manager") }

var computedName = regexp.MustCompile(`^(volumeattachment/)?csi-[0-9a-f]{64}$`)

// pasted runs the commands in bash, with only a stub of kubectl on the path, and returns the
// stub's arguments.
func pasted(t *testing.T, commands map[string]bool) map[string][]string {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	bin, home, log := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "log")
	stub := "#!" + bash + "\nprintf '%s\\0' \"$@\" >> \"$LOG\"\nprintf '\\1\\0' >> \"$LOG\"\nwhile read -r _ <&0; do :; done\n"
	if err := os.WriteFile(filepath.Join(bin, "kubectl"), []byte(stub), 0o700); err != nil {
		t.Fatal(err)
	}
	lines := make([]string, 0, len(commands))
	for command := range commands {
		if strings.Contains(command, "\n") || strings.ContainsFunc(command, safetext.Hidden) {
			t.Errorf("%q has characters that nobody sees", command)
		}
		lines = append(lines, command)
	}
	slices.Sort(lines)
	shell := exec.Command(bash, "--noprofile", "--norc", "-c", strings.Join(lines, "\n")+"\n")
	shell.Dir, shell.Env = home, []string{"PATH=" + bin, "LOG=" + log, "HOME=" + home}
	if out, err := shell.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("bash: %v\n%s", err, out)
	}
	if files, err := os.ReadDir(home); err != nil || len(files) > 0 {
		t.Errorf("the commands wrote %v, %v", files, err)
	}
	logged, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	runs := strings.Split(strings.TrimSuffix(string(logged), "\x01\x00"), "\x01\x00")
	if len(runs) != len(lines) {
		t.Fatalf("%d commands ran kubectl %d times", len(lines), len(runs))
	}
	got := map[string][]string{}
	for i, line := range lines {
		got[line] = strings.Split(strings.TrimSuffix(runs[i], "\x00"), "\x00")
	}
	return got
}

// TestClaimRefUID: an API server accepts any text as the UID in a claimRef, from anybody who
// may create volumes. The text reaches the command of VD501 from a file as it does from a
// cluster.
func TestClaimRefUID(t *testing.T) {
	for _, c := range corpus(t) {
		if c.Name != "vd501-restored-claim" {
			continue
		}
		for _, text := range hostileNames {
			s := read(t, c)
			for _, pv := range s.Volumes {
				if pv.Spec.ClaimRef != nil {
					pv.Spec.ClaimRef.UID = types.UID(text)
				}
			}
			var file bytes.Buffer
			if err := snapshot.Write(&file, s); err != nil {
				t.Fatal(err)
			}
			read, _, err := snapshot.Read("f", &file, snapshot.ReadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			commands := map[string]bool{}
			for _, f := range diagnose.Diagnose(read, diagnose.Options{Reconcile: c.Settings}).Findings {
				for _, command := range f.AdviceCommands {
					commands[command] = true
				}
			}
			for command, argv := range pasted(t, commands) {
				var patch []struct{ Value string }
				want := strings.ToValidUTF8(text, "\uFFFD")
				if err := json.Unmarshal([]byte(argv[len(argv)-1]), &patch); err != nil || patch[0].Value != want {
					t.Errorf("%s: %q %v", command, patch, err)
				}
			}
			if len(commands) == 0 {
				t.Errorf("%q: VD501 is not found", text)
			}
		}
		return
	}
	t.Error("the case is gone")
}
