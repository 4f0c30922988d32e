package standing

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/cluster"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
)

const (
	// maxReviews bounds the token reviews that the API server is asked at the same time, and
	// maxPages the pages that are made at the same time.
	maxReviews, maxPages = 4, 2
	// maxToken bounds a bearer token. Those of service accounts take about 1 KiB, those
	// of identity providers with many groups several.
	maxToken = 12 << 10
	// reviewTime bounds how long a request waits for the API server's review.
	reviewTime = 10 * time.Second
)

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.Handle("GET /metrics", s.scrapes)
	if s.ReportPage {
		mux.HandleFunc("GET /{$}", s.page)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})
}

const standingBy = "standing by"

// healthz answers whether the process works: one that leads must look at the cluster
// regularly.
func (s *server) healthz(w http.ResponseWriter, _ *http.Request) {
	leading, beat, _ := s.state.now()
	switch {
	case !leading:
		say(w, http.StatusOK, standingBy)
	case s.Now().Sub(beat) > roundBound:
		say(w, http.StatusServiceUnavailable, "the last look ended more than "+roundBound.String()+" ago")
	default:
		say(w, http.StatusOK, "ok")
	}
}

// readyz answers whether there is something to scrape.
func (s *server) readyz(w http.ResponseWriter, _ *http.Request) {
	leading, _, l := s.state.now()
	switch {
	case !leading:
		say(w, http.StatusOK, standingBy)
	case l == nil:
		say(w, http.StatusServiceUnavailable, "the first look is not made yet")
	default:
		say(w, http.StatusOK, "ok")
	}
}

// page serves the report of the last look to those whom the API server allows it.
func (s *server) page(w http.ResponseWriter, r *http.Request) {
	if code, why := s.access(r); code != http.StatusOK {
		if code == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Bearer realm="volume-doctor"`)
		}
		say(w, code, why)
		return
	}
	_, _, l := s.state.now()
	if l == nil {
		say(w, http.StatusServiceUnavailable, "there is no report yet, or another process makes it")
		return
	}
	if !take(r.Context(), s.pages) {
		return
	}
	var b bytes.Buffer
	err := output.ReportFormats.Print(&b, "html", l.report, output.Options{})
	<-s.pages // a slow reader keeps no other waiting
	if err != nil {
		say(w, http.StatusInternalServerError, "the report cannot be shown")
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "frame-ancestors 'none'") // the page has a stricter one of its own beside it
	_, _ = w.Write(b.Bytes())                                           // a client that is gone needs no answer
}

// access asks the API server about the request's bearer token. Anything but its clear consent
// is a refusal.
func (s *server) access(r *http.Request) (code int, why string) {
	if s.Local {
		if !isLoopback(r.Host) {
			return http.StatusForbidden, "this page is for a browser on the same machine: call it localhost"
		}
		if slices.ContainsFunc(passedOn, func(header string) bool { return r.Header.Get(header) != "" }) {
			return http.StatusForbidden, "this page is for a browser on the same machine, and a proxy passes a request of somebody on: use --report-page without localhost, and have the proxy send tokens"
		}
		return http.StatusOK, ""
	}
	scheme, token, found := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if len(r.Header.Values("Authorization")) != 1 || !found || !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxToken {
		return http.StatusUnauthorized, "give a bearer token of the cluster: Authorization: Bearer TOKEN"
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTime)
	defer cancel()
	if !take(ctx, s.reviews) {
		return http.StatusForbidden, "too many requests wait for the API server's answer"
	}
	defer func() { <-s.reviews }()
	may, err := s.review(ctx, token, cluster.PagePath)
	switch {
	case err != nil:
		s.logf("cannot ask the API server whether the report may be shown: %v", err)
		return http.StatusForbidden, "the API server could not be asked"
	case may == forbidden:
		return http.StatusForbidden, "this token's user may not get the nonResourceURL " + cluster.PagePath
	case may != allowed:
		return http.StatusUnauthorized, "the API server does not know this token"
	default:
		return http.StatusOK, ""
	}
}

// passedOn are the headers by which proxies tell for whom they ask.
var passedOn = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip"}

// isLoopback reports whether the host, with or without a port, is this machine.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// take waits for a place, and reports whether it got one before the context ended.
func take(ctx context.Context, places chan struct{}) bool {
	select {
	case places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func say(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text+"\n") // a client that is gone needs no answer
}
