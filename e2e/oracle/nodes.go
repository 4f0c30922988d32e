package main

import (
	"sync/atomic"

	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// watchedNodes is a node informer that knows how many nodes the controller has
// heard of, and that can update each of them: until then an attachment known
// only from a VolumeAttachment counts as mounted.
type watchedNodes struct {
	coreinformers.NodeInformer

	handler cache.ResourceEventHandler
	added   atomic.Int32
}

func (n *watchedNodes) Informer() cache.SharedIndexInformer {
	return watchedInformer{n.NodeInformer.Informer(), n}
}

// updateAll is what kubelets do every few minutes.
func (n *watchedNodes) updateAll() {
	for _, node := range n.NodeInformer.Informer().GetIndexer().List() {
		n.handler.OnUpdate(node, node)
	}
}

// watch returns the controller's handler, watched.
func (n *watchedNodes) watch(h cache.ResourceEventHandler) cache.ResourceEventHandler {
	n.handler = h
	return counting(h, func() { n.added.Add(1) })
}

type watchedInformer struct {
	cache.SharedIndexInformer
	nodes *watchedNodes
}

func (i watchedInformer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandler(i.nodes.watch(h))
}
