package kubelettrace

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
)

// Actor is who has to act for a volume to come on, as the oracle knows it.
type Actor string

// The actors.
const (
	Nobody     Actor = "nobody" // it cannot come on as it is
	TheKubelet Actor = "the kubelet"
	TheDriver  Actor = "the CSI driver"
	ThePlugin  Actor = "the node plugin" // which has not registered
	Creator    Actor = "whoever creates what is missing"
	Controller Actor = "the attach/detach controller"
	Binder     Actor = "the persistent volume controller"
	Other      Actor = "the pod that uses it"
	NodeAdmin  Actor = "whoever has to act on the node" // whose tools and programs are in the way
)

// Volume is what the tests know of a volume of a pod, because they made it.
type Volume struct {
	// Name is the pod's name for it, and Spec that of its folders in the pod's.
	Name, Spec string
	// Driver, Handle and Unique are those of a CSI volume. The handle of an inline one
	// is the kubelet's.
	Driver, Handle string
	Unique         corev1.UniqueVolumeName
	// Attachable says that the controller attaches it, and Stages that its driver
	// stages it.
	Attachable, Stages bool
	// Alone says that no other pod mounts it.
	Alone bool
	// Unused says that no container mounts it, and Device that one uses it as a device.
	Unused, Device bool
	// Unclaimed says that its claim leads to no volume.
	Unclaimed bool
	// Local is who has to act where the kubelet makes no call; "": nothing keeps it
	// from the call.
	Local Actor
	// Heals says that what Local waits for is made once the faults end.
	Heals bool
	// Never says that it can never come, as can be seen at first sight.
	Never bool
}

// Truth is how far a volume is, and who has to act.
type Truth struct {
	// Mounted says that the pod's containers can use it.
	Mounted bool
	// Published says that the driver has it published for the pod. A kubelet that was
	// started again does not take it for mounted before it has published it once more.
	Published bool
	// Done says of each stage whether it is behind the volume; one of which nothing is
	// said does not exist for it.
	Done map[trace.StageName]bool
	// Stage is the one that it waits in; "" where it waits in none.
	Stage trace.StageName
	Actor Actor
	// Forgotten says that the driver has it mounted for the pod, and the kubelet does not
	// know that.
	Forgotten bool
	// Uncalled says that the driver has not been asked to take it from the pod that ends.
	// No object tells that something else of the kubelet's fails before, as it does with a
	// device whose bind mount is busy; its log does.
	Uncalled bool
	// Busy says that what the kubelet has mounted for the pod itself cannot be unmounted.
	Busy bool
}

func (t Truth) equal(o Truth) bool {
	return t.Mounted == o.Mounted && t.Stage == o.Stage && t.Actor == o.Actor
}

// seen is all that tells the truth about the pods of one machine at one moment.
type seen struct {
	answer     wire.Answer
	published  func(handle string) bool // on this machine
	refused    func(handle string) bool // the driver's last answer to an attach
	listed     func(corev1.UniqueVolumeName) bool
	registered func(driver string) bool
	// mounts are those of the machine, by the path below the kubelet's root, with the device.
	mounts map[string]string
}

