//go:build linux && upto_v1_30

package main

import (
	"context"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/volumemanager"
)

func newSourcesReady(synced func() bool) config.SourcesReady {
	return config.NewSourcesReady(func(sets.String) bool { return synced() })
}

func runVolumes(ctx context.Context, m volumemanager.VolumeManager, ready config.SourcesReady) {
	m.Run(ready, ctx.Done())
}
