package main

import (
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
)

// relay is a watch that can be broken.
type relay struct {
	from  watch.Interface
	to    chan watch.Event
	stop  chan struct{}
	once  sync.Once
	fails chan struct{}
}

func (r *relay) ResultChan() <-chan watch.Event { return r.to }

func (r *relay) Stop() {
	r.once.Do(func() {
		close(r.stop)
		r.from.Stop()
	})
}

// watch answers each watch of the controller's.
func (c *cluster) watch(action clienttesting.Action) (bool, watch.Interface, error) {
	from, err := c.client.Tracker().Watch(action.GetResource(), action.GetNamespace())
	if err != nil {
		return true, nil, err
	}
	r := &relay{from: from, to: make(chan watch.Event), stop: make(chan struct{}), fails: make(chan struct{})}
	c.mu.Lock()
	c.watches = append(c.watches, r)
	c.mu.Unlock()
	go c.pump(r)
	return true, r, nil
}

func (c *cluster) pump(r *relay) {
	defer close(r.to)
	send := func(e watch.Event) {
		select {
		case r.to <- e:
		case <-r.stop:
		}
	}
	for {
		select {
		case e, ok := <-r.from.ResultChan():
			if !ok {
				return
			}
			c.events.Add(1)
			if !c.life.blind.Load() {
				send(e)
			}
		case <-r.fails:
			send(watch.Event{Type: watch.Error, Object: tooOld()})
			r.Stop()
			return
		case <-r.stop:
			return
		}
	}
}

// tooOld makes whoever watches list again.
func tooOld() runtime.Object {
	status := apierrors.NewResourceExpired("too old").Status()
	return &metav1.Status{Status: status.Status, Code: status.Code, Reason: status.Reason, Message: status.Message}
}

// failWatches ends all watches as an API server does that has forgotten where
// they stood.
func (c *cluster) failWatches() {
	for _, r := range c.takeWatches() {
		select {
		case r.fails <- struct{}{}:
		case <-r.stop:
		}
	}
}

func (c *cluster) closeWatches() {
	for _, r := range c.takeWatches() {
		r.Stop()
	}
}

func (c *cluster) takeWatches() []*relay {
	c.mu.Lock()
	defer c.mu.Unlock()
	open := slices.Clone(c.watches)
	c.watches = nil
	return open
}
