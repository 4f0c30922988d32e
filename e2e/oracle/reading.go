package main

import (
	"context"

	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	adcache "k8s.io/kubernetes/pkg/controller/volume/attachdetach/cache"
	"k8s.io/kubernetes/pkg/volume"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
)

// reading is an answer under way: its rows, by what they are about.
type reading struct {
	managed   map[string]bool
	actual    map[wire.Pair]wire.Actual
	desired   map[wire.Pair]wire.Desired
	decisions map[wire.Pair]wire.Decision
	skipped   map[string]string
}

// answer reads the controller's worlds and log once the pass is over.
func (o *oracle) answer(ctx context.Context) (*wire.Answer, error) {
	r := &reading{
		managed: map[string]bool{}, actual: map[wire.Pair]wire.Actual{}, desired: map[wire.Pair]wire.Desired{},
		decisions: map[wire.Pair]wire.Decision{}, skipped: map[string]string{},
	}
	lines := o.log.take()
	o.readDesired(r)
	o.readActual(r)
	status, err := o.status()
	if err != nil {
		return nil, err
	}
	events, err := o.warnings()
	if err != nil {
		return nil, err
	}
	if err := r.readDecisions(lines); err != nil {
		return nil, err
	}
	r.readWarnings(events)
	o.readSkipped(r, lines)
	if !o.request.Free {
		o.nodes.updateAll()
	}
	o.readMountedLater(r)
	if err := o.finish(); err != nil {
		return nil, err
	}
	if !o.request.Free {
		if err := o.readWhatFollows(ctx, r); err != nil {
			return nil, err
		}
	}
	return &wire.Answer{
		Managed: keys(r.managed), Actual: values(r.actual), Desired: values(r.desired), Decisions: values(r.decisions),
		Status: status, Skipped: r.skipped, Ended: o.terminated(),
	}, nil
}

// readWhatFollows reads what became of the operations, which the API server
// refused, and what the next pass does about the pairs that had none.
func (o *oracle) readWhatFollows(ctx context.Context, r *reading) error {
	for pair, name := range o.gate.touched {
		d := r.decisions[pair]
		d.Pair, d.VolumeAttachment = pair, name
		if d.Verb == "Detach" || d.Verb == "ForceDetach" {
			d.Left = o.state(corev1.UniqueVolumeName(pair.Volume), types.NodeName(pair.Node))
		}
		r.decisions[pair] = d
	}
	o.log.take() // what the operations said
	go reconcileAgain(ctx, o.adc)
	if err := o.passOver(); err != nil {
		return err
	}
	for _, l := range o.log.take() {
		next := decisionOf(l)
		pair, ok := l.pair()
		if d, decided := r.decisions[pair]; ok && decided && next.Verb != "" {
			d.Updated = next.Verb
			r.decisions[pair] = d
		}
	}
	return ended(operations)
}

// terminated are the pods that the controller takes to have ended.
func (o *oracle) terminated() []string {
	var pods []string
	for _, pod := range o.request.Pods {
		if volumeutil.IsPodTerminated(pod, pod.Status) {
			pods = append(pods, pod.Namespace+"/"+pod.Name)
		}
	}
	return pods
}

func keys[K comparable, V any](m map[K]V) []K {
	list := make([]K, 0, len(m))
	for k := range m {
		list = append(list, k)
	}
	return list
}

func values[K comparable, V any](m map[K]V) []V {
	list := make([]V, 0, len(m))
	for _, v := range m {
		list = append(list, v)
	}
	return list
}

func pairOf(volume corev1.UniqueVolumeName, node types.NodeName) wire.Pair {
	return wire.Pair{Volume: string(volume), Node: string(node)}
}

// readActual reads the actual state of the world after the pass. It is what it
// was before: its operations are still held.
func (o *oracle) readActual(r *reading) {
	asw := o.actual()
	for _, v := range asw.GetAttachedVolumes() {
		pair := pairOf(v.VolumeName, v.NodeName)
		r.actual[pair] = wire.Actual{Pair: pair, State: o.state(v.VolumeName, v.NodeName), Spec: specOf(v.VolumeSpec), DevicePath: v.DevicePath, Mounted: v.MountedByNode}
	}
}

// state is "" of what is detached.
func (o *oracle) state(volume corev1.UniqueVolumeName, node types.NodeName) string {
	switch o.actual().GetAttachState(volume, node) {
	case adcache.AttachStateAttached:
		return "Attached"
	case adcache.AttachStateUncertain:
		return "Uncertain"
	default:
		return ""
	}
}

func (o *oracle) readMountedLater(r *reading) {
	for _, v := range o.actual().GetAttachedVolumes() {
		pair := pairOf(v.VolumeName, v.NodeName)
		if row, ok := r.actual[pair]; ok {
			row.MountedLater = v.MountedByNode
			r.actual[pair] = row
		}
	}
}

func (o *oracle) readDesired(r *reading) {
	dsw := o.adc.GetDesiredStateOfWorld()
	for _, node := range o.nodeNames() {
		if dsw.NodeExists(types.NodeName(node)) {
			r.managed[node] = true
		}
	}
	for _, v := range dsw.GetVolumesToAttach() {
		row := wire.Desired{Pair: pairOf(v.VolumeName, v.NodeName), Spec: specOf(v.VolumeSpec)}
		for _, pod := range v.ScheduledPods {
			row.Pods = append(row.Pods, pod.Namespace+"/"+pod.Name)
		}
		r.desired[row.Pair] = row
	}
}

// nodeNames are all nodes that a pod or the cluster knows of.
func (o *oracle) nodeNames() []string {
	var names []string
	for _, node := range o.request.Nodes {
		names = append(names, node.Name)
	}
	for _, pod := range o.request.Pods {
		names = append(names, pod.Spec.NodeName)
	}
	return names
}

func (o *oracle) status() (map[string][]corev1.AttachedVolume, error) {
	nodes, err := o.client.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	status := map[string][]corev1.AttachedVolume{}
	for i := range nodes.Items {
		status[nodes.Items[i].Name] = nodes.Items[i].Status.VolumesAttached
	}
	return status, nil
}

func specOf(s *volume.Spec) wire.Spec {
	if s == nil {
		return wire.Spec{}
	}
	return wire.Spec{Source: s.Name(), MultiAttach: volumeutil.IsMultiAttachAllowed(s), Migrated: s.Migrated}
}

// readWarnings gives each MultiAttach the pods that have the event.
func (r *reading) readWarnings(events []*corev1.Event) {
	for pair, d := range r.decisions {
		if d.Verb != "MultiAttach" {
			continue
		}
		row := r.desired[pair]
		about := ` for volume "` + row.Spec.Source + `"`
		for _, e := range events {
			pod := e.InvolvedObject.Namespace + "/" + e.InvolvedObject.Name
			begins, _, found := strings.Cut(e.Message, about)
			if found && e.Reason == "FailedAttachVolume" && slices.Contains(row.Pods, pod) && !slices.Contains(d.Warned, pod) && isMultiAttach(begins) {
				d.Event = begins
				d.Warned = append(d.Warned, pod)
			}
		}
		r.decisions[pair] = d
	}
}

// isMultiAttach tells the event from other reasons for which an attach failed.
func isMultiAttach(begins string) bool {
	return begins == "Multi-Attach error" || begins == "Waiting for detach"
}
