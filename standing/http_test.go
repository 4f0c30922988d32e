package standing

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
)

// clock is a time that a test sets.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func options(c *clock, log io.Writer) Options {
	return Options{ReportPage: true, Log: log, Now: c.now}
}

func nobody(context.Context, string, string) (access, error) {
	return unauthenticated, nil
}

func ask(s *server, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.handler().ServeHTTP(w, r)
	return w
}

// TestHealth follows a process through its states: it stands by, leads, has looked, hangs,
// and no longer leads.
func TestHealth(t *testing.T) {
	c := &clock{noon}
	s := newServer(options(c, io.Discard), nobody)
	report := &look{report: &finding.Report{TakenAt: metav1.NewTime(noon)}}
	for _, step := range []struct {
		what           string
		do             func()
		healthz        int
		readyz         int
		leader, looked bool
	}{
		{"stands by", func() {}, 200, 200, false, false},
		{"leads", func() { s.state.begin(c.at) }, 200, 503, true, false},
		{"still reads", func() { c.at = c.at.Add(roundBound) }, 200, 503, true, false},
		{"reads for too long", func() { c.at = c.at.Add(time.Second) }, 503, 503, true, false},
		{"has looked", func() { s.state.last, s.state.beat = report, c.at }, 200, 200, true, true},
		{"hangs", func() { c.at = c.at.Add(roundBound + time.Second) }, 503, 200, true, true},
		{"no longer leads", s.state.end, 200, 200, false, false},
	} {
		step.do()
		if w := ask(s, "/healthz"); w.Code != step.healthz {
			t.Errorf("%s: /healthz %d %s", step.what, w.Code, w.Body)
		}
		if w := ask(s, "/readyz"); w.Code != step.readyz {
			t.Errorf("%s: /readyz %d %s", step.what, w.Code, w.Body)
		}
		text := ask(s, "/metrics").Body.String()
		if strings.Contains(text, "volume_doctor_leader 1\n") != step.leader || strings.Contains(text, lastLook.Name) != step.looked ||
			strings.Contains(text, lookTook.Name) != step.leader || !strings.Contains(text, "go_goroutines") {
			t.Errorf("%s: /metrics\n%.2000s", step.what, text)
		}
	}
}

// TestLocalPage: without a token only a browser on this machine gets the report, and no page
// that leads it here under another name.
func TestLocalPage(t *testing.T) {
	o := options(&clock{noon}, io.Discard)
	if err := o.shows("localhost", true); err == nil || !strings.Contains(err.Error(), "asks for no token") || safetext.Redact(err.Error()) != err.Error() {
		t.Errorf("everybody may come, or the message hides a word as a secret: %v", err)
	}
	o.Listen = ":8080"
	if err := o.shows("localhost", false); err != nil || o.Listen != "127.0.0.1:8080" {
		t.Errorf("%s, %v", o.Listen, err)
	}
	if err := o.shows("maybe", false); err == nil {
		t.Error("it takes any word")
	}
	s := newServer(o, nobody)
	s.state.begin(noon)
	s.state.last = &look{report: &finding.Report{TakenAt: metav1.NewTime(noon)}}
	for host, want := range map[string]int{
		"localhost:8080": 200, "127.0.0.1:8080": 200, "[::1]:8080": 200, "localhost": 200,
		"evil.example.com:8080": 403, "10.0.0.1:8080": 403, "": 403, "localhost.evil.example.com": 403,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		s.handler().ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("host %q: %d %.100s", host, w.Code, w.Body)
		}
	}
}

// TestPageBehindAProxy: a proxy that logs people in shows the page below a path of its own, to
// those whose token it sends on; nothing in the page leads out of that path. A page for this
// machine alone is shown to nobody for whom a proxy asks.
func TestPageBehindAProxy(t *testing.T) {
	s := newServer(options(&clock{noon}, io.Discard), func(_ context.Context, token, _ string) (access, error) {
		if token == "sre" {
			return allowed, nil
		}
		return forbidden, nil
	})
	s.state.begin(noon)
	s.state.last = &look{report: finding.New(finding.Report{TakenAt: metav1.NewTime(noon), Findings: []finding.Finding{
		{Code: "VD301", Severity: finding.Error, Message: "Pod a/b waits", Fingerprint: "1"},
	}})}
	backend := httptest.NewServer(s.handler())
	t.Cleanup(backend.Close)
	target, err := url.Parse(backend.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(http.StripPrefix("/tools/volumes", &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.SetXForwarded()
		if c, err := r.In.Cookie("session"); err == nil { // it has logged the browser in
			r.Out.Header.Set("Authorization", "Bearer "+c.Value)
		}
	}}))
	t.Cleanup(proxy.Close)
	get := func(path, session string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, proxy.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if session != "" {
			r.AddCookie(&http.Cookie{Name: "session", Value: session})
		}
		answer, err := proxy.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }() // nothing is written
		body, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(body)
	}
	for session, want := range map[string]int{"": 401, "somebody": 403, "sre": 200} {
		for _, path := range []string{"/tools/volumes/", "/tools/volumes"} {
			code, page := get(path, session)
			if code != want {
				t.Errorf("%s of %q: %d %.100s", path, session, code, page)
			}
			if code != http.StatusOK {
				continue
			}
			if !strings.Contains(page, "Pod a/b waits") {
				t.Errorf("%s is another page: %.200s", path, page)
			}
			for _, m := range regexp.MustCompile(`(?:href|src|action|url)[=(]"?([^">) ]+)`).FindAllStringSubmatch(page, -1) {
				if !strings.HasPrefix(m[1], "#") && !strings.HasPrefix(m[1], "https://") && !strings.HasPrefix(m[1], "data:") {
					t.Errorf("%s leads out of the proxy's path", m[0])
				}
			}
		}
	}
	s.Local = true
	if code, _ := get("/tools/volumes/", "sre"); code != http.StatusForbidden {
		t.Errorf("a proxy shows the page of this machine to others: %d", code)
	}
}

