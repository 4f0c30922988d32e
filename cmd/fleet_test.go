package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestOneCostsNothingElse: of 100 clusters, thirty hang in every possible way. Each of them
// is named, the others are all read, and everything takes no longer than one that hangs and
// one that is slow.
func TestOneCostsNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		passes := []fleetLimits{{AtOnce: 40, Time: 20 * time.Second}, {AtOnce: 10, Time: time.Minute, Last: true}}
		release := make(chan struct{})
		defer close(release)
		began := time.Now()
		var mu sync.Mutex
		looks, results, errs := make([]int, 100), map[int]string{}, map[int]error{}
		look := func(ctx context.Context, i int, l fleetLimits) (string, error) {
			mu.Lock()
			looks[i]++
			mu.Unlock()
			switch {
			case i >= 30:
				time.Sleep(time.Millisecond)
				return fmt.Sprint(i), l.judge(ctx, false, 0, nil)
			case i < 10: // a program that cannot be stopped
				<-release
				return "", nil
			case i < 20: // an API server that does not answer
				<-ctx.Done()
				return "", l.judge(ctx, false, 0, ctx.Err())
			case i < 25: // too large for the first pass
				return fmt.Sprint(i), l.judge(ctx, !l.Last, 0, nil)
			case !l.Last: // slow, but still sending
				<-ctx.Done()
				return "", l.judge(ctx, false, steadySent, ctx.Err())
			default:
				return fmt.Sprint(i), nil
			}
		}
		err := eachCluster(t.Context(), 100, passes, look, func(i int, result string, err error) {
			if _, twice := results[i]; twice || errs[i] != nil {
				t.Errorf("%d ended twice", i)
			}
			if err != nil {
				errs[i] = err
				return
			}
			results[i] = result
		})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 20*time.Second+2*stoppingTime {
			t.Errorf("it took %s", took)
		}
		mu.Lock()
		defer mu.Unlock()
		for i := range 100 {
			if hangs := i < 20; hangs != (errs[i] != nil) || !hangs && results[i] != fmt.Sprint(i) {
				t.Errorf("%d: %q, %v", i, results[i], errs[i])
			}
			if again := i >= 20 && i < 30; again != (looks[i] == 2) {
				t.Errorf("%d was looked at %d times", i, looks[i])
			}
		}
		if !strings.Contains(errs[0].Error(), "waits for a login") {
			t.Error(errs[0])
		}
	})
}

// TestBoundsOfAPass: no more than AtOnce are looked at side by side, which bounds the memory.
func TestBoundsOfAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most := 0, 0
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			running += n
			most = max(most, running)
		}
		look := func(context.Context, int, fleetLimits) (int, error) {
			count(1)
			time.Sleep(time.Second)
			count(-1)
			return 0, nil
		}
		if err := eachCluster(t.Context(), 20, []fleetLimits{{AtOnce: 3, Time: time.Hour}}, look, func(int, int, error) {}); err != nil || most != 3 {
			t.Errorf("%d side by side: %v", most, err)
		}
	})
}

// TestInterrupted: Ctrl-C ends it, and a look that has not ended by then has no result.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("Ctrl-C")
		ctx, cancel := context.WithCancelCause(t.Context())
		look := func(ctx context.Context, i int, _ fleetLimits) (int, error) {
			if i == 0 {
				return 0, nil
			}
			cancel(why)
			<-ctx.Done()
			return 0, ctx.Err()
		}
		var ended []int
		err := eachCluster(ctx, 5, []fleetLimits{{AtOnce: 1, Time: time.Hour}}, look, func(i, _ int, _ error) { ended = append(ended, i) })
		if !errors.Is(err, why) || !slices.Equal(ended, []int{0}) {
			t.Errorf("%v, ended %v", err, ended)
		}
	})
}

// TestJudge: in the last pass nothing is put off, and an ordinary error never is.
func TestJudge(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	wrong := errors.New("refused")
	for name, tc := range map[string]struct {
		ctx  context.Context
		over bool
		sent int64
		last bool
		err  error
		want error
	}{
		"read":                      {ctx: t.Context()},
		"refused":                   {ctx: t.Context(), err: wrong, want: wrong},
		"too large":                 {ctx: t.Context(), over: true, want: errLater},
		"too large in the end":      {ctx: t.Context(), over: true, last: true},
		"hangs":                     {ctx: over, sent: steadySent - 1, err: wrong, want: wrong},
		"slow":                      {ctx: over, sent: steadySent, err: wrong, want: errLater},
		"slow in the end":           {ctx: over, sent: steadySent, last: true, err: wrong, want: wrong},
		"large, and then it failed": {ctx: t.Context(), sent: steadySent, err: wrong, want: wrong},
	} {
		got := (fleetLimits{Last: tc.last}).judge(tc.ctx, tc.over, tc.sent, tc.err)
		if tc.over && tc.last {
			if got == nil || !strings.Contains(got.Error(), "examine it alone") {
				t.Errorf("%s: %v", name, got)
			}
			continue
		}
		if !errors.Is(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
