// Package faultproxy stands between a client and an API server and lets go wrong
// what can go wrong there: answers that the API server did not give, answers that
// are lost, connections that are cut, lists that are out of date. It can also
// hold a request back while something else happens.
//
// All clients have the same address, and each has a [Session], which it names by its
// bearer token. The proxy gives every request an audit ID, so that the API server's
// audit log tells which of them arrived.
package faultproxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
)

// Fault is what goes wrong with one request.
type Fault string

// The faults. Those named after a time say whether the API server had the
// request by then.
const (
	None     Fault = ""
	Conflict Fault = "409"
	Invalid  Fault = "422"
	Busy     Fault = "429"
	Internal Fault = "500"
	// Forbidden is the answer of an API server that does not know its rules yet.
	Forbidden     Fault = "403"
	TimeoutBefore Fault = "504 before the write"
	TimeoutAfter  Fault = "504 after the write"
	CutBefore     Fault = "connection cut before the write"
	CutAfter      Fault = "connection cut after the write"
	// CutBody ends the connection in the middle of the answer.
	CutBody Fault = "connection cut in the answer"
	// Truncated is an answer that lacks its second half, though nothing else about
	// it says so.
	Truncated Fault = "answer truncated"
	// Stale gives the answer that the session got the first time it asked.
	Stale Fault = "stale list"
	// KillBefore and KillAfter cut the connection too: the client is dead.
	KillBefore Fault = "kill before the request"
	KillAfter  Fault = "kill after the request"
)

// Faults are all of them but for the kills, which need somebody to kill.
func Faults() []Fault {
	return []Fault{Conflict, Invalid, Busy, Internal, Forbidden, TimeoutBefore, TimeoutAfter, CutBefore, CutAfter, CutBody, Truncated, Stale}
}

// Answered reports whether the client gets the API server's own answer, whole.
func (f Fault) Answered() bool { return f == None || f == Stale }

// Class tells requests apart by what they are for.
type Class string

// The classes.
const (
	Read   Class = "read"
	Review Class = "access review"
	DryRun Class = "dry run"
	Write  Class = "write"
	Event  Class = "event"
)

// Request is one request of a session.
type Request struct {
	// Number counts the session's requests from 1.
	Number int
	// AuditID is what the audit log calls it.
	AuditID string
	Class   Class
	// Resource is the kind that a read lists, as in "pods", or "version".
	Resource string
	Method   string
	URL      *url.URL // without the session
	Body     []byte
}

// Decide is asked about each request when it has arrived, and may take its time.
// It may be asked about several at once.
type Decide func(Request) Fault

// Proxy is a running proxy.
type Proxy struct {
	upstream  *url.URL
	transport http.RoundTripper
	listener  net.Listener
	authority []byte
	server    *http.Server
	served    chan struct{}

	mu       sync.Mutex
	sessions map[string]*Session
}

// Start starts a proxy on loopback before the API server of a client
// configuration, as whose user it forwards.
func Start(config *rest.Config) (*Proxy, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("start proxy: %w", err)
	}
	upstream, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("start proxy: %w", err)
	}
	// Clients send their tokens over TLS only.
	authority, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"})
	if err != nil {
		return nil, fmt.Errorf("start proxy: %w", err)
	}
	pair, err := tls.X509KeyPair(authority, key)
	if err != nil {
		return nil, fmt.Errorf("start proxy: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start proxy: %w", err)
	}
	p := &Proxy{
		upstream: upstream, transport: transport, listener: listener, authority: authority, served: make(chan struct{}), sessions: map[string]*Session{},
	}
	// With HTTP/2 a connection that is cut would take other requests along.
	p.server = &http.Server{Handler: http.HandlerFunc(p.serve), TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}}, ErrorLog: log.New(io.Discard, "", 0)}
	p.server.Protocols = new(http.Protocols)
	p.server.Protocols.SetHTTP1(true)
	go func() {
		defer close(p.served)
		_ = p.server.ServeTLS(listener, "", "") // ends with Stop
	}()
	return p, nil
}

// Stop closes every connection.
func (p *Proxy) Stop() {
	_ = p.server.Close()
	<-p.served
}

// Session is one client's way through the proxy.
type Session struct {
	// Name is the beginning of its audit IDs.
	Name string
	// Kill is called for the faults that kill the client, and returns when it is
	// dead. It must be set before the first such fault.
	Kill func()
	// Ahead is how far the API server's clock is ahead for the client, by the Date
	// of every answer. It must be set before the first request.
	Ahead time.Duration
	// Renamed reports whether the client knows the proxy by another name.
	Renamed bool
	// Hold, where it is not nil, is called for each request before Decide is asked.
	// It must be set before the first request.
	Hold func(Request)

	proxy  *Proxy
	decide Decide

	mu       sync.Mutex
	requests int
	first    map[string]*answer // by URL
}

// Session makes one. decide may be nil: then nothing goes wrong.
func (p *Proxy) Session(name string, decide Decide) *Session {
	if decide == nil {
		decide = func(Request) Fault { return None }
	}
	s := &Session{Name: name, proxy: p, decide: decide, first: map[string]*answer{}}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions[name] = s
	return s
}

