package faultproxy

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// behind starts a proxy before a server that counts, and returns a client's way
// to it.
func behind(t *testing.T, fault Fault, class Class) (s *Session, reached *atomic.Int64) {
	t.Helper()
	reached = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := reached.Add(1)
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprintf(w, "answer %d to %s of %s", n, r.Method, r.Header.Get("Audit-ID"))
		if r.Header.Get("Authorization") != "" {
			t.Error("the server is shown the session's token")
		}
	}))
	t.Cleanup(server.Close)
	p, err := Start(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	seen := 0
	t.Cleanup(transport.CloseIdleConnections)
	return p.Session("client", func(r Request) Fault {
		if r.Class != class {
			t.Errorf("%s %s is a %s", r.Method, r.URL, r.Class)
		}
		if seen++; r.Number != seen {
			t.Errorf("request %d has the number %d", seen, r.Number)
		}
		if seen == 2 {
			return fault
		}
		return None
	}), reached
}

var transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // loopback

func ask(s *Session, method, path string) (*http.Response, error) {
	request, err := http.NewRequest(method, s.proxy.URL()+path, nil) //nolint:noctx // loopback
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+s.Name)
	return transport.RoundTrip(request)
}

func send(s *Session, method, path string) (code int, body string, err error) {
	response, err := ask(s, method, path)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close() //nolint:errcheck // read to its end or cut
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// TestFaults makes each fault the second of three requests and says what the
// client and the server see of it.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		fault Fault
		code  int // 0: the connection is cut
		// reached reports whether the server got the request.
		reached bool
		body    string
	}{
		{None, 200, true, "answer 2 to PATCH of client.2"},
		{Conflict, 409, false, "Conflict"},
		{Invalid, 422, false, "Invalid"},
		{Busy, 429, false, "TooManyRequests"},
		{Internal, 500, false, "InternalError"},
		{Forbidden, 403, false, "Forbidden"},
		{Truncated, 200, true, "answer 2"},
		{TimeoutBefore, 504, false, "timeout"},
		{TimeoutAfter, 504, true, "timeout"},
		{CutBefore, 0, false, ""},
		{CutAfter, 0, true, ""},
		{CutBody, 0, true, ""},
		{Stale, 200, true, "answer 2"}, // a write is never out of date
		{KillBefore, 0, false, ""},
		{KillAfter, 0, true, ""},
	} {
		t.Run(string(c.fault), func(t *testing.T) {
			s, reached := behind(t, c.fault, Write)
			before := int64(-1)
			s.Kill = func() { before = reached.Load() }
			for n := 1; n <= 3; n++ {
				code, body, err := send(s, http.MethodPatch, "/api/v1/nodes/a/status")
				want, wantCode := fmt.Sprintf("to PATCH of client.%d", n), 200
				if n == 2 {
					want, wantCode = c.body, c.code
				}
				if wantCode == 0 && err == nil || wantCode != 0 && (err != nil || code != wantCode || !strings.Contains(body, want)) {
					t.Errorf("request %d: %d %q %v", n, code, body, err)
				}
			}
			want, died := int64(2), int64(-1)
			if c.reached {
				want = 3
			}
			switch c.fault {
			case KillBefore:
				died = 1
			case KillAfter:
				died = 2
			}
			if before != died {
				t.Errorf("the client was killed after %d requests, not %d", before, died)
			}
			if reached.Load() != want {
				t.Errorf("%d requests reached the server, not %d", reached.Load(), want)
			}
		})
	}
}

func TestStale(t *testing.T) {
	s, reached := behind(t, Stale, Read)
	for n, want := range []string{"answer 1", "answer 1", "answer 2"} {
		if _, body, err := send(s, http.MethodGet, "/api/v1/pods?limit=5"); err != nil || !strings.HasPrefix(body, want) {
			t.Errorf("request %d: %q %v", n+1, body, err)
		}
	}
	if reached.Load() != 2 {
		t.Errorf("%d requests reached the server", reached.Load())
	}
}

