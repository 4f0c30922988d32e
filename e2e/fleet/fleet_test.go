package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/load"
)

var (
	servers = flag.Int("servers", 20, "how many API servers there are")
	page    = flag.String("page", "", "the page to write the result into")
)

// size is the size of each cluster, but for those that are large.
var size = load.Size{Nodes: 20, Pods: 300, Volumes: 80}

// large is too large for the first pass.
var large = load.Size{Nodes: 400, Pods: 12000, Volumes: 2400}

// measured is what one run took.
type measured struct {
	wall, cpu time.Duration
	memory    int64 // the largest resident set, in bytes
	stdout    []byte
	stderr    string
	code      int
}

// TestFleet: of a fleet, in which some API servers hang, refuse or lie, each of these is
// named, all others are read, and what is wrong in them is found. By default it is small
// and has the three of them that cost no time-out.
func TestFleet(t *testing.T) {
	ills, broken, largeOnes := []Ill{Closed, Denies, LoginPage}, 3, 0
	if *servers >= 100 {
		ills, broken, largeOnes = Ills, 37, 2
	}
	f := newFleet(time.Now())
	t.Cleanup(f.close)
	login := filepath.Join(t.TempDir(), "login")
	members := makeFleet(t, f, *servers, ills, broken, largeOnes, login)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*f.config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(t.TempDir(), "report.json")
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		t.Fatal(err)
	}
	busy, _, _ := strings.Cut(string(load), " ")
	m := execute(t, kubeconfig, "diagnose", "--all-contexts", "-o", "table", "-o", "json="+report)
	endLogins(login)
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatalf("%v: %s", err, m.stderr)
	}
	var r finding.Report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if m.code != 2 || len(r.Sources) != *servers {
		t.Errorf("exit code %d, %d clusters: %s", m.code, len(r.Sources), m.stderr)
	}
	whole := map[string]string{}
	for _, g := range r.Gaps {
		whole[g.Context] += g.Detail + "; "
	}
	for name, ill := range members {
		if (ill != "") != (whole[name] != "") {
			t.Errorf("%s %s: gap %q", name, ill, whole[name])
		}
		if ill != "" && !bytes.Contains(m.stdout, []byte(name)) {
			t.Errorf("the screen does not name %s, which %s", name, ill)
		}
	}
	found := map[string]int{}
	for _, f := range r.Findings {
		found[f.Context]++
	}
	for name := range members {
		if want := strings.HasPrefix(name, "broken-"); want != (found[name] > 0) {
			t.Errorf("%s: %d findings", name, found[name])
		}
	}
	screen := string(m.stdout)
	if in := fmt.Sprintf("broken-000, and %d other clusters: broken-001", broken-1); strings.Count(screen, "\nerror ")+strings.Count(screen, "\nwarning ") > 4 || !strings.Contains(screen, in) {
		t.Errorf("the same cause in %d clusters is no paragraph:\n%s", broken, screen)
	}
	t.Logf("%d API servers: %s, %s of CPU, %.0f MB; %.0f MB sent\n%s", *servers, m.wall, m.cpu, float64(m.memory)/1e6, float64(f.sent.Load())/1e6, whole)
	if *page != "" {
		write(t, *page, m, members, whole, largeOnes, float64(f.sent.Load())/1e6, busy)
	}
}

// makeFleet adds the servers, the ill ones among the others, and says what each has.
func makeFleet(t *testing.T, f *fleet, n int, ills []Ill, broken, largeOnes int, login string) map[string]Ill {
	t.Helper()
	kinds := map[string]lists{}
	for name, of := range map[string]struct {
		size    load.Size
		healthy bool
	}{"healthy": {size, true}, "broken": {size, false}, "large": {large, true}} {
		answers, err := listsOf(of.size, f.now, of.healthy)
		if err != nil {
			t.Fatal(err)
		}
		kinds[name] = answers
	}
	members := map[string]Ill{}
	add := func(kind string, i int, ill Ill) {
		t.Helper()
		name := fmt.Sprintf("%s-%03d", kind, i)
		if err := f.add(name, kinds[strings.TrimPrefix(kind, "ill-")], ill, []string{"sh", "-c", `echo $$ >>"$0"; exec sleep 600`, login}); err != nil {
			t.Fatal(err)
		}
		members[name] = ill
	}
	for i, ill := range ills {
		add("ill-healthy", i, ill)
	}
	for i := range broken {
		add("broken", i, "")
	}
	for i := range largeOnes {
		add("large", i, "")
	}
	for i := len(members); i < n; i++ {
		add("healthy", i, "")
	}
	return members
}

