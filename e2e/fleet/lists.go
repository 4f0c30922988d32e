// Package fleet makes fleets of API servers that replay lists. Some of them hang,
// refuse or lie, for the report on many clusters.
package fleet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/load"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// lists are the answers of one API server, by the paths of their kinds, in protobuf.
type lists map[string][]byte

// pathOf is where an API server lists the kind.
func pathOf(r snapshot.Resource) string {
	if group := r.Group(); group != "" {
		return fmt.Sprintf("/apis/%s/%s/%s", group, r.GroupVersion().Version, r.Kind)
	}
	return fmt.Sprintf("/api/%s/%s", r.GroupVersion().Version, r.Kind)
}

// listsOf are those of a cluster of the size; without drifts where it is healthy.
func listsOf(size load.Size, now time.Time, healthy bool) (lists, error) {
	c := load.Cluster{Size: size, Now: now}
	wrong := map[string]bool{}
	for _, d := range c.Drifts() {
		wrong[d.Subject] = true
	}
	byKind := map[string][]runtime.Object{}
	var running corev1.PodStatus
	for o := range c.All() {
		kinds, _, err := scheme.Scheme.ObjectKinds(o)
		if err != nil {
			return nil, err
		}
		if healthy && kinds[0].Kind == "VolumeAttachment" && wrong["VolumeAttachment "+o.GetName()] {
			continue
		}
		switch o := o.(type) {
		case *corev1.Node:
			if healthy {
				listAll(o)
			}
		case *corev1.Pod:
			if healthy && wrong["Pod "+o.Name] {
				o.Status = running
			}
			running = o.Status
		}
		byKind[kinds[0].Kind] = append(byKind[kinds[0].Kind], o)
	}
	answers := lists{}
	for _, r := range snapshot.Resources() {
		answer, err := encode(r, byKind[r.Object])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Kind, err)
		}
		answers[pathOf(r)] = answer
	}
	return answers, nil
}

// listAll lets the node's two lists agree.
func listAll(node *corev1.Node) {
	for _, name := range node.Status.VolumesInUse {
		if !slices.ContainsFunc(node.Status.VolumesAttached, func(v corev1.AttachedVolume) bool { return v.Name == name }) {
			node.Status.VolumesAttached = append(node.Status.VolumesAttached, corev1.AttachedVolume{Name: name})
		}
	}
}

func encode(r snapshot.Resource, objects []runtime.Object) ([]byte, error) {
	gvk := r.GroupVersion().WithKind(r.Object + "List")
	list, err := scheme.Scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	if err := meta.SetList(list, objects); err != nil {
		return nil, err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	accessor.SetResourceVersion("1")
	return inProtobuf(list, r)
}

func inProtobuf(o runtime.Object, r snapshot.Resource) ([]byte, error) {
	var b bytes.Buffer
	err := scheme.Codecs.EncoderForVersion(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), r.GroupVersion()).Encode(o, &b)
	return b.Bytes(), err
}

// attachments is a page of an endless list: every one of them is kept.
func attachments(page int) ([]byte, error) {
	r := snapshot.ResourceOf(snapshot.VolumeAttachments)
	list := &storagev1.VolumeAttachmentList{}
	list.ResourceVersion, list.Continue = "1", fmt.Sprintf("page-%08d", page+1)
	for i := range 1000 {
		volume := fmt.Sprintf("pv-%08d-%04d", page, i)
		a := storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{Attacher: load.Driver, NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}}}
		a.Name = volume
		list.Items = append(list.Items, a)
	}
	return inProtobuf(list, r)
}

// endlessBegin begins a list of pods that says to be a tebibyte long.
func endlessBegin() []byte {
	kind := field(field(nil, 1, []byte("v1")), 2, []byte("PodList"))
	begin := field([]byte("k8s\x00"), 1, kind)
	return binary.AppendUvarint(append(begin, 2<<3|2), 1<<40)
}

// endlessPod is one of its pods.
func endlessPod(i int) []byte {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "default", fmt.Sprintf("pod-%09d", i), types.UID(fmt.Sprint(i))
	pod.Spec.NodeName = "n"
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "image", Command: []string{strings.Repeat("x", 1000)}}}
	text, err := pod.Marshal()
	if err != nil {
		panic(err) // a pod can be written
	}
	return field(nil, 2, text)
}

// field adds a length-delimited field of protobuf.
func field(to []byte, number byte, text []byte) []byte {
	return append(binary.AppendUvarint(append(to, number<<3|2), uint64(len(text))), text...)
}
