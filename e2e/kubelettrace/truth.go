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

// Actor is who has to act so that a volume proceeds, as the oracle knows it.
type Actor string

// The actors.
const (
	Nobody     Actor = "nobody" // the volume cannot proceed as it is
	TheKubelet Actor = "the kubelet"
	TheDriver  Actor = "the CSI driver"
	ThePlugin  Actor = "the node plugin" // it has not registered
	Creator    Actor = "whoever creates what is missing"
	Controller Actor = "the attach/detach controller"
	Binder     Actor = "the persistent volume controller"
	Other      Actor = "the pod that uses it"
	NodeAdmin  Actor = "whoever has to act on the node" // the administrator whose tools and programs are in the way
)

// Volume is the tests' knowledge about a volume of a pod, because they made it.
type Volume struct {
	// Name is the pod's name for it, and Spec the name of its folders in the pod's folder.
	Name, Spec string
	// Driver, Handle and Unique are set for a CSI volume. The handle of an inline one is made
	// by the kubelet.
	Driver, Handle string
	Unique         corev1.UniqueVolumeName
	// Attachable reports whether the controller attaches it, and Stages whether its driver
	// stages it.
	Attachable, Stages bool
	// Alone reports whether no other pod mounts it.
	Alone bool
	// Unused reports whether no container mounts it, and Device whether one uses it as a
	// device.
	Unused, Device bool
	// Unclaimed reports whether its claim leads to no volume.
	Unclaimed bool
	// Local is who has to act where the kubelet makes no call; "" where nothing prevents the
	// call.
	Local Actor
	// Heals reports whether the object that Local waits for is made once the faults end.
	Heals bool
	// Never reports whether the volume can never come, as can be seen immediately.
	Never bool
}

// Truth is the true state of a volume, and who has to act.
type Truth struct {
	// Mounted reports whether the pod's containers can use it.
	Mounted bool
	// Published reports whether the driver has it published for the pod. A kubelet that was
	// restarted counts it as mounted only after it has published it once more.
	Published bool
	// Done reports for each stage whether the volume has passed it; a stage that is missing
	// does not exist for the volume.
	Done map[trace.StageName]bool
	// Stage is the stage in which it waits; "" where it does not wait.
	Stage trace.StageName
	Actor Actor
	// Also is somebody else who has to act, too, so that the volume proceeds; "" where nobody
	// has to. Which of the two the kubelet meets first depends on when it last tried.
	Also Actor
	// Forgotten reports whether the driver has it mounted for the pod, and the kubelet does
	// not know that.
	Forgotten bool
	// Uncalled reports whether the driver was not asked to unpublish it from the pod that
	// ends. No object shows that an earlier step of the kubelet fails, as for a device whose
	// bind mount is busy; the kubelet's log does.
	Uncalled bool
	// Busy reports whether a mount that the kubelet itself made for the pod cannot be
	// unmounted.
	Busy bool
}

func (t Truth) equal(o Truth) bool {
	return t.Mounted == o.Mounted && t.Stage == o.Stage && t.Actor == o.Actor
}

// seen has everything that shows the truth about the pods of one machine at one moment.
type seen struct {
	answer     wire.Answer
	published  func(handle string) bool // on this machine
	refused    func(handle string) bool // the driver's last answer to an attach
	listed     func(corev1.UniqueVolumeName) bool
	registered func(driver string) bool
	silent     func(driver string) bool // it is registered, and nobody listens at its socket
	// mounts are the machine's mounts, by the path below the kubelet's root, with the device.
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
		v.Alone && slices.Contains(k.InUse, v.Unique) // in use since the kubelet gave up that wait
	t.Done[trace.StageClaimBound] = !v.Unclaimed
	if v.Attachable {
		if reported := slices.Contains(k.Reported, v.Unique); taken || !reported {
			t.Done[trace.StageInVolumesInUse] = reported
		} // otherwise it is in use for another pod, or was not taken up when the kubelet last gave up its wait
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
	case v.Driver != "" && v.Never && v.Local == Nobody && v.Unique != "": // refused before the driver is called
		t.Stage, t.Actor = trace.StageStaged, Nobody
	case v.Driver != "" && v.Never && v.Local == Nobody: // whether or not the driver is there
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
	if v.Local == Creator && s.silent(v.Driver) {
		t.Also = TheDriver
	}
	return t
}

// attaching is the stage and the actor for a volume that the kubelet does not see attached.
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

// last is the last call for the volume, and whether it succeeded; pod is the pod of a
// publish.
func (s seen) last(rpc wire.RPC, handle string, pod types.UID) (wire.Call, bool) {
	for _, c := range slices.Backward(s.answer.Calls) {
		if c.Handle == handle && c.Pod == pod && (c.RPC == rpc || rpc == wire.Stage && c.RPC == wire.Unstage) {
			return c, c.RPC == rpc && !c.Ended.IsZero() && c.Code == 0
		}
	}
	return wire.Call{}, false
}

// received reports whether the driver got the call for the volume since that time.
func (s seen) received(rpc wire.RPC, handle string, since time.Time) bool {
	return slices.ContainsFunc(s.answer.Calls, func(c wire.Call) bool { return c.RPC == rpc && c.Handle == handle && c.Began.After(since) })
}

// notTaken reports whether the kubelet could not take the volume up, by its own text when it
// last gave up its wait.
func notTaken(wait, volume string) bool {
	_, rest, ok := strings.Cut(wait, "failed to process volumes=[")
	if !ok {
		return false
	}
	names, _, _ := strings.Cut(rest, "]")
	return slices.Contains(strings.Fields(names), volume)
}

// uncertain are the codes after which the kubelet counts a volume as possibly mounted
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
		t.Forgotten = true // a restarted kubelet does not find it, and nobody will unmount it
		return t
	}
	t.Done[trace.StageUnmounted] = !held
	if held {
		s.holds(&t, v)
		t.Uncalled = freed.Began.IsZero()
	}
	return t
}

// busy reports whether a mount still exists that the kubelet itself made for the pod: the
// volume, where it has no driver, or a subPath of it.
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

// elsewhere reports whether the volume is also mounted at a path that is not the kubelet's.
func (s seen) elsewhere(handle string) bool {
	_, there := s.mounts[elsewherePath(handle)]
	return there
}

// holds sets the truth of a volume that waits to be unpublished from the pod.
func (s seen) holds(t *Truth, v Volume) {
	t.Stage, t.Actor = trace.StageUnmounted, TheDriver
	if !s.registered(v.Driver) {
		t.Actor = ThePlugin
	}
}

// holdsOne handles a pod that ends, none of whose volumes the driver has any more, while the
// kubelet counts one as possibly mounted: it may be any volume that the driver was called
// for, and that the kubelet still has in use. Only the kubelet's log shows which.
func (s seen) holdsOne(pod types.UID, volumes []Volume, truth map[string]Truth) {
	told := s.answer.Kubelet.Pods[pod]
	if !told.Terminating || !told.Possibly || slices.ContainsFunc(slices.Collect(maps.Values(truth)), func(t Truth) bool { return t.Stage != "" }) {
		return
	}
	for _, v := range volumes {
		t := truth[v.Name]
		_, called := t.Done[trace.StageUnmounted]
		if !called || !s.received(wire.Publish, v.Handle, time.Time{}) || v.Attachable && !slices.Contains(s.answer.Kubelet.InUse, v.Unique) {
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
