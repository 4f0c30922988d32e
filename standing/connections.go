package standing

import (
	"container/list"
	"net"
	"sync"
)

// maxConnections bounds the connections that are open at the same time.
const maxConnections = 256

// boundedListener closes the oldest connection where there would be one too many. A scrape
// takes milliseconds. If it had to wait for a connection that somebody keeps open, one client
// could lock out all others.
type boundedListener struct {
	net.Listener
	most int

	mu   sync.Mutex
	open list.List // of net.Conn, the oldest first
}

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	var oldest net.Conn
	if l.open.Len() >= l.most {
		oldest, _ = l.open.Remove(l.open.Front()).(net.Conn)
	}
	bounded := &boundedConn{Conn: c, of: l, at: l.open.PushBack(c)}
	l.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close() // nobody waits for it
	}
	return bounded, nil
}

type boundedConn struct {
	net.Conn
	of   *boundedListener
	at   *list.Element
	once sync.Once
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	c.once.Do(func() {
		c.of.mu.Lock()
		defer c.of.mu.Unlock()
		c.of.open.Remove(c.at) // this does nothing where it was the oldest
	})
	return c.Conn.Close()
}
