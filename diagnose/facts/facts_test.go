package facts

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

func TestStarted(t *testing.T) {
	waiting := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
	}
	exited := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	for name, tt := range map[string]struct {
		status corev1.PodStatus
		want   bool
	}{
		"no status":      {corev1.PodStatus{}, false},
		"creating":       {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: waiting("ContainerCreating")}}}, false},
		"before init":    {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: waiting("PodInitializing")}}}, false},
		"init has ended": {corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{State: exited}}}, true},
		"has ended":      {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: exited}}}, true},
		"pulls an image": {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: waiting("ImagePullBackOff")}}}, true},
		"is made again": {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
			{State: waiting("ContainerCreating"), LastTerminationState: exited},
		}}, true},
	} {
		if got := Started(&corev1.Pod{Status: tt.status}); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestRenewed: a lease that nobody has renewed yet has no time.
func TestRenewed(t *testing.T) {
	at := metav1.NewMicroTime(time.Unix(100, 0))
	for name, tt := range map[string]struct {
		lease *coordinationv1.Lease
		want  metav1.Time
	}{
		"none":          {nil, metav1.Time{}},
		"never renewed": {&coordinationv1.Lease{}, metav1.Time{}},
		"renewed":       {&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &at}}, metav1.NewTime(at.Time)},
	} {
		if got := Renewed(tt.lease); !got.Equal(&tt.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestBoundAt(t *testing.T) {
	created, scheduled := metav1.Unix(1000, 0), metav1.Unix(2000, 0)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: created}}
	if got := BoundAt(pod); got != created {
		t.Errorf("without conditions: %s", got)
	}
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(3000, 0)},
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: scheduled},
	}
	if got := BoundAt(pod); got != scheduled {
		t.Errorf("scheduled: %s", got)
	}
	pod.Status.Conditions[1].Status = corev1.ConditionFalse
	if got := BoundAt(pod); got != created {
		t.Errorf("not scheduled: %s", got)
	}
}

func TestVolumesAttachedWriter(t *testing.T) {
	entry := func(manager, fields string, at int64) metav1.ManagedFieldsEntry {
		when := metav1.Unix(at, 0)
		return metav1.ManagedFieldsEntry{Manager: manager, Time: &when, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
		{Manager: "none"},
		entry("kubelet", `{"f:status":{"f:volumesInUse":{}}}`, 9000),
		entry("other", `{"f:status":{"f:volumesAttached":{}}}`, 5000),
		entry("kube-controller-manager", `{"f:status":{"f:volumesAttached":{}}}`, 7000),
	}}}
	if manager, at := VolumesAttachedWriter(node); manager != "kube-controller-manager" || at.Unix() != 7000 {
		t.Errorf("%s at %s", manager, at)
	}
	node.ManagedFields = append(node.ManagedFields, entry("me", `{"f:status":{"f:volumesAttached":{}}}`, 7000))
	if manager, at := VolumesAttachedWriter(node); manager != "" || at.Unix() != 7000 {
		t.Errorf("two in one second: %q at %s", manager, at)
	}
	if manager, at := VolumesAttachedWriter(&corev1.Node{}); manager != "" || !at.IsZero() {
		t.Errorf("nobody: %s at %s", manager, at)
	}
}

func TestOtherMachine(t *testing.T) {
	for name, row := range map[string]struct {
		annotations map[string]string
		registered  []storagev1.CSINodeDriver
		differ      bool
	}{
		"the same machine":     {map[string]string{reconcile.NodeIDAnnotation: "i-1"}, []storagev1.CSINodeDriver{{Name: "d", NodeID: "i-1"}}, false},
		"another machine":      {map[string]string{reconcile.NodeIDAnnotation: "i-1"}, []storagev1.CSINodeDriver{{Name: "d", NodeID: "i-2"}}, true},
		"a driver without ids": {map[string]string{reconcile.NodeIDAnnotation: "i-1"}, []storagev1.CSINodeDriver{{Name: "d"}}, true},
		"another driver's id":  {map[string]string{reconcile.NodeIDAnnotation: "i-1"}, []storagev1.CSINodeDriver{{Name: "e", NodeID: "i-2"}}, false},
		"nothing noted":        {nil, []storagev1.CSINodeDriver{{Name: "d", NodeID: "i-2"}}, false},
	} {
		s := snapshot.New(time.Unix(1, 0), snapshot.Source{}, snapshot.Objects{CSINodes: []*storagev1.CSINode{{
			ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: storagev1.CSINodeSpec{Drivers: row.registered},
		}}}, nil)
		va := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Annotations: row.annotations}, Spec: storagev1.VolumeAttachmentSpec{Attacher: "d", NodeName: "n1"}}
		if _, _, differ := NewView(s, nil, nil).OtherMachine(va); differ != row.differ {
			t.Errorf("%s: %t", name, differ)
		}
	}
}

func TestEventTime(t *testing.T) {
	created, last := metav1.Unix(1, 0), metav1.Unix(2, 0)
	event, series := metav1.NewMicroTime(time.Unix(3, 0)), metav1.NewMicroTime(time.Unix(4, 0))
	e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: created}}
	for want, set := range []func(){
		func() {},
		func() { e.EventTime = event },
		func() { e.LastTimestamp = last },
		func() { e.Series = &corev1.EventSeries{} },
		func() { e.Series.LastObservedTime = series },
	} {
		set()
		if got := snapshot.EventTime(e).Unix(); got != []int64{1, 3, 2, 2, 4}[want] {
			t.Errorf("step %d: %d", want, got)
		}
	}
}

func TestRounded(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"7s":    7*time.Second + 100*time.Millisecond,
		"10s":   10 * time.Second,
		"10m":   10 * time.Minute,
		"3m20s": 200 * time.Second,
		"1h10m": time.Hour + 10*time.Minute + 20*time.Second,
		"26h":   26 * time.Hour,
		"3d":    72*time.Hour + time.Minute,
		"3d4h":  76 * time.Hour,
	} {
		if got := Rounded(d); got != want {
			t.Errorf("%s: %s", d, got)
		}
	}
}
