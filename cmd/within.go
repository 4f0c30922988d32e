package cmd

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// connectTo is connect, once it is certain that the namespace of -n is used, and known
// which pods have the labels of -l.
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
	return c, d.namespaceInCluster(ctx, c)
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

// namespaceInCluster refuses a namespace in which there is nothing: mostly its name is
// mistyped, and to find nothing wrong in it would be a lie. Of several clusters any may
// lack it, and what is watched may still come.
func (d *diagnoseFlags) namespaceInCluster(ctx context.Context, c watched) error {
	name := *d.kube.Namespace
	if name == "" || len(d.targets) > 0 || len(d.contexts) > 0 || d.watch {
		return nil
	}
	uses, known, err := c.UsesNamespace(ctx, name)
	if err != nil || uses || !known { // what may not be listed is a gap
		return err
	}
	return fmt.Errorf("namespace %s has no pod and no claim: does it exist?", name)
}

// namespaceInFile refuses a namespace of which the file has nothing.
func (d *diagnoseFlags) namespaceInFile(s *snapshot.Snapshot) error {
	name := *d.kube.Namespace
	if name == "" || len(d.targets) > 0 {
		return nil
	}
	for _, pod := range s.Pods {
		if pod.Namespace == name {
			return nil
		}
	}
	for _, claim := range s.Claims {
		if claim.Namespace == name {
			return nil
		}
	}
	for _, pv := range s.Volumes {
		if pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.Namespace == name {
			return nil
		}
	}
	return fmt.Errorf("the file has no pod, claim or volume of namespace %s", name)
}
