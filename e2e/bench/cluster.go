package main

import (
	"context"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/load"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// loaded is a control plane with a cluster of some size in its etcd. None of
// its controllers runs: they would begin to heal it.
type loaded struct {
	*controlplane.Cluster
	load load.Cluster
}

func start(ctx context.Context, size load.Size) (*loaded, error) {
	c, err := controlplane.Start(ctx, controlplane.Options{Log: os.Stderr})
	if err != nil {
		return nil, err
	}
	c.StopController()
	c.KillAttacher()
	l := &loaded{c, load.Cluster{Size: size, Now: time.Now()}}
	fmt.Fprintf(os.Stderr, "writing %d nodes, %d pods and %d volumes\n", size.Nodes, size.Pods, size.Volumes)
	began := time.Now()
	if err := load.Write(ctx, c.EtcdURL(), l.load.All()); err != nil {
		c.Stop()
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "written in %s\n", time.Since(began).Round(time.Second/10))
	return l, l.awaitReads(ctx)
}

// awaitReads waits until the API server's caches hold what was written behind its back:
// until then it reads from etcd, and refuses watches of what it has just listed.
func (l *loaded) awaitReads(ctx context.Context) error {
	began := time.Now()
	newest, err := l.Client().CoreV1().Pods("").List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	clients := map[schema.GroupVersion]rest.Interface{}
	for _, client := range []rest.Interface{l.Client().CoreV1().RESTClient(), l.Client().StorageV1().RESTClient(),
		l.Client().CoordinationV1().RESTClient(), l.Client().AppsV1().RESTClient()} {
		clients[client.APIVersion()] = client
	}
	options := metav1.ListOptions{Limit: 1, ResourceVersion: newest.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}
	for _, r := range snapshot.Resources() {
		client := clients[r.GroupVersion()]
		if client == nil {
			return fmt.Errorf("there is no client for %s", r.Kind)
		}
		for {
			err := client.Get().Resource(string(r.Kind)).VersionedParams(&options, scheme.ParameterCodec).Do(ctx).Error()
			if err == nil {
				break
			}
			if !apierrors.IsTimeout(err) && !apierrors.IsTooManyRequests(err) {
				return err
			}
		}
	}
	fmt.Fprintf(os.Stderr, "taken up by the API server after another %s\n", time.Since(began).Round(time.Second/10))
	return nil
}

// heartbeat writes again what somebody renews all the time in a living cluster.
func (l *loaded) heartbeat(ctx context.Context) error {
	now := l.load
	now.Now = time.Now()
	return load.Write(ctx, l.EtcdURL(), now.Heartbeats())
}
