package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// sameHost follows a redirect only to the same host: the credentials, which client-go adds to
// each request, are for no other.
func sameHost(request *http.Request, via []*http.Request) error {
	first := via[0].URL
	if request.URL.Host != first.Host || request.URL.Scheme != first.Scheme {
		return fmt.Errorf("a redirect to %s://%s is not followed: the credentials are for %s", request.URL.Scheme, request.URL.Host, first.Host)
	}
	if len(via) > maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	return nil
}

// boundedAnswers bounds what an answer can cost: its size, the time until its end, and
// the time for which it asks to wait. A watch has no end.
type boundedAnswers struct {
	next http.RoundTripper
	wait time.Duration
	// spent counts all answers together; nil without a Budget.
	spent *spending
}

func (b *boundedAnswers) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := request.Context(), func() {}
	watching := request.URL.Query().Has("watch")
	if !watching {
		ctx, cancel = context.WithTimeout(ctx, b.wait)
	}
	response, err := b.next.RoundTrip(request.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	if after := response.Header.Get("Retry-After"); after != "" && !mayWait(after) {
		// Without the header client-go treats the answer as a plain error.
		response.Header.Del("Retry-After")
	}
	body := io.Reader(response.Body)
	switch {
	case response.StatusCode >= http.StatusBadRequest:
		body = &bounded{body, maxRefusal, tooMuch("an error of the API server", maxRefusal)}
	case strings.HasSuffix(request.URL.Path, "/version"):
		body = &bounded{body, maxVersion, &limitError{fmt.Sprintf("the answer of /version is larger than %d KiB", maxVersion>>10)}}
	case !watching:
		body = &bounded{body, maxAnswer, tooMuch("an answer of the API server", maxAnswer)}
	}
	if b.spent != nil {
		body = metered{body, b.spent}
	}
	response.Body = &endedBody{body, response.Body, cancel}
	return response, nil
}

// WrappedRoundTripper lets client-go find the wrapped transport.
func (b *boundedAnswers) WrappedRoundTripper() http.RoundTripper { return b.next }

func mayWait(retryAfter string) bool {
	seconds, err := strconv.Atoi(retryAfter)
	return err == nil && seconds >= 0 && seconds <= int(maxRetryAfter/time.Second)
}

// endedBody frees the time-out of its request when it is closed.
type endedBody struct {
	io.Reader
	io.Closer
	end context.CancelFunc
}

func (b *endedBody) Close() error {
	defer b.end()
	return b.Closer.Close()
}

// preferHTTP1 sends requests over HTTP/1.1, unless the server does not speak it. It
// is for requests without a body.
type preferHTTP1 struct {
	http1, any http.RoundTripper
	// spoken reports whether the server is known to speak HTTP/1.1, refused whether it is
	// known not to.
	spoken, refused atomic.Bool
}

func (p *preferHTTP1) RoundTrip(request *http.Request) (*http.Response, error) {
	if p.refused.Load() {
		return p.any.RoundTrip(request)
	}
	response, err := p.http1.RoundTrip(request)
	if err == nil && response.StatusCode != http.StatusHTTPVersionNotSupported && response.StatusCode != http.StatusUpgradeRequired {
		p.spoken.Store(true)
		return response, nil
	}
	if p.spoken.Load() || request.Context().Err() != nil {
		return response, err
	}
	other, otherErr := p.any.RoundTrip(request)
	if otherErr != nil {
		return response, err // the protocol is not the reason
	}
	if err == nil {
		_ = response.Body.Close()
	}
	if other.ProtoMajor >= 2 {
		p.refused.Store(true)
	}
	return other, nil
}

// WrappedRoundTripper lets client-go find the wrapped transport.
func (p *preferHTTP1) WrappedRoundTripper() http.RoundTripper { return p.http1 }
