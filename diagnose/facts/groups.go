package facts

// Groups are the items with the same key, in the order in which the keys come first.
func Groups[K comparable, T any](items []T, key func(T) K) [][]T {
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
