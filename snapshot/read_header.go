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
	c.order.holds = c.order.may && c.total == 0
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

// flaw returns the gap of a kind whose objects are missing or may be; nil if there is no sign of
// that.
func (c *collector) flaw(kind Kind) *Gap {
	for _, gaps := range []map[Kind]Gap{c.refused, c.broken} {
		if gap, ok := gaps[kind]; ok {
			gap.Namespace = c.readBeside(gap)
			return &gap
		}
	}
	if gap := c.altered.gap(kind); gap != nil {
		return gap
	}
	switch {
	case c.truncated[kind]:
		return &Gap{Kind: kind, Reason: ReasonTruncated, Detail: "the list says that more objects follow"}
	case c.unread[kind] != "":
		return &Gap{Kind: kind, Reason: ReasonUndecodable, Detail: c.unread[kind]}
	}
	return nil
}

// notEmpty returns the gap of a list without objects, or of a list of leases without those of nodes,
// if another object shows that it is not complete; nil if none does.
func (c *collector) notEmpty(kind Kind, now time.Time) *Gap {
	if why := c.objects.emptyAgainst(kind, c.counts[kind]); why != "" {
		gap := notAll(kind, nil, why)
		return &gap
	}
	why := ""
	if c.counts[kind] == 0 {
		why = c.objects.doubt(kind, now)
	}
	if why == "" {
		return nil
	}
	gap := notAll(kind, nil, "there is none, and "+why)
	gap.Detail += " (if the cluster has none: --whole " + string(kind) + ")"
	return &gap
}

// gaps returns the gaps of all kinds whose absent objects may exist. If the header calls a list
// partial, it is a gap even if the file has objects of the kind.
func (c *collector) gaps(now time.Time) []Gap {
	var gaps []Gap
	var complete []Kind
	if c.header != nil {
		gaps = slices.Clone(c.header.Gaps)
		complete = c.header.Complete
	}
	partial := slices.Concat(c.dumpGaps(), c.objects.partial(c.each, now), c.workloads.partial(&c.objects))
	for _, kind := range Kinds() {
		told, isTold := c.told[kind]
		i := slices.IndexFunc(partial, func(g Gap) bool { return g.Kind == kind })
		switch {
		case slices.ContainsFunc(gaps, func(g Gap) bool { return g.Kind == kind }):
		case c.flaw(kind) != nil:
			gaps = append(gaps, *c.flaw(kind))
		case isTold && told != nil:
			gaps = append(gaps, *told)
		case isTold:
		case slices.Contains(complete, kind):
		case c.counts[kind] == 0 && c.lists[kind] == 0: // an empty list that names its kind is complete
			gaps = append(gaps, Gap{Kind: kind, Reason: ReasonNotInFile})
		case i >= 0:
			gaps = append(gaps, partial[i])
		case c.header == nil && c.isByName(kind):
			gaps = append(gaps, c.byName(kind))
		default:
			if gap := c.notEmpty(kind, now); gap != nil && c.header == nil {
				gaps = append(gaps, *gap)
			}
		}
	}
	return gaps
}
