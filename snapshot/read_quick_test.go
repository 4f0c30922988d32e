package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/randfill"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/trim"
)

// same says that the quick decoder has read nothing that the general one would not read,
// or would read otherwise. It is false where the quick one has left the object.
func same(t *testing.T, q *quickDecoders, s *row, raw []byte) bool {
	t.Helper()
	quick := q.decode(s, raw, firstLook{})
	if quick == nil {
		return false
	}
	general, strict, err := s.decode(raw)
	if err != nil || len(strict) > 0 {
		t.Fatalf("%s: %v %v: %s", s.Object, err, strict, raw)
	}
	if a, b := newestTime(quick), newestTime(general); a != b {
		t.Fatalf("%s: %v, %v: %s", s.Object, a, b, raw)
	}
	if pod, ok := general.(*corev1.Pod); ok {
		seenAlike(t, q, s, raw, pod)
	}
	trim.Object(quick)
	trim.Object(general)
	if diff := cmp.Diff(written(t, of(s, general)), written(t, of(s, quick))); diff != "" {
		t.Fatalf("%s: -general +quick: %s", s.Object, diff)
	}
	if !reflect.DeepEqual(quick, general) {
		t.Fatalf("%s: %s: %s", s.Object, cmp.Diff(general, quick), raw)
	}
	return true
}

// seenByAll is the pod of all first looks: what one leaves must not show in the next.
var seenByAll corev1.Pod

// seenAlike says that the first look at a pod shows of what decides and is noted what the
// pod has.
func seenAlike(t *testing.T, q *quickDecoders, s *row, raw []byte, pod *corev1.Pod) {
	t.Helper()
	none := func(*corev1.Pod) bool { return false }
	again, ok := q.decode(s, raw, firstLook{none, &seenByAll}).(*corev1.Pod)
	if !ok || again != &seenByAll {
		t.Fatalf("not looked at: %s", raw)
	}
	if diff := cmp.Diff(q.decode(s, raw, firstLook{none, new(corev1.Pod)}), apiObject(again), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("-the first pod +after another: %s: %s", diff, raw)
	}
	if a, b := newestTime(again), newestTime(pod); a != b {
		t.Fatalf("%v, %v: %s", a, b, raw)
	}
	if diff := cmp.Diff(decisive(s, pod), decisive(s, again), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("-pod +first look: %s: %s", diff, raw)
	}
}

// TestFirstLookNamespace: a pod that names no namespace is one of the default namespace before
// anybody asks whether it is kept, and is kept in full.
func TestFirstLookNamespace(t *testing.T) {
	const pod = "- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: %s\n  spec:\n    hostNetwork: true\n"
	var list strings.Builder
	for i := range 200 { // more than are decoded before the first is taken
		fmt.Fprintf(&list, pod, fmt.Sprint("p", i))
	}
	for form, text := range map[string]string{
		"YAML list": "apiVersion: v1\nitems:\n" + list.String() + "kind: List\n",
		"documents": `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"hostNetwork":true}}` + "\n---\n" +
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"},"spec":{"hostNetwork":true}}` + "\n",
	} {
		opts := ReadOptions{Now: noon, PodsOfUse: func(*Objects) func(*corev1.Pod) bool {
			return func(pod *corev1.Pod) bool { return pod.Namespace == metav1.NamespaceDefault }
		}}
		s, _, err := Read("f", strings.NewReader(text), opts)
		if err != nil {
			t.Fatalf("%s: %v", form, err)
		}
		if len(s.Pods) < 2 || slices.ContainsFunc(s.Pods, func(pod *corev1.Pod) bool { return !pod.Spec.HostNetwork }) {
			t.Errorf("%s: not all of %d pods are read in full", form, len(s.Pods))
		}
	}
}

// decisive is what ReadOptions.PodsOfUse may rest on.
func decisive(s *row, pod *corev1.Pod) []any {
	pod = pod.DeepCopy()
	setNamespace(s, pod)
	all := []any{pod.Namespace, pod.Name, pod.UID, pod.ResourceVersion, pod.Labels, pod.OwnerReferences, pod.DeletionTimestamp, pod.Spec.NodeName, pod.Status.Phase, pod.Status.Reason}
	for _, c := range pod.Spec.Containers {
		all = append(all, c.Name, c.Image)
	}
	for _, v := range pod.Spec.Volumes {
		if all = append(all, v.Name); v.HostPath != nil {
			all = append(all, v.HostPath.Path)
		}
		all = append(all, v.EmptyDir != nil, v.GitRepo != nil, v.Secret != nil, v.DownwardAPI != nil, v.ConfigMap != nil, v.Projected != nil, v.Image != nil)
	}
	return all
}

