package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/intern"
)

// endless writes until nobody reads any more.
func endless(w http.ResponseWriter, text string) {
	block := []byte(strings.Repeat(text, 1+(64<<10)/len(text)))
	for {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

func TestEndlessVersion(t *testing.T) {
	a := newAPI(t)
	a.handle("/version", page(&corev1.Pod{}))
	a.raw = func(w http.ResponseWriter, r *http.Request) bool {
		endless(w, " ")
		return true
	}
	if _, err := a.cluster(Options{}).Snapshot(t.Context()); err == nil || !strings.Contains(err.Error(), "the answer of /version is larger than 64 KiB") {
		t.Errorf("%v", err)
	}
}

func TestEndlessError(t *testing.T) {
	a := newAPI(t)
	a.raw = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != podsPath {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		endless(w, " ")
		return true
	}
	s, err := a.cluster(Options{}).Snapshot(t.Context())
	if err != nil || s.Complete(snapshot.Pods) || !strings.Contains(s.Gaps[0].Detail, "an error of the API server is larger than 4 MiB") {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestEndlessJSON(t *testing.T) {
	long.Test(t)
	a := newAPI(t)
	a.raw = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != podsPath {
			return false
		}
		endless(w, " ")
		return true
	}
	s, err := a.cluster(Options{}).Snapshot(t.Context())
	if err != nil || s.Complete(snapshot.Pods) || !strings.Contains(s.Gaps[0].Detail, "a page of the list in JSON is larger than 256 MiB") {
		t.Fatalf("%+v, %v", s, err)
	}
	if n := len(a.to(podsPath)); n != 1 {
		t.Errorf("asked for %d times: it would be as large again", n)
	}
}

// noBytes is a body that is as long as anybody reads.
type noBytes struct{}

func (noBytes) Read(p []byte) (int, error) { return len(p), nil }
func (noBytes) Close() error               { return nil }

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestEndlessAnswer: any answer ends at a size and at a time, but for a watch.
func TestEndlessAnswer(t *testing.T) {
	for query, want := range map[string]int64{"limit=1": maxAnswer, "watch=true": maxAnswer + 1} {
		request := httptest.NewRequest(http.MethodGet, "/api/v1/pods?"+query, nil)
		b := &boundedAnswers{wait: maxWait, next: roundTripper(func(r *http.Request) (*http.Response, error) {
			if deadline, ok := r.Context().Deadline(); ok != (want == maxAnswer) || ok && time.Until(deadline) > maxWait {
				t.Errorf("%s: until %s, %v", query, deadline, ok)
			}
			return &http.Response{StatusCode: http.StatusOK, Body: noBytes{}, Header: http.Header{}}, nil
		})}
		response, err := b.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		read, err := io.Copy(io.Discard, io.LimitReader(struct{ io.Reader }{response.Body}, maxAnswer+1))
		if read != want || (err == nil) != (want > maxAnswer) {
			t.Errorf("%s: %d bytes, %v", query, read, err)
		}
		_ = response.Body.Close()
	}
}

func TestLargestObject(t *testing.T) {
	head := append([]byte("k8s\x00"), 0x0a, 13, 0x0a, 2, 'v', '1', 0x12, 7)
	head = append(head, "PodList"...)
	for _, size := range []uint64{maxItem, maxItem + 1} {
		item := binary.AppendUvarint([]byte{0x12}, size)
		raw := binary.AppendUvarint([]byte{0x12}, uint64(len(item))+size)
		_, err := listPage(bytes.NewReader(append(append(bytes.Clone(head), raw...), item...)), corev1.SchemeGroupVersion.WithKind("PodList"), nil, nil)
		if isLimit(err) != (size > maxItem) || err == nil {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func TestMostObjects(t *testing.T) {
	p := &pages[corev1.Pod, *corev1.Pod]{Cluster: &Cluster{}, kind: snapshot.Pods, sharer: intern.New(), items: newItems(snapshot.Pods, "")}
	p.keep = func(*corev1.Pod) bool { return false }
	raw, err := (&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "pod-0000000"}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	number := raw[bytes.Index(raw, []byte("0000000")):][:7]
	for n := range maxObjects + 1 {
		copy(number, fmt.Sprintf("%07d", n))
		if err := p.take(raw); (err != nil) != (n == maxObjects) || err != nil && !isLimit(err) {
			t.Fatalf("object %d: %v", n, err)
		}
	}
}

// TestRetryAfterAYear: whoever asks to wait for long is not waited for.
func TestRetryAfterAYear(t *testing.T) {
	for _, code := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		for _, after := range []string{"31536000", "61", "-1", "99999999999999999999"} {
			a := newAPI(t)
			a.raw = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != podsPath {
					return false
				}
				w.Header().Set("Retry-After", after)
				w.WriteHeader(code)
				return true
			}
			s, err := a.cluster(Options{}).Snapshot(t.Context())
			if err != nil || s.Complete(snapshot.Pods) || len(a.to(podsPath)) != 1 {
				t.Errorf("%d, Retry-After %s: %d requests, %+v, %v", code, after, len(a.to(podsPath)), s, err)
			}
		}
	}
}

// TestWriteRetryAfterAYear: a write asks the body of the answer, too.
func TestWriteRetryAfterAYear(t *testing.T) {
	a := newAPI(t)
	a.fail(nodeStatus, apierrors.NewTooManyRequests("busy", 365*24*3600))
	if _, err := a.cluster(Options{}).Do(t.Context(), patchNode, false); err == nil || len(a.to(nodeStatus)) != 1 {
		t.Errorf("%d requests, %v", len(a.to(nodeStatus)), err)
	}
}

// TestRequestTimeout: --request-timeout counts until the end of the answer, and for
// all attempts of one request together.
func TestRequestTimeout(t *testing.T) {
	t.Parallel()
	drip := func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("k8s\x00"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	busy := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	}
	for name, answer := range map[string]http.HandlerFunc{"an answer that drips": drip, "busy for ever": busy} {
		for _, path := range []string{podsPath, "/version"} {
			t.Run(name+" at "+path, func(t *testing.T) {
				var asked atomic.Int32
				a := newAPI(t)
				a.handle("/version", page(&corev1.Pod{}))
				a.raw = func(w http.ResponseWriter, r *http.Request) bool {
					switch r.URL.Path {
					case path:
						asked.Add(1)
						answer(w, r)
					case "/version":
						_, _ = w.Write([]byte(`{"gitVersion":"v1.36.3"}`))
					default:
						return false
					}
					return true
				}
				c, err := New(&rest.Config{Host: a.URL, Timeout: 300 * time.Millisecond}, Options{})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				s, err := c.Snapshot(ctx)
				if err == nil && s.Complete(snapshot.Pods) {
					t.Error("no gap, and no error")
				}
				if n := asked.Load(); ctx.Err() != nil || n > 3 { // client-go would try eleven times
					t.Errorf("it asked %d times, and %v", n, ctx.Err())
				}
			})
		}
	}
}

// TestRedirects: no other host gets the credentials.
func TestRedirects(t *testing.T) {
	asked := 0
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked++
		t.Errorf("another host is asked for %s with %q", r.URL, r.Header.Get("Authorization"))
	}))
	defer other.Close()
	a := newAPI(t)
	for _, path := range []string{podsPath, "/version"} {
		a.handle("/version", page(&corev1.Pod{}))
		a.raw = func(w http.ResponseWriter, r *http.Request) bool {
			switch r.URL.Path {
			case path:
				http.Redirect(w, r, other.URL+path, http.StatusTemporaryRedirect)
			case "/version":
				_, _ = w.Write([]byte(`{"gitVersion":"v1.36.3"}`))
			default:
				return false
			}
			return true
		}
		c, err := New(&rest.Config{Host: a.URL, BearerToken: "secret"}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		if s, err := c.Snapshot(t.Context()); err != nil {
			text = err.Error()
		} else if len(s.Gaps) == 1 {
			text = s.Gaps[0].Detail
		}
		if asked > 0 || !strings.Contains(text, "a redirect to "+other.URL+" is not followed") {
			t.Errorf("%s: %q", path, text)
		}
	}
}

// TestRedirectForEver ends, on the same host.
func TestRedirectForEver(t *testing.T) {
	a := newAPI(t)
	a.raw = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != podsPath {
			return false
		}
		http.Redirect(w, r, podsPath, http.StatusTemporaryRedirect)
		return true
	}
	s, err := a.cluster(Options{}).Snapshot(t.Context())
	if err != nil || s.Complete(snapshot.Pods) || len(a.to(podsPath)) > maxRedirects+1 {
		t.Errorf("%d requests, %+v, %v", len(a.to(podsPath)), s, err)
	}
}

func TestHugeHeaders(t *testing.T) {
	a := newAPI(t)
	a.raw = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == podsPath {
			w.Header().Set("X", strings.Repeat("x", 11<<20))
		}
		return false
	}
	s, err := a.cluster(Options{}).Snapshot(t.Context())
	if err != nil || s.Complete(snapshot.Pods) {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestOnlyHTTP2: lists fall back to HTTP/2 where the API server, or what stands before
// it, speaks nothing else: it refuses the handshake, closes the connection, or says so.
func TestOnlyHTTP2(t *testing.T) {
	for name, speak := range map[string]func(*httptest.Server, http.Handler){
		"it closes the connection": func(s *httptest.Server, h http.Handler) {
			s.Config.Handler = h
			s.Config.Protocols = new(http.Protocols)
			s.Config.Protocols.SetHTTP2(true)
		},
		"it refuses the handshake": func(s *httptest.Server, h http.Handler) {
			s.Config.Handler = h
			s.TLS = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
				if !slices.Contains(hello.SupportedProtos, "h2") {
					return nil, errors.New("only HTTP/2 is spoken here")
				}
				return nil, nil
			}}
		},
		"it answers 505": func(s *httptest.Server, h http.Handler) {
			s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor < 2 {
					w.Header()["Date"] = nil
					w.WriteHeader(http.StatusHTTPVersionNotSupported)
					return
				}
				h.ServeHTTP(w, r)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t)
			var mu sync.Mutex
			spoken := map[string]string{}
			server := httptest.NewUnstartedServer(nil)
			server.EnableHTTP2 = true
			speak(server, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				spoken[r.URL.Path] = r.Proto
				mu.Unlock()
				a.ServeHTTP(w, r)
			}))
			server.StartTLS()
			defer server.Close()
			c, err := New(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			a.serve(podsPath, podsNamed("a"))
			s, err := c.Snapshot(t.Context())
			if err != nil || len(s.Gaps) != 0 || len(s.Pods) != 1 {
				t.Fatalf("%+v, %v", s, err)
			}
			for path, protocol := range spoken {
				if protocol != "HTTP/2.0" {
					t.Errorf("%s over %s", path, protocol)
				}
			}
		})
	}
}