// up is the truth about a volume of a pod that starts.
func (s seen) up(pod types.UID, v Volume) Truth {
	k := s.answer.Kubelet
	told := k.Pods[pod]
	t := Truth{Done: map[trace.StageName]bool{trace.StageScheduled: true, trace.StageMounted: false}, Mounted: slices.Contains(told.Mounted, v.Name)}
	if v.Unused {
		return t
	}
	_, t.Published = s.last(wire.Publish, v.Handle, pod)
	taken := !notTaken(told.Wait, v.Name) || s.received(wire.Stage, v.Handle, time.Time{}) || s.received(wire.Publish, v.Handle, time.Time{}) ||
		v.Alone && slices.Contains(k.InUse, v.Unique) // it has been since that wait was given up
	t.Done[trace.StageClaimBound] = !v.Unclaimed
	if v.Attachable {
		if reported := slices.Contains(k.Reported, v.Unique); taken || !reported {
			t.Done[trace.StageInVolumesInUse] = reported
		} // else it is there for another pod, or was not taken up when the kubelet last gave up its wait
		t.Done[trace.StageAttached] = s.published(v.Handle)
		t.Done[trace.StageInVolumesAttached] = s.listed(v.Unique)
	}
	if v.Driver != "" {
		t.Done[trace.StageRegistered] = s.registered(v.Driver)
	}
	staged := true
	if v.Stages {
		_, staged = s.last(wire.Stage, v.Handle, "")
		t.Done[trace.StageStaged] = staged
	}
	t.Done[trace.StageMounted] = t.Mounted
	switch {
	case t.Mounted:
		return t
	case v.Unclaimed:
		t.Stage, t.Actor = trace.StageClaimBound, v.Local
	case !taken:
		t.Stage, t.Actor = trace.StageInVolumesInUse, cmp.Or(v.Local, TheKubelet)
	case v.Attachable && !slices.Contains(k.Attached, v.Unique) && !(v.Never && t.Done[trace.StageInVolumesAttached]):
		t.Stage, t.Actor = s.attaching(v, t)
	case v.Driver != "" && v.Never && v.Local == Nobody && v.Unique != "": // refused before the driver is asked
		t.Stage, t.Actor = trace.StageStaged, Nobody
	case v.Driver != "" && v.Never && v.Local == Nobody: // whether the driver is there or not
		t.Stage, t.Actor = trace.StageMounted, Nobody
	case v.Driver != "" && !s.registered(v.Driver):
		t.Stage, t.Actor = trace.StageRegistered, ThePlugin
	case v.Stages && !staged:
		t.Stage, t.Actor = trace.StageStaged, cmp.Or(v.Local, TheDriver)
	default:
		t.Stage, t.Actor = trace.StageMounted, cmp.Or(v.Local, TheDriver)
		if v.Driver == "" {
			t.Actor = cmp.Or(v.Local, TheKubelet)
		}
	}
	return t
}

// attaching is for a volume that the kubelet does not see attached.
func (s seen) attaching(v Volume, t Truth) (trace.StageName, Actor) {
	switch {
	case !s.registered(v.Driver) && !t.Done[trace.StageAttached]:
		return trace.StageRegistered, ThePlugin
	case !t.Done[trace.StageAttached] && s.refused(v.Handle):
		return trace.StageAttached, TheDriver
	case !t.Done[trace.StageAttached]:
		return trace.StageAttached, Controller
	case !t.Done[trace.StageInVolumesAttached]:
		return trace.StageInVolumesAttached, Controller
	default:
		return trace.StageInVolumesInUse, TheKubelet
	}
}

// last is the last call for the volume, and whether it was answered well; pod is that
// of a publish.
func (s seen) last(rpc wire.RPC, handle string, pod types.UID) (wire.Call, bool) {
	for _, c := range slices.Backward(s.answer.Calls) {
		if c.Handle == handle && c.Pod == pod && (c.RPC == rpc || rpc == wire.Stage && c.RPC == wire.Unstage) {
			return c, c.RPC == rpc && !c.Ended.IsZero() && c.Code == 0
		}
	}
	return wire.Call{}, false
}

// received reports whether the driver got the call for the volume since.
func (s seen) received(rpc wire.RPC, handle string, since time.Time) bool {
	return slices.ContainsFunc(s.answer.Calls, func(c wire.Call) bool { return c.RPC == rpc && c.Handle == handle && c.Began.After(since) })
}

// notTaken reports whether the kubelet could not take the volume up, as it put it when it
// last gave up its wait.
func notTaken(wait, volume string) bool {
	_, rest, ok := strings.Cut(wait, "failed to process volumes=[")
	if !ok {
		return false
	}
	names, _, _ := strings.Cut(rest, "]")
	return slices.Contains(strings.Fields(names), volume)
}

