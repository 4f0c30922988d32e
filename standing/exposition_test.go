package standing

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// many is a collector of far more series than the buffers of a connection hold; it counts its
// calls.
type many struct {
	desc  *prometheus.Desc
	asked atomic.Int32
}

func (m *many) Describe(ch chan<- *prometheus.Desc) { ch <- m.desc }

func (m *many) Collect(ch chan<- prometheus.Metric) {
	m.asked.Add(1)
	for i := range 10_000 {
		ch <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, 1, fmt.Sprint(i, strings.Repeat("x", 100)))
	}
}

// smallBuffers gives connections small buffers, as a slow link has.
type smallBuffers struct{ net.Listener }

func (l smallBuffers) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(4096)
	}
	return c, err
}

// serveHere serves on loopback, with a bound on connections.
func serveHere(t *testing.T, most int) (address string, m *many, l *boundedListener) {
	t.Helper()
	s := newServer(options(&clock{noon}, io.Discard), nobody)
	m = &many{desc: prometheus.NewDesc("many", "Many.", []string{"label"}, nil)}
	s.metrics.MustRegister(m)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l = &boundedListener{Listener: smallBuffers{listener}, most: most}
	web := s.web()
	go func() { _ = web.Serve(l) }()
	t.Cleanup(func() { _ = web.Close() })
	return listener.Addr().String(), m, l
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// scrape makes one scrape, as Prometheus does.
func scrape(t *testing.T, address string) string {
	t.Helper()
	client := http.Client{Timeout: 5 * time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v: %.200s", response.Status, err, text)
	}
	return string(text)
}

// TestClientsThatDoNotRead: forty clients that ask for the metrics and never read them keep
// no scrape from its answer, and do not each cost a gathering.
func TestClientsThatDoNotRead(t *testing.T) {
	address, m, _ := serveHere(t, maxConnections)
	began := time.Now()
	for range 40 {
		c := dial(t, address)
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetReadBuffer(4096)
		}
		if _, err := io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		if text := scrape(t, address); strings.Count(text, "\nmany{") != 10_000 || !strings.Contains(text, "volume_doctor_leader 0\n") {
			t.Fatalf("not all of it: %.2000s", text)
		}
	}
	if most := int32(time.Since(began)/gatherEvery) + 1; m.asked.Load()-1 > most { // one more call is Register's
		t.Errorf("gathered %d times in %s", m.asked.Load(), time.Since(began))
	}
}

// TestConnectionsAreBounded: however many connections clients keep open, only as many as the
// bound allows stay open, and a scrape is answered.
func TestConnectionsAreBounded(t *testing.T) {
	address, _, l := serveHere(t, 8)
	for range 40 {
		dial(t, address)
	}
	scrape(t, address)
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.open.Len(); n > 8 {
		t.Errorf("%d connections are open", n)
	}
}

// TestExpositionIsFresh: a new look is served immediately, also within the same second.
func TestExpositionIsFresh(t *testing.T) {
	s := newServer(options(&clock{noon}, io.Discard), nobody)
	for i := range 10 {
		s.state.begin(noon)
		if text := ask(s, "/metrics").Body.String(); !strings.Contains(text, "volume_doctor_leader 1\n") {
			t.Fatalf("%d: %.500s", i, text)
		}
		s.state.end()
		if text := ask(s, "/metrics", "Accept-Encoding", "gzip;q=0, br").Body.String(); !strings.Contains(text, "volume_doctor_leader 0\n") {
			t.Fatalf("%d: %.500s", i, text)
		}
	}
	if packed := ask(s, "/metrics", "Accept-Encoding", "br, gzip").Body.Bytes(); !bytes.HasPrefix(packed, []byte{0x1f, 0x8b}) {
		t.Errorf("not compressed: %.20q", packed)
	}
}
