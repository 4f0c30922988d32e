//go:build linux && upto_v1_31

package main

import (
	"context"

	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/volumemanager"
)

func runVolumes(ctx context.Context, m volumemanager.VolumeManager, ready config.SourcesReady) {
	m.Run(ready, ctx.Done())
}
