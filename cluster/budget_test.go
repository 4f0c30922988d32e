package cluster

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// TestBudget: what is sent and what is kept have each their own end, which stays known
// when another reading begins; without a budget there is none.
func TestBudget(t *testing.T) {
	s := &spending{Budget: Budget{Sent: 10, Kept: 5}}
	if err := errors.Join(s.send(10), s.keep(5)); err != nil || s.over.Load() {
		t.Errorf("just enough: %v", err)
	}
	if err := s.keep(1); !isLimit(err) || !s.over.Load() {
		t.Errorf("more is kept: %v", err)
	}
	s.reset()
	if err := s.send(11); !isLimit(err) || s.sent.Load() != 11 || s.kept.Load() != 0 || !s.over.Load() {
		t.Errorf("more is sent: %v", err)
	}
	var none *spending
	none.reset()
	if err := errors.Join(none.send(1<<40), none.keep(1<<40)); err != nil {
		t.Error(err)
	}
	if c := (&Cluster{}); c.OverBudget() || c.Sent() != 0 {
		t.Error("a cluster without a budget")
	}
}

// TestMetered: an answer fails where the sum of all is too large, and not before.
func TestMetered(t *testing.T) {
	s := &spending{Budget: Budget{Sent: 10}}
	for _, text := range []string{"12345", "67890"} {
		if got, err := io.ReadAll(metered{strings.NewReader(text), s}); string(got) != text || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	if _, err := io.ReadAll(metered{strings.NewReader("x"), s}); !isLimit(err) {
		t.Errorf("a byte too much: %v", err)
	}
}
