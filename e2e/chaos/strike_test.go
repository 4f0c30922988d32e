package chaos_test

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/faultproxy"
)

// strike is an event that hits some of the requests of a run. The race happens first.
type strike struct {
	// class and resource select the requests; "" is any.
	class    faultproxy.Class
	resource string
	// after is how many writes must have been sent before.
	after int
	// nth is the first of those requests that is struck, and times is how many are: 0 is one.
	// Where lasts is set, all are struck for that long.
	nth, times int
	lasts      time.Duration

	race  race
	fault faultproxy.Fault
}

// always is a value for times: all requests to the end of the run.
const always = 1 << 30

func (s strike) String() string {
	what := string(s.class)
	if s.resource != "" {
		what = strings.TrimSpace(what + " of " + s.resource)
	}
	if what == "" {
		what = "request"
	}
	text := fmt.Sprintf("%s %d", what, s.nth)
	switch {
	case s.lasts > 0:
		text += " and all for " + s.lasts.String()
	case s.times == always:
		text += " and all that follow"
	case s.times > 1:
		text += fmt.Sprintf(" to %d", s.nth+s.times-1)
	}
	if s.after > 0 {
		text += fmt.Sprintf(" after write %d", s.after)
	}
	if s.race != "" {
		text += ", " + string(s.race)
	}
	if s.fault != "" {
		text += ", " + string(s.fault)
	}
	return text
}

// assault is what one run must withstand: strikes, and the probability of a fault for each
// other request.
type assault struct {
	strikes []strike
	storm   float64
}

func (a assault) String() string {
	var parts []string
	for _, s := range a.strikes {
		parts = append(parts, s.String())
	}
	if a.storm > 0 {
		parts = append(parts, fmt.Sprintf("a storm of %.0f%%", 100*a.storm))
	}
	return strings.Join(parts, "; ")
}

// tally counts the requests of one run under an assault.
type tally struct {
	assault

	mu     sync.Mutex
	counts map[faultproxy.Class]int
	fits   []int       // requests that each strike matched
	began  []time.Time // when the lasting strikes began
}

// written reports whether a write has been sent.
func (t *tally) written() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[faultproxy.Write] > 0
}

func newTally(a assault) *tally {
	return &tally{assault: a, counts: map[faultproxy.Class]int{}, fits: make([]int, len(a.strikes)), began: make([]time.Time, len(a.strikes))}
}

// hit returns what happens to the request: a race, a fault, both or nothing.
func (t *tally) hit(q faultproxy.Request, random func() float64) (race, faultproxy.Fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	writes := t.counts[faultproxy.Write]
	t.counts[q.Class]++
	var happens race
	var fault faultproxy.Fault
	struck := false
	for i, s := range t.strikes {
		if s.class != "" && s.class != q.Class || s.resource != "" && s.resource != q.Resource || s.after > writes {
			continue
		}
		t.fits[i]++
		n := t.fits[i]
		if n == s.nth {
			t.began[i] = time.Now()
			happens = s.race
		}
		now := n >= s.nth && n < s.nth+max(1, s.times) || s.lasts > 0 && n >= s.nth && time.Since(t.began[i]) < s.lasts
		if now {
			struck = true
			if s.fault != "" {
				fault = s.fault
			}
		}
	}
	if !struck && random() < t.storm {
		faults := faultproxy.Faults()
		fault = faults[int(random()*float64(len(faults)))]
	}
	return happens, fault
}
