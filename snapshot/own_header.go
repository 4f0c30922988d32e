package snapshot

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/json"
)

const (
	headerGroup   = "volume-doctor/"
	headerVersion = headerGroup + "v1"
	headerKind    = "Snapshot"
	endMarker     = "..."
	namesHashed   = "hashed"
)

// header is the first document of volume-doctor's own files. It says what no list of objects can:
// when the objects were read, and which kinds are complete.
type header struct {
	APIVersion    string `json:"apiVersion"`
	Kind          string `json:"kind"`
	TakenAt       string `json:"takenAt,omitempty"`
	ServerVersion string `json:"serverVersion,omitempty"`
	// Names is namesHashed or "".
	Names    string `json:"names,omitempty"`
	Complete []Kind `json:"complete"`
	Gaps     []Gap  `json:"gaps,omitempty"`
	// Objects is the number of objects that follow. YAML documents that were cut off between two
	// objects look complete, and the pods, which come last, would seem not to exist.
	Objects *int `json:"objects,omitempty"`
	// End is the last line of the file, or "". A YAML document that was cut off between two of its
	// lines also looks complete.
	End string `json:"end,omitempty"`

	takenAt time.Time
}

func isHeader(t typeName) bool {
	return strings.HasPrefix(t.apiVersion, headerGroup) && t.kind == headerKind
}

func (c *collector) readHeader(at place, t typeName, raw []byte) error {
	if t.apiVersion != headerVersion {
		return at.errorf("a snapshot of version %s; this volume-doctor reads %s", plain(t.apiVersion), headerVersion)
	}
	if c.header != nil {
		return at.errorf("a second Snapshot header; the first is at %s", c.headerAt)
	}
	h := &header{}
	if err := json.Unmarshal(raw, h); err != nil {
		return at.errorf("Snapshot header: %s", plain(whyUndecodable(err)))
	}
	if h.TakenAt != "" {
		t, err := time.Parse(time.RFC3339Nano, h.TakenAt)
		if err != nil {
			return at.errorf("Snapshot header: takenAt is not a time like 2026-11-20T10:00:00Z: %s", plain(h.TakenAt))
		}
		h.takenAt = t
	}
	if most := 100; len(h.Complete) > most || len(h.Gaps) > most {
		return at.errorf("Snapshot header: more than %d kinds in one list", most)
	}
	unknown := func(list string, kind Kind) bool {
		if slices.ContainsFunc(resources, func(r *row) bool { return r.Kind == kind }) {
			return false
		}
		c.notes = append(c.notes, Warning(fmt.Sprintf("the header's %s names %s, which this version does not know: ignored", list, plain(string(kind)))))
		return true
	}
	h.Complete = slices.DeleteFunc(h.Complete, func(k Kind) bool { return unknown("complete", k) })
	h.Gaps = slices.DeleteFunc(h.Gaps, func(g Gap) bool { return unknown("gaps", g.Kind) })
	slices.Sort(c.notes)
	c.notes = slices.Compact(c.notes)
	c.header, c.headerAt = h, at
	return nil
}

// checkHeader compares the promise of the header with the content of its file.
func (c *collector) checkHeader(file string, objects int, ended bool) error {
	if c.header == nil || c.headerAt.file != file {
		return nil
	}
	promised := c.header.Objects
	switch {
	case promised == nil && objects == 0 && len(c.header.Complete) > 0:
		return fmt.Errorf("%s: the header calls lists complete, but neither an object nor their number follows: the file was cut off (if there are none, add \"objects: 0\")", plain(file))
	case promised != nil && objects < *promised:
		return fmt.Errorf("%s: the header promises %s and %d can be read: the file was cut off (or edited: then correct the header's \"objects\")",
			plain(file), count(*promised, "object"), objects)
	case c.header.End != "" && !ended:
		return fmt.Errorf("%s: the header promises %q as the last line: the file was cut off", plain(file), endMarker)
	}
	return nil
}
