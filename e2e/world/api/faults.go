package api

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Effect is what happens to a request.
type Effect int

// The effects.
const (
	None  Effect = iota
	Fail         // it never arrives
	Lose         // it is done, and its answer is lost
	Delay        // it arrives later
)

// Fault says what happens to a request. It is asked for each one, from many goroutines.
type Fault func(*http.Request) (Effect, time.Duration)

// errConnection is what a client sees of a request or an answer that is lost.
var errConnection = errors.New("connection refused")

// faults are those that are at work, and the watches that they can cut.
type faults struct {
	mu      sync.Mutex
	fault   Fault
	watches map[*answer]*http.Request
}

// SetFault makes the fault that of all requests from now on; nil ends it.
func (s *Server) SetFault(f Fault) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.fault = f
}

// any reports whether something may happen to requests.
func (f *faults) any() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fault != nil
}

// CutWatches ends the watches that are open, as a load balancer does. Their clients begin
// others.
func (s *Server) CutWatches(which func(*http.Request) bool) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	for a, r := range s.faults.watches {
		if which == nil || which(r) {
			a.cancel()
		}
	}
}

// before is called with each request. It returns the error of one that never arrives, and
// that of an answer which is to be lost.
func (f *faults) before(r *http.Request) (lost, failed error) {
	f.mu.Lock()
	fault := f.fault
	f.mu.Unlock()
	if fault == nil {
		return nil, nil
	}
	effect, wait := fault(r)
	switch effect {
	case Fail:
		return nil, errConnection
	case Lose:
		return errConnection, nil
	case Delay:
		select {
		case <-time.After(wait):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	case None:
	}
	return nil, nil
}

// follow remembers a watch until it is released.
func (f *faults) follow(r *http.Request, a *answer) (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watches == nil {
		f.watches = map[*answer]*http.Request{}
	}
	f.watches[a] = r
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.watches, a)
	}
}

// maxAtOnce is how many requests may come while the clock stands. A client that never
// waits between its tries would keep the bubble's clock from moving for good.
const maxAtOnce = 50_000

// counter counts the requests.
type counter struct {
	mu      sync.Mutex
	total   int
	at      time.Time
	atOnce  int
	clients map[string]int
}

func (c *counter) count(r *http.Request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now != c.at {
		c.at, c.atOnce, c.clients = now, 0, map[string]int{}
	}
	c.total++
	c.atOnce++
	c.clients[r.UserAgent()+" "+r.Method]++
	if c.atOnce > maxAtOnce {
		return fmt.Errorf("%d requests while the clock stands: %v", c.atOnce, c.clients)
	}
	return nil
}

// Requests is how many have come.
func (s *Server) Requests() int {
	s.served.mu.Lock()
	defer s.served.mu.Unlock()
	return s.served.total
}
