package cluster

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// plainPod matters for nothing but the needs of other objects.
func plainPod(name, version string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", UID: types.UID("of-" + name), ResourceVersion: version},
		Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "main"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func drained(version string) *corev1.Node {
	now := metav1.NewTime(serverTime)
	return &corev1.Node{
		TypeMeta:   metav1.TypeMeta{Kind: "Node", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: "n1", ResourceVersion: version, DeletionTimestamp: &now},
	}
}

func has(s *snapshot.Snapshot, name string) bool {
	return s.Pod(types.NamespacedName{Namespace: "shop", Name: name}) != nil
}

// TestPodsOfADrainedNode: pods that matter for nothing are not held. Once their node is
// being deleted they are read, and a gap until then.
func TestPodsOfADrainedNode(t *testing.T) {
	a := newAPI(t)
	s := a.streams()
	var away atomic.Bool
	a.handle(podsPath, func(r *http.Request) (int, runtime.Object) {
		list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "10"}, Items: []corev1.Pod{*plainPod("plain", "3")}}
		switch {
		case r.URL.Query().Get("fieldSelector") == "":
			list.Items = append(list.Items, *webPod("9"))
		case away.Load():
			return http.StatusForbidden, &forbidden("pods").ErrStatus
		}
		return http.StatusOK, list
	})
	w := begin(t, a, Options{})
	first := until(t, w, "the pods are followed", func(now *snapshot.Snapshot) bool { return len(now.Gaps) == 0 && s.stream(podsPath) != nil })
	if len(first.Pods) != 1 || !has(first, "web-0") {
		t.Fatalf("%d pods", len(first.Pods))
	}
	until(t, w, "a stream of nodes", func(*snapshot.Snapshot) bool { return s.stream("/api/v1/nodes") != nil })
	s.stream("/api/v1/nodes") <- event(t, "ADDED", drained("11"))
	gap := until(t, w, "a gap", func(now *snapshot.Snapshot) bool { return !now.Complete(snapshot.Pods) })
	if detail := gap.Gaps[0].Detail; !strings.Contains(detail, "of node n1") {
		t.Errorf("the gap says %q", detail)
	}
	away.Store(true)
	w.complete(t.Context())
	if now, err := w.Snapshot(nil); err != nil || now.Complete(snapshot.Pods) || has(now, "plain") || !strings.Contains(now.Gaps[0].Detail, "is forbidden: no") {
		t.Errorf("refused: %+v, %v", now.Gaps, err)
	}
	away.Store(false)
	w.complete(t.Context())
	until(t, w, "all pods of the node", func(now *snapshot.Snapshot) bool { return len(now.Gaps) == 0 && has(now, "plain") && has(now, "web-0") })
	s.stream(podsPath) <- event(t, "ADDED", plainPod("new", "12"))
	s.stream(podsPath) <- event(t, "DELETED", plainPod("plain", "13"))
	until(t, w, "what the watch brings of the node", func(now *snapshot.Snapshot) bool { return has(now, "new") && !has(now, "plain") })
	s.stream("/api/v1/nodes") <- event(t, "DELETED", drained("14"))
	until(t, w, "nothing of the node", func(now *snapshot.Snapshot) bool {
		w.complete(t.Context())
		return len(now.Gaps) == 0 && !has(now, "new") && has(now, "web-0")
	})
}

// TestPodsOfADrainedNodeAtFirst: the first list of pods has what the nodes need.
func TestPodsOfADrainedNodeAtFirst(t *testing.T) {
	a := newAPI(t)
	a.streams()
	a.serve("/api/v1/nodes", &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "10"}, Items: []corev1.Node{*drained("4")}})
	a.serve(podsPath, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "10"}, Items: []corev1.Pod{*plainPod("plain", "3")}})
	w := begin(t, a, Options{})
	until(t, w, "the pod", func(now *snapshot.Snapshot) bool { return len(now.Gaps) == 0 && has(now, "plain") })
}

