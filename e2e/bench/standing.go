package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/load"
)

// changes is how many pods are written in each second, beside the leases of the nodes.
const changes = 50

// stood holds the time and the memory that serve took.
type stood struct {
	// first is the time to the first report, and firstMemory the peak until then.
	first       time.Duration
	firstMemory int64
	// after is how long pods then changed; memory is the peak, cores the CPU time of
	// that time, and looks how many reports were made in it.
	after  time.Duration
	memory int64
	cores  float64
	looks  int
	busy   string
}

// standing measures serve in a cluster of a size, in which pods change for a time, and
// writes what it took to the page.
func standing(ctx context.Context, size load.Size, lasts time.Duration, page string) error {
	busy := busy()
	dir, err := command.Build()
	if err != nil {
		return err
	}
	l, err := start(ctx, size)
	if err != nil {
		return err
	}
	defer l.Stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var changing atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cancel(l.live(ctx, &changing))
	}()
	s, err := l.starts(ctx, filepath.Join(dir, command.Serve), lasts, &changing)
	cancel(nil)
	<-ended
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	if err != nil {
		return err
	}
	s.busy = busy
	return writeBetween(page, standingBegin, standingEnd, s.table(size))
}

// live renews what is renewed in a living cluster and, where changing says so, writes pods.
func (l *loaded) live(ctx context.Context, changing *atomic.Bool) error {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for n := 0; ; n++ {
		var err error
		if n%int(heartbeat.Seconds()) == 0 {
			err = l.heartbeat(ctx)
		}
		if err == nil && changing.Load() {
			err = load.Write(ctx, l.EtcdURL(), l.load.Changes(n*changes, changes))
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-second.C:
		}
	}
}

// starts is how often serve is started: an API server reads more slowly what it is asked
// for the first time.
const starts = 3

// starts measures serve after it was started a few times: the first report is the median,
// and all else is of the last one.
func (l *loaded) starts(ctx context.Context, doctor string, lasts time.Duration, changing *atomic.Bool) (s stood, err error) {
	var firsts []time.Duration
	for n := range starts {
		after := time.Duration(0)
		if n == starts-1 {
			after = lasts
		}
		if s, err = l.serve(ctx, doctor, after, changing); err != nil {
			return s, err
		}
		fmt.Fprintf(os.Stderr, "first report after %s\n", s.first.Round(time.Second/10))
		firsts = append(firsts, s.first)
	}
	slices.Sort(firsts)
	s.first = firsts[starts/2]
	return s, nil
}

// serve runs the command until it has looked, and then for as long as pods are to change.
func (l *loaded) serve(ctx context.Context, doctor string, lasts time.Duration, changing *atomic.Bool) (s stood, err error) {
	cmd := exec.CommandContext(ctx, doctor, "--leader-elect=false", "--listen", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+l.Kubeconfig)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return s, err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return s, err
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if ended := cmd.Wait(); err == nil {
			err = ended
		}
	}()
	lines := bufio.NewReader(stderr)
	line, err := lines.ReadString('\n')
	if err != nil {
		return s, err
	}
	_, address, ok := strings.Cut(strings.TrimSpace(line), "listening on ")
	if !ok {
		return s, errors.New(line)
	}
	go func() { _, _ = io.Copy(os.Stderr, lines) }()
	const looked = "volume_doctor_look_duration_seconds_count"
	for {
		m, err := scrape(ctx, address)
		if err != nil {
			return s, err
		}
		if m["volume_doctor_last_look_timestamp_seconds"] > 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.first = time.Since(began)
	if s.firstMemory, err = peak(cmd.Process.Pid); err != nil {
		return s, err
	}
	if lasts == 0 {
		return s, nil
	}
	before, err := scrape(ctx, address)
	if err != nil {
		return s, err
	}
	changing.Store(true)
	at := time.Now()
	select {
	case <-ctx.Done():
		return s, context.Cause(ctx)
	case <-time.After(lasts):
	}
	s.after = time.Since(at)
	m, err := scrape(ctx, address)
	if err != nil {
		return s, err
	}
	const spent, found = "process_cpu_seconds_total", `volume_doctor_findings{check="inuse-not-attached",code="VD301",severity="error"}`
	if m["gaps"] > 0 || m[found] == 0 || m[found] != before[found] {
		return s, fmt.Errorf("the first report, after %s, had %g gaps and %g findings of VD301; the last one has %g and %g",
			s.first.Round(time.Second), before["gaps"], before[found], m["gaps"], m[found])
	}
	s.cores, s.looks = (m[spent]-before[spent])/s.after.Seconds(), int(m[looked]-before[looked])
	s.memory, err = peak(cmd.Process.Pid)
	return s, err
}

// scrape has the series of the metrics by name and labels, and under "gaps" how many of
// these there are.
func scrape(ctx context.Context, address string) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	series := map[string]float64{}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		at := strings.LastIndexByte(lines.Text(), ' ')
		if value, err := strconv.ParseFloat(lines.Text()[at+1:], 64); err == nil && at > 0 {
			series[lines.Text()[:at]] = value
		}
		if strings.HasPrefix(lines.Text(), "volume_doctor_gaps{") {
			series["gaps"]++
		}
	}
	return series, nil
}

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peak is the most memory that the process has had.
func peak(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	m := highWater.FindSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("no VmHWM of process %d", pid)
	}
	kilobytes, err := strconv.ParseInt(string(m[1]), 10, 64)
	return kilobytes * 1024, err
}

const (
	standingBegin = "<!-- measured by make bench-serve: begin -->\n"
	standingEnd   = "<!-- measured by make bench-serve: end -->\n"
)

func (s stood) table(size load.Size) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nMeasured on %s, the first report as the median of %d starts, with %d CPUs, which the API server shared, %s, at a load of %s before: %d nodes,\n%d pods, %d volumes; then %d pods and %d leases changed in each second, for %s.\n\n",
		time.Now().UTC().Format(time.DateOnly), starts, runtime.NumCPU(), runtime.Version(), s.busy, size.Nodes, size.Pods, size.Volumes,
		changes, size.Nodes/int(heartbeat.Seconds()), s.after.Round(time.Second))
	b.WriteString("| what | measured | aimed at | |\n| --- | ---: | ---: | --- |\n")
	row := func(what string, measured, limit float64, format string) {
		met := "met"
		if measured > limit {
			met = "not met"
		}
		fmt.Fprintf(&b, "| %s | "+format+" | "+format+" | %s |\n", what, measured, limit, met)
	}
	row("time to the first report", s.first.Seconds(), 15, "%.1f s")
	row("peak resident memory until then", float64(s.firstMemory)/1e6, 500, "%.0f MB")
	row("peak resident memory", float64(s.memory)/1e6, 500, "%.0f MB")
	row("CPU while pods change", s.cores, 0.5, "%.2f cores")
	fmt.Fprintf(&b, "| reports made meanwhile | %d | - | |\n\n", s.looks)
	return b.String()
}
