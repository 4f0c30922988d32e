package snapshot

import (
	"iter"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
)

// apiObject is any object that a snapshot holds.
type apiObject interface {
	runtime.Object
	metav1.Object
}

// kindSchema joins what a file calls a kind with the list that it goes to.
type kindSchema struct {
	typeName
	resource   Kind
	namespaced bool
	// decode gives the object, and the fields that were given twice.
	decode func(raw []byte) (object apiObject, strict []error, err error)
	add    func(*Objects, apiObject)
	all    func(*Objects) iter.Seq[apiObject]
}

// schemas are the kinds that are read, in the order in which they are written.
// The version counts: longhorn.io has VolumeAttachments too, and what changed
// between storage.k8s.io/v1beta1 and v1 nobody wants to find out in an outage.
var schemas = []*kindSchema{
	newSchema("storage.k8s.io/v1", "VolumeAttachment", VolumeAttachments, false, func(o *Objects) *[]*storagev1.VolumeAttachment { return &o.VolumeAttachments }),
	newSchema("v1", "Node", Nodes, false, func(o *Objects) *[]*corev1.Node { return &o.Nodes }),
	newSchema("storage.k8s.io/v1", "CSINode", CSINodes, false, func(o *Objects) *[]*storagev1.CSINode { return &o.CSINodes }),
	newSchema("storage.k8s.io/v1", "CSIDriver", CSIDrivers, false, func(o *Objects) *[]*storagev1.CSIDriver { return &o.CSIDrivers }),
	newSchema("storage.k8s.io/v1", "StorageClass", StorageClasses, false, func(o *Objects) *[]*storagev1.StorageClass { return &o.StorageClasses }),
	newSchema("v1", "PersistentVolume", Volumes, false, func(o *Objects) *[]*corev1.PersistentVolume { return &o.Volumes }),
	newSchema("v1", "PersistentVolumeClaim", Claims, true, func(o *Objects) *[]*corev1.PersistentVolumeClaim { return &o.Claims }),
	newSchema("coordination.k8s.io/v1", "Lease", Leases, true, func(o *Objects) *[]*coordinationv1.Lease { return &o.Leases }),
	newSchema("v1", "Event", Events, true, func(o *Objects) *[]*corev1.Event { return &o.Events }),
	newSchema("v1", "Pod", Pods, true, func(o *Objects) *[]*corev1.Pod { return &o.Pods }),
	newSchema("apps/v1", "Deployment", Deployments, true, func(o *Objects) *[]*appsv1.Deployment { return &o.Deployments }),
}

// newEvents are the same objects as v1 Events, as the other API group shows
// them.
var newEvents = typeName{"events.k8s.io/v1", "Event"}

var schemasByType = func() map[typeName]*kindSchema {
	m := map[typeName]*kindSchema{}
	for _, s := range schemas {
		m[s.typeName] = s
		if s.resource == Events {
			converting := *s
			converting.decode = decodeNewEvent
			m[newEvents] = &converting
		}
	}
	return m
}()

// schemaOf returns nil for a kind that is not read.
func schemaOf(t typeName) *kindSchema { return schemasByType[t] }

func newSchema[T any, P interface {
	*T
	apiObject
}](apiVersion, kind string, resource Kind, namespaced bool, list func(*Objects) *[]P) *kindSchema {
	return &kindSchema{
		typeName:   typeName{apiVersion, kind},
		resource:   resource,
		namespaced: namespaced,
		decode: func(raw []byte) (apiObject, []error, error) {
			object := P(new(T))
			strict, err := kjson.UnmarshalStrict(raw, object, kjson.DisallowDuplicateFields)
			return object, strict, err
		},
		add: func(o *Objects, object apiObject) {
			l := list(o)
			*l = append(*l, object.(P))
		},
		all: func(o *Objects) iter.Seq[apiObject] {
			return func(yield func(apiObject) bool) {
				for _, object := range *list(o) {
					if !yield(object) {
						return
					}
				}
			}
		},
	}
}

// decodeNewEvent converts as the API server does.
func decodeNewEvent(raw []byte) (apiObject, []error, error) {
	var e eventsv1.Event
	strict, err := kjson.UnmarshalStrict(raw, &e, kjson.DisallowDuplicateFields)
	if err != nil {
		return nil, strict, err
	}
	event := &corev1.Event{
		ObjectMeta:          e.ObjectMeta,
		InvolvedObject:      e.Regarding,
		Reason:              e.Reason,
		Message:             e.Note,
		Source:              e.DeprecatedSource,
		FirstTimestamp:      e.DeprecatedFirstTimestamp,
		LastTimestamp:       e.DeprecatedLastTimestamp,
		Count:               e.DeprecatedCount,
		Type:                e.Type,
		EventTime:           e.EventTime,
		Action:              e.Action,
		Related:             e.Related,
		ReportingController: e.ReportingController,
		ReportingInstance:   e.ReportingInstance,
	}
	if e.Series != nil {
		event.Series = &corev1.EventSeries{Count: e.Series.Count, LastObservedTime: e.Series.LastObservedTime}
	}
	return event, strict, nil
}
