package cluster

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// part selects fields of an encoded message.
type part struct {
	// exclude inverts the selection: listed fields are dropped, all others kept.
	exclude bool
	// fields are indexed by their numbers. A field whose own fields are nil is
	// selected as a whole, any other as far as those say.
	fields []*part
	// wants, where it is not nil, chooses among the messages of a list or a map by
	// their first field, which is a name or a key.
	wants func(pod *corev1.Pod, name []byte) bool
}

// only reads fields of T as the API names them, some of one message a line:
// "spec.containers: name image" are two fields of each container. Of a message
// whose name ends in {} nothing is left but that it is there.
func only[T any](lines ...string) *part { return named[T](false, lines) }

// allBut selects everything except such fields.
func allBut[T any](lines ...string) *part { return named[T](true, lines) }

func named[T any](exclude bool, lines []string) *part {
	p := &part{exclude: exclude}
	for _, line := range lines {
		message, names, _ := strings.Cut(line, ":")
		for name := range strings.FieldsSeq(names) {
			if message != "" {
				name = message + "." + name
			}
			if path, ok := strings.CutSuffix(name, "{}"); ok {
				at[T](p, path).fields = []*part{}
			} else {
				at[T](p, name)
			}
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
		p, t = p.field(number), field
	}
	return p
}

// field is the part of the field; it is made where there is none.
func (p *part) field(number protowire.Number) *part {
	if missing := int(number) + 1 - len(p.fields); missing > 0 {
		p.fields = append(p.fields, make([]*part, missing)...)
	}
	if p.fields[number] == nil {
		p.fields[number] = &part{exclude: p.exclude}
	}
	return p.fields[number]
}

// listed is the part of the field; nil where the part does not name the field.
func (p *part) listed(number protowire.Number) *part {
	if int(number) < len(p.fields) {
		return p.fields[number]
	}
	return nil
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

// trimmed lists, for the kinds of which snapshot.Trim drops much, the part that it
// leaves: what it drops need not be decoded first. trimmedOf has all kinds.
var trimmed = map[snapshot.Kind]*part{
	snapshot.Pods: annotated(allBut[corev1.Pod](": metadata.managedFields",
		"spec.containers"+containerTrim, "spec.initContainers"+containerTrim, "spec.ephemeralContainers.ephemeralContainerCommon"+containerTrim,
		"status.containerStatuses"+statusTrim, "status.initContainerStatuses"+statusTrim, "status.ephemeralContainerStatuses"+statusTrim)),
	snapshot.Nodes:   annotated(allBut[corev1.Node](": status.images")), // some of the managed fields are kept
	snapshot.Volumes: annotated(allBut[corev1.PersistentVolume](": metadata.managedFields spec.persistentVolumeSource.csi.volumeAttributes")),
}

// trimmedOf is the part of the kind that snapshot.Trim leaves.
func trimmedOf[T any](kind snapshot.Kind) *part {
	if p := trimmed[kind]; p != nil {
		return p
	}
	return annotated(allBut[T](": metadata.managedFields"))
}

// annotated leaves those annotations in the part of an object that snapshot.Trim
// leaves.
func annotated(p *part) *part {
	const metadata, annotations = 1, 12 // of every object
	*p.field(metadata).field(annotations) = part{wants: func(_ *corev1.Pod, key []byte) bool { return snapshot.KeepsAnnotation(string(key)) }}
	return p
}

// of appends to out the fields of message that the part selects. pod is the enclosing
// pod, or nil. It is false for a message that cannot be read, which is then for the
// generated decoder.
func (p *part) of(out, message []byte, pod *corev1.Pod) ([]byte, bool) {
	ok := eachField(message, func(number protowire.Number, field, value []byte) bool {
		inner := p.listed(number)
		listed := inner != nil
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
		case listed != p.exclude, listed && (inner.wants != nil || inner.fields != nil):
			out = append(out, field...)
		}
		return true
	})
	return out, ok
}

// eachField calls f for each field of a message; value is nil unless it is a text or a
// message. It is false where a field cannot be read, or f returns false.
func eachField(message []byte, f func(number protowire.Number, field, value []byte) bool) bool {
	for len(message) > 0 {
		// Nearly all fields are texts and messages with a tag of one byte and a length of
		// one or two: for these the general way takes three times as long.
		if tag := message[0]; tag < 0x80 && tag&7 == byte(protowire.BytesType) && tag > 7 && len(message) > 2 {
			n, size := 2, int(message[1])
			if size >= 0x80 {
				n, size = 3, size&0x7f|int(message[2])<<7
			}
			if size < 0x80<<7 && size <= len(message)-n {
				if !f(protowire.Number(tag>>3), message[:n+size], message[n:n+size:n+size]) {
					return false
				}
				message = message[n+size:]
				continue
			}
		}
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
