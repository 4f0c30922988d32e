package cluster

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// streams answers watches as an API server does that cannot stream lists: it
// keeps each open, and sends what a test tells it.
type streams struct {
	mu   sync.Mutex
	open map[string]chan string
	// refuse, by path, is the status that a watch gets instead.
	refuse map[string]int
	opened int
}

func (s *streams) answer(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Query().Get("watch") == "" {
		return false
	}
	status := func(code int, reason metav1.StatusReason) bool {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: reason, Code: int32(code), Message: "not here"})
		return true
	}
	s.mu.Lock()
	code := s.refuse[r.URL.Path]
	s.mu.Unlock()
	switch {
	case code == http.StatusForbidden:
		return status(code, metav1.StatusReasonForbidden)
	case r.URL.Query().Get("sendInitialEvents") != "":
		return status(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
	}
	events := make(chan string)
	s.mu.Lock()
	s.open[r.URL.Path] = events
	s.opened++
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	for {
		select {
		case <-r.Context().Done():
			return true
		case event, ok := <-events:
			if !ok {
				return true
			}
			_, _ = w.Write([]byte(event + "\n"))
			w.(http.Flusher).Flush()
		}
	}
}

func (s *streams) stream(path string) chan string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[path]
}

func (a *api) streams() *streams {
	s := &streams{open: map[string]chan string{}, refuse: map[string]int{}}
	a.raw = s.answer
	return s
}

func begin(t *testing.T, a *api, options Options) *Watch {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w, err := a.cluster(options).Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); w.Wait() })
	until(t, w, "every kind is read", func(*snapshot.Snapshot) bool { return w.Began() })
	return w
}

// until waits for what a watch brings.
func until(t *testing.T, w *Watch, what string, holds func(*snapshot.Snapshot) bool) *snapshot.Snapshot {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		s, err := w.Snapshot(nil)
		if err != nil {
			t.Fatal(err)
		}
		if holds(s) {
			return s
		}
		select {
		case <-w.Changed():
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			t.Fatalf("never: %s; gaps %v", what, s.Gaps)
		}
	}
}

func event(t *testing.T, kind string, object any) string {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"type": kind, "object": object})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func webPod(version string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "shop", ResourceVersion: version},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "web", Args: []string{"--password=x"}}},
			Volumes:    []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}},
		},
	}
}

const podsPath = "/api/v1/pods"

// TestWatch: each kind is listed once, and what a watch brings is in the next
// snapshot, trimmed.
func TestWatch(t *testing.T) {
	a := newAPI(t)
	a.noProtobuf = true
	s := a.streams()
	a.serve(podsPath, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "10"}})
	w := begin(t, a, Options{})
	first := until(t, w, "no gap", func(s *snapshot.Snapshot) bool { return len(s.Gaps) == 0 })
	if len(first.Pods) != 0 || first.Source.ServerVersion != "v1.36.3" {
		t.Errorf("%d pods, release %q", len(first.Pods), first.Source.ServerVersion)
	}
	if first.TakenAt.Before(serverTime) || first.TakenAt.After(serverTime.Add(time.Hour)) {
		t.Errorf("taken at %s, which is not by the API server's clock", first.TakenAt)
	}
	until(t, w, "a stream of pods", func(*snapshot.Snapshot) bool { return s.stream(podsPath) != nil })
	s.stream(podsPath) <- event(t, "ADDED", webPod("11"))
	got := until(t, w, "the pod", func(s *snapshot.Snapshot) bool { return len(s.Pods) == 1 })
	if args := got.Pods[0].Spec.Containers[0].Args; args != nil {
		t.Errorf("a pod came untrimmed: %v", args)
	}
	s.stream(podsPath) <- event(t, "DELETED", webPod("12"))
	until(t, w, "no pod", func(s *snapshot.Snapshot) bool { return len(s.Pods) == 0 })

	// A stream that ends, as each does after some minutes, is taken up where it
	// was: nothing is read again, and there is no gap.
	before := s.stream(podsPath)
	close(before)
	until(t, w, "another stream", func(now *snapshot.Snapshot) bool {
		if len(now.Gaps) > 0 {
			t.Fatalf("a gap: %v", now.Gaps)
		}
		return s.stream(podsPath) != before
	})
	lists := slices.DeleteFunc(a.to(podsPath), func(r request) bool { return len(r.query["watch"]) > 0 })
	if len(lists) != 1 {
		t.Errorf("pods were listed %d times", len(lists))
	}
	if err := w.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestWatchBreaks: what is not followed is a gap, until it is read again.
