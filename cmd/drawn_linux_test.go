package cmd_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"golang.org/x/sys/unix"

	"github.com/volume-doctor/kubectl-volume-doctor/cmd"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	advised "github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/explain"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/sidebyside"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
)

// drawn is one command as people see it.
type drawn struct {
	name string
	args []string
}

// draw runs the command in a terminal with this many columns.
func draw(t testing.TB, columns int, args ...string) string {
	t.Helper()
	master, slave, err := openTerminal(columns)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	shown := make(chan string)
	go func() {
		text, _ := io.ReadAll(master) // it ends with an error when nobody writes any more
		shown <- strings.ReplaceAll(string(text), "\r\n", "\n")
	}()
	var errOut bytes.Buffer
	cmd.Main(append([]string{"--color=never"}, args...), strings.NewReader(""), slave, &errOut)
	slave.Close()
	return <-shown
}

// inPipe runs the command with its output in a pipe, where nothing is wrapped.
func inPipe(args ...string) string {
	var out, errOut bytes.Buffer
	cmd.Main(append([]string{"--color=never"}, args...), strings.NewReader(""), &out, &errOut)
	return out.String()
}

// openTerminal makes a terminal with this many columns.
func openTerminal(columns int) (master, slave *os.File, err error) {
	if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR, 0); err != nil {
		return nil, nil, err
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, err
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, nil, err
	}
	if slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	return master, slave, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(columns), Row: 50})
}

// everyDrawing are the reports about every case and thread, and every page.
func everyDrawing(t *testing.T) (reports, pages []drawn) {
	t.Helper()
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	threads, err := filepath.Glob("../testdata/threads/*.txtar")
	if err != nil || len(threads) < 60 {
		t.Fatalf("%d threads: %v", len(threads), err)
	}
	clusters := map[string][]byte{}
	for _, path := range threads {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		clusters[strings.TrimSuffix(filepath.Base(path), ".txtar")] = archive.Files[0].Data
	}
	for _, c := range cases {
		clusters[c.Name] = c.Cluster
	}
	t.Chdir(t.TempDir())
	for i, name := range slices.Sorted(maps.Keys(clusters)) {
		path := fmt.Sprintf("prod-%d.yaml", i) // as long as the name of a context in the heading
		if err := os.WriteFile(path, clusters[name], 0o600); err != nil {
			t.Fatal(err)
		}
		reports = append(reports, drawn{name, []string{"diagnose", "-f", path}})
	}
	for _, p := range explain.Pages() {
		pages = append(pages, drawn{p.Name, []string{"explain", p.Name}})
	}
	return reports, pages
}

// TestDrawn: on a terminal of 80, 100 and 120 columns every report and every page has the
// same words as in a pipe, where nothing is cut: no sentence, reason, quotation, name,
// command or count is cut, dropped or broken.
func TestDrawn(t *testing.T) {
	t.Setenv("COLUMNS", "")
	t.Setenv("PAGER", "cat")
	reports, pages := everyDrawing(t)
	look := func(d drawn) {
		whole := inPipe(d.args...)
		for _, columns := range []int{80, 100, 120} {
			shown := draw(t, columns, d.args...)
			if !slices.Equal(strings.Fields(whole), strings.Fields(shown)) {
				t.Errorf("%s at %d columns says\n%s\nand in a pipe\n%s", d.name, columns, shown, whole)
			}
		}
	}
	all := slices.Concat(reports, pages)
	sidebyside.Do(len(all), func(i int) { look(all[i]) })
	if len(reports) < 1000 || len(pages) < 100 {
		t.Errorf("%d reports and %d pages show little", len(reports), len(pages))
	}
}

var escape = regexp.MustCompile("\x1b\\[[0-9;]*m")