// uncertain are the codes after which the kubelet takes a volume for possibly mounted
// (isFinalError, pkg/volume/csi/csi_client.go).
var uncertain = []codes.Code{codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted}

// down is the truth about a volume of a pod that ends.
func (s seen) down(pod types.UID, v Volume) Truth {
	told := s.answer.Kubelet.Pods[pod]
	t := Truth{Done: map[trace.StageName]bool{}, Mounted: slices.Contains(told.Mounted, v.Name)}
	if v.Unused {
		return t
	}
	if s.busy(pod, v) {
		t.Stage, t.Actor, t.Busy = trace.StageUnmounted, NodeAdmin, true
		t.Done[trace.StageUnmounted] = false
		return t
	}
	if v.Driver == "" {
		return t
	}
	published, well := s.last(wire.Publish, v.Handle, pod)
	freed, gone := s.last(wire.Unpublish, v.Handle, pod)
	held := !published.Began.IsZero() && (well || published.Ended.IsZero() || slices.Contains(uncertain, codes.Code(published.Code))) && (!gone || !freed.Began.After(published.Began))
	if held && v.Attachable && !slices.Contains(s.answer.Kubelet.InUse, v.Unique) {
		t.Forgotten = true // a kubelet that was started again does not find it, and nobody will unmount it
		return t
	}
	t.Done[trace.StageUnmounted] = !held
	if held {
		s.holds(&t, v)
		t.Uncalled = freed.Began.IsZero()
	}
	return t
}

// busy reports whether something is still mounted that the kubelet mounted for the pod itself:
// the volume, where it has no driver, or a subPath of it.
func (s seen) busy(pod types.UID, v Volume) bool {
	for path := range s.mounts {
		if strings.HasPrefix(path, fmt.Sprintf("/pods/%s/volume-subpaths/%s/", pod, v.Spec)) {
			return true
		}
		if of, found := strings.CutPrefix(path, fmt.Sprintf("/pods/%s/volumes/", pod)); found && v.Driver == "" {
			if _, name, _ := strings.Cut(of, "/"); name == v.Spec {
				return true
			}
		}
	}
	return false
}

// elsewhere reports whether the volume is mounted beside where the kubelet has it.
func (s seen) elsewhere(handle string) bool {
	_, there := s.mounts[elsewherePath(handle)]
	return there
}

// holds says that the volume waits to be taken from the pod.
func (s seen) holds(t *Truth, v Volume) {
	t.Stage, t.Actor = trace.StageUnmounted, TheDriver
	if !s.registered(v.Driver) {
		t.Actor = ThePlugin
	}
}

// holdsOne is for a pod that ends and of which the driver has no volume any more, while the
// kubelet takes one for possibly mounted: it may be each that the driver was called for.
// Which, only its log tells.
func (s seen) holdsOne(pod types.UID, volumes []Volume, truth map[string]Truth) {
	told := s.answer.Kubelet.Pods[pod]
	if !told.Terminating || !told.Possibly || slices.ContainsFunc(slices.Collect(maps.Values(truth)), func(t Truth) bool { return t.Stage != "" }) {
		return
	}
	for _, v := range volumes {
		t := truth[v.Name]
		if _, called := t.Done[trace.StageUnmounted]; !called || !s.received(wire.Publish, v.Handle, time.Time{}) {
			continue
		}
		delete(t.Done, trace.StageUnmounted)
		s.holds(&t, v)
		t.Uncalled = true
		truth[v.Name] = t
	}
}

// pending reports whether a call for the volume is under way.
func (s seen) pending(handle string) bool {
	return slices.ContainsFunc(s.answer.Calls, func(c wire.Call) bool { return c.Handle == handle && c.Ended.IsZero() })
}
