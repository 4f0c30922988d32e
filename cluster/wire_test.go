package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/intern"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/trim"
)

// filler fills objects at random, as the API machinery's own round trips do.
func filler(seed int64) interface{ Fill(any) } {
	codecs := serializer.NewCodecFactory(scheme.Scheme)
	return fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(seed), codecs)
}

type marshaler interface {
	Marshal() ([]byte, error)
}

// bothWays decodes raw bytes in both ways: as the typed client does and as the
// reading does. It gives what comes out of each, trimmed.
func bothWays[T any, P interface {
	*T
	object
}](kind snapshot.Kind, raw []byte) (typed, ours P, err error) {
	typed = P(new(T))
	if err := typed.Unmarshal(raw); err != nil {
		return nil, nil, err
	}
	trim.Object(typed)
	pages := &pages[T, P]{Cluster: &Cluster{}, kind: kind, sharer: intern.New()}
	// What was read before must not shine through: the second of two is looked at.
	for range 2 {
		if err := pages.take(slices.Clone(raw)); err != nil {
			return nil, nil, fmt.Errorf("the typed decoder reads it: %w", err)
		}
	}
	return typed, pages.kept[1], nil
}

func asJSON(t testing.TB, value any) string {
	text, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func checkKind[T any, P interface {
	*T
	object
	marshaler
}](t *testing.T, kind snapshot.Kind) {
	t.Helper()
	for seed := range int64(200) {
		o := P(new(T))
		filler(seed).Fill(o)
		raw, err := o.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		typed, ours, err := bothWays[T, P](kind, raw)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(asJSON(t, typed), asJSON(t, ours)); diff != "" {
			t.Fatalf("%s, seed %d:\n%s", kind, seed, diff)
		}
	}
}

// TestDecodingBothWays: memory that is used again, and values that are shared, change
// nothing of what decoding and trimming gives.
func TestDecodingBothWays(t *testing.T) {
	checkKind[corev1.Pod](t, snapshot.Pods)
	checkKind[corev1.Node](t, snapshot.Nodes)
	checkKind[corev1.PersistentVolume](t, snapshot.Volumes)
	checkKind[corev1.PersistentVolumeClaim](t, snapshot.Claims)
	checkKind[corev1.Event](t, snapshot.Events)
	checkKind[storagev1.VolumeAttachment](t, snapshot.VolumeAttachments)
	checkKind[storagev1.CSINode](t, snapshot.CSINodes)
	checkKind[storagev1.CSIDriver](t, snapshot.CSIDrivers)
	checkKind[storagev1.StorageClass](t, snapshot.StorageClasses)
	checkKind[coordinationv1.Lease](t, snapshot.Leases)
}

// peeked is what is asked of a pod before it is decoded.
func peeked(pod *corev1.Pod) string {
	text := fmt.Sprintln(pod.Namespace, pod.Name, pod.Spec.NodeName, pod.Status.Phase, pod.Status.Reason)
	for _, c := range pod.Spec.Containers {
		text += fmt.Sprintln(c.Name, c.Image)
	}
	for _, v := range pod.Spec.Volumes {
		path := ""
		if v.HostPath != nil {
			path = v.HostPath.Path
		}
		text += fmt.Sprintln(v.HostPath != nil, path, v.EmptyDir != nil, v.GitRepo != nil, v.Secret != nil, v.DownwardAPI != nil,
			v.ConfigMap != nil, v.Projected != nil, v.Image != nil)
	}
	return text
}

func checkPeek(t *testing.T, peek func([]byte) (*corev1.Pod, bool), raw []byte, pod *corev1.Pod) {
	t.Helper()
	got, ok := peek(raw)
	if !ok {
		t.Fatal("could not be read")
	}
	if diff := cmp.Diff(peeked(pod), peeked(got)); diff != "" {
		t.Fatal(diff)
	}
	if ofUse := facts.NeedsOf(&snapshot.Objects{}).OfUse; ofUse(pod) != ofUse(got) {
		t.Fatalf("of use: %v, and with a peek %v", ofUse(pod), ofUse(got))
	}
}

// TestPeek uses one partialDecoder, as a reading does: nothing of a pod shows in the next.
func TestPeek(t *testing.T) {
	peek := new(podPeeker).peek
	for seed := range int64(500) {
		pod := &corev1.Pod{}
		filler(seed).Fill(pod)
		for i := range pod.Spec.Volumes {
			filler(seed + int64(i)).Fill(&pod.Spec.Volumes[i].VolumeSource)
		}
		raw, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		decoded := &corev1.Pod{}
		if err := decoded.Unmarshal(raw); err != nil {
			t.Fatal(err)
		}
		checkPeek(t, peek, raw, decoded)
	}
}

// FuzzPod: both ways agree on whatever the typed decoder takes.
func FuzzPod(f *testing.F) {
	for seed := range int64(5) {
		pod := &corev1.Pod{}
		filler(seed).Fill(pod)
		raw, err := pod.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	peek := new(podPeeker).peek
	f.Fuzz(func(t *testing.T, raw []byte) {
		decoded := &corev1.Pod{}
		if decoded.Unmarshal(raw) != nil {
			return
		}
		if _, ok := peek(raw); ok {
			checkPeek(t, peek, raw, decoded)
		}
		typed, ours, err := bothWays[corev1.Pod](snapshot.Pods, raw)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(asJSON(t, typed), asJSON(t, ours)); diff != "" {
			t.Fatal(diff)
		}
	})
}

func encodedList(t testing.TB, list runtime.Object) []byte {
	var b bytes.Buffer
	encoder := scheme.Codecs.EncoderForVersion(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), groupVersion(list))
	if err := encoder.Encode(list, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestListCutOff: a list that ends anywhere before its end is an error, never a
// shorter list.
func TestListCutOff(t *testing.T) {
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "next"}, Items: []corev1.Pod{pod("a"), pod("b"), pod("c")}}
	whole := encodedList(t, list)
	read := func(text []byte) (names []string, about metav1.ListMeta, err error) {
		about, err = listPage(iotest.OneByteReader(bytes.NewReader(text)), corev1.SchemeGroupVersion.WithKind("PodList"), func(raw []byte) error {
			p := &corev1.Pod{}
			defer clear(raw) // nobody may keep them
			if err := p.Unmarshal(raw); err != nil {
				return err
			}
			names = append(names, p.Name)
			return nil
		}, nil)
		return names, about, err
	}
	names, about, err := read(whole)
	if err != nil || !slices.Equal(names, []string{"a", "b", "c"}) || about.Continue != "next" || about.ResourceVersion != "7" {
		t.Fatalf("%v, %+v, %v", names, about, err)
	}
	// What stands behind the objects are two empty fields of the envelope.
	raw, err := list.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	end := bytes.Index(whole, raw) + len(raw)
	for n := range end {
		if names, _, err := read(whole[:n]); err == nil {
			t.Fatalf("%d of %d bytes: %v", n, len(whole), names)
		}
	}
	empty := encodedList(t, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}})
	if names, about, err := read(empty); err != nil || len(names) != 0 || about.ResourceVersion != "7" {
		t.Errorf("an empty list: %v, %+v, %v", names, about, err)
	}
}

