//go:build linux && upto_v1_30

package main

import (
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/kubelet/config"
)

func newSourcesReady(synced func() bool) config.SourcesReady {
	return config.NewSourcesReady(func(sets.String) bool { return synced() })
}
