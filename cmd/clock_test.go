package cmd_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/cmd"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// dates are the tested errors of the API server's Date.
func dates() (off []time.Duration) {
	for minutes := -30; minutes <= 60; minutes += 5 {
		off = append(off, time.Duration(minutes)*time.Minute)
		switch minutes {
		case -5:
			off = append(off, -3*time.Minute)
		case 0:
			off = append(off, time.Minute, 3*time.Minute)
		}
	}
	return off
}

// TestWrongDate repairs every case of the corpus through an API server whose Date is wrong,
// with every kind of repair allowed, while kubelets and controllers renew their leases. With
// an error of more than two minutes nothing is written. Where the objects at that Date offer
// no repair there is nothing to run. docs/evidence/chaos.md has the counts.
func TestWrongDate(t *testing.T) {
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/evidence/chaos.md")
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, kind := range repair.Kinds() {
		kinds = append(kinds, "--allow="+string(kind))
	}
	for _, off := range dates() {
		minutes := int(off.Minutes())
		if testing.Short() && minutes != 0 && minutes != 3 && minutes != 15 {
			continue
		}
		t.Run(fmt.Sprintf("%+d", minutes), func(t *testing.T) {
			var offered, sound, wrote atomic.Int32
			slots := make(chan struct{}, 4)
			var running sync.WaitGroup
			for i, c := range cases {
				if testing.Short() && i%8 != 0 {
					continue
				}
				s, err := c.Snapshot()
				if err != nil {
					t.Fatal(err)
				}
				now := s.TakenAt
				s.TakenAt = now.Add(off)
				if _, repairs := repair.Examine(s, c.Settings, repair.Consent{Allow: repair.Kinds()}, diagnose.Request{}); now.IsZero() || len(repairs) == 0 {
					continue
				}
				offered.Add(1)
				healthy := strings.HasPrefix(c.Name, "healthy-") || strings.Contains(c.Name, "-near-")
				if healthy {
					sound.Add(1)
				}
				slots <- struct{}{}
				running.Go(func() {
					defer func() { <-slots }()
					server, kubeconfig := newAPI(t, c.Name)
					server.any, server.now, server.ahead = true, now, off
					var said bytes.Buffer
					code := cmd.Main(append(kinds, "diagnose", "--apply", "--yes", "--for=1ms", "--wait=false", "--kubeconfig", kubeconfig,
						"--journal", filepath.Join(t.TempDir(), "journal"), "--kubernetes-version", s.Source.ServerVersion), strings.NewReader(""), io.Discard, &said)
					writes := server.writes()
					if writes > 0 {
						wrote.Add(1)
					}
					if off.Abs() > 2*time.Minute && (writes > 0 || code != 2 && !strings.Contains(said.String(), "there is nothing to repair")) {
						t.Errorf("%s: %d writes, exit code %d:\n%s", c.Name, writes, code, said.String())
					}
				})
			}
			running.Wait()
			row := fmt.Sprintf("| %+d | %d | %d | %d |", minutes, offered.Load(), sound.Load(), wrote.Load())
			t.Log(row)
			if wrote.Load() == 0 && off == 0 {
				t.Error("nothing is written by a Date that is right, so that the others show nothing")
			}
			if !testing.Short() && !strings.Contains(string(page), row) {
				t.Errorf("docs/evidence/chaos.md lacks the row %s", row)
			}
		})
	}
}
