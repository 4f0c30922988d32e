package histories

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
)

// sceneVolume is the volume of the scenes, which one node at a time may hold.
const sceneVolume = "v1"

// scene is the beginning of a history, to which its methods add objects.
type scene struct{ *wire.Request }

func newScene(steps ...wire.Step) scene {
	request := Generate(0)
	request.VolumeAttachments, request.Pods, request.DisableForceDetachOnTimeout = nil, nil, false
	for _, node := range request.Nodes {
		node.Status = wire.HistoryNode(node.Name).Status
	}
	request.History = steps
	return scene{request}
}

func (s scene) node(name string) *corev1.Node {
	return s.Nodes[slices.IndexFunc(s.Nodes, func(n *corev1.Node) bool { return n.Name == name })]
}

// attached adds a VolumeAttachment for each node.
func (s scene) attached(on ...string) scene {
	for _, name := range on {
		va := wire.HistoryAttachment(sceneVolume, name)
		va.Status.Attached = true
		s.VolumeAttachments = append(s.VolumeAttachments, va)
	}
	return s
}

// listed adds the volume to volumesAttached of each node, and inUse to volumesInUse.
func (s scene) listed(on ...string) scene {
	for _, name := range on {
		node := s.node(name)
		node.Status.VolumesAttached = append(node.Status.VolumesAttached, corev1.AttachedVolume{Name: wire.UniqueName(sceneVolume)})
	}
	return s
}

func (s scene) inUse(on ...string) scene {
	for _, name := range on {
		node := s.node(name)
		node.Status.VolumesInUse = append(node.Status.VolumesInUse, wire.UniqueName(sceneVolume))
	}
	return s
}

// wanted adds a pod with the volume on each node.
func (s scene) wanted(on ...string) scene {
	for _, name := range on {
		s.Pods = append(s.Pods, wire.HistoryPod(podName(sceneVolume, name), name, sceneVolume, ""))
	}
	return s
}

// silent makes the nodes not Ready.
func (s scene) silent(on ...string) scene {
	for _, name := range on {
		s.node(name).Status.Conditions[0].Status = corev1.ConditionUnknown
	}
	return s
}

// Scenes are histories for rules of the model that random ones rarely use: each of them shows
// a wrong edit to package reconcile.
func Scenes() map[string]*wire.Request {
	detaching := func(mode wire.DriverMode, then time.Duration) wire.Step {
		return wire.Step{Do: wire.Detaching, Node: "n1", Volume: sceneVolume, Mode: mode, Then: then}
	}
	sync := func(node string, then time.Duration) wire.Step {
		return wire.Step{Do: wire.SyncNode, Node: node, Then: then}
	}
	forgotten := newScene(wire.Step{Do: wire.Attaching, Volume: sceneVolume, Mode: wire.Hangs, Then: 70 * time.Second}, sync("n1", 12*time.Minute)).
		attached("n1").listed("n1").inUse("n1").wanted("n1")
	forgotten.VolumeAttachments[0].Status.Attached = false
	forgotten.Pods[0].Status.Phase = corev1.PodSucceeded
	hangs := wire.Step{Do: wire.Attaching, Volume: sceneVolume, Mode: wire.Hangs, Then: 5 * time.Minute}
	unattached := newScene(hangs).attached("n1").inUse("n1")
	unattached.VolumeAttachments[0].Status.Attached = false
	unforced := newScene(wire.Step{Do: wire.Nothing, Then: 12 * time.Minute}).attached("n1").listed("n1").inUse("n1").silent("n1")
	unforced.DisableForceDetachOnTimeout = true
	passes := func(then time.Duration) wire.Step { return wire.Step{Do: wire.Nothing, Then: then} }
	// ended adds a pod on n2 that has ended; through it the controller knows the volume that
	// is listed there.
	ended := func(s scene) scene {
		s = s.listed("n2").inUse("n2").wanted("n2")
		s.Pods[len(s.Pods)-1].Status.Phase = corev1.PodSucceeded
		return s
	}
	held := func(s scene) scene {
		return s.attached("n1").listed("n1").inUse("n1").wanted("n3")
	}
	pod := func(do wire.Action, then time.Duration) wire.Step {
		return wire.Step{Do: do, Node: "n2", Volume: sceneVolume, Pod: podName(sceneVolume, "n2"), Then: then}
	}
	attaching := func(mode wire.DriverMode, then time.Duration) wire.Step {
		return wire.Step{Do: wire.Attaching, Volume: sceneVolume, Mode: mode, Then: then}
	}
	scenes := map[string]scene{
		"passed over while it attaches elsewhere": newScene(attaching(wire.Hangs, 3*time.Minute), attaching(wire.Works, 12*time.Minute)).
			attached("n1").silent("n1").wanted("n2"),
		"two detaches that hang, for which one waits": newScene(detaching(wire.Hangs, 12*time.Minute)).
			attached("n1", "n2").listed("n1", "n2").wanted("n3"),
		"two silent ones take turns": newScene(detaching(wire.Hangs, 12*time.Minute)).attached("n1", "n2").silent("n1", "n2"),
		"passed over while it attaches where another one was": newScene(attaching(wire.Hangs, 5*time.Minute), sync("n2", 10*time.Minute)).
			attached("n1", "n2").silent("n1").listed("n2").inUse("n2").wanted("n3"),
		"passed over while it attaches again": newScene(attaching(wire.Hangs, 12*time.Minute)).
			attached("n1").silent("n1").listed("n2").wanted("n2"),
		"held by a silent node and by one that is forgotten": ended(held(newScene(passes(12 * time.Minute)).silent("n1"))),
		"held by a node that stays and by one forgotten":     ended(held(newScene(passes(5 * time.Minute)))),
		"held by one that is never verified": newScene(pod(wire.RunPod, 2*time.Second), pod(wire.EndPod, 12*time.Minute)).
			listed("n2").inUse("n2").wanted("n3"),
		"silent, and nothing is forced":               unforced,
		"uncertain, and its VolumeAttachment says no": unattached,
		"a detach of more than a minute, for which two wait": newScene(detaching(wire.Hangs, 2*time.Second), sync("n1", 70*time.Second), detaching(wire.Works, 30*time.Second)).
			attached("n1").listed("n1").inUse("n1").wanted("n2", "n3"),
		"a detach that hangs, and another holder": newScene(detaching(wire.Hangs, 2*time.Second), sync("n1", 5*time.Minute)).
			attached("n1", "n3").listed("n1", "n3").inUse("n1", "n3").wanted("n2"),
		"forgotten, unmounted and never heard of again": forgotten,
		"three that are unmounted and take turns":       newScene(detaching(wire.Hangs, 15*time.Minute)).attached("n1", "n2", "n3"),
	}
	requests := map[string]*wire.Request{}
	for name, s := range scenes {
		requests[name] = s.Request
	}
	return requests
}
