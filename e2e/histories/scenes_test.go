package histories

import (
	"testing"
)

// TestScenes has the controllers of each release live through the scenes.
func TestScenes(t *testing.T) {
	for _, release := range releases(t) {
		t.Run(string(release), func(t *testing.T) {
			t.Parallel()
			oracle := start(t, release)
			for name, request := range Scenes() {
				for range 2 { // because map order decides
					for _, d := range compareAll(release, request, live(t, oracle, request)).Differences {
						t.Errorf("%s: %s", name, d)
					}
				}
			}
		})
	}
}
