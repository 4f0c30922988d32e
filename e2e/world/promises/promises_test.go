package promises_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/api"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/bubble"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/promises"
)

// TestPromises holds the table against the API server of the world.
func TestPromises(t *testing.T) {
	bubble.Quiet()
	bubble.Run(t, 5*time.Minute, func(t *testing.T) {
		server, err := api.New()
		if err != nil {
			t.Fatal(err)
		}
		client, err := server.Client("promises")
		if err != nil {
			t.Fatal(err)
		}
		hold(t, client)
	})
}

// TestPromisesOfARealServer holds the same table against a kube-apiserver with etcd: what
// it does not keep is no promise.
func TestPromisesOfARealServer(t *testing.T) {
	if _, err := controlplane.Build(t.Context(), t.Output()); err != nil {
		t.Fatal(err)
	}
	cluster, err := controlplane.Start(t.Context(), controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Stop)
	// The controllers would bind, evict and delete what the promises make.
	cluster.StopController()
	cluster.KillAttacher()
	hold(t, cluster.Client())
}

func hold(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	ctx := context.Background()
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: promises.Namespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	for _, p := range promises.All {
		if broken := p.Broken(ctx, client); broken != "" {
			t.Errorf("%s: %s", p.Name, broken)
		}
	}
}
