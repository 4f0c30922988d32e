package snapshot

import (
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/fastjson"
)

// quickDecoders decode the objects that are like nearly all. What they do not read is for
// the general decoder, which knows what is wrong with it.
type quickDecoders struct {
	limits limits
	of     map[Kind]func(raw []byte) apiObject
}

// decode gives nil for what is left to the general decoder.
func (q *quickDecoders) decode(s *row, raw []byte) apiObject {
	if q.limits.values != MaxValues || q.limits.depth != MaxDepth || s.quick == nil {
		return nil
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
func (q *quickDecoders) typed(raw []byte) (*row, apiObject) {
	apiVersion, kind, ok := fastjson.FirstType(raw)
	s := byType[typeName{apiVersion, kind}]
	if !ok || s == nil {
		return nil, nil
	}
	return s, q.decode(s, raw)
}

// ofContainers and ofStatuses are what trim.Object drops of each container and of its status.
const (
	ofContainers = "command args workingDir ports env envFrom resources livenessProbe readinessProbe startupProbe lifecycle " +
		"terminationMessagePath terminationMessagePolicy imagePullPolicy resizePolicy restartPolicyRules"
	ofStatuses = "imageID allocatedResources resources volumeMounts user allocatedResourcesStatus stopSignal"
)

// trimmedFields are those that trim.Object drops, and that nothing looks at before: they need
// not be kept so long.
var trimmedFields = func() map[Kind][]string {
	of := map[Kind][]string{
		Nodes:   {"status.images"},
		Volumes: {"spec.csi.volumeAttributes", "spec.mountOptions"},
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
		of[kind] = append(of[kind], "metadata.managedFields.fieldsV1") // the times in them tell how old a file is
	}
	return of
}()
