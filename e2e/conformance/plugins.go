package conformance

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/csi"
	"k8s.io/kubernetes/pkg/volume/fc"
	"k8s.io/kubernetes/pkg/volume/flexvolume"
	"k8s.io/kubernetes/pkg/volume/iscsi"
	"k8s.io/utils/exec"
)

// gate holds the operations that the pass starts, right before they reach the
// volume plugin, until the pass is over. Upstream nothing promises that: an
// operation that needs no API call, as on FC and iSCSI, may end within the pass.
type gate struct {
	open chan struct{}
	// noOps says that plugins that call nobody are held too.
	noOps bool

	mu      sync.Mutex
	ended   int
	change  *sync.Cond
	touched map[Pair]string
	last    string
}

func newGate(noOps bool) *gate {
	g := &gate{open: make(chan struct{}), noOps: noOps, touched: map[Pair]string{}}
	g.change = sync.NewCond(&g.mu)
	return g
}

// run lets one operation at a time through, and notes which VolumeAttachment it
// creates or deletes.
func (g *gate) run(pair Pair, operation func() error) error {
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = ""
	err := operation()
	g.touched[pair] = g.last
	g.ended++
	g.change.Broadcast()
	return err
}

// touch is called by the API server's stand-in from within operation.
func (g *gate) touch(volumeAttachment string) { g.last = volumeAttachment }

// release opens the gate and waits until so many operations have ended.
func (g *gate) release(operations int) map[Pair]string {
	close(g.open)
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.ended < operations {
		g.change.Wait()
	}
	return g.touched
}

// plugins are those of kube-controller-manager, behind the gate.
func (g *gate) plugins() []volume.VolumePlugin {
	var all []volume.VolumePlugin
	for _, probe := range []func() []volume.VolumePlugin{csi.ProbeVolumePlugins, fc.ProbeVolumePlugins, iscsi.ProbeVolumePlugins} {
		for _, plugin := range probe() {
			all = append(all, gatedPlugin{plugin.(volume.AttachableVolumePlugin), g})
		}
	}
	return all
}

func (g *gate) holds(plugin string) bool { return g.noOps || plugin == csi.CSIPluginName }

type gatedPlugin struct {
	volume.AttachableVolumePlugin
	gate *gate
}

func (p gatedPlugin) NewAttacher() (volume.Attacher, error) {
	a, err := p.AttachableVolumePlugin.NewAttacher()
	if err != nil || !p.gate.holds(p.GetPluginName()) {
		return a, err
	}
	return gatedAttacher{a, p}, nil
}

func (p gatedPlugin) NewDetacher() (volume.Detacher, error) {
	d, err := p.AttachableVolumePlugin.NewDetacher()
	if err != nil || !p.gate.holds(p.GetPluginName()) {
		return d, err
	}
	return gatedDetacher{d, p}, nil
}

func (p gatedPlugin) pair(volumeName string, node types.NodeName) Pair {
	return Pair{Volume: corev1.UniqueVolumeName(p.GetPluginName() + "/" + volumeName), Node: node}
}

type gatedAttacher struct {
	volume.Attacher
	plugin gatedPlugin
}

func (a gatedAttacher) Attach(spec *volume.Spec, node types.NodeName) (path string, err error) {
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
	return d.plugin.gate.run(d.plugin.pair(volumeName, node), func() error {
		return d.Detacher.Detach(volumeName, node)
	})
}

// flexCapabilities are the flexvolume drivers on the controller's host, by
// directory name, and whether they attach.
var flexCapabilities = map[string]bool{"acme~disk": true, "acme~share": false, "plain": true}

// flexDrivers are the names of those that attach, or of those that do not.
func flexDrivers(attach bool) []string {
	var names []string
	for dir, can := range flexCapabilities {
		if can == attach {
			names = append(names, strings.Replace(dir, "~", "/", 1))
		}
	}
	slices.Sort(names)
	return names
}

// flexPlugins are upstream's flexvolume plugins over drivers that only answer
// "init". They are probed once, because each prober watches its directory.
var flexPlugins = sync.OnceValues(func() ([]volume.VolumePlugin, error) {
	dir, err := os.MkdirTemp("", "flexvolume")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	for name := range flexCapabilities {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			return nil, err
		}
	}
	prober := flexvolume.GetDynamicPluginProber(context.Background(), dir, flexRunner{})
	if err := prober.Init(); err != nil {
		return nil, err
	}
	events, err := prober.Probe()
	var plugins []volume.VolumePlugin
	for _, event := range events {
		plugins = append(plugins, event.Plugin)
	}
	return plugins, err
})

// flexProber hands the shared flexvolume plugins to one controller.
type flexProber struct {
	gate *gate
	done bool
}

func (p *flexProber) Init() error { return nil }

func (p *flexProber) Probe() ([]volume.ProbeEvent, error) {
	if p.done {
		return nil, nil
	}
	p.done = true
	plugins, err := flexPlugins()
	var events []volume.ProbeEvent
	for _, plugin := range plugins {
		event := volume.ProbeEvent{Op: volume.ProbeAddOrUpdate, PluginName: plugin.GetPluginName(), Plugin: sharedPlugin{plugin}}
		if attachable, ok := plugin.(volume.AttachableVolumePlugin); ok {
			event.Plugin = sharedAttachable{gatedPlugin{attachable, p.gate}}
		}
		events = append(events, event)
	}
	return events, err
}

// A shared plugin belongs to several controllers and so to no host.
type sharedPlugin struct{ volume.VolumePlugin }

func (sharedPlugin) Init(volume.VolumeHost) error { return nil }

type sharedAttachable struct{ gatedPlugin }

func (sharedAttachable) Init(volume.VolumeHost) error { return nil }

// flexRunner answers for every flexvolume driver.
type flexRunner struct{ exec.Interface }

func (flexRunner) Command(path string, args ...string) exec.Cmd {
	reply := `{"status": "Not supported"}`
	if len(args) > 0 && args[0] == "init" {
		reply = `{"status": "Success", "capabilities": {"attach": false}}`
		if flexCapabilities[filepath.Base(filepath.Dir(path))] {
			reply = `{"status": "Success", "capabilities": {"attach": true}}`
		}
	}
	return flexCommand{reply: reply}
}

type flexCommand struct {
	exec.Cmd
	reply string
}

func (c flexCommand) CombinedOutput() ([]byte, error) { return []byte(c.reply), nil }
func (flexCommand) Stop()                             {}