// TestCutConnection: once it is read again, twice it is a gap.
func TestCutConnection(t *testing.T) {
	for i, cuts := range []int{1, 1, 2, 2} {
		gaps := cuts - 1
		var spool *snapshot.Spool
		if i%2 > 0 {
			spool = &snapshot.Spool{}
		}
		a := newAPI(t)
		left := cuts
		a.raw = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/api/v1/pods" {
				return false
			}
			whole := encodedList(t, &corev1.PodList{Items: []corev1.Pod{pod("a"), pod("b")}})
			w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
			w.Header().Set("Content-Length", fmt.Sprint(len(whole)))
			if left > 0 {
				left--
				whole = whole[:len(whole)-40]
			}
			_, _ = w.Write(whole)
			return true
		}
		s := throughFile(t, a.cluster(Options{All: spool != nil, Spool: spool}), spool)
		if len(s.Gaps) != gaps || gaps == 0 && len(s.Pods) != 2 || gaps > 0 && s.Gaps[0].Kind != snapshot.Pods {
			t.Errorf("%d cuts: %d pods, gaps %+v", cuts, len(s.Pods), s.Gaps)
		}
	}
}

// TestJSON: an API server, or what stands before it, that sends no protobuf.
func TestJSON(t *testing.T) {
	a := newAPI(t)
	a.noProtobuf = true
	a.handlers["/api/v1/pods"] = paged(7, func(int) bool { return false })
	s, err := a.cluster(Options{PageSize: 2}).Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Pods) != 7 || len(s.Gaps) != 0 || s.Pods[0].Spec.Containers[0].Args != nil {
		t.Errorf("%d pods, gaps %+v", len(s.Pods), s.Gaps)
	}
}

// TestPodsOfNoUse are read and let go, unless somebody asks for them.
func TestPodsOfNoUse(t *testing.T) {
	plain := pod("plain")
	plain.Spec.Volumes = []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	for name, test := range map[string]struct {
		asked func(*corev1.Pod) bool
		want  int
	}{
		"nobody asks": {nil, 1},
		"for another": {func(pod *corev1.Pod) bool { return pod.Name == "another" }, 1},
		"for it":      {func(pod *corev1.Pod) bool { return pod.Namespace == "shop" && pod.Name == "plain" }, 2},
	} {
		a := newAPI(t)
		a.serve("/api/v1/pods", &corev1.PodList{Items: []corev1.Pod{pod("a"), plain}})
		read := 0
		c := a.cluster(Options{Asked: test.asked, Progress: func(kind snapshot.Kind, n int) {
			if kind == snapshot.Pods {
				read = n
			}
		}})
		s, err := c.Snapshot(t.Context())
		if err != nil || len(s.Pods) != test.want || len(s.Gaps) != 0 || read != 2 {
			t.Errorf("%s: %d pods of %d, %+v, %v", name, len(s.Pods), read, s, err)
		}
		if test.want == 2 && len(s.Pods[1].Spec.Volumes) != 1 {
			t.Errorf("%s: a pod that is asked about lacks what the others are kept without: %+v", name, s.Pods[1].Spec)
		}
		for _, r := range a.to("/api/v1/pods") {
			if r.query["limit"] != nil {
				t.Errorf("a limit that nobody gave: %v", r.query)
			}
		}
	}
}

// TestListsOverHTTP1: lists come over HTTP/1.1, all else over what the API server
// prefers.
func TestListsOverHTTP1(t *testing.T) {
	a := newAPI(t)
	var mu sync.Mutex
	spoken := map[string]string{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		spoken[r.URL.Path] = r.Proto
		mu.Unlock()
		a.ServeHTTP(w, r)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	c, err := New(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(spoken) < 10 {
		t.Fatalf("%v", spoken)
	}
	for path, protocol := range spoken {
		want := "HTTP/1.1"
		if path == "/version" {
			want = "HTTP/2.0"
		}
		if protocol != want {
			t.Errorf("%s over %s, not %s", path, protocol, want)
		}
	}
}
