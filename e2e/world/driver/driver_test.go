package driver

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestFaults(t *testing.T) {
	hangs := Fault{Call: Attach, Node: "n1", Hangs: true}
	for name, c := range map[string]struct {
		fault    Fault
		call     Call
		node     string
		code     codes.Code
		took     time.Duration
		attached []string
	}{
		"no fault fits":               {Fault{Call: Attach, Node: "n2", Words: "no"}, Attach, "n1", codes.OK, usual, []string{"n1"}},
		"another call":                {Fault{Call: Detach, Words: "no"}, Attach, "n1", codes.OK, usual, []string{"n1"}},
		"refused":                     {Fault{Call: Attach, Words: "no", Code: codes.Internal}, Attach, "n1", codes.Internal, usual, nil},
		"refused although it is done": {Fault{Call: Attach, Words: "no", Code: codes.Internal, Done: true}, Attach, "n1", codes.Internal, usual, []string{"n1"}},
		"slow":                        {Fault{Call: Attach, After: 5 * time.Second}, Attach, "n1", codes.OK, usual + 5*time.Second, []string{"n1"}},
		"hangs":                       {hangs, Attach, "n1", codes.DeadlineExceeded, 15 * time.Second, nil},
		"stage without a device":      {Fault{}, Stage, "n1", codes.Internal, usual, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := New("d")
				d.Break(c.fault)
				ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
				defer cancel()
				began := time.Now()
				err := d.Do(ctx, c.call, "v", c.node)
				if status.Code(err) != c.code || time.Since(began) != c.took || !slices.Equal(d.AttachedTo("v"), c.attached) {
					t.Errorf("%v after %s, attached to %v", err, time.Since(began), d.AttachedTo("v"))
				}
			})
		})
	}
}

// TestCure: a call that hangs goes on when the fault is cured.
func TestCure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New("d")
		f := Fault{Call: Attach, Hangs: true}
		d.Break(f)
		go func() {
			time.Sleep(10 * time.Second)
			d.Cure(f)
		}()
		if err := d.Do(t.Context(), Attach, "v", "n1"); err != nil || len(d.Faults()) > 0 {
			t.Errorf("%v, %v", err, d.Faults())
		}
		if err := d.Do(t.Context(), Attach, "v", "n2"); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("attached to a second node: %v", err)
		}
	})
}
