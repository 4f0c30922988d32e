// Package kubelettrace compares the product's trace with the volume half of a real kubelet
// (package kubeletoracle): the stage in which each volume of a pod waits, who has to act, and
// whether the wait can end by itself.
package kubelettrace

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/containers"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/link"
	"github.com/volume-doctor/kubectl-volume-doctor/evidence/controllerlog"
	"github.com/volume-doctor/kubectl-volume-doctor/evidence/metrics"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Machine is a running machine with its kubelet. All methods may be called from any
// goroutine.
type Machine struct {
	Node string

	line *link.Link // to the API server; nil where no test cuts it

	root string
	cmd  *exec.Cmd
	mu   sync.Mutex
	to   *json.Encoder
	of   *json.Decoder
	in   io.Closer
}

// StartMachine starts a machine in a mount namespace of its own and returns once its kubelet
// runs. It sets the machine's root and release.
func StartMachine(k Kubelet, machine wire.Machine) (*Machine, error) {
	root, err := os.MkdirTemp("", "kl-") // short: it holds sockets
	if err != nil {
		return nil, err
	}
	machine.Root, machine.Release = root, k.Release
	node := machine.Node
	m := &Machine{Node: node, root: root, cmd: exec.Command(k.binary)}
	m.cmd.Stderr = os.Stderr
	m.cmd.SysProcAttr = ownMounts()
	in, err := m.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	of, err := m.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	m.in, m.to, m.of = in, json.NewEncoder(in), json.NewDecoder(of)
	if err := m.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start machine %s: %w", node, err)
	}
	if err := m.to.Encode(machine); err != nil {
		m.Stop()
		return nil, fmt.Errorf("start machine %s: %w", node, err)
	}
	var ready wire.Answer
	if err := m.of.Decode(&ready); err != nil {
		m.KeepLog()
		m.Stop()
		return nil, fmt.Errorf("start machine %s: %w", node, err)
	}
	return m, nil
}

// Ask makes one request.
func (m *Machine) Ask(r wire.Request) (wire.Answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var a wire.Answer
	if err := m.to.Encode(r); err != nil {
		return a, fmt.Errorf("ask machine %s: %w", m.Node, err)
	}
	if err := m.of.Decode(&a); err != nil {
		return a, fmt.Errorf("ask machine %s: %w", m.Node, err)
	}
	if a.Error != "" {
		return a, fmt.Errorf("machine %s: %s: %s", m.Node, r.Do, a.Error)
	}
	return a, nil
}

// Stop switches the machine off, with its containers and all its mounts. A second call does
// nothing.
func (m *Machine) Stop() {
	_ = m.in.Close()
	_ = m.cmd.Process.Kill() // it may have ended by itself
	_ = m.cmd.Wait()
	for _, pod := range containers.Pods(m.root) {
		_ = containers.Stop(m.root, pod) // a container that is left holds the volume, which a check of the volume notices
	}
	m.detachLoops()
	_ = os.RemoveAll(m.root)
}

// detachLoops releases the loop devices with which the kubelet holds Block volumes: they
// outlive its process and its mounts.
func (m *Machine) detachLoops() {
	files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, file := range files {
		if backing, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(backing), m.root+"/") {
			device := "/dev/" + filepath.Base(filepath.Dir(filepath.Dir(file)))
			_ = exec.Command("losetup", "--detach", device).Run() // another process may have removed it first
		}
	}
}

// Heard is what trace --kubelet gets from the kubelet: its metrics and its log. It has no
// list of pods, because the volume manager has no server.
func (m *Machine) Heard() (*trace.KubeletView, error) {
	a, err := m.Ask(wire.Request{Do: wire.Look, Families: trace.KubeletFamilies()})
	if err != nil {
		return nil, err
	}
	if a.Kubelet == nil {
		return nil, fmt.Errorf("no kubelet runs on %s", m.Node)
	}
	heard := &trace.KubeletView{Gaps: []snapshot.Gap{{Kind: trace.KubeletPods, Reason: snapshot.ReasonUnavailable}}}
	for _, s := range a.Kubelet.Samples {
		heard.Samples = append(heard.Samples, metrics.Sample(s))
	}
	log, err := os.Open(filepath.Join(m.root, "kubelet.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	if end, err := log.Seek(0, io.SeekEnd); err != nil {
		return nil, err
	} else if _, err := log.Seek(max(0, end-heardOfLog), io.SeekStart); err != nil {
		return nil, err
	}
	heard.Failures, err = controllerlog.ReadKubelet(log, time.Now().Add(time.Minute))
	return heard, err
}

// heardOfLog is how much of its log is read, in bytes: at --v=4 the last minutes.
const heardOfLog = 4 << 20

// socket is the socket of the driver's node plugin.
func (m *Machine) socket(driver string) string {
	return filepath.Join(m.root, "plugins", driver, "csi.sock")
}

// KeepLog copies the kubelet's log to a place where it outlives the machine, and returns the
// path.
func (m *Machine) KeepLog() string {
	log, err := os.ReadFile(filepath.Join(m.root, "kubelet.log"))
	if err != nil {
		return err.Error()
	}
	kept := filepath.Join(os.TempDir(), "kubelet-"+m.Node+".log")
	if err := os.WriteFile(kept, log, 0o600); err != nil {
		return err.Error()
	}
	return kept
}