// Requests is how many the session has sent so far.
func (s *Session) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// URL is where every client finds its API server.
func (p *Proxy) URL() string { return "https://" + p.listener.Addr().String() }

// WriteKubeconfig writes a kubeconfig that leads to the session.
func (s *Session) WriteKubeconfig(file string) error {
	config, server := clientcmdapi.NewConfig(), s.proxy.URL()
	if s.Renamed {
		server = strings.Replace(server, "127.0.0.1", "localhost", 1)
	}
	config.Clusters["proxy"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: s.proxy.authority}
	config.AuthInfos["proxy"] = &clientcmdapi.AuthInfo{Token: s.Name}
	config.Contexts["proxy"] = &clientcmdapi.Context{Cluster: "proxy", AuthInfo: "proxy"}
	config.CurrentContext = "proxy"
	return clientcmd.WriteToFile(*config, file)
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	s := p.sessions[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	p.mu.Unlock()
	if s == nil {
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if s.Ahead != 0 {
		w.Header().Set("Date", time.Now().Add(s.Ahead).UTC().Format(http.TimeFormat))
	}
	request := s.count(r, body)
	if s.Hold != nil {
		s.Hold(request)
	}
	fault := s.decide(request)
	if made := invented(fault); made != nil {
		made.write(w)
		return
	}
	switch fault {
	case CutBefore:
		panic(http.ErrAbortHandler)
	case KillBefore:
		s.Kill()
		panic(http.ErrAbortHandler)
	case Stale:
		if old := s.before(request); old != nil {
			old.write(w)
			return
		}
	default: // the API server is asked first
	}
	if request.URL.Query().Has("watch") {
		p.stream(w, r, request)
		return
	}
	got, err := p.forward(r, request)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	s.remember(request, got)
	switch fault {
	case TimeoutAfter:
		timeout().write(w)
	case CutAfter:
		panic(http.ErrAbortHandler)
	case KillAfter:
		s.Kill()
		panic(http.ErrAbortHandler)
	case CutBody:
		got.begin(w)
		panic(http.ErrAbortHandler)
	case Truncated:
		(&answer{got.code, got.header, got.body[:len(got.body)/2]}).write(w)
	default:
		got.write(w)
	}
}

func (s *Session) count(r *http.Request, body []byte) Request {
	target := *r.URL
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	request := Request{
		Number: s.requests, AuditID: fmt.Sprintf("%s.%d", s.Name, s.requests),
		Class: classOf(r.Method, &target, body), Method: r.Method, URL: &target, Body: body,
	}
	if request.Class == Read {
		request.Resource = path.Base(target.Path)
	}
	return request
}

func classOf(method string, target *url.URL, body []byte) Class {
	switch {
	case method == http.MethodGet:
		return Read
	case strings.HasSuffix(target.Path, "/selfsubjectaccessreviews"):
		return Review
	case strings.HasSuffix(target.Path, "/events"):
		return Event
	case target.Query().Has("dryRun"), method == http.MethodDelete && triesDeletion(body):
		return DryRun
	}
	return Write
}

// triesDeletion reports whether a deletion's body, in either encoding, asks for a dry
// run.
func triesDeletion(body []byte) bool {
	kind := corev1.SchemeGroupVersion.WithKind("DeleteOptions")
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, &kind, nil)
	options, ok := object.(*metav1.DeleteOptions)
	return err == nil && ok && len(options.DryRun) > 0
}

// ask sends the request on.
func (p *Proxy) ask(ctx context.Context, r *http.Request, request Request) (*http.Response, error) {
	target := *request.URL
	target.Scheme, target.Host = p.upstream.Scheme, p.upstream.Host
	out, err := http.NewRequestWithContext(ctx, request.Method, target.String(), bytes.NewReader(request.Body))
	if err != nil {
		return nil, err
	}
	out.Header = r.Header.Clone()
	out.Header.Del("Authorization") // the session's; the transport has the user's
	out.Header.Set("Audit-ID", request.AuditID)
	return p.transport.RoundTrip(out)
}

// stream passes on what a watch sends, until either side ends it.
func (p *Proxy) stream(w http.ResponseWriter, r *http.Request, request Request) {
	response, err := p.ask(r.Context(), r, request)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = response.Body.Close() }()
	(&answer{response.StatusCode, response.Header, nil}).headers(w)
	w.WriteHeader(response.StatusCode)
	out := http.NewResponseController(w)
	for events := make([]byte, 32<<10); ; {
		n, err := response.Body.Read(events)
		if _, broken := w.Write(events[:n]); broken != nil || out.Flush() != nil || err != nil {
			return
		}
	}
}

// forward sends the request on and reads the whole answer. A client that goes away does not
// take its write back.
func (p *Proxy) forward(r *http.Request, request Request) (*answer, error) {
	response, err := p.ask(context.WithoutCancel(r.Context()), r, request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	return &answer{response.StatusCode, response.Header, body}, nil
}

func (s *Session) remember(request Request, got *answer) {
	if request.Class != Read || got.code != http.StatusOK {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if key := request.URL.String(); s.first[key] == nil {
		s.first[key] = got
	}
}

// before is what the session was told the first time.
func (s *Session) before(request Request) *answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first[request.URL.String()]
}
