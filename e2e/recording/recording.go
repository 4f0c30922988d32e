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
	// dead reports whether there was no process to answer.
	dead bool
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

// Recording is what one process of serve has answered, or several in one place after each
// other.
type Recording struct {
	target  string
	stop    context.CancelFunc
	done    chan struct{}
	scrapes []scrape

	mu sync.Mutex
	// address is "" while there is no process.
	address string
}

// Of scrapes the process at the address, such as http://127.0.0.1:8080, every so often
// until Alerts is called or the test ends.
func Of(t *testing.T, address string, every time.Duration) *Recording {
	return of(t, "volume-doctor", address, every)
}

func of(t *testing.T, target, address string, every time.Duration) *Recording {
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	r := &Recording{target: target, address: address, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			r.scrapes = append(r.scrapes, r.scrape(ctx))
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

// at sets the address of the process from now on; "" if it has ended.
func (r *Recording) at(address string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.address = address
}

// Address is where the process listens; "" before it does.
func (r *Recording) Address() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.address
}

func (r *Recording) scrape(ctx context.Context) scrape {
	s, address := scrape{Time: time.Now(), Target: r.target}, r.Address()
	s.Metrics = Metrics(ctx, address)
	s.dead = s.Metrics == "" && (address == "" || address != r.Address())
	return s
}

// Metrics is what the process at the address answers to a scrape, "" where it does not.
func Metrics(ctx context.Context, address string) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/metrics", nil)
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

// Alerts ends the recording, and is [Alerts] of it alone.
func (r *Recording) Alerts(t *testing.T) (alerts []Alert, end time.Time) {
	t.Helper()
	return Alerts(t, r)
}

// Alerts ends the recordings, has promtool check the last answer, and gives what the rules
// of deploy/alerts make of all of them, and when the last was.
func Alerts(t *testing.T, recordings ...*Recording) (alerts []Alert, end time.Time) {
	t.Helper()
	var recorded bytes.Buffer
	var last scrape
	encoder := json.NewEncoder(&recorded)
	for _, r := range recordings {
		r.stop()
		<-r.done
		r.scrapes = r.scrapes[:len(r.scrapes)-1] // the last one may have been cut short
		for _, s := range r.scrapes {
			if s.Metrics == "" && !s.dead {
				t.Errorf("no answer of %s to the scrape at %s", r.target, s.Time)
			}
			if s.Metrics != "" && s.Time.After(last.Time) {
				last = s
			}
			if err := encoder.Encode(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	if last.Metrics == "" {
		t.Fatal("nothing was scraped")
	}
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
