package api

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/version"
)

// RoundTrip implements http.RoundTripper: it calls the handlers of the server. All but a
// watch are over when it returns.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := s.served.count(r); err != nil {
		return nil, err
	}
	if r.Method == http.MethodGet && !s.faults.any() {
		if last := s.lists.last(r); last != nil {
			return last.response(r), nil
		}
	}
	ctx, cancel := context.WithCancel(r.Context())
	request := r.Clone(ctx)
	request.RequestURI = r.URL.RequestURI()
	if request.Body == nil {
		request.Body = http.NoBody
	}
	lost, err := s.faults.before(request)
	if err != nil {
		cancel()
		return nil, err
	}
	a := newAnswer(cancel)
	switch {
	case isWatch(r):
		release := s.faults.follow(request, a)
		go func() {
			defer release()
			s.handler.ServeHTTP(a, request)
			a.end()
		}()
	case r.URL.Path == "/version":
		writeVersion(a)
		a.end()
	default:
		s.handler.ServeHTTP(a, request)
		a.end()
	}
	select {
	case <-a.begun:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if lost != nil {
		cancel()
		return nil, lost
	}
	return response(r, a.code, a.header, a), nil
}

// response is what a client gets, at this moment.
func response(r *http.Request, code int, header http.Header, body io.ReadCloser) *http.Response {
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	return &http.Response{StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Request: r, ContentLength: -1, Header: header, Body: body}
}

func isWatch(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

func writeVersion(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(version.Info{Major: "1", Minor: "37", GitVersion: Version, Platform: "linux/amd64"})
}

// answer is the response of a handler and its body at once: what the one writes the other
// reads.
type answer struct {
	header http.Header
	code   int
	once   sync.Once
	// begun is closed when the code is known.
	begun  chan struct{}
	wake   chan struct{}
	cancel context.CancelFunc

	mu     sync.Mutex
	buffer bytes.Buffer
	ended  bool
}

func newAnswer(cancel context.CancelFunc) *answer {
	return &answer{header: http.Header{}, begun: make(chan struct{}), wake: make(chan struct{}, 1), cancel: cancel}
}

var (
	_ http.ResponseWriter = (*answer)(nil)
	_ http.Flusher        = (*answer)(nil)
	_ io.ReadCloser       = (*answer)(nil)
)

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) {
	a.once.Do(func() {
		a.code = code
		close(a.begun)
	})
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.poke()
	return a.buffer.Write(p)
}

// Flush implements http.Flusher, without which an API server refuses a watch.
func (a *answer) Flush() { a.WriteHeader(http.StatusOK) }

// CloseNotify is what the API server's wrappers ask for before they pass Flush on.
func (a *answer) CloseNotify() <-chan bool { return nil }

// Read implements io.Reader.
func (a *answer) Read(p []byte) (int, error) {
	for {
		a.mu.Lock()
		if a.buffer.Len() > 0 {
			n, err := a.buffer.Read(p)
			a.mu.Unlock()
			return n, err
		}
		ended := a.ended
		a.mu.Unlock()
		if ended {
			return 0, io.EOF
		}
		<-a.wake
	}
}

// Close implements io.Closer: the client wants no more.
func (a *answer) Close() error {
	a.cancel()
	return nil
}

// end is called once, when the handler has returned.
func (a *answer) end() {
	a.WriteHeader(http.StatusOK)
	a.mu.Lock()
	a.ended = true
	a.mu.Unlock()
	a.poke()
	a.cancel()
}

func (a *answer) poke() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}