// endLogins ends the programs that still wait for somebody to log in.
func endLogins(file string) {
	text, _ := os.ReadFile(file) // there is none where no program was started
	for _, pid := range strings.Fields(string(text)) {
		if n, err := strconv.Atoi(pid); err == nil {
			_ = syscall.Kill(n, syscall.SIGKILL)
		}
	}
}

// execute runs the command. Its largest resident set is read from the kernel while it
// runs: what the kernel tells of a process that has ended counts its parent's memory, too.
func execute(t *testing.T, kubeconfig string, args ...string) measured {
	t.Helper()
	dir, err := command.Build()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, command.Binary), args...)
	var stdout, stderr bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = append(os.Environ(), "KUBECONFIG="+kubeconfig), &stdout, &stderr, time.Second
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended, most := make(chan struct{}), make(chan int64)
	go func() { most <- watchMemory(cmd.Process.Pid, ended) }()
	err = cmd.Wait()
	m := measured{wall: time.Since(began), stdout: stdout.Bytes(), stderr: stderr.String()}
	close(ended)
	m.memory = <-most
	if err != nil && !errors.As(err, new(*exec.ExitError)) && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatal(err)
	}
	m.cpu, m.code = cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime(), cmd.ProcessState.ExitCode()
	return m
}

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

func watchMemory(pid int, ended chan struct{}) (most int64) {
	ticks := time.NewTicker(5 * time.Millisecond)
	defer ticks.Stop()
	for {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // it may have ended
		if of := highWater.FindSubmatch(text); of != nil {
			kilobytes, _ := strconv.ParseInt(string(of[1]), 10, 64) // digits, says the expression
			most = max(most, kilobytes*1024)
		}
		select {
		case <-ended:
			return most
		case <-ticks.C:
		}
	}
}

const (
	begin = "<!-- measured by make fleet: begin -->\n"
	end   = "<!-- measured by make fleet: end -->\n"
	// Aims of the run.
	mostTime   = time.Minute
	mostMemory = 300e6
)

// write puts the result into the page.
func write(t *testing.T, name string, m measured, members map[string]Ill, gaps map[string]string, largeOnes int, sent float64, busy string) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "\nMeasured on %s with %d CPUs, which the API servers shared, %s, at\na load of %s before: %d API servers in one process, each with its own port and\ncertificate.\n\n",
		time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), runtime.Version(), busy, len(members))
	met := func(ok bool) string {
		if ok {
			return "met"
		}
		return "not met"
	}
	fmt.Fprintf(&b, "| what | measured | aimed at | |\n| --- | ---: | ---: | --- |\n| wall time | %.1f s | %.0f s | %s |\n| peak resident memory | %.0f MB | %.0f MB | %s |\n",
		m.wall.Seconds(), mostTime.Seconds(), met(m.wall <= mostTime), float64(m.memory)/1e6, mostMemory/1e6, met(float64(m.memory) <= mostMemory))
	fmt.Fprintf(&b, "| CPU time of the command | %.1f s | - | |\n| sent by the API servers | %.0f MB | - | |\n\n", m.cpu.Seconds(), sent)
	fmt.Fprintf(&b, "Each cluster has %d nodes, %d pods and %d volumes, but for %d with\n%d nodes, %d pods and %d volumes. These API servers hang, refuse or\nlie; the report names each, and no other:\n\n| the API server | the report says |\n| --- | --- |\n",
		size.Nodes, size.Pods, size.Volumes, largeOnes, large.Nodes, large.Pods, large.Volumes)
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`)
	for _, context := range slices.Sorted(maps.Keys(members)) {
		if ill := members[context]; ill != "" {
			fmt.Fprintf(&b, "| %s | %s |\n", ill, address.ReplaceAllString(strings.TrimSuffix(gaps[context], "; "), "ADDRESS"))
		}
	}
	b.WriteString("\n")
	old, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(old), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the result", name)
	}
	if err := os.WriteFile(name, []byte(before+begin+b.String()+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
