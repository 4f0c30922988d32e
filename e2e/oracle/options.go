//go:build !upto_v1_32

package main

import "k8s.io/client-go/tools/cache"

// AddEventHandlerWithOptions is how the controller listens from 1.37 on.
func (i watchedInformer) AddEventHandlerWithOptions(h cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithOptions(i.nodes.watch(h), options)
}
