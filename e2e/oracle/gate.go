package main

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/csi"
	"k8s.io/kubernetes/pkg/volume/fc"
	"k8s.io/kubernetes/pkg/volume/iscsi"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
)

// gate holds the operations that the pass starts, right before they reach the
// volume plugin, until the pass is over. Upstream nothing promises that: an
// operation that needs no API call, as on FC and iSCSI, may end within the pass.
type gate struct {
	open chan struct{}
	// noOps reports whether plugins that call nobody are held too, and off whether no plugin
	// is held.
	noOps, off bool

	mu      sync.Mutex
	touched map[wire.Pair]string
	last    string
	// dead is nil as long as the controller's process lives that the plugins are of.
	// It is closed once nobody reads its log any more.
	dead <-chan struct{}
}

func newGate(noOps bool) *gate {
	return &gate{open: make(chan struct{}), noOps: noOps, touched: map[wire.Pair]string{}}
}

// run lets one operation at a time through, and notes which VolumeAttachment it
// creates or deletes.
func (g *gate) run(pair wire.Pair, operation func() error) error {
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = ""
	err := operation()
	g.touched[pair] = g.last
	return err
}

// touch is called by the API server's stand-in from within operation.
func (g *gate) touch(volumeAttachment string) { g.last = volumeAttachment }

// release opens the gate for good.
func (g *gate) release() { close(g.open) }

// kill ends the process that the plugins are of, as far as its log shows: what its
// operations have asked for stays asked, and they come to nothing more until over.
func (g *gate) kill(over <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dead = over
}

// outlive keeps an operation of a process that has ended from going on.
func (g *gate) outlive() {
	g.mu.Lock()
	dead := g.dead
	g.mu.Unlock()
	if dead != nil {
		<-dead
	}
}

// plugins are the plugins of kube-controller-manager, behind the gate.
func (g *gate) plugins() []volume.VolumePlugin {
	var all []volume.VolumePlugin
	for _, probe := range []func() []volume.VolumePlugin{legacyPlugins, csi.ProbeVolumePlugins, fc.ProbeVolumePlugins, iscsi.ProbeVolumePlugins} {
		for _, plugin := range probe() {
			if legacy, ok := plugin.(interface{ unregistered() bool }); ok && legacy.unregistered() {
				continue
			}
			all = append(all, gatedPlugin{plugin.(volume.AttachableVolumePlugin), g})
		}
	}
	return all
}

func (g *gate) holds(plugin string) bool { return !g.off && (g.noOps || plugin == csi.CSIPluginName) }

type gatedPlugin struct {
	volume.AttachableVolumePlugin
	gate *gate
}

func (p gatedPlugin) NewAttacher() (volume.Attacher, error) {
	a, err := p.AttachableVolumePlugin.NewAttacher()
	if err != nil || !p.gate.off && !p.gate.holds(p.GetPluginName()) {
		return a, err
	}
	return gatedAttacher{a, p}, nil
}

func (p gatedPlugin) NewDetacher() (volume.Detacher, error) {
	d, err := p.AttachableVolumePlugin.NewDetacher()
	if err != nil || !p.gate.off && !p.gate.holds(p.GetPluginName()) {
		return d, err
	}
	return gatedDetacher{d, p}, nil
}

func (p gatedPlugin) pair(volumeName string, node types.NodeName) wire.Pair {
	return wire.Pair{Volume: p.GetPluginName() + "/" + volumeName, Node: string(node)}
}

type gatedAttacher struct {
	volume.Attacher
	plugin gatedPlugin
}

func (a gatedAttacher) Attach(spec *volume.Spec, node types.NodeName) (path string, err error) {
	if a.plugin.gate.off {
		defer a.plugin.gate.outlive()
		return a.Attacher.Attach(spec, node)
	}
	name, err := a.plugin.GetVolumeName(spec)
	if err != nil {
		return "", err
	}
	err = a.plugin.gate.run(a.plugin.pair(name, node), func() error {
		path, err = a.Attacher.Attach(spec, node)
		return err
	})
	return path, err
}

type gatedDetacher struct {
	volume.Detacher
	plugin gatedPlugin
}

func (d gatedDetacher) Detach(volumeName string, node types.NodeName) error {
	if d.plugin.gate.off {
		defer d.plugin.gate.outlive()
		return d.Detacher.Detach(volumeName, node)
	}
	return d.plugin.gate.run(d.plugin.pair(volumeName, node), func() error {
		return d.Detacher.Detach(volumeName, node)
	})
}
