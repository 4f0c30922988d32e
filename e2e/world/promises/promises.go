// Package promises is a table of what clients of an API server rely on. It is held against
// the API server of the world in memory and against one with etcd, so that nobody has to
// believe that the two behave alike.
package promises

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
)

// Namespace is where the promises make their pods; it must exist.
const Namespace = "promises"

// Promise is one thing that is relied on.
type Promise struct {
	Name string
	// Broken returns why the API server does not keep it; "" where it does. Each promise
	// makes its own objects.
	Broken func(context.Context, kubernetes.Interface) string
}

// All are the promises.
var All = []Promise{
	{"create gives uid, creationTimestamp and resourceVersion", func(ctx context.Context, c kubernetes.Interface) string {
		p, err := c.CoreV1().Pods(Namespace).Create(ctx, pod("created"), metav1.CreateOptions{})
		return unless(err == nil && p.UID != "" && !p.CreationTimestamp.IsZero() && p.ResourceVersion != "", "%v: %+v", err, p)
	}},
	{"create fills in defaults", func(ctx context.Context, c kubernetes.Interface) string {
		p, err := c.CoreV1().Pods(Namespace).Create(ctx, pod("defaults"), metav1.CreateOptions{})
		return unless(err == nil && p.Spec.RestartPolicy == corev1.RestartPolicyAlways && p.Status.Phase == corev1.PodPending, "%v: %q, %q", err, p.Spec.RestartPolicy, p.Status.Phase)
	}},
	{"create makes a name from generateName", func(ctx context.Context, c kubernetes.Interface) string {
		p := pod("")
		p.GenerateName = "generated-"
		p, err := c.CoreV1().Pods(Namespace).Create(ctx, p, metav1.CreateOptions{})
		return unless(err == nil && len(p.Name) > len("generated-"), "%v: %q", err, p.Name)
	}},
	{"create refuses a name that is taken", func(ctx context.Context, c kubernetes.Interface) string {
		_, err := c.CoreV1().Nodes().Create(ctx, node("taken"), metav1.CreateOptions{})
		_, again := c.CoreV1().Nodes().Create(ctx, node("taken"), metav1.CreateOptions{})
		return unless(err == nil && apierrors.IsAlreadyExists(again), "%v, %v", err, again)
	}},
	{"create refuses an invalid object", func(ctx context.Context, c kubernetes.Interface) string {
		p := pod("invalid")
		p.Spec.Containers = nil
		_, err := c.CoreV1().Pods(Namespace).Create(ctx, p, metav1.CreateOptions{})
		return unless(apierrors.IsInvalid(err), "%v", err)
	}},
	{"a dry run writes nothing", func(ctx context.Context, c kubernetes.Interface) string {
		_, err := c.CoreV1().Nodes().Create(ctx, node("dry"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		_, there := c.CoreV1().Nodes().Get(ctx, "dry", metav1.GetOptions{})
		return unless(err == nil && apierrors.IsNotFound(there), "%v, %v", err, there)
	}},
	{"update with an old resourceVersion conflicts", func(ctx context.Context, c kubernetes.Interface) string {
		n, err := c.CoreV1().Nodes().Create(ctx, node("conflict"), metav1.CreateOptions{})
		if err != nil {
			return err.Error()
		}
		first, second := n.DeepCopy(), n.DeepCopy()
		first.Labels, second.Labels = map[string]string{"by": "first"}, map[string]string{"by": "second"}
		_, err = c.CoreV1().Nodes().Update(ctx, first, metav1.UpdateOptions{})
		_, conflict := c.CoreV1().Nodes().Update(ctx, second, metav1.UpdateOptions{})
		return unless(err == nil && apierrors.IsConflict(conflict), "%v, %v", err, conflict)
	}},
	{"update leaves the status, and an update of the status leaves the spec", func(ctx context.Context, c kubernetes.Interface) string {
		n, err := c.CoreV1().Nodes().Create(ctx, node("halves"), metav1.CreateOptions{})
		if err != nil {
			return err.Error()
		}
		n.Status.VolumesInUse = []corev1.UniqueVolumeName{"v"}
		if n, err = c.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{}); err != nil || len(n.Status.VolumesInUse) > 0 {
			return fmt.Sprintf("the status was written: %v", err)
		}
		n.Spec.Unschedulable, n.Status.VolumesInUse = true, []corev1.UniqueVolumeName{"v"}
		n, err = c.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{})
		return unless(err == nil && !n.Spec.Unschedulable && len(n.Status.VolumesInUse) == 1, "%v: %+v", err, n)
	}},
	{"an update that changes nothing keeps the resourceVersion", func(ctx context.Context, c kubernetes.Interface) string {
		n, err := c.CoreV1().Nodes().Create(ctx, node("same"), metav1.CreateOptions{})
		if err != nil {
			return err.Error()
		}
		again, err := c.CoreV1().Nodes().Update(ctx, n.DeepCopy(), metav1.UpdateOptions{})
		return unless(err == nil && again.ResourceVersion == n.ResourceVersion, "%v: %q, then %q", err, n.ResourceVersion, again.ResourceVersion)
	}},
	{"a lease is renewed with the resourceVersion that it has, and no other; a dry run renews nothing", func(ctx context.Context, c kubernetes.Interface) string {
		leases, times := c.CoordinationV1().Leases(Namespace), []metav1.MicroTime{metav1.NewMicroTime(time.Unix(1, 0)), metav1.NewMicroTime(time.Unix(2, 0)), metav1.NewMicroTime(time.Unix(3, 0))}
		l, err := leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "renewed"}, Spec: coordinationv1.LeaseSpec{RenewTime: &times[0]}}, metav1.CreateOptions{})
		if err != nil {
			return err.Error()
		}
		next, old := l.DeepCopy(), l.DeepCopy()
		next.Spec.RenewTime, old.Spec.RenewTime = &times[1], &times[2]
		_, dry := leases.Update(ctx, next, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		next, err = leases.Update(ctx, next, metav1.UpdateOptions{})
		_, conflict := leases.Update(ctx, old, metav1.UpdateOptions{})
		same, again := leases.Update(ctx, next.DeepCopy(), metav1.UpdateOptions{})
		l, there := leases.Get(ctx, "renewed", metav1.GetOptions{})
		return unless(dry == nil && err == nil && next.ResourceVersion != old.ResourceVersion && apierrors.IsConflict(conflict) && again == nil && same.ResourceVersion == next.ResourceVersion &&
			there == nil && l.Spec.RenewTime.Equal(&times[1]), "%v, %v, %v, %v, %v: %+v", dry, err, conflict, again, there, l)
	}},
	{"the node of a pod cannot be changed, and a binding sets it", func(ctx context.Context, c kubernetes.Interface) string {
		p, err := c.CoreV1().Pods(Namespace).Create(ctx, pod("bound"), metav1.CreateOptions{})
		if err != nil {
			return err.Error()
		}
		p.Spec.NodeName = "elsewhere"
		_, refused := c.CoreV1().Pods(Namespace).Update(ctx, p, metav1.UpdateOptions{})
		err = c.CoreV1().Pods(Namespace).Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}, metav1.CreateOptions{})
		p, there := c.CoreV1().Pods(Namespace).Get(ctx, "bound", metav1.GetOptions{})
		return unless(apierrors.IsInvalid(refused) && err == nil && there == nil && p.Spec.NodeName == "n", "%v, %v, %v: %q", refused, err, there, p.Spec.NodeName)
	}},
	{"delete with another uid or resourceVersion conflicts", func(ctx context.Context, c kubernetes.Interface) string {
		va, err := c.StorageV1().VolumeAttachments().Create(ctx, attachment("preconditions"), metav1.CreateOptions{})
		if err != nil {
			return err.Error()
		}
		uid, version := types.UID("another"), "1"
		byUID := c.StorageV1().VolumeAttachments().Delete(ctx, va.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		byVersion := c.StorageV1().VolumeAttachments().Delete(ctx, va.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &va.UID, ResourceVersion: &version}})
		right := c.StorageV1().VolumeAttachments().Delete(ctx, va.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &va.UID, ResourceVersion: &va.ResourceVersion}})
		return unless(apierrors.IsConflict(byUID) && apierrors.IsConflict(byVersion) && right == nil, "%v, %v, %v", byUID, byVersion, right)
	}},
	{"what has a finalizer stays, with a deletionTimestamp, until the last one is off", func(ctx context.Context, c kubernetes.Interface) string {
		va := attachment("finalizer")
		va.Finalizers = []string{"example.com/first", "example.com/last"}
		if _, err := c.StorageV1().VolumeAttachments().Create(ctx, va, metav1.CreateOptions{}); err != nil {
			return err.Error()
		}
		if err := c.StorageV1().VolumeAttachments().Delete(ctx, va.Name, metav1.DeleteOptions{}); err != nil {
			return err.Error()
		}
		for i, patch := range []string{`{"metadata":{"finalizers":["example.com/last"]}}`, `{"metadata":{"finalizers":null}}`} {
			now, err := c.StorageV1().VolumeAttachments().Get(ctx, va.Name, metav1.GetOptions{})
			if err != nil || now.DeletionTimestamp == nil {
				return fmt.Sprintf("before finalizer %d: %v", i, err)
			}
			if _, err := c.StorageV1().VolumeAttachments().Patch(ctx, va.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
				return err.Error()
			}
		}
		_, err := c.StorageV1().VolumeAttachments().Get(ctx, va.Name, metav1.GetOptions{})
		return unless(apierrors.IsNotFound(err), "%v", err)
	}},
	{"no finalizer is added to what is being deleted", func(ctx context.Context, c kubernetes.Interface) string {
		va := attachment("late-finalizer")
		va.Finalizers = []string{"example.com/first"}
		_, err := c.StorageV1().VolumeAttachments().Create(ctx, va, metav1.CreateOptions{})
		deleted := c.StorageV1().VolumeAttachments().Delete(ctx, va.Name, metav1.DeleteOptions{})
		_, refused := c.StorageV1().VolumeAttachments().Patch(ctx, va.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/first","example.com/late"]}}`), metav1.PatchOptions{})
		return unless(err == nil && deleted == nil && refused != nil, "%v, %v, %v", err, deleted, refused)
	}},
	{"a pod on a node is deleted with grace, and at once with none", func(ctx context.Context, c kubernetes.Interface) string {
		p := pod("grace")
		p.Spec.NodeName = "n"
		if _, err := c.CoreV1().Pods(Namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil {
			return err.Error()
		}
		if err := c.CoreV1().Pods(Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{}); err != nil {
			return err.Error()
		}
		p, err := c.CoreV1().Pods(Namespace).Get(ctx, p.Name, metav1.GetOptions{})
		if err != nil || p.DeletionTimestamp == nil || p.DeletionGracePeriodSeconds == nil || *p.DeletionGracePeriodSeconds != 30 {
			return fmt.Sprintf("without a grace of 30 s: %v", err)
		}
		if ahead := p.DeletionTimestamp.Sub(p.CreationTimestamp.Time); ahead < 29*time.Second {
			return fmt.Sprintf("the deletionTimestamp is not the end of the grace: %s", ahead)
		}
		var now int64
		err = c.CoreV1().Pods(Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
		_, gone := c.CoreV1().Pods(Namespace).Get(ctx, p.Name, metav1.GetOptions{})
		return unless(err == nil && apierrors.IsNotFound(gone), "%v, %v", err, gone)
	}},
	{"a pod without a node is deleted at once", func(ctx context.Context, c kubernetes.Interface) string {
		_, err := c.CoreV1().Pods(Namespace).Create(ctx, pod("nowhere"), metav1.CreateOptions{})
		deleted := c.CoreV1().Pods(Namespace).Delete(ctx, "nowhere", metav1.DeleteOptions{})
		_, gone := c.CoreV1().Pods(Namespace).Get(ctx, "nowhere", metav1.GetOptions{})
		return unless(err == nil && deleted == nil && apierrors.IsNotFound(gone), "%v, %v, %v", err, deleted, gone)
	}},
	{"an eviction deletes a pod that runs", func(ctx context.Context, c kubernetes.Interface) string {
		p := pod("evicted")
		p.Spec.NodeName = "n"
		p, err := c.CoreV1().Pods(Namespace).Create(ctx, p, metav1.CreateOptions{})
		if err != nil {
			return err.Error()
		}
		p.Status.Phase = corev1.PodRunning
		_, err = c.CoreV1().Pods(Namespace).UpdateStatus(ctx, p, metav1.UpdateOptions{})
		evicted := c.CoreV1().Pods(Namespace).EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: Namespace}})
		p, there := c.CoreV1().Pods(Namespace).Get(ctx, p.Name, metav1.GetOptions{})
		return unless(err == nil && evicted == nil && there == nil && p.DeletionTimestamp != nil, "%v, %v, %v", err, evicted, there)
	}},
	{"a JSON patch whose test fails is refused", func(ctx context.Context, c kubernetes.Interface) string {
		_, err := c.CoreV1().Nodes().Create(ctx, node("tested"), metav1.CreateOptions{})
		_, refused := c.CoreV1().Nodes().Patch(ctx, "tested", types.JSONPatchType,
			[]byte(`[{"op":"test","path":"/metadata/name","value":"another"},{"op":"add","path":"/spec/unschedulable","value":true}]`), metav1.PatchOptions{})
		return unless(err == nil && apierrors.IsInvalid(refused), "%v, %v", err, refused)
	}},
	{"a merge patch with an old resourceVersion conflicts", func(ctx context.Context, c kubernetes.Interface) string {
		_, err := c.CoreV1().Nodes().Create(ctx, node("merged"), metav1.CreateOptions{})
		_, conflict := c.CoreV1().Nodes().Patch(ctx, "merged", types.MergePatchType, []byte(`{"metadata":{"resourceVersion":"1","labels":{"a":"b"}}}`), metav1.PatchOptions{})
		return unless(err == nil && apierrors.IsConflict(conflict), "%v, %v", err, conflict)
	}},
	{"a strategic patch of a status merges conditions and leaves the spec", func(ctx context.Context, c kubernetes.Interface) string {
		if _, err := c.CoreV1().Nodes().Create(ctx, node("strategic"), metav1.CreateOptions{}); err != nil {
			return err.Error()
		}
		var n *corev1.Node
		for _, patch := range []string{`{"status":{"conditions":[{"type":"A","status":"True"}]}}`, `{"spec":{"unschedulable":true},"status":{"conditions":[{"type":"B","status":"True"}]}}`} {
			var err error
			if n, err = c.CoreV1().Nodes().Patch(ctx, "strategic", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
				return err.Error()
			}
		}
		return unless(len(n.Status.Conditions) == 2 && !n.Spec.Unschedulable, "%+v", n)
	}},
	{"server-side apply", func(ctx context.Context, c kubernetes.Interface) string {
		_, err := c.CoreV1().Nodes().Create(ctx, node("applied"), metav1.CreateOptions{})
		n, applied := c.CoreV1().Nodes().Apply(ctx, applycorev1.Node("applied").WithLabels(map[string]string{"a": "b"}), metav1.ApplyOptions{FieldManager: "promises", Force: true})
		return unless(err == nil && applied == nil && n.Labels["a"] == "b", "%v, %v", err, applied)
	}},
	{"managedFields tell who wrote the status", func(ctx context.Context, c kubernetes.Interface) string {
		n, err := c.CoreV1().Nodes().Create(ctx, node("written"), metav1.CreateOptions{})
		if err != nil {
			return err.Error()
		}
		n.Status.VolumesInUse = []corev1.UniqueVolumeName{"v"}
		n, err = c.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{FieldManager: "writer"})
		if err != nil {
			return err.Error()
		}
		for _, m := range n.ManagedFields {
			if m.Manager == "writer" && m.Subresource == "status" {
				return ""
			}
		}
		return fmt.Sprintf("%+v", n.ManagedFields)
	}},
	{"pods can be listed by their node", func(ctx context.Context, c kubernetes.Interface) string {
		for name, on := range map[string]string{"here": "listed", "there": "other"} {
			p := pod("listed-" + name)
			p.Spec.NodeName = on
			if _, err := c.CoreV1().Pods(Namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil {
				return err.Error()
			}
		}
		l, err := c.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=listed"})
		return unless(err == nil && len(l.Items) == 1 && l.Items[0].Name == "listed-here", "%v: %d", err, len(l.Items))
	}},
	{"a watch from a list's resourceVersion has what came since, in order", func(ctx context.Context, c kubernetes.Interface) string {
		l, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		n, err := c.CoreV1().Nodes().Create(ctx, node("watched"), metav1.CreateOptions{})
		if err != nil {
			return err.Error()
		}
		n.Spec.Unschedulable = true
		_, updated := c.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
		deleted := c.CoreV1().Nodes().Delete(ctx, "watched", metav1.DeleteOptions{})
		w, err := c.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{ResourceVersion: l.ResourceVersion})
		if updated != nil || deleted != nil || err != nil {
			return fmt.Sprint(updated, deleted, err)
		}
		return sees(w, "watched", watch.Added, watch.Modified, watch.Deleted)
	}},
	{"a watch by a selector adds what begins to match, and deletes what no longer does", func(ctx context.Context, c kubernetes.Interface) string {
		l, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		w, err := c.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{ResourceVersion: l.ResourceVersion, LabelSelector: "zone=a"})
		if err != nil {
			return err.Error()
		}
		n, err := c.CoreV1().Nodes().Create(ctx, node("selected"), metav1.CreateOptions{})
		for _, zone := range []string{"a", "b"} {
			if err != nil {
				return err.Error()
			}
			n.Labels = map[string]string{"zone": zone}
			n, err = c.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
		}
		if err != nil {
			return err.Error()
		}
		return sees(w, "selected", watch.Added, watch.Deleted)
	}},
	{"a watch with initial events ends them with a bookmark", func(ctx context.Context, c kubernetes.Interface) string {
		if _, err := c.CoreV1().Nodes().Create(ctx, node("initial"), metav1.CreateOptions{}); err != nil {
			return err.Error()
		}
		yes := true
		w, err := c.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{SendInitialEvents: &yes, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, FieldSelector: "metadata.name=initial"})
		if err != nil {
			return err.Error()
		}
		defer w.Stop()
		added := 0
		for {
			select {
			case e := <-w.ResultChan():
				if n, ok := e.Object.(*corev1.Node); ok && e.Type == watch.Bookmark {
					return unless(n.Annotations[metav1.InitialEventsAnnotationKey] == "true" && added == 1, "%d objects, %+v", added, n)
				}
				added++
			case <-time.After(5 * time.Second):
				return "no bookmark came"
			}
		}
	}},
}

// sees returns why the watch does not have these events about the object, in this order.
func sees(w watch.Interface, name string, want ...watch.EventType) string {
	defer w.Stop()
	for i := 0; i < len(want); {
		select {
		case e := <-w.ResultChan():
			n, ok := e.Object.(*corev1.Node)
			if !ok {
				return fmt.Sprintf("event %d is %s of a %T", i, e.Type, e.Object)
			}
			if n.Name != name {
				continue
			}
			if e.Type != want[i] {
				return fmt.Sprintf("event %d is %s, not %s", i, e.Type, want[i])
			}
			i++
		case <-time.After(5 * time.Second):
			return fmt.Sprintf("event %d, %s, did not come", i, want[i])
		}
	}
	return ""
}

func unless(kept bool, format string, args ...any) string {
	if kept {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: Namespace}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
}

func node(name string) *corev1.Node {
	// the API server never tracks the managed fields of an object that it made without any
	// field
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"example.com/made": "yes"}}}
}

func attachment(name string) *storagev1.VolumeAttachment {
	volume := "pv"
	return &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: "example.com", NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}}}
}
