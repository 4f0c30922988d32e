package fleet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Ill is what is wrong with an API server; "" is one that answers.
type Ill string

// The ways in which an API server hangs, refuses or lies.
const (
	Closed     Ill = "refuses the connection"
	Silent     Ill = "takes the connection and never says anything"
	Hangs      Ill = "never answers a request"
	HangsLater Ill = "answers /version, and no list"
	Denies     Ill = "does not accept the credentials"
	EndlessTo  Ill = "a list has a next page for ever"
	EndlessIn  Ill = "one answer never ends"
	LoginPage  Ill = "answers everything with a login page"
	Stranger   Ill = "has a certificate that nobody trusts"
	AsksPerson Ill = "the program for its credentials waits for somebody to log in"
)

// Ills are all of them.
var Ills = []Ill{Closed, Silent, Hangs, HangsLater, Denies, EndlessTo, EndlessIn, LoginPage, Stranger, AsksPerson}

// fleet is the API servers of one process, each with its own port and certificate.
type fleet struct {
	now    time.Time
	mu     sync.Mutex
	closed []func()
	config *clientcmdapi.Config
	sent   atomic.Int64
	// end lets go of those who hang.
	end chan struct{}
}

func newFleet(now time.Time) *fleet {
	return &fleet{now: now, config: clientcmdapi.NewConfig(), end: make(chan struct{})}
}

func (f *fleet) close() {
	close(f.end)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.closed {
		c()
	}
}

func (f *fleet) onClose(end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = append(f.closed, end)
}

// add starts one more, under that context.
func (f *fleet) add(name string, answers lists, ill Ill, login []string) error {
	certificate, authority, err := selfSigned()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	f.onClose(func() { _ = l.Close() })
	switch ill {
	case Closed:
		_ = l.Close()
	case Silent:
		go f.keepSilent(l)
	case Stranger:
		if _, authority, err = selfSigned(); err != nil {
			return err
		}
		fallthrough
	default:
		server := &http.Server{
			Handler: f.handler(answers, ill), TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}, ReadHeaderTimeout: time.Minute,
			ErrorLog: log.New(io.Discard, "", 0),
		}
		f.onClose(func() { _ = server.Close() })
		go func() { _ = server.ServeTLS(l, "", "") }() // it ends with the listener
	}
	address := l.Addr().String()
	if ill == Closed {
		address = "127.0.0.1:1" // a port that was free may have an owner by then
	}
	f.config.Clusters[name] = &clientcmdapi.Cluster{Server: "https://" + address, CertificateAuthorityData: authority}
	user := &clientcmdapi.AuthInfo{Token: "token-of-" + name}
	if ill == AsksPerson {
		user = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
			APIVersion: "client.authentication.k8s.io/v1", Command: login[0], Args: login[1:], InteractiveMode: clientcmdapi.IfAvailableExecInteractiveMode,
		}}
	}
	f.config.AuthInfos[name] = user
	f.config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	return nil
}

func (f *fleet) keepSilent(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		f.onClose(func() { _ = c.Close() })
	}
}

func (f *fleet) handler(answers lists, ill Ill) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", f.now.UTC().Format(http.TimeFormat)) // nothing ages while it is read
		version := r.URL.Path == "/version"
		switch {
		case ill == Hangs, ill == HangsLater && !version:
			select {
			case <-f.end:
			case <-r.Context().Done():
			}
		case ill == Denies:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}`)
		case ill == LoginPage:
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<!DOCTYPE html><html><body>Please log in</body></html>")
		case version:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"major":"1","minor":"36","gitVersion":"v1.36.3"}`)
		case ill == EndlessTo && strings.HasSuffix(r.URL.Path, "/volumeattachments"):
			f.nextPage(w, r)
		case ill == EndlessIn && strings.HasSuffix(r.URL.Path, "/pods"):
			f.forEver(w)
		default:
			f.list(w, answers[r.URL.Path])
		}
	})
}

func (f *fleet) list(w http.ResponseWriter, answer []byte) {
	if answer == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	n, _ := w.Write(answer) // the client may be gone
	f.sent.Add(int64(n))
}

func (f *fleet) nextPage(w http.ResponseWriter, r *http.Request) {
	page := 0
	if after := r.URL.Query().Get("continue"); after != "" {
		page, _ = strconv.Atoi(strings.TrimPrefix(after, "page-"))
	}
	answer, err := attachments(page)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	f.list(w, answer)
}

// forEver sends a list of pods, each with a name of its own, in one answer that goes on.
func (f *fleet) forEver(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
	_, err := w.Write(endlessBegin())
	for i := 0; err == nil; i++ {
		var n int
		n, err = w.Write(endlessPod(i))
		f.sent.Add(int64(n))
	}
}

// selfSigned is a certificate for the loopback address that signs itself.
func selfSigned() (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("make a certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