// TestAhead: an answer has the date of the session's clock, whoever gives it.
func TestAhead(t *testing.T) {
	for _, fault := range []Fault{None, Conflict, TimeoutAfter, Stale} {
		s, _ := behind(t, fault, Read)
		s.Ahead = 10 * time.Minute
		for range 2 {
			response, err := ask(s, http.MethodGet, "/version")
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			date, err := http.ParseTime(response.Header.Get("Date"))
			if ahead := time.Until(date); err != nil || ahead < 9*time.Minute || ahead > 11*time.Minute {
				t.Errorf("%s: the date is %v ahead, %v", fault, ahead, err)
			}
		}
	}
}

func TestClasses(t *testing.T) {
	// As the command sends it.
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	encoder := scheme.Codecs.EncoderForVersion(info.Serializer, storagev1.SchemeGroupVersion)
	binary := func(options metav1.DeleteOptions) string {
		body, err := runtime.Encode(encoder, &options)
		if err != nil || !strings.HasPrefix(string(body), "k8s\x00") {
			t.Fatalf("%q, %v", body, err)
		}
		return string(body)
	}
	for _, c := range []struct {
		method, path, body string
		want               Class
	}{
		{"GET", "/api/v1/pods", "", Read},
		{"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "{}", Review},
		{"POST", "/api/v1/namespaces/default/events", "{}", Event},
		{"PATCH", "/api/v1/nodes/a/status?dryRun=All&fieldManager=x", "[]", DryRun},
		{"PATCH", "/api/v1/nodes/a/status?fieldManager=x", "[]", Write},
		{"DELETE", "/apis/storage.k8s.io/v1/volumeattachments/a", `{"dryRun":["All"]}`, DryRun},
		{"DELETE", "/apis/storage.k8s.io/v1/volumeattachments/a", `{"preconditions":{}}`, Write},
		{"DELETE", "/apis/storage.k8s.io/v1/volumeattachments/a", binary(metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}), DryRun},
		{"DELETE", "/apis/storage.k8s.io/v1/volumeattachments/a", binary(metav1.DeleteOptions{}), Write},
		{"POST", "/apis/storage.k8s.io/v1/volumeattachments", `{"dryRun":["All"]}`, Write},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		if got := classOf(c.method, r.URL, []byte(c.body)); got != c.want {
			t.Errorf("%s %s %s: a %s, not a %s", c.method, c.path, c.body, got, c.want)
		}
	}
}

// TestTruncated: half of the answer comes, and its length with it.
func TestTruncated(t *testing.T) {
	s, _ := behind(t, Truncated, Read)
	var lengths []int
	for range 2 {
		_, body, err := send(s, http.MethodGet, "/api/v1/pods")
		if err != nil {
			t.Fatal(err)
		}
		lengths = append(lengths, len(body))
	}
	if lengths[1] != lengths[0]/2 {
		t.Errorf("the answers have %d bytes", lengths)
	}
}

func TestResource(t *testing.T) {
	var seen []string
	s := (&Proxy{sessions: map[string]*Session{}}).Session("client", nil)
	for _, path := range []string{"/version", "/api/v1/pods?limit=5", "/apis/storage.k8s.io/v1/volumeattachments", "/api/v1/namespaces/shop/events"} {
		seen = append(seen, s.count(httptest.NewRequest(http.MethodGet, path, nil), nil).Resource)
	}
	if want := []string{"version", "pods", "volumeattachments", "events"}; !slices.Equal(seen, want) {
		t.Errorf("%v, not %v", seen, want)
	}
}

func TestKubeconfig(t *testing.T) {
	s, _ := behind(t, None, Read)
	path := filepath.Join(t.TempDir(), "config")
	if err := s.WriteKubeconfig(path); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil || config.Host != s.proxy.URL() || config.BearerToken != s.Name {
		t.Errorf("%v, %v", config, err)
	}
}

// TestWatch: what a watch sends reaches the client when it is sent, and the server learns
// that the client is gone.
func TestWatch(t *testing.T) {
	gone := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "first event")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	}))
	t.Cleanup(server.Close)
	p, err := Start(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	response, err := ask(p.Session("client", func(Request) Fault { return None }), http.MethodGet, "/api/v1/nodes?watch=true")
	if err != nil {
		t.Fatal(err)
	}
	event := make([]byte, len("first event"))
	if _, err := io.ReadFull(response.Body, event); err != nil || string(event) != "first event" {
		t.Errorf("%q, %v", event, err)
	}
	_ = response.Body.Close() // the client goes
	transport.CloseIdleConnections()
	<-gone
}
