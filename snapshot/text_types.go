package snapshot

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	kjson "sigs.k8s.io/json"
)

// newEvents are v1 Events as the other API group shows them.
var newEvents = typeName{"events.k8s.io/v1", "Event"}

// byType maps the apiVersion and kind of an object to its resource.
var byType = func() map[typeName]*row {
	m := map[typeName]*row{}
	for _, r := range resources {
		m[typeName{r.Version, r.Object}] = r
	}
	converting := *resourceOf(Events)
	converting.decode, converting.quick = decodeNewEvent, nil
	m[newEvents] = &converting
	return m
}()

// lookalike returns the resource that an unsupported type probably means: another version of the
// API, or another spelling of the kind. It returns nil for foreign kinds.
func lookalike(t typeName) *row {
	group := groupOf(t.apiVersion)
	kind := strings.ToLower(strings.TrimSpace(t.kind))
	for of, s := range byType {
		if groupOf(of.apiVersion) == group && (kind == strings.ToLower(of.kind) || kind == string(s.Kind)) {
			return s
		}
	}
	return nil
}

// groupOf returns the API group, "" for the core group.
func groupOf(apiVersion string) string {
	group, _, named := strings.Cut(strings.ToLower(strings.TrimSpace(apiVersion)), "/")
	if !named || group == "core" {
		return ""
	}
	return group
}

// decodeNewEvent converts the event as the API server does.
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
