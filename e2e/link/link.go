// Package link is a client's way to an API server, which a test can cut: its watches then
// end, and it reaches nobody until the link is mended.
package link

import (
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"

	"k8s.io/client-go/tools/clientcmd"
)

// Link forwards connections. All methods may be called from any goroutine.
type Link struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	isCut bool
	open  map[net.Conn]bool
}

// New makes one, and the kubeconfig, in the folder, of whoever goes by it.
func New(kubeconfig, folder string) (*Link, string, error) {
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return nil, "", err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	l := &Link{listener: listener, open: map[net.Conn]bool{}}
	for _, c := range config.Clusters {
		server, err := url.Parse(c.Server)
		if err != nil {
			return nil, "", err
		}
		l.to, server.Host = server.Host, listener.Addr().String()
		c.Server = server.String()
	}
	kubeconfig = filepath.Join(folder, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		return nil, "", err
	}
	go l.serve()
	return l, kubeconfig, nil
}

// Cut ends all connections, and lets none begin.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = true
	for c := range l.open {
		_ = c.Close() // its other end sees to the rest
	}
}

// Mend lets connections begin again.
func (l *Link) Mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = false
}

// End ends all connections for good.
func (l *Link) End() {
	_ = l.listener.Close()
	l.Cut()
}

func (l *Link) serve() {
	for {
		from, err := l.listener.Accept()
		if err != nil {
			return // it has ended
		}
		go l.carry(from)
	}
}

// carry moves bytes in both directions until one end has none, or the link is cut.
func (l *Link) carry(from net.Conn) {
	defer func() { _ = from.Close() }() // a cut may have closed it
	to, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	if !l.hold(from, to) {
		return
	}
	defer l.release(from, to)
	go func() {
		_, _ = io.Copy(to, from) // one that is cut is no failure
		_ = to.Close()
	}()
	_, _ = io.Copy(from, to)
}

// hold has the connections end with a cut; false where the link is cut already.
func (l *Link) hold(both ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range both {
		l.open[c] = true
	}
	return !l.isCut
}

func (l *Link) release(both ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range both {
		delete(l.open, c)
	}
}
