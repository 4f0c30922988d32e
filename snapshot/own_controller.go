package snapshot

import (
	"bufio"
	"slices"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
)

// controllerKind is the kind of the documents that hold a Controller in a file.
const controllerKind = "Controller"

// controllerPart is the number of pairs, and of back-offs, in one document of a file: far fewer
// than MaxValues allows.
const controllerPart = 1000

// controllerDocument is a Controller with a part of its lists. Only the first document of a file
// has the other fields.
type controllerDocument struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Controller
}

// writeController writes the result of --controller after the header. A reader that does not know
// the kind ignores the documents.
func writeController(out *bufio.Writer, c *Controller) error {
	if c == nil {
		return nil
	}
	rest := *c
	for first := true; first || len(rest.Pairs)+len(rest.BackOffs)+len(rest.Unclear) > 0; first = false {
		part := Controller{First: c.First, Last: c.Last}
		if first {
			part = *c
		}
		part.Pairs, rest.Pairs = split(rest.Pairs)
		part.BackOffs, rest.BackOffs = split(rest.BackOffs)
		part.Unclear, rest.Unclear = split(rest.Unclear)
		part.Pairs = slices.Clone(part.Pairs)
		for i := range part.Pairs {
			part.Pairs[i].LastError = safetext.Redact(part.Pairs[i].LastError)
		}
		if err := writeOwn(out, controllerDocument{APIVersion: headerVersion, Kind: controllerKind, Controller: part}); err != nil {
			return err
		}
	}
	return nil
}

func split[T any](list []T) (part, rest []T) {
	n := min(len(list), controllerPart)
	return list[:n], list[n:]
}

func isController(t typeName) bool {
	return t == typeName{headerVersion, controllerKind}
}

func (c *collector) readController(at place, raw []byte) error {
	var d controllerDocument
	if err := c.readOwn(at, controllerKind, raw, &d); err != nil {
		return err
	}
	if d.Last.IsZero() || d.Last.Before(d.First) || slices.ContainsFunc(d.Pairs, RememberedPair.isBroken) {
		return at.errorf("Controller: a time is missing, or no log gives it")
	}
	return c.addController(at, &d.Controller)
}

// addController adds a Controller, or the next part of one.
func (c *collector) addController(at place, part *Controller) error {
	all := c.controller
	if all == nil {
		c.controller = part
		return nil
	}
	all.Pairs, all.BackOffs, all.Unclear = append(all.Pairs, part.Pairs...), append(all.BackOffs, part.BackOffs...), append(all.Unclear, part.Unclear...)
	if most := c.limits.ofKind; part.Started != nil || !part.Last.Equal(all.Last) || len(all.Pairs) > most || len(all.BackOffs) > most || len(all.Unclear) > most {
		return at.errorf("a second Controller, or more than %d entries in one list of it", most)
	}
	return nil
}

// isBroken reports whether one of two fields that belong together is missing.
func (p RememberedPair) isBroken() bool {
	return (p.Running == "") != (p.RunningSince == nil) || (p.LastError == "") != (p.LastErrorAt == nil) || (len(p.States) == 0) != (p.Since == nil)
}