// TestColorsAreColors: for each seventh case every command prints the same text with colours
// as without: no escape is shown as text.
func TestColorsAreColors(t *testing.T) {
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	var commands [][]string
	for i := 0; i < len(cases); i += 7 {
		s, err := cases[i].Snapshot()
		if err != nil {
			continue
		}
		path := cases[i].Name + ".yaml"
		if err := os.WriteFile(path, cases[i].Cluster, 0o600); err != nil {
			t.Fatal(err)
		}
		commands = append(commands, []string{"diagnose", "-f", path}, []string{"plan", "-f", path})
		if len(s.Nodes) > 0 {
			commands = append(commands, []string{"preflight", s.Nodes[0].Name, "-f", path})
		}
		if len(s.Pods) > 0 {
			commands = append(commands, []string{"trace", "pod/" + s.Pods[0].Name, "-n", s.Pods[0].Namespace, "-f", path})
		}
	}
	painted := make([]bool, len(commands))
	sidebyside.Do(len(commands), func(i int) {
		var out, errOut bytes.Buffer
		cmd.Main(append([]string{"--color=always"}, commands[i]...), strings.NewReader(""), &out, &errOut)
		painted[i] = strings.Contains(out.String(), "\x1b[")
		if plain, want := escape.ReplaceAllString(out.String(), ""), inPipe(commands[i]...); plain != want {
			t.Errorf("%s:\n%s\nand without colours\n%s", strings.Join(commands[i], " "), plain, want)
		}
	})
	if n := len(slices.DeleteFunc(painted, func(p bool) bool { return !p })); n < len(commands)/3 {
		t.Errorf("only %d of %d have a colour", n, len(commands))
	}
}

// toldCause is one cause of a report in a pipe: a line for each sentence and command.
type toldCause struct {
	headline, wait, dont string
	do                   []string
}

var (
	ofVolume    = regexp.MustCompile(`the VolumeAttachment of volume \S+ on node \S+`)
	saysUndone  = regexp.MustCompile(`--apply \((?:cannot be undone|can be undone(?:; [^)]+)?)\) `)
	causeBegins = regexp.MustCompile(`^(?:error|warning|info) VD[0-9]+`)
	fieldBegins = regexp.MustCompile(`^  ([a-z?']+) +(.*)$`)
)

func causesOf(report string) (causes []toldCause) {
	field := ""
	for line := range strings.Lines(report) {
		line = strings.TrimSuffix(line, "\n")
		if causeBegins.MatchString(line) {
			causes, field = append(causes, toldCause{headline: line}), ""
			continue
		}
		text, label := strings.TrimSpace(line), ""
		if m := fieldBegins.FindStringSubmatch(line); m != nil {
			label, text = m[1], m[2]
			field = label
		}
		if len(causes) == 0 || line == "" || !strings.HasPrefix(line, "  ") {
			field = ""
			continue
		}
		c := &causes[len(causes)-1]
		switch field {
		case "wait?":
			c.wait += text
		case "don't":
			c.dont += text
		case "do":
			c.do = append(c.do, text)
		}
	}
	return causes
}

