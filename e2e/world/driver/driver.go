// Package driver is a storage system with its CSI driver: a table of what is attached and
// staged where, and of the calls that go wrong.
package driver

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Call is one of the driver's calls.
type Call string

// The calls that can go wrong.
const (
	Attach    Call = "ControllerPublishVolume"
	Detach    Call = "ControllerUnpublishVolume"
	Stage     Call = "NodeStageVolume"
	Publish   Call = "NodePublishVolume"
	Unpublish Call = "NodeUnpublishVolume"
	Unstage   Call = "NodeUnstageVolume"
)

// Fault is a call that goes wrong until it is cured.
type Fault struct {
	Call Call `json:"call"`
	// Volume and Node narrow it; "" is all of them.
	Volume string `json:"volume,omitempty"`
	Node   string `json:"node,omitempty"`
	// Words refuse the call, with a code.
	Words string     `json:"words,omitempty"`
	Code  codes.Code `json:"code,omitempty"`
	// Hangs keeps the call until its caller gives up. After is how long it takes, else.
	Hangs bool          `json:"hangs,omitempty"`
	After time.Duration `json:"after,omitempty"`
	// Done does what was asked before it refuses or hangs.
	Done bool `json:"done,omitempty"`
}

func (f Fault) String() string {
	s := string(f.Call)
	for name, value := range map[string]string{" of ": f.Volume, " on ": f.Node} {
		if value != "" {
			s += name + value
		}
	}
	switch {
	case f.Hangs:
		s += " hangs"
	case f.Words != "":
		s += fmt.Sprintf(" refuses with %s: %s", f.Code, f.Words)
	default:
		s += " takes " + f.After.String()
	}
	if f.Done {
		s += ", although it is done"
	}
	return s
}

func (f Fault) fits(call Call, volume, node string) bool {
	return f.Call == call && (f.Volume == "" || f.Volume == volume) && (f.Node == "" || f.Node == node)
}

// Entry is a call that has ended.
type Entry struct {
	At     time.Time
	Call   Call
	Volume string
	Node   string
	Err    error
}

// Driver is the storage system. Its calls are made by the attacher and the kubelets.
type Driver struct {
	// Name is the CSI driver's.
	Name string
	// Shared volumes may be attached to several nodes.
	Shared bool

	mu       sync.Mutex
	attached map[string]map[string]bool
	faults   []Fault
	// cured is closed when the faults change, for the calls that hang.
	cured chan struct{}
	log   []Entry
}

// usual is how long a call takes.
const usual = 300 * time.Millisecond

// New makes a driver for which all goes well.
func New(name string) *Driver {
	return &Driver{Name: name, attached: map[string]map[string]bool{}, cured: make(chan struct{})}
}

// Break adds a fault.
func (d *Driver) Break(f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, f)
}

// Cure takes the fault away, and lets the calls go on that hang because of it.
func (d *Driver) Cure(f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = slices.DeleteFunc(d.faults, func(other Fault) bool { return other == f })
	close(d.cured)
	d.cured = make(chan struct{})
}

// Faults are those that are at work.
func (d *Driver) Faults() []Fault {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.faults)
}

// Log is what calls have ended so far, in order.
func (d *Driver) Log() []Entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.log)
}

// AttachedTo are the nodes that the volume is attached to, sorted.
func (d *Driver) AttachedTo(volume string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.attached[volume]))
}

// Do makes a call: it goes wrong as the first fault says that fits it.
func (d *Driver) Do(ctx context.Context, call Call, volume, node string) error {
	err := d.do(ctx, call, volume, node)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, Entry{time.Now(), call, volume, node, err})
	return err
}

func (d *Driver) do(ctx context.Context, call Call, volume, node string) error {
	if err := sleep(ctx, usual); err != nil {
		return err
	}
	for {
		f, broken, cured := d.fault(call, volume, node)
		if !broken {
			return d.work(call, volume, node)
		}
		if f.Done {
			if err := d.work(call, volume, node); err != nil {
				return err
			}
		}
		switch {
		case f.Hangs:
			select {
			case <-cured:
				continue
			case <-ctx.Done():
				return status.FromContextError(ctx.Err()).Err()
			}
		case f.Words != "":
			return status.Error(f.Code, f.Words)
		}
		if err := sleep(ctx, f.After); err != nil {
			return err
		}
		return d.work(call, volume, node)
	}
}

func (d *Driver) fault(call Call, volume, node string) (f Fault, broken bool, cured <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.faults {
		if f.fits(call, volume, node) {
			return f, true, d.cured
		}
	}
	return Fault{}, false, d.cured
}

// work does what was asked, as far as the storage system can.
func (d *Driver) work(call Call, volume, node string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	nodes := d.attached[volume]
	switch call {
	case Attach:
		for other := range nodes {
			if other != node && !d.Shared {
				return status.Errorf(codes.FailedPrecondition, "volume %s is already attached to node %s", volume, other)
			}
		}
		if nodes == nil {
			nodes = map[string]bool{}
			d.attached[volume] = nodes
		}
		nodes[node] = true
	case Detach:
		delete(nodes, node)
	case Stage:
		if !nodes[node] {
			return status.Errorf(codes.Internal, "no device for volume %s on node %s", volume, node)
		}
	case Publish, Unpublish, Unstage: // nothing that the storage system knows of
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// Attach implements the attacher's interface of the same name.
func (d *Driver) Attach(ctx context.Context, volume string, _ bool, node string, _ *csi.VolumeCapability, _, _ map[string]string) (map[string]string, bool, error) {
	err := d.Do(ctx, Attach, volume, node)
	return nil, isFinal(err), err
}

// isFinal reports whether the attach has failed for good, as csi-attacher reads the codes:
// after any other one it may still be under way.
func isFinal(err error) bool {
	switch status.Code(err) {
	case codes.OK, codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
		return false
	default:
		return true
	}
}

// Detach implements the attacher's interface.
func (d *Driver) Detach(ctx context.Context, volume, node string, _ map[string]string) error {
	return d.Do(ctx, Detach, volume, node)
}

// ListVolumes implements the attacher's interface. The driver is one of those that do not
// list where a volume is published.
func (d *Driver) ListVolumes(context.Context) (map[string][]string, error) { return nil, nil }
