package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/trim"
)

// answer is what an API server says to one request.
type answer struct {
	status    int
	mediaType string
	body      []byte
}

// answers is an API server without a network: the answers by path. The one for
// changed is said in place of its own.
type answers struct {
	byPath  map[string]answer
	changed map[string]answer
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	said, ok := a.changed[r.URL.Path]
	if !ok {
		said, ok = a.byPath[r.URL.Path]
	}
	if !ok {
		return nil, fmt.Errorf("nobody serves %s", r.URL.Path)
	}
	if r.URL.Query().Get("continue") != "" {
		said = answer{http.StatusGone, runtime.ContentTypeJSON, []byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`)}
	}
	return &http.Response{
		StatusCode: said.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r, ContentLength: int64(len(said.body)),
		Header: http.Header{"Content-Type": {said.mediaType}, "Date": {serverTime.Format(http.TimeFormat)}},
		Body:   io.NopCloser(bytes.NewReader(said.body)),
	}, nil
}

// emptyAnswers are a cluster without an object.
func emptyAnswers(t testing.TB) *answers {
	a := &answers{byPath: map[string]answer{"/version": {http.StatusOK, runtime.ContentTypeJSON, []byte(`{"gitVersion":"v1.36.3"}`)}}}
	for path, list := range emptyLists {
		a.byPath[path] = answer{http.StatusOK, runtime.ContentTypeProtobuf, encoded(t, list)}
	}
	return a
}

func (a *answers) cluster(t testing.TB, options Options) *Cluster {
	c, err := New(&rest.Config{Host: "http://api.test", WrapTransport: func(http.RoundTripper) http.RoundTripper { return a }}, options)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// protoList is a list that its generated code decodes.
type protoList interface {
	runtime.Object
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// encoded is the list in the envelope in which an API server sends it.
func encoded(t testing.TB, list runtime.Object) []byte {
	raw, err := list.(protoList).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return enveloped(t, list, raw)
}

// enveloped is what is said to be such a list.
func enveloped(t testing.TB, list runtime.Object, raw []byte) []byte {
	kinds, _, err := scheme.Scheme.ObjectKinds(list)
	if err != nil {
		t.Fatal(err)
	}
	typed := runtime.TypeMeta{APIVersion: kinds[0].GroupVersion().String(), Kind: kinds[0].Kind}
	text, err := (&runtime.Unknown{TypeMeta: typed, Raw: raw}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append(slices.Clone(envelope), text...)
}

// pageKind is a kind whose pages are fuzzed.
type pageKind struct {
	kind snapshot.Kind
	path string
	list func() protoList
	own  func(*snapshot.Snapshot) []object
}

func pageOf[L any, PL interface {
	*L
	protoList
}, P object](kind snapshot.Kind, path string, own func(*snapshot.Snapshot) []P) pageKind {
	return pageKind{kind, path, func() protoList { return PL(new(L)) }, func(s *snapshot.Snapshot) (list []object) {
		for _, o := range own(s) {
			list = append(list, o)
		}
		return list
	}}
}

var pageKinds = []pageKind{
	pageOf[corev1.PodList](snapshot.Pods, "/api/v1/pods", func(s *snapshot.Snapshot) []*corev1.Pod { return s.Pods }),
	pageOf[corev1.NodeList](snapshot.Nodes, "/api/v1/nodes", func(s *snapshot.Snapshot) []*corev1.Node { return s.Nodes }),
	pageOf[corev1.PersistentVolumeList](snapshot.Volumes, "/api/v1/persistentvolumes", func(s *snapshot.Snapshot) []*corev1.PersistentVolume { return s.Volumes }),
	pageOf[corev1.PersistentVolumeClaimList](snapshot.Claims, "/api/v1/persistentvolumeclaims", func(s *snapshot.Snapshot) []*corev1.PersistentVolumeClaim { return s.Claims }),
	pageOf[storagev1.VolumeAttachmentList](snapshot.VolumeAttachments, "/apis/storage.k8s.io/v1/volumeattachments", func(s *snapshot.Snapshot) []*storagev1.VolumeAttachment { return s.VolumeAttachments }),
	pageOf[storagev1.CSINodeList](snapshot.CSINodes, "/apis/storage.k8s.io/v1/csinodes", func(s *snapshot.Snapshot) []*storagev1.CSINode { return s.CSINodes }),
}

// realPages are the objects of a real cluster, as items in protobuf by kind. The
// last item of each kind has every field that there is.
func realPages(t testing.TB) [][][]byte {
	t.Helper()
	c, err := testcases.Load("healthy-statefulset-rolling")
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var pages [][][]byte
	for _, k := range pageKinds {
		var items [][]byte
		for _, o := range k.own(s)[:min(2, len(k.own(s)))] {
			raw, err := o.(marshaler).Marshal()
			if err != nil {
				t.Fatal(err)
			}
			items = append(items, raw)
		}
		pages = append(pages, append(items, fullItem(t, k)))
	}
	return pages
}

// fullItem is the smallest of some that are filled at random.
func fullItem(t testing.TB, k pageKind) (smallest []byte) {
	for seed := range int64(20) {
		list := k.list()
		item := metaItem(t, list)
		filler(seed).Fill(item)
		item.(metav1.Object).SetName("full")
		raw, err := item.(marshaler).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if smallest == nil || len(raw) < len(smallest) {
			smallest = raw
		}
	}
	return smallest
}

// metaItem is a new item of the list's type.
func metaItem(t testing.TB, list runtime.Object) runtime.Object {
	t.Helper()
	if err := list.(protoList).Unmarshal([]byte{listItems<<3 | 2, 0}); err != nil {
		t.Fatal(err)
	}
	items, err := meta.ExtractList(list)
	if err != nil || len(items) != 1 {
		t.Fatal(items, err)
	}
	return items[0]
}

// framed is a page with the items.
func framed(items [][]byte) (raw []byte) {
	for _, item := range items {
		raw = protowire.AppendTag(raw, listItems, protowire.BytesType)
		raw = protowire.AppendBytes(raw, item)
	}
	return raw
}

// plainName is what an API server takes for a name of any kind.
var plainName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// FuzzPage holds pages in protobuf against the generated decoder, over real
// pages with one place changed. What the decoder refuses is a gap, and nothing is
// dropped; otherwise all fields that are kept are equal.
func FuzzPage(f *testing.F) {
	pages := realPages(f)
	api := emptyAnswers(f)
	readers := map[bool]*Cluster{true: api.cluster(f, Options{All: true}), false: api.cluster(f, Options{})}
	for i := range pageKinds {
		f.Add(uint8(i), uint8(0), uint16(0), uint8(0), []byte{})
		f.Add(uint8(i), uint8(4), uint16(0), uint8(0), []byte{})
		f.Add(uint8(i), uint8(1), uint16(40), uint8(2), []byte{0xff, 0xff})
		f.Add(uint8(i), uint8(2), uint16(7), uint8(1), []byte("\x0a\x03abc"))
		f.Add(uint8(i), uint8(3), uint16(0), uint8(0), []byte{0xfa, 0x3f, 1, 'x'})
	}
	f.Fuzz(func(t *testing.T, which, how uint8, at uint16, cut uint8, insert []byte) {
		k := pageKinds[int(which)%len(pageKinds)]
		items := slices.Clone(pages[int(which)%len(pages)])
		i := int(at) % len(items)
		switch item := items[i]; how % 4 {
		case 0: // one place of an item, which keeps its length
			item = slices.Clone(item)
			copy(item[int(at)%len(item):], insert)
			items[i] = item
		case 1: // one place of an item
			from := int(at) % len(item)
			items[i] = slices.Concat(item[:from], insert, item[min(from+int(cut), len(item)):])
		case 2: // one more item
			items = slices.Insert(items, i, insert)
		}
		raw := framed(items)
		if how%4 == 3 { // one place of the list
			from := int(at) % (len(raw) + 1)
			raw = slices.Concat(raw[:from], insert, raw[min(from+int(cut), len(raw)):])
		}
		api.changed = map[string]answer{k.path: {http.StatusOK, runtime.ContentTypeProtobuf, enveloped(t, k.list(), raw)}}
		all := how&4 == 0
		checkPage(t, readers[all], k, raw, all)
	})
}

func checkPage(t *testing.T, c *Cluster, k pageKind, raw []byte, all bool) {
	t.Helper()
	s, err := c.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list := k.list()
	refused := list.Unmarshal(raw)
	if !s.Complete(k.kind) {
		if refused == nil && sound(t, list, raw) {
			t.Fatalf("%s are a gap, and nothing is wrong with them: %+v", k.kind, s.Gaps)
		}
		return
	}
	if refused != nil {
		t.Fatalf("%s are said to be whole, and the decoder refuses them: %v", k.kind, refused)
	}
	want, got := typedItems(t, k, list, all), k.own(s)
	if len(want) != len(got) {
		t.Fatalf("%d of %d %s", len(got), len(want), k.kind)
	}
	for _, o := range got {
		if text := marshalled(t, o); !slices.ContainsFunc(want, func(w object) bool { return bytes.Equal(marshalled(t, w), text) }) {
			t.Fatalf("the decoder reads other %s:\n%s\nnot\n%s", k.kind, asJSON(t, want), asJSON(t, o))
		}
	}
}

// sound reports whether an API server could have sent the list.
func sound(t *testing.T, list protoList, raw []byte) bool {
	if !bytes.Equal(marshalled(t, list), raw) {
		return false // other fields than the list has, or in another order
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, item := range items {
		o := item.(metav1.Object)
		name := o.GetNamespace() + "/" + o.GetName()
		if seen[name] || !plainName.MatchString(o.GetName()) || !plainName.MatchString(o.GetNamespace()+"x") {
			return false
		}
		seen[name] = true
	}
	about, err := meta.ListAccessor(list)
	return err == nil && about.GetContinue() == ""
}

// typedItems are the items of the list that are to be kept, trimmed.
func typedItems(t *testing.T, k pageKind, list protoList, all bool) (kept []object) {
	items, err := meta.ExtractList(list)
	if err != nil {
		t.Fatal(err)
	}
	ofUse := facts.NeedsOf(&snapshot.Objects{}).OfUse
	for _, item := range items {
		o := item.(object)
		pod, isPod := item.(*corev1.Pod)
		if isPod && !all && !ofUse(pod) {
			continue
		}
		trim.Object(o)
		kept = append(kept, o)
	}
	return kept
}

func marshalled(t *testing.T, value any) []byte {
	raw, err := value.(marshaler).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// FuzzAnswer holds answers in JSON, errors and versions against plain
// encoding/json. What is said to be whole was a list of the kind, and every item
// of it is there.
func FuzzAnswer(f *testing.F) {
	api := emptyAnswers(f)
	c := api.cluster(f, Options{All: true})
	pods := `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a","namespace":"shop"}},{"metadata":{"name":"b","namespace":"shop"}}]}`
	volumes := `{"kind":"PersistentVolumeList","apiVersion":"v1","items":[{"metadata":{"name":"pv1"},"spec":{"csi":{"driver":"d","volumeHandle":"v"}}}]}`
	attachments := `{"kind":"VolumeAttachmentList","apiVersion":"storage.k8s.io/v1","metadata":{"continue":"x"},"items":[{"kind":"VolumeAttachment","apiVersion":"storage.k8s.io/v1","metadata":{"name":"csi-1"},"spec":{"attacher":"d","source":{"persistentVolumeName":"pv1"}},"status":{"attached":true}}]}`
	f.Add(uint8(0), uint8(0), pods, `{"gitVersion":"v1.36.3"}`)
	f.Add(uint8(2), uint8(0), volumes, `{"gitVersion":"v1.20.15-eks"}`)
	f.Add(uint8(4), uint8(0), attachments, `[]`)
	f.Add(uint8(0), uint8(0), strings.Replace(pods, `{"metadata":{"name":"a","namespace":"shop"}}`, "null", 1), `{}`)
	f.Add(uint8(1), uint8(0), strings.Replace(pods, "PodList", "List", 1), `{"gitVersion":7}`)
	f.Add(uint8(1), uint8(2), `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no\n\u001b[31m","reason":"Forbidden","code":403}`, `{"gitVersion":"\u001b"}`)
	f.Add(uint8(3), uint8(3), `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","details":{"causes":[{}]},"code":410}`, ``)
	f.Add(uint8(5), uint8(4), `<html>Bad gateway`, `null`)
	statuses := []int{http.StatusOK, http.StatusNotFound, http.StatusForbidden, http.StatusGone, http.StatusInternalServerError}
	f.Fuzz(func(t *testing.T, which, status uint8, body, version string) {
		k := pageKinds[int(which)%len(pageKinds)]
		said := answer{statuses[int(status)%len(statuses)], runtime.ContentTypeJSON, []byte(body)}
		api.changed = map[string]answer{k.path: said, "/version": {http.StatusOK, runtime.ContentTypeJSON, []byte(version)}}
		s, err := c.Snapshot(t.Context())
		var info struct{ GitVersion string }
		if wrong := json.Unmarshal([]byte(version), &info); err != nil {
			if wrong == nil {
				t.Fatalf("nothing is wrong with the version: %v", err)
			}
			return
		}
		if !s.Complete(k.kind) {
			return
		}
		var list struct {
			Kind  string
			Items []struct{ Metadata struct{ Name string } }
		}
		if err := json.Unmarshal([]byte(body), &list); err != nil || said.status != http.StatusOK {
			t.Fatalf("%s are said to be whole: status %d, %v", k.kind, said.status, err)
		}
		if item := strings.TrimSuffix(list.Kind, "List"); item == list.Kind || item != "" && !strings.HasSuffix(fmt.Sprintf("%T", k.list()), "."+list.Kind) {
			t.Fatalf("%s are said to be whole, and are a %s", k.kind, list.Kind)
		}
		var want, got []string
		for _, item := range list.Items {
			want = append(want, item.Metadata.Name)
			if item.Metadata.Name == "" {
				t.Errorf("one of the %s has no name, and they are said to be whole", k.kind)
			}
		}
		for _, o := range k.own(s) {
			got = append(got, o.GetName())
		}
		slices.Sort(want)
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Fatalf("%s %q, not %q", k.kind, got, want)
		}
	})
}