var (
	numbered   = regexp.MustCompile(`^[0-9]+\. `)
	leans      = regexp.MustCompile(`(?i)^(?:only )?(?:then|also|and|once|else|otherwise|after that|for the next time)\b`)
	toldToWait = regexp.MustCompile(`(?i)^(?:to make it safe: )?(?:do nothing|wait)\b|; wait(?:;|$)`)
	objectOf   = regexp.MustCompile(`^[a-z]+/([A-Za-z0-9.:-]+)$`)
	// patched are the fields that commands change, each as a sentence names it.
	patched = map[string]string{
		`"persistentVolumeReclaimPolicy"`: "reclaim policy",
		`/spec/claimRef/uid`:              "claimRef",
	}
	// changed matches a sentence that advises a change of what runs, or of what is attached.
	changed = regexp.MustCompile(`(?i)(?:^|[:,(] |\b(?:and|or|then|now) )(?:delete|restart|reboot|end|stop|drain|cordon|uncordon|taint|detach|unmount|power off|take the taint off|remove|move the|scale|recreate (?:it|the (?:claim|pod)))\b`)
	// saysOf are the words of a command's verb in the sentence above it; "volume-doctor" is --apply or a look.
	saysOf = map[string]*regexp.Regexp{
		"get": looking, "describe": looking, "logs": looking, "trace": looking, "plan": looking,
		"volume-doctor": regexp.MustCompile(`^--apply |--apply \(|\blook\b`),
		"delete":        regexp.MustCompile(`\bdelete\b`),
		"cordon":        regexp.MustCompile(`\bcordon\b`),
		"taint":         regexp.MustCompile(`\btaint\b`),
		"annotate":      regexp.MustCompile(`\b(?:annotate|off)\b`),
		"patch":         regexp.MustCompile(`\b(?:reclaim policy|claimRef)\b`),
		"create":        regexp.MustCompile(`\bmake\b`),
		"scale":         regexp.MustCompile(`\bscale\b`),
	}
	looking = regexp.MustCompile(`(?i)\b(?:look|read|see|find|check|print|compare|diagnose|trace)\b`)
	isLook  = map[string]bool{"get": true, "describe": true, "logs": true, "trace": true, "plan": true, "volume-doctor": true}
	// coversOf are the kinds of steps that a command does.
	coversOf = map[string][]advised.Kind{
		"delete": {advised.DeletePod, advised.RestartNodePlugin, advised.RestartController, advised.RestartDriver},
	}
	forbidden = map[string]*regexp.Regexp{
		"delete pod":              regexp.MustCompile(`(?:^|[ ,])delete (?:the|its|that|a) pods?\b[^;:]*`),
		"delete node":             regexp.MustCompile(`\bdelete (?:the|its|that|a) [Nn]odes?\b[^;:]*`),
		"delete volumeattachment": regexp.MustCompile(`\b[Dd]elete (?:the|its|their|a)? ?VolumeAttachments?\b[^;:,]*`),
	}
)

// clausesOf splits a line into its sentences, and spares parentheses.
func clausesOf(line string) (clauses []string) {
	depth, begin := 0, 0
	for i, c := range line {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case depth == 0 && (strings.HasPrefix(line[i:], "; ") || strings.HasPrefix(line[i:], ". ")):
			clauses, begin = append(clauses, line[begin:i]), i+2
		}
	}
	return append(clauses, line[begin:])
}

// contradicts lists the contradictions in the cause: the sentence above a command names what
// the command does and its object; nobody is told to wait for what does not end; the command
// does not do what is forbidden.
func (c toldCause) contradicts() (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	last, later := "", false
	for _, line := range c.do {
		if !strings.HasPrefix(line, "kubectl ") && !strings.HasPrefix(line, "printf ") {
			last = numbered.ReplaceAllString(line, "")
			if isLater := strings.HasPrefix(last, "later: "); later && !isLater {
				say("what is for later stands above: %s", last)
			} else {
				later = isLater
			}
			for _, clause := range clausesOf(last) {
				if changed.MatchString(clause) && !strings.Contains(clause, " be undone") {
					say("nothing says whether it can be undone: %s", clause)
				}
			}
			if leans.MatchString(strings.TrimPrefix(last, "later: ")) {
				say("a step leans on another: %s", last)
			}
			if strings.HasPrefix(c.wait, "no: ") {
				if toldToWait.MatchString(last) {
					say("wait? %s, and: %s", c.wait, last)
				}
			}
			continue
		}
		for field, says := range patched {
			if strings.Contains(line, field) && !strings.Contains(last, says) {
				say("the sentence above it says nothing of the %s: %s", says, line)
			}
		}
		words := strings.Fields(line)
		does := ""
		for i, word := range words {
			if m := objectOf.FindStringSubmatch(word); m != nil {
				// a name of 68 letters is not repeated: volume and node tell more
				its := strings.HasPrefix(word, "volumeattachment/") && ofVolume.MatchString(last)
				if !its && !finding.Names(last, m[1]) {
					say("the sentence above it does not name %s: %s", m[1], line)
				}
				if !strings.Contains(line, "--apply") {
					if i > 0 {
						does = words[i-1] + " " + strings.Split(word, "/")[0]
					}
				}
				break
			}
		}
		verb, _ := finding.ObjectOf(line)
		if says := saysOf[verb]; says == nil || !says.MatchString(last) {
			say("%q is not what the sentence above it says: %s", verb, line)
		}
		kinds, _ := advised.In(last)
		for _, kind := range kinds {
			if !slices.Contains(coversOf[verb], kind) {
				say("the sentence above it says more than the command does, %s: %s", kind, line)
			}
		}
		if !isLook[verb] && !strings.Contains(last, " be undone") {
			say("nothing says whether it can be undone: %s", line)
		}
		if strings.Contains(line, "--apply") {
			if !saysUndone.MatchString(last) {
				say("nothing says what it does, and whether that can be undone: %s", line)
			}
			for kind := range forbidden {
				if verb, object, _ := strings.Cut(kind, " "); strings.Contains(strings.ToLower(strings.ReplaceAll(last, "the VolumeAttachment", "VolumeAttachment")), ") "+verb+"s "+object) {
					does = kind
				}
			}
		}
		if re := forbidden[does]; re != nil {
			if m := re.FindString(c.dont); m != "" && !strings.Contains(m, "by hand") {
				say("don't %s, and: %s", m, line)
			}
		}
	}
	if strings.Contains(c.dont, "same answer") && strings.HasPrefix(c.wait, "yes") {
		say("wait? %s, and don't %s", c.wait, c.dont)
	}
	return wrong
}

