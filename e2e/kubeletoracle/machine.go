//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
)

// machine is where the drivers live, and where the kubelet comes and goes.
type machine struct {
	options wire.Machine
	drivers map[string]*nodePlugin
	calls   *calls
	kubelet *kubeletProcess // nil: none runs
}

// serveMachine is a whole machine.
func serveMachine(in *json.Decoder, out *json.Encoder) error {
	m := &machine{drivers: map[string]*nodePlugin{}, calls: &calls{}}
	if err := in.Decode(&m.options); err != nil {
		return fmt.Errorf("read what machine it is: %w", err)
	}
	for _, d := range m.options.Drivers {
		plugin, err := startNodePlugin(m.options, d, m.calls)
		if err != nil {
			return fmt.Errorf("start the node plugin of %s: %w", d.Name, err)
		}
		m.drivers[driverKey(d)] = plugin
	}
	if err := m.start(); err != nil {
		return err
	}
	if err := out.Encode(wire.Answer{}); err != nil {
		return err
	}
	return converse(in, out, m.answer)
}

func (m *machine) answer(r wire.Request) (wire.Answer, error) {
	driver := m.drivers[r.Driver]
	if driver == nil && (r.Do == wire.SetFault || r.Do == wire.SetInfo || r.Do == wire.Register || r.Do == wire.Unregister) {
		return wire.Answer{}, fmt.Errorf("%s: no driver %q", r.Do, r.Driver)
	}
	switch r.Do {
	case wire.Look:
		a := wire.Answer{}
		if m.kubelet != nil {
			var err error
			if a, err = m.kubelet.ask(r); err != nil {
				return wire.Answer{}, err
			}
		}
		a.Registrations = m.calls.allRegistrations()
		a.Calls = m.calls.all() // after the kubelet: a call that it knows to have ended is there
		return a, nil
	case wire.SetFault:
		driver.set(r.Fault)
		return wire.Answer{}, nil
	case wire.SetInfo:
		driver.setInfo(r.Info)
		return wire.Answer{}, nil
	case wire.Forget:
		m.calls.forget()
		return wire.Answer{}, nil
	case wire.NoNetwork, wire.Network:
		if m.kubelet == nil {
			return wire.Answer{}, errors.New("no kubelet runs")
		}
		return m.kubelet.ask(r)
	case wire.Register:
		return wire.Answer{}, driver.register()
	case wire.Unregister:
		return wire.Answer{}, driver.unregister()
	case wire.Kill:
		m.kubelet.kill()
		m.kubelet = nil
		return wire.Answer{}, nil
	case wire.Start:
		return wire.Answer{}, m.start()
	default:
		return wire.Answer{}, fmt.Errorf("unknown request %q", r.Do)
	}
}

// kubeletProcess is a kubelet that runs.
type kubeletProcess struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	to  *json.Encoder
	of  *json.Decoder
}

// start starts the kubelet and returns once its volume manager runs.
func (m *machine) start() error {
	if m.kubelet != nil {
		return errors.New("start the kubelet: it runs")
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if m.options.Hollow != nil {
		program = m.options.Hollow.Program
	}
	log, err := os.OpenFile(filepath.Join(m.options.Root, "kubelet.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has its own
	cmd := exec.Command(program, asKubelet)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	of, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the kubelet: %w", err)
	}
	k := &kubeletProcess{cmd: cmd, in: in, to: json.NewEncoder(in), of: json.NewDecoder(of)}
	if err := k.to.Encode(m.options); err != nil {
		k.kill()
		return fmt.Errorf("start the kubelet: %w", err)
	}
	var ready wire.Answer
	if err := k.of.Decode(&ready); err != nil {
		k.kill()
		return fmt.Errorf("start the kubelet (see %s): %w", log.Name(), err)
	}
	m.kubelet = k
	return nil
}

func (k *kubeletProcess) ask(r wire.Request) (wire.Answer, error) {
	var a wire.Answer
	if err := k.to.Encode(r); err != nil {
		return a, fmt.Errorf("ask the kubelet: %w", err)
	}
	if err := k.of.Decode(&a); err != nil {
		return a, fmt.Errorf("ask the kubelet: %w", err)
	}
	return a, nil
}

// kill ends it as a crash does.
func (k *kubeletProcess) kill() {
	if k == nil {
		return
	}
	_ = k.cmd.Process.Kill() // it may have died by itself
	_ = k.cmd.Wait()
}
