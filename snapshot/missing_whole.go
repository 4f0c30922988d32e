package snapshot

import (
	"fmt"
	"slices"
	"strings"
)

// believe removes the gaps of the kinds in whole, which the user declared complete. It returns an
// error if the input itself shows that one of them is not.
func (c *collector) believe(whole []Kind, gaps []Gap) ([]Gap, error) {
	var believed []string
	for _, kind := range whole {
		i := slices.IndexFunc(gaps, func(g Gap) bool { return g.Kind == kind })
		if i < 0 {
			continue
		}
		against := c.against(gaps[i])
		if against == "" {
			against = c.objects.against(kind, c.counts[kind])
		}
		if against != "" {
			return nil, fmt.Errorf("--whole %s is not so: %s", kind, against)
		}
		gaps = slices.Delete(gaps, i, i+1)
		believed = append(believed, string(kind))
	}
	if len(believed) > 0 {
		c.notes = append(c.notes, Warning("that there are no other "+strings.Join(believed, ", ")+" is your word (--whole)"))
	}
	return gaps, nil
}

// against returns what in the input contradicts that the list is complete; "" if the input only
// lacks a proof that it is.
func (c *collector) against(gap Gap) string {
	said := strings.TrimSuffix(gap.Reason+": "+gap.Detail, ": ")
	switch {
	case c.header != nil && slices.Contains(c.header.Gaps, gap):
		return "the file's header has it as a gap (" + said + ")"
	case slices.ContainsFunc(c.objects.unbound(), func(proven Gap) bool { return proven == gap || ofBundle(proven) == gap }):
		return strings.TrimSuffix(gap.Detail, wasAllGiven)
	case gap.Reason == ReasonNotInFile || gap.Reason == ReasonNotInBundle && !strings.HasPrefix(gap.Detail, lacksNamespaces):
		return "" // nothing shows that there is more
	default:
		return said
	}
}
