package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

func podsNamed(names ...string) *corev1.PodList {
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
	for _, name := range names {
		list.Items = append(list.Items, pod(name))
	}
	return list
}

func with(list *corev1.PodList, change func(*corev1.PodList)) *corev1.PodList {
	change(list)
	return list
}

// TestForeignPages: a page that is not what was asked for leaves a gap that says so,
// in protobuf and in JSON. Each of them would otherwise be a shorter list, or one of
// other objects.
func TestForeignPages(t *testing.T) {
	remaining := int64(3)
	forever := func(r *http.Request) (int, runtime.Object) {
		from := r.URL.Query().Get("continue")
		return http.StatusOK, with(podsNamed("p"+from), func(l *corev1.PodList) { l.Continue = from + "x" })
	}
	for name, test := range map[string]struct {
		pages func(*http.Request) (int, runtime.Object)
		want  string
	}{
		"another kind":   {page(&corev1.NodeList{Items: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}}), "a NodeList of v1 in place of a PodList of v1"},
		"an empty one":   {page(&corev1.NodeList{}), "a NodeList of v1 in place of a PodList of v1"},
		"one object":     {page(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}), "a Pod of v1 in place of a PodList of v1"},
		"a Status":       {page(&metav1.Status{Status: metav1.StatusSuccess}), "a Status of v1 in place of a PodList of v1"},
		"a generic List": {page(&corev1.List{}), "a List of v1 in place of a PodList of v1"},
		"nameless":       {page(podsNamed("a", "")), "an object of the list has no name"},
		"no namespace":   {page(with(podsNamed("a"), func(l *corev1.PodList) { l.Items[0].Namespace = "" })), `"a" in the list has no namespace`},
		"twice":          {page(podsNamed("a", "b", "a")), `"shop/a" comes twice in the list`},
		"in two pages": {func(r *http.Request) (int, runtime.Object) {
			if r.URL.Query().Get("continue") == "" {
				return http.StatusOK, with(podsNamed("a", "b"), func(l *corev1.PodList) { l.Continue = "x" })
			}
			return http.StatusOK, podsNamed("b", "c")
		}, `"shop/b" comes twice in the list`},
		"an early end": {page(with(podsNamed("a"), func(l *corev1.PodList) { l.RemainingItemCount = &remaining })), "the list ends although 3 objects remain"},
		"another version": {func(r *http.Request) (int, runtime.Object) {
			if r.URL.Query().Get("continue") == "" {
				return http.StatusOK, with(podsNamed("a"), func(l *corev1.PodList) { l.Continue = "x" })
			}
			return http.StatusOK, with(podsNamed("b"), func(l *corev1.PodList) { l.ResourceVersion = "8" })
		}, `one page of the list is of version "7", and the next one of version "8"`},
		"the same token": {func(r *http.Request) (int, runtime.Object) {
			return http.StatusOK, with(podsNamed("a"+r.URL.Query().Get("continue")), func(l *corev1.PodList) { l.Continue = "x" })
		}, `comes twice in the list|the list repeats a continue token`},
		"empty pages for ever": {func(r *http.Request) (int, runtime.Object) {
			code, list := forever(r)
			list.(*corev1.PodList).Items = nil
			return code, list
		}, "101 pages of the list have no object and promise more"},
		"empty pages, one token": {page(with(podsNamed(), func(l *corev1.PodList) { l.Continue = "x" })), "the list repeats a continue token"},
	} {
		for _, noProtobuf := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, JSON %v", name, noProtobuf), func(t *testing.T) {
				a := newAPI(t)
				a.noProtobuf = noProtobuf
				a.handlers[podsPath] = test.pages
				checkRefused(t, a, test.want)
			})
		}
	}
}

func page(object runtime.Object) func(*http.Request) (int, runtime.Object) {
	return func(*http.Request) (int, runtime.Object) { return http.StatusOK, object }
}

// checkRefused asks that pods are a gap that says one of the wanted words.
func checkRefused(t *testing.T, a *api, want string) {
	t.Helper()
	s, err := a.cluster(Options{PageSize: 2, Namespace: "shop"}).Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Gaps) != 1 || s.Gaps[0].Kind != snapshot.Pods || s.Gaps[0].Reason != snapshot.ReasonUndecodable {
		t.Fatalf("gaps %+v", s.Gaps)
	}
	for text := range strings.SplitSeq(want, "|") {
		if strings.Contains(s.Gaps[0].Detail, text) {
			return
		}
	}
	t.Errorf("%q does not say %q", s.Gaps[0].Detail, want)
}

// TestForeignPagesOfANamespace: an object of another namespace than was asked for.
func TestForeignPagesOfANamespace(t *testing.T) {
	a := newAPI(t)
	a.fail(podsPath, forbidden("pods"))
	a.serve("/api/v1/namespaces/shop/pods", with(podsNamed("a", "b"), func(l *corev1.PodList) { l.Items[1].Namespace = "other" }))
	s, err := a.cluster(Options{Namespace: "shop"}).Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The namespace does not count as read.
	if len(s.Gaps) != 1 || s.Gaps[0].Namespace != "" {
		t.Errorf("gaps %+v", s.Gaps)
	}
}

