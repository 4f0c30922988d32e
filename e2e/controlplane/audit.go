package controlplane

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// Writes lists what a user has written so far according to the audit log,
// oldest first: creations, updates, patches and deletions, also those that
// were refused or a dry run, without their bodies unless [Options] ask for them.
func (c *Cluster) Writes(user string) ([]auditv1.Event, error) {
	return c.Audited(func(e *auditv1.Event) bool {
		return e.User.Username == user && !slices.Contains([]string{"get", "list", "watch"}, e.Verb)
	})
}

// Audited is Writes of whatever the audit log has that is wanted. Of the viewer
// and of service accounts it has all that they have asked for.
func (c *Cluster) Audited(wanted func(*auditv1.Event) bool) ([]auditv1.Event, error) {
	file, err := os.Open(c.AuditLog)
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	defer func() { _ = file.Close() }()
	whole, err := wholeLines(file)
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	var events []auditv1.Event
	lines := bufio.NewScanner(io.LimitReader(file, whole))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return nil, fmt.Errorf("read audit log: %w", err)
		}
		if wanted(&event) {
			events = append(events, event)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	return events, nil
}

// wholeLines is how long the log is where it ends with a line: the API server may be
// writing the last one.
func wholeLines(file *os.File) (int64, error) {
	const writing = 5 * time.Second
	last := make([]byte, 1)
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		info, err := file.Stat()
		if err != nil || info.Size() == 0 {
			return 0, err
		}
		if _, err := file.ReadAt(last, info.Size()-1); err != nil {
			return 0, err
		}
		if last[0] == '\n' {
			return info.Size(), nil
		}
		if time.Since(began) > writing {
			return 0, fmt.Errorf("its last line has had no end for %s", writing)
		}
	}
}
