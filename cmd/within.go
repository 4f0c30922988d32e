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

// connectTo is connect, once it is known which pods have the labels of -l.
func (d *diagnoseFlags) connectTo(ctx context.Context, streams genericiooptions.IOStreams) (watched, error) {
	c, err := d.connect(streams)
	if err != nil {
		return c, err
	}
	if d.selector != "" {
		names, err := c.PodsWith(ctx, *d.kube.Namespace, d.selector)
		if err != nil {
			return c, err
		}
		if len(names) == 0 {
			return c, fmt.Errorf("there is no pod of %s", d.targets[0])
		}
		d.targets = []target{podsNamed(d.selector, names)}
		d.asks = asks(d.targets)
		return d.connect(streams) // which keeps these pods
	}
	return c, nil
}

// selectPods makes the pods with the labels of -l the target. Those of a live cluster
// are asked for by connectTo.
func (d *diagnoseFlags) selectPods() error {
	selector, err := labels.Parse(d.selector)
	if err != nil {
		return fmt.Errorf("-l %q is not a label selector, such as app=web: %w", d.selector, err)
	}
	d.targets = []target{podsWith(selector, *d.kube.Namespace)}
	return nil
}

// usesNamespace says whether anything is in the namespace of -n: mostly the name of one
// without is mistyped, and to find nothing wrong in it would be a lie. Where not all
// could be read it counts as used. The cluster, nil for a file, is asked for pods that
// the snapshot leaves out, because they use no volume.
func (d *diagnoseFlags) usesNamespace(ctx context.Context, c *cluster.Cluster, s *snapshot.Snapshot) (bool, error) {
	name := *d.kube.Namespace
	if name == "" || len(d.targets) > 0 || !s.Complete(snapshot.Pods) || !s.Complete(snapshot.Claims) || !s.Complete(snapshot.Volumes) ||
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

// unused is the error about a namespace in which nothing is.
func (d *diagnoseFlags) unused() error {
	return fmt.Errorf("namespace %s has no pod, claim or volume: does it exist?", *d.kube.Namespace)
}
