package mcp

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/net/netutil"
)

const (
	// maxConnections bounds the clients over HTTP.
	maxConnections = 32
	// slowest is how long a client may take to send a request, or to read an answer.
	slowest = 20 * time.Second
	// leaving is how long calls under way may take when the server ends.
	leaving = time.Second
)

// Listen opens the address. Only with a token may it be other than loopback.
func Listen(ctx context.Context, address, token string) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if at, ok := l.Addr().(*net.TCPAddr); token == "" && (!ok || !at.IP.IsLoopback()) {
		_ = l.Close()
		return nil, fmt.Errorf("--listen %s is open to others: give 127.0.0.1, or --token-file with the token that clients have to send", address)
	}
	return l, nil
}

// OverHTTP serves streamable HTTP until ctx ends. Requests must bear the token if there is
// one. A page in a browser cannot make them: the Host must be a loopback one where the
// connection is, and an Origin must be the server's own.
func OverHTTP(ctx context.Context, s *sdk.Server, l net.Listener, token string, limit time.Duration) error {
	handler := http.NewCrossOriginProtection().Handler(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s },
		&sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxRequest, PropagateRequestCancellation: true}))
	if token != "" {
		handler = auth.RequireBearerToken(bears(token), &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(handler)
	}
	web := &http.Server{
		Handler: handler, ReadHeaderTimeout: slowest, ReadTimeout: slowest, WriteTimeout: limit + slowest, IdleTimeout: 3 * slowest, MaxHeaderBytes: 64 << 10,
	}
	stopped := context.AfterFunc(ctx, func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaving)
		defer cancel()
		if web.Shutdown(end) != nil {
			_ = web.Close()
		}
	})
	defer stopped()
	if err := web.Serve(netutil.LimitListener(l, maxConnections)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// bears accepts only the token.
func bears(token string) auth.TokenVerifier {
	want := sha256.Sum256([]byte(token))
	return func(_ context.Context, given string, _ *http.Request) (*auth.TokenInfo, error) {
		if got := sha256.Sum256([]byte(given)); subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{UserID: "the bearer"}, nil
	}
}
