package snapshot

import (
	"bufio"
	"encoding/json"
	"fmt"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
)

// writeOwn writes a document of one of our own kinds.
func writeOwn(out *bufio.Writer, document any) error {
	text, err := json.Marshal(document)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "---\n%s\n", safetext.JSON(string(text))) // a bufio.Writer keeps its first error for Flush
	return nil
}

// readOwn reads a document of one of our own kinds, within the collector's limits.
func (c *collector) readOwn(at place, kind string, raw []byte, document any) error {
	if values, depth := countValues(raw); values > c.limits.values || depth > c.limits.depth {
		return at.errorf("%s: more than %d fields and items, or nested more than %d deep", kind, c.limits.values, c.limits.depth)
	}
	if err := json.Unmarshal(raw, document); err != nil {
		return at.errorf("%s: %s", kind, plain(whyUndecodable(err)))
	}
	return nil
}
