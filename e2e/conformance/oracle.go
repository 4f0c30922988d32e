package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// Mode is the way in which the oracle's pass is run.
type Mode = wire.Mode

// patience is far longer than an oracle takes for an answer.
const patience = 3 * time.Minute

// Oracle is the controller of one release, in a process of its own. It answers one question
// at a time.
type Oracle struct {
	Release Release

	cmd    *exec.Cmd
	in     io.WriteCloser
	ask    *json.Encoder
	answer *json.Decoder
	stderr bytes.Buffer
}

// StartOracle runs the oracle of the release until ctx ends or Close is called.
func StartOracle(ctx context.Context, release Release, binary string) (*Oracle, error) {
	o := &Oracle{Release: release, cmd: exec.CommandContext(ctx, binary)}
	o.cmd.Stderr = &o.stderr
	in, err := o.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := o.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	o.in, o.ask, o.answer = in, json.NewEncoder(in), json.NewDecoder(out)
	if err := o.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the oracle of %s: %w", release, err)
	}
	return o, nil
}

// Close ends the process.
func (o *Oracle) Close() error {
	return errors.Join(o.in.Close(), o.cmd.Wait())
}

// Ask runs one pass of the real controller on the cluster.
func (o *Oracle) Ask(c *Cluster, mode Mode) (*Answer, error) {
	answer, err := o.Send(o.request(c, mode))
	if err != nil {
		return nil, err
	}
	return fromWire(answer), nil
}

// request is the cluster as an API server of the oracle's release stores it.
func (o *Oracle) request(c *Cluster, mode Mode) *wire.Request {
	c = c.In(o.Release)
	return &wire.Request{
		VolumeAttachments: c.VolumeAttachments, Nodes: c.Nodes, CSINodes: c.CSINodes, CSIDrivers: c.CSIDrivers,
		Volumes: c.Volumes, Claims: c.Claims, Pods: c.Pods, Live: c.Live,
		DisableForceDetachOnTimeout: c.DisableForceDetachOnTimeout, FeatureGates: c.FeatureGates, Mode: mode,
	}
}

// Send asks the oracle a question.
func (o *Oracle) Send(request *wire.Request) (*wire.Answer, error) {
	watchdog := time.AfterFunc(patience, func() { _ = o.cmd.Process.Kill() })
	defer watchdog.Stop()
	var answer wire.Answer
	err := o.ask.Encode(request)
	if err == nil {
		err = o.answer.Decode(&answer)
	}
	if err != nil {
		return nil, fmt.Errorf("ask the oracle of %s: %w: %s", o.Release, err, o.stderr.Bytes())
	}
	if answer.Error != "" {
		return nil, fmt.Errorf("the oracle of %s: %s", o.Release, answer.Error)
	}
	return &answer, nil
}

func fromWire(w *wire.Answer) *Answer {
	a := newAnswer()
	for _, node := range w.Managed {
		a.Managed.Insert(types.NodeName(node))
	}
	for _, row := range w.Actual {
		a.Actual[pairOf(row.Pair)] = ActualRow{
			State: reconcile.AttachState(row.State), Spec: row.Spec, DevicePath: row.DevicePath,
			Mounted: row.Mounted, MountedLater: row.MountedLater,
		}
	}
	for _, row := range w.Desired {
		a.Desired[pairOf(row.Pair)] = DesiredRow{Spec: row.Spec, Pods: join(row.Pods)}
	}
	for _, row := range w.Decisions {
		a.Decisions[pairOf(row.Pair)] = Decision{
			Verb: reconcile.Verb(row.Verb), Reason: reconcile.Reason(row.Reason), VolumeAttachment: row.VolumeAttachment,
			Holders: join(row.Holders), Warned: join(row.Warned), Event: row.Event,
			Left: reconcile.AttachState(row.Left), Updated: reconcile.Verb(row.Updated),
		}
	}
	for node, list := range w.Status {
		a.Status[types.NodeName(node)] = statusRow(list)
	}
	for key, reason := range w.Skipped {
		a.Skipped[key] = reconcile.SkipReason(reason)
	}
	a.Ended.Insert(w.Ended...)
	return a
}

func pairOf(p wire.Pair) Pair {
	return Pair{Volume: corev1.UniqueVolumeName(p.Volume), Node: types.NodeName(p.Node)}
}
