package cluster

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// part is some of a message, as it is encoded.
type part struct {
	// but says that fields are what does not belong to the part, and that all
	// others do.
	but bool
	// fields are by their numbers. One without fields is meant as a whole; another
	// says what of the field belongs to the part.
	fields map[protowire.Number]*part
	// wants, where it is not nil, is asked for each message here, by its first
	// field, which is a name or a map's key. What it does not want goes.
	wants func(pod *corev1.Pod, name []byte) bool
}

// only reads fields of T as the API names them, some of one message a line:
// "spec.containers: name image" are two fields of each container.
func only[T any](lines ...string) *part { return named[T](false, lines) }

// allBut is what is left without such fields.
func allBut[T any](lines ...string) *part { return named[T](true, lines) }

func named[T any](but bool, lines []string) *part {
	p := &part{but: but}
	for _, line := range lines {
		message, names, _ := strings.Cut(line, ":")
		for name := range strings.FieldsSeq(names) {
			if message != "" {
				name = message + "." + name
			}
			at[T](p, name)
		}
	}
	return p
}

// at is the part of the field at the path; it is made where there is none.
func at[T any](p *part, path string) *part {
	t := reflect.TypeFor[T]()
	for name := range strings.SplitSeq(path, ".") {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		number, field := numbered(t, name)
		if p.fields == nil {
			p.fields = map[protowire.Number]*part{}
		}
		if p.fields[number] == nil {
			p.fields[number] = &part{but: p.but}
		}
		p, t = p.fields[number], field
	}
	return p
}

// numbered finds the field in the tags of the generated code. A message that Go
// embeds may have no name there.
func numbered(t reflect.Type, name string) (protowire.Number, reflect.Type) {
	for f := range t.Fields() {
		tag := strings.Split(f.Tag.Get("protobuf"), ",")
		if len(tag) < 3 || !slices.Contains(tag, "name="+name) && (!f.Anonymous || !strings.EqualFold(f.Name, name)) {
			continue
		}
		if number, err := strconv.ParseInt(tag[1], 10, 32); err == nil {
			return protowire.Number(number), f.Type
		}
	}
	panic(fmt.Sprintf("%s has no field %q", t, name))
}

const (
	// containerTrim and statusTrim are what snapshot.Trim drops of each container
	// and of its status.
	containerTrim = ": command args workingDir ports env resources livenessProbe readinessProbe lifecycle terminationMessagePath " +
		"imagePullPolicy envFrom terminationMessagePolicy startupProbe resizePolicy restartPolicyRules"
	statusTrim = ": imageID allocatedResources resources volumeMounts user allocatedResourcesStatus stopSignal"
)

// trimmed is what snapshot.Trim leaves, as far as it costs something: that half of
// each object need not be made only to be thrown away.
var trimmed = map[snapshot.Kind]*part{
	snapshot.Pods: annotated(allBut[corev1.Pod](": metadata.managedFields",
		"spec.containers"+containerTrim, "spec.initContainers"+containerTrim, "spec.ephemeralContainers.ephemeralContainerCommon"+containerTrim,
		"status.containerStatuses"+statusTrim, "status.initContainerStatuses"+statusTrim, "status.ephemeralContainerStatuses"+statusTrim)),
	snapshot.Nodes:             annotated(allBut[corev1.Node](": status.images")), // some of the managed fields are kept
	snapshot.Volumes:           annotated(allBut[corev1.PersistentVolume](": metadata.managedFields spec.persistentVolumeSource.csi.volumeAttributes")),
	snapshot.Claims:            annotated(allBut[corev1.PersistentVolumeClaim](": metadata.managedFields")),
	snapshot.VolumeAttachments: annotated(allBut[storagev1.VolumeAttachment](": metadata.managedFields")),
	snapshot.CSINodes:          annotated(allBut[storagev1.CSINode](": metadata.managedFields")),
	snapshot.CSIDrivers:        annotated(allBut[storagev1.CSIDriver](": metadata.managedFields")),
	snapshot.StorageClasses:    annotated(allBut[storagev1.StorageClass](": metadata.managedFields")),
	snapshot.Leases:            annotated(allBut[coordinationv1.Lease](": metadata.managedFields")),
	snapshot.Events:            annotated(allBut[corev1.Event](": metadata.managedFields")),
	snapshot.Deployments:       annotated(allBut[appsv1.Deployment](": metadata.managedFields")),
}

// annotated leaves those annotations in the part of an object that snapshot.Trim
// leaves.
func annotated(p *part) *part {
	const metadata, annotations = 1, 12 // of every object
	if p.fields[metadata] == nil {
		p.fields[metadata] = &part{but: p.but}
	}
	m := p.fields[metadata]
	if m.fields == nil {
		m.fields = map[protowire.Number]*part{}
	}
	m.fields[annotations] = &part{wants: func(_ *corev1.Pod, key []byte) bool { return snapshot.KeepsAnnotation(string(key)) }}
	return p
}

// of appends to out what of a message belongs to the part; pod is whose message
// it is, if it is one's. It says whether it could be read; what could not is for
// the real decoder.
func (p *part) of(out, message []byte, pod *corev1.Pod) ([]byte, bool) {
	ok := eachField(message, func(number protowire.Number, field, value []byte) bool {
		inner, listed := p.fields[number]
		switch {
		case listed && inner.wants != nil && !inner.wants(pod, firstField(value)):
		case listed && inner.fields != nil && value != nil:
			out = protowire.AppendTag(out, number, protowire.BytesType)
			start := len(out)
			within, ok := inner.of(out, value, pod)
			if !ok {
				return false
			}
			out = prefixed(within, start)
		case listed != p.but, listed && (inner.wants != nil || inner.fields != nil):
			out = append(out, field...)
		}
		return true
	})
	return out, ok
}

// eachField calls f for each field of a message, with its value where that is a
// text or a message. It says whether all of them could be read.
func eachField(message []byte, f func(number protowire.Number, field, value []byte) bool) bool {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return false
		}
		var value []byte
		var size int
		if kind == protowire.BytesType {
			value, size = protowire.ConsumeBytes(message[n:])
		} else {
			size = protowire.ConsumeFieldValue(number, kind, message[n:])
		}
		if size < 0 || !f(number, message[:n+size], value) {
			return false
		}
		message = message[n+size:]
	}
	return true
}

// firstField is a message's field 1, which is a name wherever it is asked for.
func firstField(message []byte) (name []byte) {
	eachField(message, func(number protowire.Number, _, value []byte) bool {
		if number == 1 {
			name = value
		}
		return true
	})
	return name
}

// prefixed puts the length of what stands from at on before it.
func prefixed(out []byte, at int) []byte {
	size := len(out) - at
	var length [10]byte
	prefix := protowire.AppendVarint(length[:0], uint64(size))
	out = append(out, prefix...)
	copy(out[at+len(prefix):], out[at:at+size])
	copy(out[at:], prefix)
	return out
}
