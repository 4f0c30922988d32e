package repair_test

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/faultproxy"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/load"
)

// windowPods are the additional pods on the API server in a run with -long.
const windowPods = 30_000

// longestWindow is how long an API server on a busy machine may take from the last small read
// to the deletion. A whole look at 30,000 pods takes far longer and must not be in it.
const longestWindow = time.Second

// TestWindow measures the time between a repair's last read of a node's pods and the arrival
// of its deletion, in which a pod can still come to the node: docs/repairing-safely.md says
// how long it is.
func TestWindow(t *testing.T) {
	s := newStage(t)
	if *long {
		size := load.Size{Nodes: 10, Pods: windowPods}
		s.must(load.Write(t.Context(), cluster.EtcdURL(), func(yield func(load.Object) bool) {
			for o := range (load.Cluster{Size: size}).All() {
				pod, isPod := o.(*corev1.Pod)
				if !isPod {
					continue
				}
				// garbage collectors delete pods whose node or owner does not exist
				pod.Spec.NodeName, pod.OwnerReferences = "", nil
				if !yield(pod) {
					return
				}
			}
		}))
		s.await(fixture.Condition{What: "the API server has the pods", Check: func(ctx context.Context) (bool, []runtime.Object, error) {
			has := 0
			for o := (metav1.ListOptions{Limit: 1000}); ; {
				page, err := s.client.CoreV1().Pods("").List(ctx, o)
				if err != nil {
					return false, nil, err
				}
				has += len(page.Items)
				if o.Continue = page.Continue; o.Continue == "" {
					t.Logf("the API server has %d pods", has)
					return has >= windowPods, nil, nil
				}
			}
		}})
	}
	s.nodes("a")
	v := s.volume()
	_, err := s.client.StorageV1().VolumeAttachments().Create(t.Context(), &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "by-hand-" + s.name},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: csidriver.Name, NodeName: s.nodeName("a"),
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &v.PersistentVolume},
		},
	}, metav1.CreateOptions{})
	s.must(err)
	s.await(s.isPublished(v, "a"))
	f := s.find("foreign-va", soon)

	proxy, err := faultproxy.Start(cluster.RESTConfig())
	s.must(err)
	t.Cleanup(proxy.Stop)
	var mu sync.Mutex
	var lastRead, deletion time.Time
	session := proxy.Session("window", func(r faultproxy.Request) faultproxy.Fault {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case r.Class == faultproxy.Read && strings.Contains(r.URL.RawQuery, "spec.nodeName") && deletion.IsZero():
			lastRead = time.Now()
		case r.Class == faultproxy.Write && r.Method == http.MethodDelete:
			deletion = time.Now()
		}
		return faultproxy.None
	})
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	s.must(session.WriteKubeconfig(kubeconfig))
	s.mendsAs(kubeconfig, f, "delete-attachment", "--allow", "delete-attachment")

	mu.Lock()
	defer mu.Unlock()
	if lastRead.IsZero() || deletion.IsZero() {
		t.Fatalf("the node's pods were read at %v, and the deletion came at %v", lastRead, deletion)
	}
	window := deletion.Sub(lastRead)
	t.Logf("from the last reading of the node's pods, as it was asked for, to the deletion: %s", window.Round(time.Millisecond))
	if window < 0 || window > longestWindow {
		t.Errorf("the window is %s", window)
	}
}
