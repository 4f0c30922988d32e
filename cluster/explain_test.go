package cluster

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// TestErrorsInPlainWords: one line each, with the address and without a URL's
// path, for what goes wrong between a laptop and an API server.
func TestErrorsInPlainWords(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + closed.Addr().String()
	_ = closed.Close()
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(untrusted.Close)
	untrusted.Config.ErrorLog = nil
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }))
	t.Cleanup(web.Close)
	hung := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hung }))
	t.Cleanup(func() { close(hung); slow.Close() })
	expired := newAPI(t)
	expired.fail("/version", apierrors.NewUnauthorized("Unauthorized"))
	expiring := newAPI(t)
	expiring.fail("/api/v1/pods", apierrors.NewUnauthorized("Unauthorized"))
	failing := newAPI(t)
	for path := range emptyLists {
		failing.fail(path, apierrors.NewInternalError(errors.New("etcd is gone")))
	}
	dateless := newAPI(t)
	dateless.date = time.Time{}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()

	for name, test := range map[string]struct {
		ctx    context.Context
		config rest.Config
		want   string
	}{
		"connection refused": {nil, rest.Config{Host: nobody}, "cannot reach the API server at " + nobody + ": connection refused"},
		"no such host": {nil, rest.Config{Host: "https://volume-doctor.invalid"},
			`cannot reach the API server at https://volume-doctor.invalid: no such host "volume-doctor.invalid"`},
		"untrusted": {nil, rest.Config{Host: untrusted.URL}, "the API server at " + untrusted.URL + " cannot be trusted: "},
		"no answer in time": {nil, rest.Config{Host: slow.URL, Timeout: 20 * time.Millisecond},
			"the API server at " + slow.URL + " did not answer in time"},
		"interrupted":        {cancelled, rest.Config{Host: expired.URL}, "interrupted"},
		"no API server":      {nil, rest.Config{Host: web.URL}, "cannot talk to the API server at " + web.URL + ": what answers at " + web.URL + " is no API server"},
		"expired token":      {nil, rest.Config{Host: expired.URL}, "the API server at " + expired.URL + " does not accept the credentials"},
		"token that expires": {nil, rest.Config{Host: expiring.URL}, "the API server at " + expiring.URL + " does not accept the credentials"},
		"every list fails":   {nil, rest.Config{Host: failing.URL}, "nothing could be read: Internal error occurred: etcd is gone"},
		"no date":            {nil, rest.Config{Host: dateless.URL}, "no answer of the API server at " + dateless.URL + " has a date"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := New(&test.config, Options{})
			if err != nil {
				t.Fatal(err)
			}
			ctx := test.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			_, err = c.Snapshot(ctx)
			if err == nil || !strings.HasPrefix(err.Error(), test.want) || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "/version") {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestNewRefusesNonsense(t *testing.T) {
	if _, err := New(&rest.Config{Host: "::"}, Options{}); err == nil {
		t.Error("made a client of ::")
	}
}
