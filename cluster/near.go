package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// plainTime is how long an ordinary list of the pods of a node may take. Releases before 1.31
// go through all pods in etcd for it (cacher.go, shouldDelegateList). A judgement: it is
// enough for some ten thousand pods.
const plainTime = time.Second

// Near reads the nodes, the pods on them and the VolumeAttachments, each by a field selector,
// so that it needs only the right to list them. The same parts of an object are kept and
// decoded as in the snapshot s, which is the last whole reading.
func (c *Cluster) Near(ctx context.Context, s *snapshot.Snapshot, near repair.Near) (repair.Nearby, error) {
	var got snapshot.Objects
	if err := c.few(ctx, s, &got, func(few fewOf) {
		for _, node := range near.Nodes {
			few(snapshot.Nodes, "metadata.name", string(node), "")
		}
		for _, va := range near.Attachments {
			few(snapshot.VolumeAttachments, "metadata.name", va, "")
		}
	}); err != nil {
		return repair.Nearby{}, err
	}
	// Pods are read after the objects that they use, as in Snapshot.
	pods := func(ctx context.Context, since string) error {
		got.Pods = nil
		return c.few(ctx, s, &got, func(few fewOf) {
			for _, node := range near.Nodes {
				few(snapshot.Pods, "spec.nodeName", string(node), since)
			}
		})
	}
	plain, cancel := context.WithTimeout(ctx, plainTime)
	defer cancel()
	err := pods(plain, "")
	if err != nil && plain.Err() != nil && ctx.Err() == nil {
		// The API server's cache has the pods by node. It answers once it has come to the
		// present version, which is immediately where pods come and go.
		var now string
		if now, err = c.podsVersion(ctx); err == nil {
			err = pods(ctx, now)
		}
	}
	if err != nil {
		return repair.Nearby{}, err
	}
	return repair.Nearby{Near: near, Nodes: got.Nodes, Attachments: got.VolumeAttachments, Pods: got.Pods}, nil
}

// fewOf adds a list to those that few reads: the objects whose field has the value, no older
// than since where that is not "".
type fewOf func(kind snapshot.Kind, field, value, since string)

// few reads the lists that add names, side by side. It fails unless it has read all of them.
func (c *Cluster) few(ctx context.Context, s *snapshot.Snapshot, into *snapshot.Objects, add func(fewOf)) error {
	r := &reading{Cluster: c.quiet(), objects: s.Objects}
	r.whole = true // with a limit, releases before 1.34 ask etcd instead of their cache
	var sources []source
	add(func(kind snapshot.Kind, field, value, since string) {
		sources = append(sources, kindNamed(kind).few(r, fields.Set{field: value}, since, into))
	})
	if err := r.all(ctx, sources); err != nil {
		return c.Explain(err)
	}
	if len(r.gaps) > 0 {
		return fmt.Errorf("read the %s: %s", r.gaps[0].Kind, r.gaps[0].Detail)
	}
	return nil
}

// podsVersion is the present version of the list of pods.
func (c *Cluster) podsVersion(ctx context.Context) (string, error) {
	raw, err := c.lists[corev1.GroupName].Get().Resource(string(snapshot.Pods)).VersionedParams(&metav1.ListOptions{Limit: 1}, scheme.ParameterCodec).
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json").Do(ctx).Raw()
	if err != nil {
		return "", c.Explain(err)
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(raw, &list); err != nil {
		return "", fmt.Errorf("read the version of the pods: %w", err)
	}
	if list.ResourceVersion == "" {
		return "", errors.New("read the version of the pods: the answer has none")
	}
	return list.ResourceVersion, nil
}