// TestForeignJSON: what only JSON can say wrong.
func TestForeignJSON(t *testing.T) {
	item := `{"metadata":{"namespace":"shop","name":"a"}}`
	for name, test := range map[string]struct{ text, want string }{
		"a null item":           {`{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[` + item + `,null]}`, "has no name"},
		"an item of a kind":     {`{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"kind":"Node","apiVersion":"v1","metadata":{"namespace":"shop","name":"a"}}]}`, "a Node of v1 in place of a Pod of v1"},
		"items twice":           {`{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[` + item + `],"items":[]}`, "duplicate field"},
		"an item's name twice":  {`{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"namespace":"shop","name":"a","name":"b"}}]}`, "duplicate field"},
		"no items":              {`{"kind":"PodList","apiVersion":"v1","metadata":{}}`, "without items"},
		"no metadata":           {`{"kind":"PodList","apiVersion":"v1","items":[]}`, "without metadata"},
		"another version":       {`{"kind":"PodList","apiVersion":"v2","metadata":{},"items":[]}`, "a PodList of v2 in place of a PodList of v1"},
		"a Table":               {`{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[],"rows":[]}`, "a Table of meta.k8s.io/v1 in place of"},
		"names alone":           {`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[]}`, "a PartialObjectMetadataList of"},
		"items that are a map":  {`{"kind":"PodList","apiVersion":"v1","metadata":{},"items":{"a":` + item + `}}`, "the items are no list"},
		"an object of no kind":  {`{"metadata":{},"items":[]}`, "an object without a kind"},
		"a login page":          {`<html>Log in</html>`, "not a list"},
		"something after it":    {`{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}{}`, "not a list"},
		"a field of wrong type": {`{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"namespace":"shop","name":7}}]}`, "cannot be decoded"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t)
			a.raw = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != podsPath {
					return false
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(test.text))
				return true
			}
			checkRefused(t, a, test.want)
		})
	}
}

// TestNullItems: an API server may write an empty list so.
func TestNullItems(t *testing.T) {
	a := newAPI(t)
	a.raw = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != podsPath {
			return false
		}
		_, _ = w.Write([]byte(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":null}`))
		return true
	}
	if s, err := a.cluster(Options{}).Snapshot(t.Context()); err != nil || len(s.Gaps) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestDamagedPodIsNotDropped: a pod of no use that the decoder refuses makes a gap.
func TestDamagedPodIsNotDropped(t *testing.T) {
	plain := pod("plain")
	plain.Spec.Volumes = nil
	plain.Spec.RestartPolicy = "a-policy"
	whole := encodedList(t, &corev1.PodList{Items: []corev1.Pod{pod("a"), plain}})
	at := strings.Index(string(whole), "a-policy")
	whole[at-2] ^= 1 // the wire type of the field
	a := newAPI(t)
	a.raw = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != podsPath {
			return false
		}
		_, _ = w.Write(whole)
		return true
	}
	checkRefused(t, a, "cannot be decoded")
}

// TestUnsortedPages: a list need not be sorted, and a page may be read twice.
func TestUnsortedPages(t *testing.T) {
	a := newAPI(t)
	var cut atomic.Bool
	a.raw = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != podsPath || r.URL.Query().Get("continue") == "" || !cut.CompareAndSwap(false, true) {
			return false
		}
		panic(http.ErrAbortHandler)
	}
	a.handlers[podsPath] = func(r *http.Request) (int, runtime.Object) {
		if r.URL.Query().Get("continue") == "" {
			return http.StatusOK, with(podsNamed("c", "a"), func(l *corev1.PodList) { l.Continue = "x" })
		}
		return http.StatusOK, podsNamed("b", "d")
	}
	s, err := a.cluster(Options{}).Snapshot(t.Context())
	if err != nil || len(s.Pods) != 4 || len(s.Gaps) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestForbiddenForAWhile: an API server that has just started refuses what it will
// allow in a second. Whichever kind it refuses, and however often, nothing is
// complete by that.
func TestForbiddenForAWhile(t *testing.T) {
	paths := map[snapshot.Kind]string{}
	for _, p := range Reads() {
		paths[snapshot.Kind(p.Resource)] = "/apis/" + p.Group + "/v1/" + p.Resource
		if p.Group == "" {
			paths[snapshot.Kind(p.Resource)] = "/api/v1/" + p.Resource
		}
	}
	for refused := 1; refused <= len(paths); refused++ {
		a := newAPI(t)
		var mu sync.Mutex
		left, kinds := refused, map[string]bool{}
		a.raw = func(w http.ResponseWriter, r *http.Request) bool {
			mu.Lock()
			defer mu.Unlock()
			if left == 0 {
				return false
			}
			left--
			kinds[r.URL.Path] = true
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(forbidden("it").ErrStatus)
			return true
		}
		s, err := a.cluster(Options{All: true}).Snapshot(t.Context())
		if err != nil {
			continue // nothing could be read
		}
		for kind, path := range paths {
			if s.Complete(kind) == kinds[path] {
				t.Errorf("the first %d requests refused: %s complete: %v", refused, kind, s.Complete(kind))
			}
		}
	}
}

// TestVersionIsAskedAgain: an API server that has just started may refuse that, too,
// and the model is of a release.
func TestVersionIsAskedAgain(t *testing.T) {
	a := newAPI(t)
	var refused atomic.Bool
	a.handlers["/version"] = func(*http.Request) (int, runtime.Object) {
		return http.StatusForbidden, &forbidden("version").ErrStatus
	}
	a.raw = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/version" || refused.CompareAndSwap(false, true) {
			return false
		}
		_, _ = w.Write([]byte(`{"gitVersion":"v1.36.3"}`))
		return true
	}
	s, err := a.cluster(Options{}).Snapshot(t.Context())
	if err != nil || s.Source.ServerVersion != "v1.36.3" {
		t.Errorf("%+v, %v", s, err)
	}
}
