package cmd

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/cluster"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// connectTo connects, and finds the pods with the labels of -l.
func (e *examination) connectTo(ctx context.Context, streams genericiooptions.IOStreams) (watched, error) {
	c, err := e.connect(streams)
	if err != nil {
		return c, err
	}
	if e.selector != "" {
		names, err := c.PodsWith(ctx, *e.kube.Namespace, e.selector)
		if err != nil {
			return c, err
		}
		if len(names) == 0 {
			return c, fmt.Errorf("there is no pod of %s", e.targets[0])
		}
		e.targets = []target{podsNamed(e.selector, names)}
		e.asks = asks(e.targets)
		return e.connect(streams) // this keeps these pods
	}
	return c, nil
}

// selectPods makes the pods with the labels of -l the target. In a live cluster connectTo
// asks for them.
func (e *examination) selectPods() error {
	selector, err := labels.Parse(e.selector)
	if err != nil {
		return fmt.Errorf("-l %q is not a label selector, such as app=web: %w", e.selector, err)
	}
	e.targets = []target{podsWith(selector, *e.kube.Namespace)}
	return nil
}

// usesNamespace reports whether the namespace of -n has an object: an empty one is mostly a
// mistyped name, and to find nothing wrong in it would be a lie. Where not everything could
// be read it counts as used. The cluster, nil for a file, is asked for the pods that the
// snapshot leaves out because they use no volume.
func (e *examination) usesNamespace(ctx context.Context, c *cluster.Cluster, s *snapshot.Snapshot) (bool, error) {
	name := *e.kube.Namespace
	if name == "" || len(e.targets) > 0 || !s.Complete(snapshot.Pods) || !s.Complete(snapshot.Claims) || !s.Complete(snapshot.Volumes) ||
		slices.ContainsFunc(s.Pods, func(pod *corev1.Pod) bool { return pod.Namespace == name }) ||
		slices.ContainsFunc(s.Claims, func(claim *corev1.PersistentVolumeClaim) bool { return claim.Namespace == name }) ||
		slices.ContainsFunc(s.Volumes, func(pv *corev1.PersistentVolume) bool {
			return pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.Namespace == name
		}) {
		return true, nil
	}
	if c == nil {
		return false, nil
	}
	return c.HasPod(ctx, name)
}

// unused is the error about a namespace without an object.
func (e *examination) unused() error {
	return fmt.Errorf("namespace %s has no pod, claim or volume: does it exist?", *e.kube.Namespace)
}
