package cmd

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/volume-doctor/kubectl-volume-doctor/cluster"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// patience is how long a person waits without wondering.
const patience = time.Second

// watched is a cluster that shows the progress of a reading that takes longer than patience.
type watched struct {
	*cluster.Cluster
	progress *progress
	// add adds to a snapshot of the whole cluster the data that were read beside it.
	add func(*snapshot.Snapshot)
}

// Snapshot reads the cluster and shows its progress.
func (w watched) Snapshot(ctx context.Context) (*snapshot.Snapshot, error) {
	w.progress.begin()
	defer w.progress.end()
	s, err := w.Cluster.Snapshot(ctx)
	if err == nil {
		w.add(s)
	}
	return s, err
}

// progress shows a moving counter on a terminal, and a line for each kind
// elsewhere.
type progress struct {
	w     io.Writer
	start time.Time
	bar   *progressbar.ProgressBar
	last  snapshot.Kind
	// silent is set for one of several clusters.
	silent bool
}

func (p *progress) begin() { p.start, p.last = time.Now(), "" }

func (p *progress) read(kind snapshot.Kind, objects int) {
	if p.silent || time.Since(p.start) < patience {
		return
	}
	terminal := underneath(p.w)
	if !printers.IsTerminal(terminal) {
		if kind != p.last {
			fmt.Fprintf(p.w, "reading %s\n", kind)
			p.last = kind
		}
		return
	}
	if p.bar == nil {
		p.bar = progressbar.NewOptions(-1, progressbar.OptionSetWriter(terminal), progressbar.OptionClearOnFinish(),
			progressbar.OptionShowCount(), progressbar.OptionThrottle(100*time.Millisecond))
	}
	p.bar.Describe("reading " + string(kind))
	_ = p.bar.Set(objects)
}

func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Finish()
		p.bar = nil
	}
}