// TestNothingContradicts checks that the instructions of every report do not contradict
// themselves.
func TestNothingContradicts(t *testing.T) {
	reports, _ := everyDrawing(t)
	var mu sync.Mutex
	causes, commands := 0, 0
	sidebyside.Do(len(reports), func(i int) {
		d := reports[i]
		for _, c := range causesOf(inPipe(d.args...)) {
			for _, wrong := range c.contradicts() {
				t.Errorf("%s: %s\n  %s", d.name, c.headline, wrong)
			}
			mu.Lock()
			causes++
			for _, line := range c.do {
				if strings.HasPrefix(line, "kubectl ") {
					commands++
				}
			}
			mu.Unlock()
		}
	})
	t.Logf("%d causes, %d commands", causes, commands)
	if causes < 900 || commands < 400 {
		t.Errorf("%d causes and %d commands show little", causes, commands)
	}
}

// TestContradicts: contradicts notices each kind of contradiction.
func TestContradicts(t *testing.T) {
	for want, c := range map[string]toldCause{
		"": {headline: "error VD301  Pod a/web waits", wait: "no: nobody detaches it (began 3m ago)", dont: "delete the VolumeAttachment by hand",
			do: []string{"1. look at pod a/web", "kubectl get pod/web -n a", "2. --apply (cannot be undone) deletes VolumeAttachment csi-1 for pod a/web:", "kubectl volume-doctor diagnose pod/web -n a --apply"}},
		"the sentence above it does not name web": {headline: "pod a/web waits", do: []string{"look at pod a/old", "kubectl volume-doctor trace pod/web -n a"}},
		"nothing says what it does":               {do: []string{"--apply of pod web (can be undone):", "kubectl volume-doctor diagnose pod/web --apply"}},
		`"plan" is not what the sentence`:         {do: []string{"correct node n1", "kubectl volume-doctor plan node/n1"}},
		"the sentence above it says more":         {do: []string{"cordon n1 and drain it (can be undone)", "kubectl cordon node/n1"}},
		"nothing says whether it can be undone":   {do: []string{"if it hangs, restart machine n1"}},
		"a step leans on another":                 {do: []string{"1. then look at it"}},
		"wait? no":                                {wait: "no: it stays", do: []string{"1. wait until it goes"}},
		"don't delete the VolumeAttachment":       {dont: "delete the VolumeAttachment: it is right", do: []string{"--apply (cannot be undone) deletes VolumeAttachment csi-1:", "kubectl volume-doctor diagnose volumeattachment/csi-1 --apply"}},
		"don't delete the pod":                    {dont: "delete the pod", do: []string{"delete pod a/web (cannot be undone)", "kubectl delete pod/web -n a"}},
		"wait? yes, it ends by itself, and do":    {wait: "yes, it ends by itself", dont: "x: it gets the same answer"},
	} {
		wrong := c.contradicts()
		if want == "" && len(wrong) > 0 || want != "" && (len(wrong) != 1 || !strings.HasPrefix(wrong[0], want)) {
			t.Errorf("%q: %q", want, wrong)
		}
	}
}
