package snapshot

import (
	"bufio"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/backend"
)

// backendKind is the kind of the documents in a file that hold a list of a storage system.
const backendKind = "Backend"

// formerFormat is the format of csi-attacher's logs, which files of earlier releases may contain.
// It is ignored.
const formerFormat = "attacher"

// maxBackends is the largest number of lists in one snapshot.
const maxBackends = 100

// backendDocument is a list, or a list with a part of its volumes.
type backendDocument struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	backend.List
}

// writeBackends writes the lists after the header. Long lists are split into documents that are
// within a reader's limits.
func writeBackends(out *bufio.Writer, lists []*backend.List) error {
	for _, l := range lists {
		rest := l.Volumes
		for first := true; first || len(rest) > 0; first = false {
			part := *l
			part.Volumes, rest = split(rest)
			if err := writeOwn(out, backendDocument{headerVersion, backendKind, part}); err != nil {
				return err
			}
		}
	}
	return nil
}

func isBackend(t typeName) bool { return t == typeName{headerVersion, backendKind} }

func (c *collector) readBackend(at place, raw []byte) error {
	var d backendDocument
	if err := c.readOwn(at, backendKind, raw, &d); err != nil {
		return err
	}
	if d.Format == formerFormat {
		c.ignore(typeName{headerVersion, backendKind}, 1)
		return nil
	}
	if err := d.Check(); err != nil {
		return at.errorf("%s: %w", backendKind, err)
	}
	return c.addBackend(at, &d.List)
}

// addBackend adds a list, or the next part of a list.
func (c *collector) addBackend(at place, l *backend.List) error {
	volumes := len(l.Volumes)
	for _, known := range c.backends {
		volumes += len(known.Volumes)
	}
	if volumes > backend.MaxVolumes || len(c.backends) > maxBackends {
		return at.errorf("%s: more than %d lists, or %d volumes in all of them", backendKind, maxBackends, backend.MaxVolumes)
	}
	if last := len(c.backends) - 1; last >= 0 && c.backends[last].SameList(l) {
		c.backends[last].Volumes = append(c.backends[last].Volumes, l.Volumes...)
		return nil
	}
	c.backends = append(c.backends, l)
	return nil
}
