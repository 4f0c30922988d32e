package main

import (
	"os"
	"path/filepath"
	"sync"

	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/utils/exec"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
)

// flexPlugins are upstream's flexvolume plugins over drivers that only answer
// "init". They are probed once, because each prober watches its directory.
var flexPlugins = sync.OnceValues(func() ([]volume.VolumePlugin, error) {
	dir, err := os.MkdirTemp("", "flexvolume")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for name := range wire.FlexCapabilities {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			return nil, err
		}
	}
	prober := newFlexProber(dir, flexRunner{})
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
		if wire.FlexCapabilities[filepath.Base(filepath.Dir(path))] {
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
