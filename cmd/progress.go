package cmd

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// patience is how long a person waits without wondering.
const patience = time.Second

// newProgress says on w what is being read once it takes longer than patience:
// with a moving counter on a terminal, with a line for each kind elsewhere.
func newProgress(w io.Writer) func(kind snapshot.Kind, objects int) {
	start := time.Now()
	if !printers.IsTerminal(w) {
		var last snapshot.Kind
		return func(kind snapshot.Kind, _ int) {
			if time.Since(start) > patience && kind != last {
				fmt.Fprintf(w, "reading %s\n", kind)
				last = kind
			}
		}
	}
	var bar *progressbar.ProgressBar
	return func(kind snapshot.Kind, objects int) {
		if time.Since(start) < patience {
			return
		}
		if bar == nil {
			bar = progressbar.NewOptions(-1, progressbar.OptionSetWriter(w), progressbar.OptionClearOnFinish(),
				progressbar.OptionShowCount(), progressbar.OptionThrottle(100*time.Millisecond))
		}
		bar.Describe("reading " + string(kind))
		_ = bar.Set(objects)
	}
}
