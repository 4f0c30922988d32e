// Package recording keeps what serve answers to scrapes while a test does things to a
// cluster, and has Prometheus' own rule engine say which alerts that makes.
package recording

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
)

// Every is the pause between two scrapes.
const Every = 15 * time.Second

// scrape is one answer, as the command of e2e/alerts reads it.
type scrape struct {
	Time    time.Time `json:"time"`
	Target  string    `json:"target"`
	Metrics string    `json:"metrics"`
}

// Alert is a stretch of time for which an alert was pending or firing.
type Alert struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
	// Pending is when its expression held first; Firing is nil where it never fired, and
	// Ended where it has not ended.
	Pending time.Time  `json:"pending"`
	Firing  *time.Time `json:"firing"`
	Ended   *time.Time `json:"ended"`
}

// Recording is what one process of serve has answered.
type Recording struct {
	url     string
	stop    context.CancelFunc
	done    chan struct{}
	scrapes []scrape
}

// Of scrapes the process at the address, such as http://127.0.0.1:8080, every so often
// until Alerts is called or the test ends.
func Of(t *testing.T, address string, every time.Duration) *Recording {
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	r := &Recording{url: address + "/metrics", stop: stop, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			r.scrapes = append(r.scrapes, scrape{time.Now(), "volume-doctor", r.get(ctx)})
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-r.done
	})
	return r
}

// get is the answer to a scrape, "" where there is none.
func (r *Recording) get(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return ""
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return ""
	}
	return string(body)
}

// Serve runs the command beside the test and records it.
func Serve(t *testing.T, kubeconfig string) *Recording {
	t.Helper()
	dir, err := command.Build()
	if err != nil {
		t.Fatal(err)
	}
	said := &address{found: make(chan string, 1)}
	cmd := exec.Command(filepath.Join(dir, command.Binary), "serve", "--leader-elect=false", "--listen", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // fails where it has ended
		_ = cmd.Wait()
	})
	select {
	case url := <-said.found:
		return Of(t, url, Every)
	case <-time.After(time.Minute):
		t.Fatal("serve does not say where it listens")
		return nil
	}
}

// address finds what serve says that it listens on.
type address struct {
	mu    sync.Mutex
	text  strings.Builder
	found chan string
}

// Write implements io.Writer.
func (a *address) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.found == nil {
		return len(p), nil
	}
	a.text.Write(p)
	for line := range strings.Lines(a.text.String()) {
		if _, url, ok := strings.Cut(line, "listening on "); ok && strings.HasSuffix(line, "\n") {
			a.found <- strings.TrimSpace(url)
			a.found = nil
			break
		}
	}
	return len(p), nil
}

// Alerts ends the recording, has promtool check the last answer, and gives what the rules
// of deploy/alerts make of all of them, and when the last was.
func (r *Recording) Alerts(t *testing.T) (alerts []Alert, end time.Time) {
	t.Helper()
	r.stop()
	<-r.done
	r.scrapes = r.scrapes[:len(r.scrapes)-1] // the last one may have been cut short
	if len(r.scrapes) == 0 {
		t.Fatal("nothing was scraped")
	}
	var recorded bytes.Buffer
	encoder := json.NewEncoder(&recorded)
	for _, s := range r.scrapes {
		if s.Metrics == "" {
			t.Errorf("no answer to the scrape at %s", s.Time)
		}
		if err := encoder.Encode(s); err != nil {
			t.Fatal(err)
		}
	}
	last := r.scrapes[len(r.scrapes)-1]
	engine(t, strings.NewReader(last.Metrics), "promtool", []string{"-tags", "remove_all_sd", "github.com/prometheus/prometheus/cmd/promtool"}, "check", "metrics")
	if err := json.Unmarshal(engine(t, &recorded, "alerts", []string{"."}, "-rules", filepath.Join("..", "..", "deploy", "alerts", "rules.yaml")), &alerts); err != nil {
		t.Fatal(err)
	}
	return alerts, last.Time
}

// engine builds a command of the module e2e/alerts, runs it there and gives its output.
func engine(t *testing.T, in io.Reader, name string, target []string, args ...string) []byte {
	t.Helper()
	dir, err := command.Build()
	if err != nil {
		t.Fatal(err)
	}
	module, binary := filepath.Join(filepath.Dir(dir), "alerts"), filepath.Join(dir, name)
	build := exec.CommandContext(t.Context(), "go", append([]string{"build", "-ldflags=-s -w", "-o", binary}, target...)...)
	build.Dir = module
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, text)
	}
	var out, errOut bytes.Buffer
	run := exec.CommandContext(t.Context(), binary, args...)
	run.Dir, run.Stdin, run.Stdout, run.Stderr = module, in, &out, &errOut
	if err := run.Run(); err != nil {
		t.Errorf("%s %s: %v\n%s%s", name, fmt.Sprint(args), err, out.String(), errOut.String())
	}
	return out.Bytes()
}
