package conformance

import (
	"sync"

	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// heldNodes is a node informer that keeps its events back. Whether they come
// before or after the controller has populated its worlds decides whether an
// attachment known only from a VolumeAttachment still counts as mounted.
type heldNodes struct {
	coreinformers.NodeInformer

	mu       sync.Mutex
	released bool
	waiting  []func()
	synced   func() bool
}

func (n *heldNodes) Informer() cache.SharedIndexInformer {
	return heldInformer{n.NodeInformer.Informer(), n}
}

// do runs f now, or once the events are released.
func (n *heldNodes) do(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.released {
		f()
		return
	}
	n.waiting = append(n.waiting, f)
}

func (n *heldNodes) release() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.released = true
	for _, f := range n.waiting {
		f()
	}
	n.waiting = nil
}

type heldInformer struct {
	cache.SharedIndexInformer
	nodes *heldNodes
}

func (i heldInformer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	registration, err := i.SharedIndexInformer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(obj any, initial bool) { i.nodes.do(func() { h.OnAdd(obj, initial) }) },
		UpdateFunc: func(old, obj any) { i.nodes.do(func() { h.OnUpdate(old, obj) }) },
		DeleteFunc: func(obj any) { i.nodes.do(func() { h.OnDelete(obj) }) },
	})
	if err == nil {
		i.nodes.synced = registration.HasSynced
	}
	return registration, err
}
