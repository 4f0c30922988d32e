package snapshot

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/randfill"
)

// same reports whether the quick decoder reads the object. It fails where that is one that
// the decoder which judges does not read, or reads otherwise.
func same(t *testing.T, s *row, raw []byte) bool {
	t.Helper()
	quick := s.quick(raw)
	if quick == nil {
		return false
	}
	general, strict, err := s.decode(raw)
	if err != nil || len(strict) > 0 {
		t.Fatalf("%s: %v %v: %s", s.Object, err, strict, raw)
	}
	if !reflect.DeepEqual(quick, general) {
		t.Fatalf("%s: %s: %s", s.Object, cmp.Diff(general, quick), raw)
	}
	return true
}

// TestUsual: of objects with anything in their fields the quick decoder reads what the
// one reads that judges.
func TestUsual(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	filler := randfill.NewWithSeed(1).NilChance(0.4).NumElements(0, 3).MaxDepth(12).Funcs(
		func(f *metav1.FieldsV1, c randfill.Continue) { *f = *metav1.NewFieldsV1(`{"f:a":{"k:{\"a\":1}":{}}}`) },
		func(n *int64, c randfill.Continue) { *n = c.Int63n(2e9) - 1e9 },
		func(at *metav1.Time, c randfill.Continue) { *at = metav1.Unix(c.Int63n(4e9), 0) },
	)
	for _, s := range resources {
		read := 0
		for range 60 {
			object := reflect.New(reflect.TypeOf(emptyOf(s)).Elem())
			filler.Fill(object.Interface())
			raw, err := json.Marshal(object.Interface())
			if err != nil {
				continue
			}
			if same(t, s, raw) {
				read++
			}
			damaged := slices.Clone(raw)
			for range 20 {
				damaged[random.IntN(len(damaged))] = `{}[]:,"\0e-x n`[random.IntN(14)]
				if utf8.Valid(damaged) { // as all is that comes so far
					same(t, s, damaged)
				}
				if random.IntN(3) == 0 {
					copy(damaged, raw)
				}
			}
		}
		if read == 0 {
			t.Errorf("%s: none was read", s.Object)
		}
	}
}

// emptyOf is an object of the kind.
func emptyOf(s *row) apiObject {
	object, _, _ := s.decode([]byte(`{}`))
	return object
}

// TestUsualLeaves: what is odd is left to the decoder that judges.
func TestUsualLeaves(t *testing.T) {
	c := newReading(defaultLimits, ReadOptions{}).collector()
	for text, want := range map[string]bool{
		`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","creationTimestamp":"2026-11-20T10:00:00Z"}}`: true,
		` { "apiVersion" : "v1", "kind" : "Pod", "x": [1, {"a": null}] } `:                                    true,
		// a Pod and no list, although it has items
		`{"kind":"Pod","apiVersion":"v1","items":[]}`:                                                   true,
		`{"kind":"Pod","apiVersion":"v1","kind":"Pod"}`:                                                 false,
		`{"kind":"Pod","apiVersion":"v1","metadata":{"name":1}}`:                                        false,
		`{"kind":"Pod","apiVersion":"v1","metadata":{"labels":{"a":"b","a":"b"}}}`:                      false,
		`{"kind":"Pod","apiVersion":"v1","metadata":{"deletionTimestamp":null}}`:                        true,
		`{"kind":"Pod","apiVersion":"v1","metadata":{"deletionTimestamp":"2026-11-20T10:00:00\u005A"}}`: true,
		`{"kind":"Pod","apiVersion":"v1","metadata":{"deletionTimestamp":"2026-11-20"}}`:                false,
		`{"kind":"Pod","apiVersion":"v1","metadata":{"deletionTimestamp":""}}`:                          false,
		`{"kind":"Pod","apiVersion":"v1","metadata":{"deletionTimestamp":1}}`:                           false,
		`{"kind":"Pod","apiVersion":"v1","spec":{"containers":[{"env":[{"name":1}]}]}}`:                 false,
		`{"kind":"Pod","apiVersion":"v1","spec":{"containers":[{"env":[],"env":[]}]}}`:                  false,
		`{"kind":"Pod","apiVersion":"v1","spec":{"containers":[{"resources":{"limits":{"cpu":"x"}}}]}}`: false,
		`{"kind":"Pod","apiVersion":"v1","metadata":{"labels":{"a":"1e-99999"}}}`:                       true,
		`{"kind":"PersistentVolume","apiVersion":"v1","spec":{"capacity":{"storage":"1e-999999999"}}}`:  false,
		`{"kind":"PersistentVolume","apiVersion":"v1","spec":{"capacity":{"storage":1e-999999999}}}`:    false,
		`{"kind":"Pod","apiVersion":"v1"}}`:                                                             false,
		`{"kind":"Pod","apiVersion":"v1"`:                                                               false,
		`{"kind":"Pod","metadata":{},"apiVersion":"v1"}`:                                                false,
	} {
		if _, object := c.usual([]byte(text)); (object != nil) != want {
			t.Errorf("%s: read: %t", text, object != nil)
		}
		same(t, resourceOf(Pods), []byte(text))
	}
	deep := `{"kind":"Pod","apiVersion":"v1","x":` + string(bytes.Repeat([]byte("["), MaxDepth)) + string(bytes.Repeat([]byte("]"), MaxDepth)) + `}`
	if _, object := c.usual([]byte(deep)); object != nil {
		t.Error("read however deep it is")
	}
	wide := `{"kind":"Pod","apiVersion":"v1","x":[1` + string(bytes.Repeat([]byte(",1"), MaxValues)) + `]}`
	if _, object := c.usual([]byte(wide)); object != nil {
		t.Error("read however much is in it")
	}
}
