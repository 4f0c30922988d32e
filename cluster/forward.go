package cluster

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// portForwardV1 is the protocol of port-forward (pkg/kubelet's portforward.ProtocolV1Name).
const portForwardV1 = "portforward.k8s.io"

// maxForwardError bounds a kubelet's error about a port that it cannot reach.
const maxForwardError = 4 << 10

// reasonTakes is how long the reason of a failure may arrive after the failure itself: it
// comes over a stream of its own.
const reasonTakes = time.Second

var errNoCertificate = errors.New("kube-controller-manager can be asked with a client certificate, and your kubeconfig has none: a token is not sent to a port whose own certificate nobody vouches for")

// forwarded sends a request to a port of a pod in kube-system by port-forward, as kubectl
// does: kubeadm's control plane listens on loopback only, which nothing else reaches.
//
// No authority vouches for the certificate at that port, so no token is sent there. A client
// certificate proves who asks and gives nothing away.
func (c *Cluster) forwarded(ctx context.Context, pod string, port int, path string) (*http.Response, error) {
	if c.config.Impersonate.UserName != "" {
		return nil, errors.New("kube-controller-manager cannot be asked in the name of somebody else (--as)")
	}
	identity, err := rest.TLSConfigFor(c.config)
	if err != nil {
		return nil, err
	}
	if identity == nil || len(identity.Certificates) == 0 && identity.GetClientCertificate == nil {
		return nil, errNoCertificate
	}
	type result struct {
		*http.Response
		error
	}
	answered := make(chan result, 1)
	go func() { // the SPDY handshake ignores contexts
		response, err := c.forward(ctx, pod, port, path, &tls.Config{
			Certificates: identity.Certificates, GetClientCertificate: identity.GetClientCertificate,
			InsecureSkipVerify: true, //nolint:gosec // it is self-signed; see above
			MinVersion:         tls.VersionTLS12,
		})
		answered <- result{response, err}
	}()
	select {
	case r := <-answered:
		return r.Response, r.error
	case <-ctx.Done():
		return nil, fmt.Errorf("port %d of %s did not answer in time: %w", port, pod, context.Cause(ctx))
	}
}

func (c *Cluster) forward(ctx context.Context, pod string, port int, path string, identity *tls.Config) (*http.Response, error) {
	connection, err := c.upgrade(ctx, pod)
	if err != nil {
		return nil, err
	}
	response, said, err := askStream(ctx, connection, pod, port, path, identity)
	if err != nil {
		select {
		case text := <-said:
			if text != "" {
				err = errors.New(text)
			}
		case <-time.After(reasonTakes):
		}
		_ = connection.Close()
		return nil, fmt.Errorf("port %d of %s: %s", port, pod, oneLine(err.Error()))
	}
	response.Body = &endedBody{response.Body, response.Body, func() { _ = connection.Close() }}
	return response, nil
}

// upgrade opens a connection to the pod's ports through the API server.
func (c *Cluster) upgrade(ctx context.Context, pod string) (httpstream.Connection, error) {
	trusted, err := rest.TLSConfigFor(c.config)
	if err != nil {
		return nil, err
	}
	proxy := c.config.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	upgrader, err := spdy.NewRoundTripperWithConfig(spdy.RoundTripperConfig{TLS: trusted, Proxier: proxy})
	if err != nil {
		return nil, err
	}
	transport, err := rest.HTTPWrappersForConfig(c.config, upgrader)
	if err != nil {
		return nil, err
	}
	url := c.client[corev1.GroupName].Post().Namespace(metav1.NamespaceSystem).Resource(string(snapshot.Pods)).Name(pod).SubResource("portforward").URL()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set(httpstream.HeaderProtocolVersion, portForwardV1)
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusSwitchingProtocols {
		return nil, refusal(response)
	}
	return upgrader.NewConnection(response)
}

// refusal is the error in the API server's answer in place of a connection.
func refusal(response *http.Response) error {
	if response.StatusCode == http.StatusForbidden {
		return errors.New("to ask kube-controller-manager takes the right to create pods/portforward in kube-system")
	}
	text, err := io.ReadAll(&bounded{response.Body, maxRefusal, tooMuch("an error of the API server", maxRefusal)})
	if err != nil {
		return err
	}
	var status metav1.Status
	if json.Unmarshal(text, &status) == nil && status.Message != "" {
		return &apierrors.StatusError{ErrStatus: status}
	}
	return fmt.Errorf("the API server answers %s when asked for port-forward", cmp.Or(http.StatusText(response.StatusCode), strconv.Itoa(response.StatusCode)))
}

// askStream sends the request through a connection to the pod's ports. The other end's error
// comes over its own stream: one text, "" for no error, once that end has closed it.
func askStream(ctx context.Context, connection httpstream.Connection, pod string, port int, path string, identity *tls.Config) (_ *http.Response, said <-chan string, _ error) {
	texts := make(chan string, 1)
	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(port))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	failures, err := connection.CreateStream(headers)
	if err != nil {
		texts <- ""
		return nil, texts, err
	}
	_ = failures.Close() // nothing is written to it
	go func() {
		text, _ := io.ReadAll(io.LimitReader(failures, maxForwardError))
		texts <- string(bytes.TrimSpace(text))
	}()
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	stream, err := connection.CreateStream(headers)
	if err != nil {
		return nil, texts, err
	}
	once := &http.Transport{
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return &streamConn{stream}, nil },
		TLSClientConfig:   identity,
		DisableKeepAlives: true,
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+pod+path, nil)
	if err != nil {
		return nil, texts, err
	}
	response, err := once.RoundTrip(request)
	return response, texts, err
}

// streamConn is a stream as a net.Conn. It has no deadlines: the one who waits for it must
// give up by himself.
type streamConn struct{ httpstream.Stream }

// Close ends both directions: the stream's own Close leaves a reader waiting.
func (s *streamConn) Close() error { return s.Reset() }

func (*streamConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*streamConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*streamConn) SetDeadline(time.Time) error      { return nil }
func (*streamConn) SetReadDeadline(time.Time) error  { return nil }
func (*streamConn) SetWriteDeadline(time.Time) error { return nil }