// TestPodComesToMatter: a later event about a pod that was not held counts, and one after
// which it does not matter any more.
func TestPodComesToMatter(t *testing.T) {
	a := newAPI(t)
	s := a.streams()
	a.serve(podsPath, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "10"}, Items: []corev1.Pod{*plainPod("plain", "3")}})
	w := begin(t, a, Options{})
	until(t, w, "the pods are followed", func(now *snapshot.Snapshot) bool { return len(now.Gaps) == 0 && s.stream(podsPath) != nil })
	failed, claims := plainPod("plain", "11"), plainPod("plain", "13")
	failed.Status.Phase, failed.Status.Reason = corev1.PodFailed, "Terminated"
	claims.Spec.Volumes = webPod("").Spec.Volumes
	for i, pod := range []*corev1.Pod{failed, plainPod("plain", "12"), claims} {
		s.stream(podsPath) <- event(t, "MODIFIED", pod)
		until(t, w, "the pod as it is", func(now *snapshot.Snapshot) bool { return has(now, "plain") == (i != 1) })
	}
}

// TestListedAgain: after "too old" the pods are listed again; of what has not changed the
// objects stay the same ones. A list that breaks off is a gap, and changes nothing.
func TestListedAgain(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	s := a.streams()
	first := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "10"}}
	for _, name := range []string{"gone", "stays"} {
		pod := plainPod(name, "3")
		pod.Spec.Volumes = webPod("").Spec.Volumes
		first.Items = append(first.Items, *pod)
	}
	a.serve(podsPath, first)
	w := begin(t, a, Options{PageSize: 1})
	before := until(t, w, "the pods are followed", func(now *snapshot.Snapshot) bool { return len(now.Pods) == 2 && s.stream(podsPath) != nil })
	again := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "20"}, Items: []corev1.Pod{first.Items[1]}}
	changed := plainPod("web-0", "15")
	changed.Spec.Volumes = webPod("").Spec.Volumes
	var whole atomic.Bool
	a.handle(podsPath, func(r *http.Request) (int, runtime.Object) {
		switch {
		case whole.Load():
			return http.StatusOK, with(again.DeepCopy(), func(l *corev1.PodList) { l.Items = append(l.Items, *changed) })
		case r.URL.Query().Get("continue") == "":
			return http.StatusOK, with(again.DeepCopy(), func(l *corev1.PodList) { l.Continue = "x" })
		}
		return http.StatusForbidden, &forbidden("pods").ErrStatus
	})
	expired := apierrors.NewResourceExpired("too old").Status()
	expired.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	s.stream(podsPath) <- event(t, "ERROR", &expired)
	half := until(t, w, "a gap", func(now *snapshot.Snapshot) bool { return !now.Complete(snapshot.Pods) })
	if !has(half, "gone") || !has(half, "stays") {
		t.Error("half a list has taken pods away")
	}
	whole.Store(true)
	now := until(t, w, "the whole list", func(now *snapshot.Snapshot) bool { return len(now.Gaps) == 0 && has(now, "web-0") })
	name := types.NamespacedName{Namespace: "shop", Name: "stays"}
	if has(now, "gone") || now.Pod(name) != before.Pod(name) {
		t.Errorf("%d pods, the same object: %v", len(now.Pods), now.Pod(name) == before.Pod(name))
	}
}

// TestRefusedForAWhile: an API server that has just started may refuse what it allowed
// before. It is asked again.
func TestRefusedForAWhile(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	s := a.streams()
	a.serve(podsPath, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "10"}, Items: []corev1.Pod{*webPod("9")}})
	w := begin(t, a, Options{})
	until(t, w, "the pods are followed", func(now *snapshot.Snapshot) bool { return len(now.Gaps) == 0 && s.stream(podsPath) != nil })
	refuse := func(code int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.refuse[podsPath] = code
	}
	refuse(http.StatusForbidden)
	close(s.stream(podsPath))
	until(t, w, "a gap", func(now *snapshot.Snapshot) bool { return !now.Complete(snapshot.Pods) })
	refuse(0)
	until(t, w, "no gap", func(now *snapshot.Snapshot) bool { return len(now.Gaps) == 0 && has(now, "web-0") })
}

