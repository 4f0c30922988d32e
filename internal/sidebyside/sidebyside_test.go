package sidebyside_test

import (
	"sync/atomic"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/sidebyside"
)

// TestDo: each place has its turn once.
func TestDo(t *testing.T) {
	for _, places := range []int{0, 1, 2, 3, 63, 64, 65, 127, 128, 129, 1000, 12345} {
		turns := make([]atomic.Int64, places)
		sidebyside.Do(places, func(place int) { turns[place].Add(1) })
		for place := range turns {
			if n := turns[place].Load(); n != 1 {
				t.Errorf("%d places: %d has had %d turns", places, place, n)
			}
		}
	}
}
