package history

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/bubble"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/driver"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
)

// demoSteps are what is done in the demo, and how it tells that and its end.
var demoSteps = []struct {
	Step
	told, ended string
}{
	{broken(driver.Fault{Call: driver.Detach, Words: "the disk is busy", Code: codes.Internal}, 13*time.Minute), "the storage system refuses to detach one disk: \"the disk is busy\"", "the storage system works again"},
	{Step{At: 2*time.Minute + 10*time.Second, Do: "drain", Node: "@web0", For: 25 * time.Minute}, "somebody drains the node of the pod that uses it; the pod moves", ""},
}

// Demo plays a history that breaks and heals, and prints to out what is done and what
// "diagnose --watch" prints meanwhile. It ends when all is well again.
func Demo(t *testing.T, out io.Writer, options output.Options) (err error) {
	t.Helper()
	bubble.Quiet()
	bubble.Run(t, limit, func(*testing.T) { err = demo(out, options) })
	return err
}

func demo(out io.Writer, options output.Options) error {
	ctx, cancel := context.WithCancel(context.Background())
	w, err := NewWorld(ctx, Small)
	if err != nil {
		cancel()
		return err
	}
	defer func() {
		cancel()
		w.Wait()
		time.Sleep(ends)
	}()
	tell := func(at time.Time, text string) {
		_, _ = fmt.Fprintf(out, "%s -------- %s\n", at.UTC().Format(time.TimeOnly), text)
	}
	time.Sleep(settles)
	tell(time.Now(), "three nodes, three pods with a disk each; diagnose --watch looks every 15 seconds")
	for _, s := range demoSteps {
		w.run(func() {
			select {
			case <-time.After(s.At - w.Since()):
				tell(time.Now(), s.told)
				w.run(func() {
					select {
					case <-time.After(s.For):
						if s.ended != "" {
							tell(time.Now(), s.ended)
						}
					case <-ctx.Done():
					}
				})
				w.do(ctx, s.Step)
			case <-ctx.Done():
			}
		})
	}
	c, err := w.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	var timeline finding.Timeline
	var since map[string]metav1.Time
	last, waited := "all pods run", false
	for w.Since() < length {
		time.Sleep(LookEvery)
		view, err := w.examine(ctx, c, since)
		if err != nil {
			return err
		}
		since = view.Report.FoundSince(since)
		for _, e := range timeline.Next(view.Report, view.Undecided) {
			if err := output.PrintEntry(out, "table", e, options); err != nil {
				return err
			}
		}
		waiting := waitingPods(view.Report)
		if waiting != last {
			last, waited = waiting, true
			tell(view.Report.TakenAt.Time, waiting)
		}
		if waited && len(view.Report.Waiting)+len(view.Report.Findings) == 0 {
			return nil
		}
	}
	return fmt.Errorf("after %s all is not well yet", length)
}

// waitingPods tells who waits, in which stage and for whom.
func waitingPods(r *finding.Report) string {
	if len(r.Waiting) == 0 {
		return "all pods run"
	}
	var all []string
	for _, x := range r.Waiting {
		all = append(all, fmt.Sprintf("pod %s waits until its volume is %s (%s); next to act is %s", x.Pod, x.Stage, x.Verdict, x.Actor))
	}
	return strings.Join(all, "; ")
}
