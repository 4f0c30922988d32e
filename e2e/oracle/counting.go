//go:build !upto_v1_26

package main

import "k8s.io/client-go/tools/cache"

// counting calls added after each node that h was told of.
func counting(h cache.ResourceEventHandler, added func()) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			h.OnAdd(obj, initial)
			added()
		},
		UpdateFunc: h.OnUpdate,
		DeleteFunc: h.OnDelete,
	}
}
