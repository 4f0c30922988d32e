package standing

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

const (
	// gatherEvery is how long the metrics of one look are served from memory: gathering costs
	// more the more is wrong, and anybody who reaches the port may ask for it.
	gatherEvery = time.Second
	// scrapeTime bounds how long a client may take to read them. Prometheus gives a
	// scrape ten seconds.
	scrapeTime = 10 * time.Second
)

// exposition is the text of the metrics, gathered once for all who ask within a second. A
// client that does not read it delays nobody else.
type exposition struct {
	gatherer prometheus.Gatherer
	state    *state

	mu            sync.Mutex
	at            time.Time
	leading       bool
	of            *look
	plain, packed []byte
	err           error
}

func (e *exposition) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	plain, packed, err := e.now()
	if err != nil {
		say(w, http.StatusInternalServerError, "the metrics cannot be gathered")
		return
	}
	text := plain
	w.Header().Set("Content-Type", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	w.Header().Set("Vary", "Accept-Encoding")
	if takesGzip(r) {
		text = packed
		w.Header().Set("Content-Encoding", "gzip")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	deadline := time.Now().Add(scrapeTime)
	_ = http.NewResponseController(w).SetWriteDeadline(deadline) // where it cannot be set, the server's own deadline holds
	_, _ = w.Write(text)                                         // a client that is gone needs no answer
}

// now is the text, plain and compressed. The returned slices are never changed.
func (e *exposition) now() (plain, packed []byte, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	leading, _, l := e.state.now()
	now := time.Now()
	if now.Sub(e.at) < gatherEvery && leading == e.leading && l == e.of {
		return e.plain, e.packed, e.err
	}
	e.plain, e.packed, e.err = textOf(e.gatherer)
	e.at, e.leading, e.of = now, leading, l
	return e.plain, e.packed, e.err
}

func textOf(g prometheus.Gatherer) (plain, packed []byte, err error) {
	families, err := g.Gather()
	if err != nil {
		return nil, nil, err
	}
	var text, small bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			return nil, nil, err
		}
	}
	zip := gzip.NewWriter(&small)
	if _, err := zip.Write(text.Bytes()); err != nil {
		return nil, nil, err
	}
	if err := zip.Close(); err != nil {
		return nil, nil, err
	}
	return text.Bytes(), small.Bytes(), nil
}

// takesGzip reports whether the client accepts gzip.
func takesGzip(r *http.Request) bool {
	for encoding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, quality, weighed := strings.Cut(strings.ReplaceAll(encoding, " ", ""), ";q=")
		if name == "gzip" && (!weighed || strings.Trim(quality, "0.") != "") {
			return true
		}
	}
	return false
}
