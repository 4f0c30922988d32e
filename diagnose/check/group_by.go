package check

// GroupBy puts items with the same key together. The groups are in the order in which their
// keys first occur.
func GroupBy[K comparable, T any](items []T, key func(T) K) [][]T {
	places := map[K]int{}
	var groups [][]T
	for _, item := range items {
		place, known := places[key(item)]
		if !known {
			place = len(groups)
			places[key(item)], groups = place, append(groups, nil)
		}
		groups[place] = append(groups[place], item)
	}
	return groups
}