// TestMerge: what the watch has brought since the list was asked for counts.
func TestMerge(t *testing.T) {
	chosen := func(needs facts.PodNeeds) choice[*corev1.Pod] { return podsOfUse(Options{}, needs) }
	needs := facts.PodNeeds{Drained: sets.New("n1")}
	for name, test := range map[string]struct {
		meanwhile func(*store[*corev1.Pod]) error
		version   string // of the pod afterwards; "" is none
		gap       bool
	}{
		"nothing":      {func(*store[*corev1.Pod]) error { return nil }, "5", false},
		"a change":     {func(s *store[*corev1.Pod]) error { return s.Update(plainPod("a", "6")) }, "6", false},
		"its end":      {func(s *store[*corev1.Pod]) error { return s.Delete(plainPod("a", "6")) }, "", false},
		"another list": {func(s *store[*corev1.Pod]) error { s.ready(nil, 0, facts.PodNeeds{}); return s.Replace(nil, "9") }, "", true},
		"other needs":  {func(s *store[*corev1.Pod]) error { s.widen(facts.PodNeeds{}); return nil }, "", true},
	} {
		s := newStore(chosen, func() {}, func() {})
		if gap := s.gap(needs); gap == nil {
			t.Errorf("%s: no gap before", name)
		}
		_, lists := s.widen(needs)
		if err := test.meanwhile(s); err != nil {
			t.Fatal(err)
		}
		s.merge(needs, lists, []*corev1.Pod{plainPod("a", "5")}, nil)
		version := ""
		for _, pod := range s.objects.Items() {
			version = pod.ResourceVersion
		}
		if gap := s.gap(needs); version != test.version || (gap != nil) != test.gap {
			t.Errorf("%s: version %q, gap %v", name, version, gap)
		}
	}
}

// TestCountsPodsThatAreNotKept: of a watched cluster, too, all pods count as read.
func TestCountsPodsThatAreNotKept(t *testing.T) {
	s := newStore(func(needs facts.PodNeeds) choice[*corev1.Pod] { return podsOfUse(Options{}, needs) }, func() {}, func() {})
	named := func(pod *corev1.Pod, name string) *corev1.Pod { pod.Name = name; return pod }
	s.ready([]*corev1.Pod{webPod("1")}, 3, facts.PodNeeds{}) // with the pods a and b
	for i, step := range []struct {
		do         func() error
		read, kept int
	}{
		{func() error { return s.Replace(nil, "1") }, 3, 1},
		{func() error { return s.Add(plainPod("c", "2")) }, 4, 1},
		{func() error { return s.Add(named(webPod("3"), "web-1")) }, 5, 2},
		{func() error { return s.Update(plainPod("a", "4")) }, 5, 2},
		{func() error { return s.Update(named(webPod("5"), "a")) }, 5, 3},
		{func() error { return s.Update(plainPod("a", "6")) }, 5, 2},
		{func() error { return s.Delete(plainPod("b", "7")) }, 4, 2},
		{func() error { return s.Delete(webPod("8")) }, 3, 1},
		{func() error { s.widen(facts.PodNeeds{Drained: sets.New("n1")}); return nil }, 3, 1},
		{func() error {
			s.merge(facts.PodNeeds{Drained: sets.New("n1")}, s.lists, []*corev1.Pod{plainPod("a", "6"), plainPod("c", "2")}, nil)
			return nil
		}, 3, 3},
		{func() error { s.widen(facts.PodNeeds{}); return nil }, 3, 1},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		var o snapshot.Objects
		s.fill(&o)
		if read := len(o.Pods) + s.notKept(); read != step.read || len(o.Pods) != step.kept {
			t.Errorf("step %d: %d pods read and %d kept, want %d and %d", i, read, len(o.Pods), step.read, step.kept)
		}
	}
}

// TestCountsPodsOfLists: all pods of a list count as read, also those that are not kept.
func TestCountsPodsOfLists(t *testing.T) {
	a := newAPI(t)
	a.serve(podsPath, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "10"}, Items: []corev1.Pod{*webPod("9"), *plainPod("a", "8")}})
	s, err := a.cluster(Options{}).Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if read := s.Counts()[snapshot.Pods]; read != 2 || len(s.Pods) != 1 {
		t.Errorf("%d pods read and %d kept, want 2 and 1", read, len(s.Pods))
	}
}
