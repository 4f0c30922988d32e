package cluster

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// The limits on what an API server, or whoever answers in its place, can make us hold, read
// or wait for. SECURITY.md lists the same numbers.
const (
	// maxItem bounds one object in protobuf. No object can be larger: an API server
	// takes requests of 3 MiB, and etcd values of 1.5.
	maxItem = 16 << 20
	// maxObjects bounds one list. Kubernetes is tested with 150,000 pods.
	maxObjects = 1_000_000
	// maxAnswer bounds one answer that is decoded as it arrives: 150,000 pods of
	// 10 KB in one page are 1.5 GB.
	maxAnswer = 4 << 30
	// maxJSON bounds one page in JSON, which is held as a whole: 5,000 pods of 50 KB
	// are 250 MB.
	maxJSON = 256 << 20
	// maxEmptyPages bounds the pages of a list that hold no object and promise
	// more. An API server fills its pages.
	maxEmptyPages = 100
	// maxVersion bounds the answer of /version, which is 400 bytes.
	maxVersion = 64 << 10
	// maxRefusal bounds the body of an error. An API server gives its reason in 3 MiB at
	// most, the size of the request that it refuses.
	maxRefusal = 4 << 20
	// maxRetryAfter bounds the pause that an API server can ask for. Its priority and
	// fairness asks for 32 seconds at most.
	maxRetryAfter = time.Minute
	// maxWait bounds one request with its answer unless --request-timeout does. An API server
	// ends a request after a minute, by default.
	maxWait = 5 * time.Minute
	// maxRedirects bounds the redirects on one host.
	maxRedirects = 3
)

// limitError says that an answer exceeds one of the bounds. Another request would not help.
type limitError struct{ text string }

func (e *limitError) Error() string { return e.text }

func tooMuch(what string, limit int64) error {
	return &limitError{fmt.Sprintf("%s is larger than %d MiB", what, limit>>20)}
}

func isLimit(err error) bool {
	var limit *limitError
	return errors.As(err, &limit)
}

// bounded fails, rather than ends, once more is read than left allows.
type bounded struct {
	in   io.Reader
	left int64
	// err is the error with which it fails.
	err error
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, b.err
	}
	// It asks for one byte more than is allowed: an answer that has this byte is too long.
	n, err := b.in.Read(p[:min(int64(len(p)), b.left+1)])
	b.left -= int64(n)
	if b.left < 0 {
		return n - 1, b.err
	}
	return n, err
}

// Budget bounds what one reading of a cluster costs, beside the bounds on each answer.
type Budget struct {
	// Sent bounds the bytes of all answers together.
	Sent int64
	// Kept bounds the size of the objects that are kept, in bytes, without what they point
	// to.
	Kept int64
}

// spending counts what a reading has used of its Budget. A nil spending has no limit.
type spending struct {
	Budget
	sent, kept atomic.Int64
	// over reports whether some reading used more than the Budget.
	over atomic.Bool
}

func (s *spending) send(n int64) error {
	if s == nil || s.sent.Add(n) <= s.Sent {
		return nil
	}
	s.over.Store(true)
	return tooMuch("the sum of its answers", s.Sent)
}

func (s *spending) keep(n int64) error {
	if s == nil || s.kept.Add(n) <= s.Kept {
		return nil
	}
	s.over.Store(true)
	return tooMuch("what has to be kept of its answers", s.Kept)
}

// reset starts the count of another reading.
func (s *spending) reset() {
	if s != nil {
		s.sent.Store(0)
		s.kept.Store(0)
	}
}

// metered counts the bytes that are read against a budget.
type metered struct {
	in io.Reader
	*spending
}

func (m metered) Read(p []byte) (int, error) {
	n, err := m.in.Read(p)
	if over := m.send(int64(n)); over != nil {
		return n, over
	}
	return n, err
}

// OverBudget reports whether a reading would have exceeded Options.Budget: its snapshot has
// gaps for that.
func (c *Cluster) OverBudget() bool { return c.spent != nil && c.spent.over.Load() }

// Sent is the number of bytes that the last reading received; 0 without a Budget.
func (c *Cluster) Sent() int64 {
	if c.spent == nil {
		return 0
	}
	return c.spent.sent.Load()
}

// Close ends idle connections. They would otherwise be kept for a minute and a half, with
// their buffers.
func (c *Cluster) Close() {
	for _, client := range []groups{c.client, c.lists} {
		if any, ok := client[corev1.GroupName].(*rest.RESTClient); ok { // they share their connections
			utilnet.CloseIdleConnectionsFor(any.Client.Transport)
		}
	}
}
