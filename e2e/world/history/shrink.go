package history

import "slices"

// Shrink makes a history smaller while it still shows the same: show is asked several times
// for each, since a history does not play out quite the same twice. It plays at most budget
// histories.
func Shrink(h History, budget int, show func(History) bool) History {
	const tries = 2
	shows := func(h History) bool {
		for range tries {
			if budget--; budget < 0 {
				return false
			}
			if show(h) {
				return true
			}
		}
		return false
	}
	for i := 0; i < len(h.Steps); {
		smaller := h
		smaller.Steps = slices.Delete(slices.Clone(h.Steps), i, i+1)
		if shows(smaller) {
			h = smaller
		} else {
			i++
		}
	}
	for _, size := range []Size{{Nodes: 2, Sets: 0, Deployments: 1}, {Nodes: 2, Sets: 1, Replicas: 1}, {Nodes: h.Size.Nodes, Sets: 0, Deployments: h.Size.Deployments}} {
		smaller := h
		size.Two, size.Shared, size.Real = h.Size.Two, h.Size.Shared, h.Size.Real
		smaller.Size = size
		if size != h.Size && shows(smaller) {
			return smaller
		}
	}
	return h
}