func TestWatchBreaks(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.noProtobuf = true
	s := a.streams()
	a.serve(podsPath, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "10"}, Items: []corev1.Pod{*webPod("9")}})
	w := begin(t, a, Options{})
	until(t, w, "the pod and its stream", func(now *snapshot.Snapshot) bool { return len(now.Pods) == 1 && s.stream(podsPath) != nil })

	a.mu.Lock()
	down := true
	a.raw = func(rw http.ResponseWriter, r *http.Request) bool {
		a.mu.Lock()
		now := down
		a.mu.Unlock()
		if now && r.URL.Path == podsPath {
			rw.Header().Set("Content-Type", "application/json")
			rw.Header().Set("Retry-After", "0")
			rw.WriteHeader(http.StatusInternalServerError)
			_, _ = rw.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500,"message":"starting"}`))
			return true
		}
		return s.answer(rw, r)
	}
	a.mu.Unlock()
	close(s.stream(podsPath))
	broken := until(t, w, "a gap of the pods", func(s *snapshot.Snapshot) bool { return !s.Complete(snapshot.Pods) })
	if g := broken.Gaps; len(g) != 1 || g[0].Reason != snapshot.ReasonUnavailable || g[0].Detail == "" {
		t.Errorf("gaps %+v", g)
	}
	a.mu.Lock()
	down = false
	a.mu.Unlock()
	a.serve(podsPath, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "20"}})
	until(t, w, "the list as it is now", func(s *snapshot.Snapshot) bool { return len(s.Gaps) == 0 && len(s.Pods) == 0 })

	// An API server that says nothing makes everything a gap.
	silent, err := w.Snapshot(context.DeadlineExceeded)
	if err != nil {
		t.Fatal(err)
	}
	if len(silent.Gaps) != len(snapshot.Kinds()) {
		t.Errorf("gaps %v", silent.Gaps)
	}
}

// TestWatchRefused: who may not watch is told so, once, and asks no more.
func TestWatchRefused(t *testing.T) {
	a := newAPI(t)
	a.noProtobuf = true
	s := a.streams()
	s.refuse[podsPath] = http.StatusForbidden
	s.refuse["/apis/storage.k8s.io/v1/csinodes"] = http.StatusForbidden
	a.serve("/api/v1/namespaces/shop/pods", &corev1.PodList{Items: []corev1.Pod{*webPod("9")}})
	w := begin(t, a, Options{Namespace: "shop"})
	got := until(t, w, "the pods of the namespace", func(s *snapshot.Snapshot) bool {
		return s.Pod(types.NamespacedName{Namespace: "shop", Name: "web-0"}) != nil && len(s.Gaps) == 2
	})
	for i, want := range []snapshot.Gap{{Kind: snapshot.CSINodes}, {Kind: snapshot.Pods, Namespace: "shop"}} {
		if g := got.Gaps[i]; g.Kind != want.Kind || g.Namespace != want.Namespace || g.Reason != snapshot.ReasonForbidden {
			t.Errorf("gap %+v, want %+v", g, want)
		}
	}
	if n := len(a.to("/apis/storage.k8s.io/v1/csinodes")); n > 2 {
		t.Errorf("%d requests for what was refused", n)
	}
}

// TestBegan: the first report waits for a kind until it has been read once, or until there
// is nothing left to try. Who may list a kind but not watch it is not followed in the
// fallback either.
func TestBegan(t *testing.T) {
	no := forbidden("leases")
	for _, test := range []struct {
		what string
		f    *following
		want bool
	}{
		{"nothing has been tried", &following{fallback: "kube-system"}, false},
		{"it is read", &following{fallback: "kube-system", read: true, allowed: true}, true},
		{"refused; the namespace is next", &following{fallback: "kube-system", tried: true, failed: no}, false},
		{"refused, and there is no namespace to try", &following{tried: true, failed: no}, true},
		{"refused in the namespace, too", &following{fallback: "kube-system", within: "kube-system", tried: true, failed: no}, true},
		{"listed, and the watch refused", &following{fallback: "kube-system", tried: true, allowed: true, failed: no}, true},
	} {
		if got := test.f.began(); got != test.want {
			t.Errorf("%s: %v", test.what, got)
		}
	}
}

// TestWatchLeases: a renewal alone wakes nobody, and is in the next snapshot.
func TestWatchLeases(t *testing.T) {
	at := metav1.NewMicroTime(serverTime)
	later := metav1.NewMicroTime(serverTime.Add(10 * time.Second))
	lease := func(holder string, renewed *metav1.MicroTime) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: "n1", Namespace: corev1.NamespaceNodeLease, UID: "u"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: renewed},
		}
	}
	woken := 0
	chosen := func(facts.PodNeeds) choice[*coordinationv1.Lease] {
		return choice[*coordinationv1.Lease]{keep: keepLease}
	}
	s := newStore(chosen, func() { woken++ }, func() {})
	s.same = sameHolder
	other := lease("x", &at)
	other.Namespace = "shop"
	for _, step := range []struct {
		what  string
		do    func() error
		woken int
	}{
		{"a new one", func() error { return s.Add(lease("a", &at)) }, 1},
		{"its renewal", func() error { return s.Update(lease("a", &later)) }, 1},
		{"another holder", func() error { return s.Update(lease("b", &later)) }, 2},
		{"one that nobody looks at", func() error { return s.Add(other) }, 2},
		{"its end", func() error { return s.Delete(lease("b", &later)) }, 3},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if woken != step.woken {
			t.Errorf("%s: woken %d times, want %d", step.what, woken, step.woken)
		}
		for _, l := range s.objects.Items() {
			if step.what == "its renewal" && !l.Spec.RenewTime.Equal(&later) {
				t.Errorf("%s is not kept", step.what)
			}
		}
	}
	if len(s.objects.Items()) > 0 {
		t.Errorf("left: %v", s.objects.Items())
	}
}

// TestTicking: the API server's clock goes on between its answers, and does not
// jump because a date has no fractions.
func TestTicking(t *testing.T) {
	var c ticking
	if !c.read().IsZero() {
		t.Error("a time before any answer")
	}
	c.see(serverTime)
	if d := c.read().Sub(serverTime); d < 0 || d > time.Minute {
		t.Errorf("%s after the answer", d)
	}
	before := c.read()
	c.see(serverTime) // the same second once more
	if c.read().Before(before) {
		t.Error("the clock went back")
	}
	c.see(serverTime.Add(time.Hour)) // the machine slept
	if c.read().Before(serverTime.Add(time.Hour)) {
		t.Error("the clock did not follow")
	}
}
