package output

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// alterations are what tools and people take away from the objects that an API server shows.
var alterations = map[string]func(object map[string]any){
	// as kubectl neat leaves it
	"neat": func(object map[string]any) {
		kept := map[string]any{}
		for _, field := range []string{"name", "namespace", "labels", "annotations"} {
			if v, ok := metaOf(object)[field]; ok {
				kept[field] = v
			}
		}
		object["metadata"] = kept
		delete(object, "status")
		if spec, _ := object["spec"].(map[string]any); spec["containers"] != nil {
			delete(spec, "nodeName")
		}
	},
	"without a status": func(object map[string]any) { delete(object, "status") },
	"without a uid":    func(object map[string]any) { delete(metaOf(object), "uid") },
}

func metaOf(object map[string]any) map[string]any {
	meta, _ := object["metadata"].(map[string]any)
	return meta
}

// altered are texts in which all objects of a kind, or only the first, are altered.
func (k *kubectlText) altered(t *testing.T) []lessText {
	var made []lessText
	for _, r := range snapshot.Resources() {
		if r.Optional {
			continue
		}
		for name, alter := range alterations {
			var items []string
			changed := 0
			for _, raw := range k.bare[r.Kind] {
				var object map[string]any
				if err := json.Unmarshal([]byte(raw), &object); err != nil {
					t.Fatal(err)
				}
				alter(object)
				text, err := json.Marshal(object)
				if err != nil {
					t.Fatal(err)
				}
				if items = append(items, string(text)); len(text) != len(raw) {
					changed++
				}
			}
			if changed == 0 {
				continue
			}
			made = append(made, lessText{name + " " + string(r.Kind), r.Kind, k.read(t, map[snapshot.Kind]string{r.Kind: typedList(r, items)})})
			if len(items) > 1 {
				first := append([]string{items[0]}, k.bare[r.Kind][1:]...)
				made = append(made, lessText{name + " one of " + string(r.Kind), r.Kind, k.read(t, map[snapshot.Kind]string{r.Kind: typedList(r, first)})})
			}
		}
	}
	return made
}

// TestWhatWasTakenAway takes away from objects what an API server always shows, as kubectl neat and
// people who shorten a file do. No command may say of the rest what it does not say of the whole, or
// that nothing is wrong.
func TestWhatWasTakenAway(t *testing.T) {
	compared := map[string]int{}
	cases, err := corpus()
	if err != nil {
		t.Fatal(err)
	}
	few := byHash(cases, *crossingsSeed)
	if testing.Short() { // each case is read in some twenty ways: the gate takes every twentieth, and "make whole" all
		few = few[:len(few)/20]
	}
	for _, c := range few {
		t.Run(c.name, func(t *testing.T) {
			if len(c.read.Gaps) > 0 || testcases.ClaimedTwice(c.read) {
				return
			}
			claims := answersOn(c.read, c.settings)
			for _, less := range asKubectlPrints(t, c.read).altered(t) {
				if less.read == nil {
					continue
				}
				compared[less.name]++
				if news := newsOf(c, claims, less); len(news) > 0 {
					t.Errorf("%s: %s", less.name, strings.Join(news, "\n\t"))
				}
			}
		})
	}
	t.Logf("compared: %v", compared)
	for _, name := range []string{"neat pods", "neat one of nodes", "without a status volumeattachments", "without a uid persistentvolumeclaims"} {
		if compared[name] == 0 {
			t.Errorf("nothing was compared of %s", name)
		}
	}
}
