package load

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Counter stands before an API server and counts what goes through it. It
// takes its time for that: what is timed must not go through it.
type Counter struct {
	server   *httptest.Server
	requests atomic.Int64
	bytes    atomic.Int64
}

// NewCounter starts a Counter before the API server of a configuration.
func NewCounter(config *rest.Config) (*Counter, error) {
	target, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("start counter: %w", err)
	}
	// The credentials are the caller's own.
	transport, err := rest.TransportFor(&rest.Config{Host: config.Host, TLSClientConfig: config.TLSClientConfig, DisableCompression: true})
	if err != nil {
		return nil, fmt.Errorf("start counter: %w", err)
	}
	c := &Counter{}
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host}) },
	}
	c.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.requests.Add(1)
		proxy.ServeHTTP(&counted{ResponseWriter: w, bytes: &c.bytes}, r)
	}))
	c.server.EnableHTTP2 = true
	c.server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	c.server.StartTLS()
	return c, nil
}

// counted counts the bytes of an answer's body.
type counted struct {
	http.ResponseWriter
	bytes *atomic.Int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.bytes.Add(int64(n))
	return n, err
}

// Unwrap lets the proxy flush.
func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// Kubeconfig writes to a file the kubeconfig of the first, with the Counter for
// a server.
func (c *Counter) Kubeconfig(from, file string) error {
	config, err := clientcmd.LoadFromFile(from)
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server, cluster.CertificateAuthority, cluster.CertificateAuthorityData = c.server.URL, "", nil
		cluster.InsecureSkipTLSVerify = true
	}
	return clientcmd.WriteToFile(*config, file)
}

// Count gives what has gone through since it was last asked.
func (c *Counter) Count() (requests, bytes int64) {
	return c.requests.Swap(0), c.bytes.Swap(0)
}

// Close ends it.
func (c *Counter) Close() { c.server.Close() }
