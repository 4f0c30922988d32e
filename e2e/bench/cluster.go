package main

import (
	"context"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/load"
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

// awaitReads waits until the API server has seen what was written behind its back.
func (l *loaded) awaitReads(ctx context.Context) error {
	for {
		list, err := l.Client().CoreV1().Pods("").List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return err
		}
		left := 0
		if list.RemainingItemCount != nil {
			left = int(*list.RemainingItemCount)
		}
		if len(list.Items)+left == l.load.Size.Pods {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// heartbeat writes again what somebody renews all the time in a living cluster.
func (l *loaded) heartbeat(ctx context.Context) error {
	now := l.load
	now.Now = time.Now()
	return load.Write(ctx, l.EtcdURL(), now.Heartbeats())
}
