package csidriver

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Call is one ControllerPublishVolume or ControllerUnpublishVolume, in the
// order in which the driver answered them.
type Call struct {
	At      time.Time
	Publish bool // false: unpublish
	Volume  string
	Node    string
	Err     error // nil: done
}

// String renders a call for a failure message.
func (c Call) String() string {
	verb, result := "unpublish", "ok"
	if c.Publish {
		verb = "publish"
	}
	if c.Err != nil {
		result = c.Err.Error()
	}
	return fmt.Sprintf("%s %s %s %s: %s", c.At.Format(time.TimeOnly), verb, c.Volume, c.Node, result)
}

// Violation is a volume for a single node that was published on a second one
// before it was unpublished from the first.
type Violation struct {
	At     time.Time
	Volume string
	Nodes  []string // all of them, sorted
}

// String renders a violation for a failure message.
func (v Violation) String() string {
	return fmt.Sprintf("%s single-node volume %s published on %v", v.At.Format(time.TimeOnly), v.Volume, v.Nodes)
}

// PublishedOn lists the nodes a volume is published on, sorted.
func (d *Driver) PublishedOn(volume string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.published[volume]))
}

// History lists the calls made for a volume, oldest first.
func (d *Driver) History(volume string) []Call {
	d.mu.Lock()
	defer d.mu.Unlock()
	var calls []Call
	for _, c := range d.history {
		if c.Volume == volume {
			calls = append(calls, c)
		}
	}
	return calls
}

// Violations lists every violation since the start, oldest first.
func (d *Driver) Violations() []Violation {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.violations)
}

func (d *Driver) publish(volume, node string, singleNode bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.failPublish.of(volume)
	for holder := range d.published[volume] {
		if d.oneAtATime[volume] && holder != node {
			err = status.Errorf(codes.FailedPrecondition, "the volume is already attached to node %s", holder)
		}
	}
	d.history = append(d.history, Call{At: time.Now(), Publish: true, Volume: volume, Node: node, Err: err})
	if err != nil {
		return err
	}
	nodes := d.published[volume]
	if nodes == nil {
		nodes = map[string]bool{}
		d.published[volume] = nodes
	}
	added := !nodes[node]
	nodes[node] = true
	if err := d.cable(volume, node); err != nil {
		return err
	}
	if added && len(nodes) > 1 && (singleNode || d.singleNode[volume]) {
		d.violations = append(d.violations, Violation{At: time.Now(), Volume: volume, Nodes: slices.Sorted(maps.Keys(nodes))})
	}
	d.singleNode[volume] = singleNode
	return nil
}

func (d *Driver) unpublish(volume, node string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.failUnpublish.of(volume)
	d.history = append(d.history, Call{At: time.Now(), Volume: volume, Node: node, Err: err})
	if err != nil {
		return err
	}
	delete(d.published[volume], node)
	return d.cable(volume, node)
}

// Cables has a file VOLUME@NODE in the folder tell, from now on, that the volume is
// attached to the node: a node plugin on the same computer finds its disk by that.
func (d *Driver) Cables(folder string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cables = folder
}

// cable makes the file of the pair say what is so; d.mu is held.
func (d *Driver) cable(volume, node string) error {
	if d.cables == "" {
		return nil
	}
	name := filepath.Join(d.cables, volume+"@"+node)
	if d.published[volume][node] {
		return os.WriteFile(name, nil, 0o600)
	}
	if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// faults holds the error to answer with by volume; "" stands for every volume.
type faults map[string]error

func (f faults) set(err error, volumes []string) {
	if len(volumes) == 0 {
		clear(f) // what is said of every volume replaces what was said of some
		volumes = []string{""}
	}
	for _, v := range volumes {
		if err == nil {
			delete(f, v)
			continue
		}
		if _, ok := status.FromError(err); !ok {
			err = status.Error(codes.Internal, err.Error())
		}
		f[v] = err
	}
}

func (f faults) of(volume string) error {
	if err := f[volume]; err != nil {
		return err
	}
	return f[""]
}
