// Package scenario builds small worlds on a running control plane, healthy or
// broken in a way that has been seen on real clusters, for tests and for the
// sandbox.
package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubelet"
)

// Options place a world in a cluster. Worlds with different namespaces and
// nodes do not disturb each other. The zero value is good for a single one.
type Options struct {
	Namespace string    // empty: default
	Node      string    // empty: n1
	Log       io.Writer // receives what is done, line by line; nil: nothing
}

// World is one node with two pods, each with a volume of its own.
type World struct {
	Namespace string
	Node      string
	Kubelet   *kubelet.Kubelet
	// Subject is the pod that a scenario breaks.
	Subject Workload
	// Neighbour is a pod on the same node that stays healthy.
	Neighbour Workload

	cluster  *controlplane.Cluster
	log      io.Writer
	kubelets []*kubelet.Kubelet
}

// Workload is a pod and its volume.
type Workload struct {
	Pod    string
	Volume fixture.Volume
}

// Healthy builds a world in which both pods run.
func Healthy(ctx context.Context, cluster *controlplane.Cluster, options Options) (*World, error) {
	w := &World{
		Namespace: options.Namespace, Node: options.Node, log: options.Log, cluster: cluster,
		Subject: Workload{Pod: "web-0"}, Neighbour: Workload{Pod: "db-0"},
	}
	if w.Namespace == "" {
		w.Namespace = metav1.NamespaceDefault
	}
	if w.Node == "" {
		w.Node = "n1"
	}
	if w.log == nil {
		w.log = io.Discard
	}
	if err := w.build(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("build healthy world: %w", err), w.Close(context.WithoutCancel(ctx)))
	}
	return w, nil
}

func (w *World) build(ctx context.Context) error {
	client := w.cluster.Client()
	if err := fixture.Storage(ctx, client); err != nil {
		return err
	}
	if err := fixture.Namespace(ctx, client, w.Namespace); err != nil {
		return err
	}
	var err error
	if w.Kubelet, err = w.AddNode(ctx, w.Node); err != nil {
		return err
	}
	for _, load := range []*Workload{&w.Subject, &w.Neighbour} {
		w.logf("creating pod %s/%s with a volume", w.Namespace, load.Pod)
		load.Volume, err = fixture.BoundVolume(ctx, client, w.Namespace, "data-"+load.Pod, corev1.ReadWriteOnce)
		if err != nil {
			return err
		}
		if err := w.createPod(ctx, *load); err != nil {
			return err
		}
	}
	for _, load := range []Workload{w.Subject, w.Neighbour} {
		if err := fixture.Await(ctx, fixture.PodRunning(client, w.Namespace, load.Pod)); err != nil {
			return err
		}
	}
	return nil
}

// AddNode starts the kubelet stand-in of a further node.
func (w *World) AddNode(ctx context.Context, node string) (*kubelet.Kubelet, error) {
	return w.addNode(ctx, kubelet.Options{Node: node})
}

func (w *World) addNode(ctx context.Context, options kubelet.Options) (*kubelet.Kubelet, error) {
	client, err := w.cluster.ClientFor(controlplane.UserKubelet)
	if err != nil {
		return nil, err
	}
	w.logf("starting the kubelet stand-in of node %s", options.Node)
	k, err := kubelet.Start(ctx, client, options)
	if err != nil {
		return nil, err
	}
	w.kubelets = append(w.kubelets, k)
	return k, nil
}

func (w *World) createPod(ctx context.Context, load Workload) error {
	_, err := fixture.CreatePod(ctx, w.cluster.Client(), fixture.Pod(w.Namespace, load.Pod, w.Node, load.Volume.Claim))
	return err
}

// Attachment says something of the subject's volume on the world's node.
func (w *World) Attachment(what string, holds func(fixture.AttachmentState) bool) fixture.Condition {
	return fixture.Attachment(w.cluster.Client(), w.Node, w.Subject.Volume, what, holds)
}

func (w *World) logf(format string, args ...any) {
	_, _ = fmt.Fprintf(w.log, format+"\n", args...)
}
