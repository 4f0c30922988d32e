package snapshot

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSpool: a file whose pods were spooled, page by page, is the same as one whose
// pods are in the snapshot, and pages that were not read to their end leave no trace.
func TestSpool(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	var pods []*corev1.Pod
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n"}, Spec: corev1.PodSpec{NodeName: "n1"}})
	}
	add := func(s *Spool, pods ...*corev1.Pod) {
		t.Helper()
		for _, pod := range pods {
			if err := s.Add(pod.DeepCopy()); err != nil {
				t.Fatal(err)
			}
		}
	}
	end := func(s *Spool) {
		t.Helper()
		if err := s.EndPage(); err != nil {
			t.Fatal(err)
		}
	}
	whole := written(t, New(noon, Source{}, Objects{Nodes: []*corev1.Node{node}, Pods: pods}, nil))
	without := New(noon, Source{}, Objects{Nodes: []*corev1.Node{node}}, nil)
	for name, fill := range map[string]func(*Spool){
		"two pages": func(s *Spool) { add(s, pods[:2]...); end(s); add(s, pods[2:]...); end(s) },
		"a page that broke off": func(s *Spool) {
			add(s, pods[:2]...)
			end(s)
			add(s, pods[2:4]...)
			s.DropPage()
			add(s, pods[2:]...)
			end(s)
		},
		"a list that began again": func(s *Spool) {
			add(s, pods[1:3]...)
			end(s)
			add(s, pods[0])
			s.Reset()
			add(s, pods...)
			end(s)
		},
		"a page without any": func(s *Spool) { end(s); add(s, pods...); end(s); end(s); s.DropPage() },
	} {
		var spool Spool
		fill(&spool)
		var text, packed bytes.Buffer
		if err := WriteSpooled(&text, without, &spool, false); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(whole, text.String()); diff != "" {
			t.Errorf("%s: -from the list +from the spool:\n%s", name, diff)
		}
		if err := WriteSpooled(&packed, without, &spool, true); err != nil {
			t.Fatal(err)
		}
		unpacked, err := gzip.NewReader(&packed)
		if err != nil {
			t.Fatal(err)
		}
		if all, err := io.ReadAll(unpacked); err != nil || string(all) != whole {
			t.Errorf("%s, compressed: %v, and\n%s", name, err, cmp.Diff(whole, string(all)))
		}
	}
}
