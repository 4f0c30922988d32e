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
)

// header is the document that volume-doctor's own files begin with. It says
// what no list of objects can: when they were read, and which kinds have no
// more objects than those.
type header struct {
	APIVersion    string `json:"apiVersion"`
	Kind          string `json:"kind"`
	TakenAt       string `json:"takenAt,omitempty"`
	ServerVersion string `json:"serverVersion,omitempty"`
	Complete      []Kind `json:"complete"`
	Gaps          []Gap  `json:"gaps,omitempty"`
	// Objects is how many follow. YAML documents that were cut off between two
	// of them look whole, and the pods, which come last, would seem not to
	// exist.
	Objects *int `json:"objects,omitempty"`

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
		return at.errorf("Snapshot header: %s", decodeMessage(err))
	}
	if h.TakenAt != "" {
		t, err := time.Parse(time.RFC3339Nano, h.TakenAt)
		if err != nil {
			return at.errorf("Snapshot header: takenAt is not a time like 2026-11-20T10:00:00Z: %s", plain(h.TakenAt))
		}
		h.takenAt = t
	}
	known := append(Kinds(), Deployments)
	unknown := func(list string, kind Kind) bool {
		if slices.Contains(known, kind) {
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

// checkCount compares what the header promised with what its file held.
func (c *collector) checkCount(file string, objects int) error {
	if c.header == nil || c.headerAt.file != file || c.header.Objects == nil || objects >= *c.header.Objects {
		return nil
	}
	return fmt.Errorf("%s: the header promises %s and %d can be read: the file was cut off (or edited: then correct the header's \"objects\")",
		plain(file), count(*c.header.Objects, "object"), objects)
}

// gaps are the kinds whose absence proves nothing. The header's word that a
// list is partial holds even where objects are there.
func (c *collector) gaps() []Gap {
	var gaps []Gap
	var complete []Kind
	if c.header != nil {
		gaps = slices.Clone(c.header.Gaps)
		complete = c.header.Complete
	}
	for _, kind := range Kinds() {
		told, isTold := c.told[kind]
		switch {
		case slices.ContainsFunc(gaps, func(g Gap) bool { return g.Kind == kind }):
		case c.truncated[kind]:
			gaps = append(gaps, Gap{Kind: kind, Reason: ReasonTruncated, Detail: "the list says that more objects follow"})
		case isTold && told != nil:
			gaps = append(gaps, *told)
		case isTold:
		case !slices.Contains(complete, kind) && c.counts[kind] == 0:
			gaps = append(gaps, Gap{Kind: kind, Reason: ReasonNotInFile})
		}
	}
	return gaps
}