// TestPage: only the API server's clear consent opens the report.
func TestPage(t *testing.T) {
	const secret = "sekrit-token"
	var log strings.Builder
	answers := map[string]struct {
		access access
		err    error
	}{
		"good": {allowed, nil}, "weak": {forbidden, nil}, "old": {unauthenticated, nil},
		"odd": {access(77), nil}, secret: {allowed, errors.New("down")},
	}
	asked := 0
	s := newServer(options(&clock{noon}, &log), func(_ context.Context, token, path string) (access, error) {
		if asked++; path != "/volume-doctor" {
			t.Errorf("asked about %s", path)
		}
		return answers[token].access, answers[token].err
	})
	if w := ask(s, "/", "Authorization", "Bearer good"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("before the first look: %d", w.Code)
	}
	s.state.begin(noon)
	s.state.last = &look{report: &finding.Report{TakenAt: metav1.NewTime(noon)}}
	for what, test := range map[string]struct {
		headers []string
		want    int
		asks    int
	}{
		"no token":              {nil, 401, 0},
		"an empty one":          {[]string{"Authorization", "Bearer "}, 401, 0},
		"blanks":                {[]string{"Authorization", "Bearer    "}, 401, 0},
		"another scheme":        {[]string{"Authorization", "Basic good"}, 401, 0},
		"only a scheme":         {[]string{"Authorization", "Bearer"}, 401, 0},
		"two headers":           {[]string{"Authorization", "Bearer good", "Authorization", "Bearer weak"}, 401, 0},
		"a huge one":            {[]string{"Authorization", "Bearer " + strings.Repeat("x", maxToken+1)}, 401, 0},
		"claims in headers":     {[]string{"X-Remote-User", "system:admin", "X-Remote-Group", "system:masters", "X-Forwarded-User", "root"}, 401, 0},
		"impersonation":         {[]string{"Authorization", "Bearer weak", "Impersonate-User", "system:admin"}, 403, 1},
		"nobody's":              {[]string{"Authorization", "Bearer old"}, 401, 1},
		"not allowed":           {[]string{"Authorization", "Bearer weak"}, 403, 1},
		"an answer of no kind":  {[]string{"Authorization", "Bearer odd"}, 401, 1},
		"the API server fails":  {[]string{"Authorization", "Bearer " + secret}, 403, 1},
		"allowed":               {[]string{"Authorization", "Bearer good"}, 200, 1},
		"allowed in lower case": {[]string{"Authorization", "bearer good"}, 200, 1},
	} {
		asked = 0
		w := ask(s, "/", test.headers...)
		if w.Code != test.want || asked != test.asks {
			t.Errorf("%s: %d, and the API server was asked %d times", what, w.Code, asked)
		}
		if page := strings.Contains(w.Body.String(), "<html"); page != (test.want == 200) {
			t.Errorf("%s: the page is shown: %v", what, page)
		}
		if w.Header().Get("Cache-Control") != "no-store" || w.Code == 401 && w.Header().Get("WWW-Authenticate") == "" {
			t.Errorf("%s: %v", what, w.Header())
		}
	}
	if strings.Contains(log.String(), secret) || !strings.Contains(log.String(), "down") {
		t.Errorf("the log has %q", log.String())
	}
}

// TestPageIsOff: the page is off unless it is asked for, and only reading requests are
// answered.
func TestPageIsOff(t *testing.T) {
	s := newServer(Options{Log: io.Discard, Now: (&clock{noon}).now}, nobody)
	for _, path := range []string{"/", "/index.html", "/debug/pprof/", "/volume-doctor"} {
		if w := ask(s, path, "Authorization", "Bearer good"); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	w := httptest.NewRecorder()
	s.handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/metrics", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}

// TestReviewsAreBounded: strangers cannot make the API server review any number of tokens at
// the same time, and a client that gives up frees its place.
func TestReviewsAreBounded(t *testing.T) {
	var under, most atomic.Int32
	begun := make(chan bool, 100)
	s := newServer(options(&clock{noon}, io.Discard), func(ctx context.Context, _, _ string) (access, error) {
		n := under.Add(1)
		defer under.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		begun <- true
		<-ctx.Done()
		return allowed, ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	answers := make(chan int, 20)
	for range 20 {
		go func() {
			r := httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx)
			r.Header.Set("Authorization", "Bearer x")
			w := httptest.NewRecorder()
			s.handler().ServeHTTP(w, r)
			answers <- w.Code
		}()
	}
	for range maxReviews {
		<-begun
	}
	cancel()
	for range 20 {
		if code := <-answers; code != http.StatusForbidden {
			t.Errorf("answered %d", code)
		}
	}
	if n := most.Load(); n > maxReviews {
		t.Errorf("%d reviews at the same time", n)
	}
	if len(s.reviews) != 0 {
		t.Error("a place is not given back")
	}
}

// TestHugeHeaders: huge headers are refused before they are examined.
func TestHugeHeaders(t *testing.T) {
	s := newServer(options(&clock{noon}, io.Discard), nobody)
	web := httptest.NewUnstartedServer(nil)
	web.Config = s.web()
	web.Start()
	defer web.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Huge", strings.Repeat("x", 64<<10))
	response, err := web.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("answered %d", response.StatusCode)
	}
	if c := web.Config; c.ReadHeaderTimeout == 0 || c.ReadTimeout == 0 || c.WriteTimeout == 0 || c.IdleTimeout == 0 {
		t.Errorf("a client can hold a connection for ever: %+v", c)
	}
}