func of(s *row, object apiObject) *Snapshot {
	var o Objects
	s.add(&o, object.DeepCopyObject().(apiObject))
	return New(noon, Source{}, o, nil)
}

// TestQuickDecoder: of objects with anything in their fields the quick decoder reads what
// the general one reads.
func TestQuickDecoder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	filler := randfill.NewWithSeed(1).NilChance(0.4).NumElements(0, 3).MaxDepth(12).Funcs(
		func(f *metav1.FieldsV1, c randfill.Continue) { *f = *metav1.NewFieldsV1(`{"f:a":{"k:{\"a\":1}":{}}}`) },
		func(n *int64, c randfill.Continue) { *n = c.Int63n(2e9) - 1e9 },
		func(at *metav1.Time, c randfill.Continue) { *at = metav1.Unix(c.Int63n(4e9), 0) },
	)
	q := &quickDecoders{limits: defaultLimits}
	for _, s := range resources {
		read := 0
		for range 60 {
			object := reflect.New(reflect.TypeOf(emptyOf(s)).Elem())
			filler.Fill(object.Interface())
			raw, err := json.Marshal(object.Interface())
			if err != nil {
				continue
			}
			if same(t, q, s, raw) {
				read++
			}
			damaged := slices.Clone(raw)
			for range 20 {
				damaged[random.IntN(len(damaged))] = `{}[]:,"\0e-x n`[random.IntN(14)]
				if utf8.Valid(damaged) { // as all is that comes so far
					same(t, q, s, damaged)
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

// TestQuickLeaves: what is odd is left to the general decoder.
func TestQuickLeaves(t *testing.T) {
	q := &quickDecoders{limits: defaultLimits}
	for text, want := range map[string]bool{
		`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","creationTimestamp":"2026-11-20T10:00:00Z"}}`: true,
		` { "apiVersion" : "v1", "kind" : "Pod", "x": [1, {"a": null}] } `:                                    true,
		`{"kind":"Pod","apiVersion":"v1","items":[]}`:                                                         false,
		`{"kind":"Pod","apiVersion":"v1","kind":"Pod"}`:                                                       false,
		`{"kind":"Pod","apiVersion":"v1","metadata":{"name":1}}`:                                              false,
		`{"kind":"Pod","apiVersion":"v1","metadata":{"labels":{"a":"b","a":"b"}}}`:                            false,
		`{"kind":"Pod","apiVersion":"v1","spec":{"containers":[{"env":[{"name":1}]}]}}`:                       false,
		`{"kind":"Pod","apiVersion":"v1","spec":{"containers":[{"env":[],"env":[]}]}}`:                        false,
		`{"kind":"Pod","apiVersion":"v1","spec":{"containers":[{"resources":{"limits":{"cpu":"x"}}}]}}`:       false,
		`{"kind":"Pod","apiVersion":"v1","metadata":{"labels":{"a":"1e-99999"}}}`:                             false,
		`{"kind":"Pod","apiVersion":"v1"}}`:                                                                   false,
		`{"kind":"Pod","apiVersion":"v1"`:                                                                     false,
		`{"kind":"Pod","metadata":{},"apiVersion":"v1"}`:                                                      false,
	} {
		if _, object := q.typed([]byte(text), firstLook{}); (object != nil) != want {
			t.Errorf("%s: read: %t", text, object != nil)
		}
		same(t, q, resourceOf(Pods), []byte(text))
	}
	deep := `{"kind":"Pod","apiVersion":"v1","x":` + string(bytes.Repeat([]byte("["), MaxDepth)) + string(bytes.Repeat([]byte("]"), MaxDepth)) + `}`
	if _, object := q.typed([]byte(deep), firstLook{}); object != nil {
		t.Error("read however deep it is")
	}
	wide := `{"kind":"Pod","apiVersion":"v1","x":[1` + string(bytes.Repeat([]byte(",1"), MaxValues)) + `]}`
	if _, object := q.typed([]byte(wide), firstLook{}); object != nil {
		t.Error("read however much is in it")
	}
}
