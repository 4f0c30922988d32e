package snapshot

import (
	"bytes"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/fastjson"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/trim"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/yamljson"
)

// quickDecoders decode the objects that are like nearly all. What they do not read is for
// the general decoder, which knows what is wrong with it.
type quickDecoders struct {
	limits limits
	of     map[Kind]func(raw []byte) apiObject
	looks  *fastjson.Decoder[corev1.Pod]
}

// firstLook is the look at a pod that says whether it is kept. Of most pods of a large
// cluster no more is decoded.
type firstLook struct {
	wants func(*corev1.Pod) bool // nil where it is not known yet, and where all are kept
	pod   *corev1.Pod            // with what is seen of one; used again for the next
}

// seenAtFirst are what PodsOfUse may ask of a pod, and its times, which tell how old a
// file is.
var seenAtFirst = strings.Fields("metadata spec.nodeName spec.containers.name spec.containers.image " +
	"spec.volumes.name spec.volumes.hostPath.path spec.volumes.emptyDir.- spec.volumes.gitRepo.- spec.volumes.secret.- " +
	"spec.volumes.downwardAPI.- spec.volumes.configMap.- spec.volumes.projected.- spec.volumes.image.- " + // that they are there
	"status.phase status.reason status.startTime status.conditions.lastTransitionTime status.conditions.lastProbeTime " +
	"status.volumeHealth.lastTransitionTime " + timesOf("status.containerStatuses", "status.initContainerStatuses", "status.ephemeralContainerStatuses"))

func timesOf(statuses ...string) string {
	var paths strings.Builder
	for _, status := range statuses {
		for _, state := range []string{".state", ".lastState"} {
			for _, at := range []string{".running.startedAt ", ".terminated.startedAt ", ".terminated.finishedAt "} {
				paths.WriteString(status + state + at)
			}
		}
	}
	return paths.String()
}

// unwanted is what the first look shows of a pod that is not kept; nil for another.
func (q *quickDecoders) unwanted(s *row, raw []byte, look firstLook) *corev1.Pod {
	if q.looks == nil {
		q.looks = newDecoder[corev1.Pod](Pods)
		q.looks.Only(seenAtFirst...)
	}
	pod := look.pod
	emptied := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Labels: pod.Labels, Annotations: pod.Annotations, OwnerReferences: pod.OwnerReferences[:0], ManagedFields: pod.ManagedFields[:0],
	}}
	clear(emptied.Labels)
	clear(emptied.Annotations)
	emptied.Spec.Containers, emptied.Spec.Volumes = pod.Spec.Containers[:0], pod.Spec.Volumes[:0]
	emptied.Status.Conditions, emptied.Status.ContainerStatuses = pod.Status.Conditions[:0], pod.Status.ContainerStatuses[:0]
	*pod = emptied
	if !q.looks.Decode(raw, pod) {
		return nil
	}
	setNamespace(s, pod)
	if look.wants(pod) {
		return nil
	}
	return pod
}

func newDecoder[T any](kind Kind) *fastjson.Decoder[T] {
	decoder := fastjson.New[T](fastjson.Limits{Values: MaxValues, Depth: MaxDepth}, trimmedFields[kind]...)
	decoder.Keep("metadata.annotations", trim.KeepsAnnotation)
	return decoder
}

// decode gives nil for what is left to the general decoder, and for a pod that is not
// wanted the one of the first look.
func (q *quickDecoders) decode(s *row, raw []byte, look firstLook) apiObject {
	if q.limits.values != MaxValues || q.limits.depth != MaxDepth || s.quick == nil {
		return nil
	}
	if s.Kind == Pods && look.wants != nil {
		if pod := q.unwanted(s, raw, look); pod != nil {
			return pod
		}
	}
	decode := q.of[s.Kind]
	if decode == nil {
		if q.of == nil {
			q.of = map[Kind]func(raw []byte) apiObject{}
		}
		decode = s.quick()
		q.of[s.Kind] = decode
	}
	return decode(raw)
}

// typed decodes an object that begins with its type, as all do that programs write. It
// gives nil for what is left to those who read one field after the other.
func (q *quickDecoders) typed(raw []byte, look firstLook) (*row, apiObject) {
	apiVersion, kind, ok := fastjson.FirstType(raw)
	if !ok {
		return nil, nil
	}
	s := rowOf(apiVersion, kind)
	if s == nil {
		return nil, nil
	}
	return s, q.decode(s, raw, look)
}

// rowOf is byType without a copy of the names; nil for a kind that is not read.
func rowOf(apiVersion, kind []byte) *row {
	i := slices.IndexFunc(resources, func(r *row) bool { return r.Object == string(kind) && r.Version == string(apiVersion) })
	if i < 0 {
		return nil
	}
	return resources[i]
}

// usual is the text in JSON, if it is such as programs write.
func usual(text []byte, c *yamljson.Converter, convert func([]byte) ([]byte, bool), limits limits) ([]byte, bool) {
	if tooLong(text, limits) {
		return nil, false
	}
	c.WithoutFieldsV1 = dropsFieldsV1(text)
	raw, ok := convert(text)
	return raw, ok && int64(len(raw)) <= limits.document
}

// dropsFieldsV1 says that the text begins with the type of an object of which trim.Object
// drops all that managedFields list.
func dropsFieldsV1(text []byte) bool {
	apiVersion, rest, _ := bytes.Cut(text, []byte("\n"))
	kind, _, _ := bytes.Cut(rest, []byte("\n"))
	apiVersion, ok := bytes.CutPrefix(bytes.TrimPrefix(apiVersion, []byte("- ")), []byte("apiVersion: "))
	kind, ok2 := bytes.CutPrefix(bytes.TrimLeft(kind, " "), []byte("kind: "))
	if !ok || !ok2 {
		return false
	}
	s := rowOf(apiVersion, kind)
	return s != nil && slices.Contains(trimmedFields[s.Kind], fieldsV1)
}

// ofContainers and ofStatuses are what trim.Object drops of each container and of its status.
const (
	ofContainers = "command args workingDir ports env envFrom resources livenessProbe readinessProbe startupProbe lifecycle " +
		"terminationMessagePath terminationMessagePolicy imagePullPolicy resizePolicy restartPolicyRules"
	ofStatuses = "imageID allocatedResources resources volumeMounts user allocatedResourcesStatus stopSignal"
)

// fieldsV1 is what a manager of an object has written, often half of the object.
const fieldsV1 = "metadata.managedFields.fieldsV1"

// trimmedFields are those that trim.Object drops, and that nothing looks at before: they need
// not be kept so long.
var trimmedFields = func() map[Kind][]string {
	of := map[Kind][]string{
		Nodes:   {"status.images"},
		Volumes: {"spec.mountOptions"},
	}
	for parents, fields := range map[string]string{
		"spec.containers spec.initContainers spec.ephemeralContainers":                            ofContainers,
		"status.containerStatuses status.initContainerStatuses status.ephemeralContainerStatuses": ofStatuses,
	} {
		for parent := range strings.FieldsSeq(parents) {
			for field := range strings.FieldsSeq(fields) {
				of[Pods] = append(of[Pods], parent+"."+field)
			}
		}
	}
	for _, kind := range []Kind{VolumeAttachments, CSINodes, CSIDrivers, StorageClasses, Volumes, Claims, Leases, Events, Pods, Deployments} {
		of[kind] = append(of[kind], fieldsV1) // the times in them tell how old a file is
	}
	return of
}()
