package diagnose_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testworld"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// shownObject is an object that "kubectl get" shows as Pending, Terminating, Lost or not
// running, and the text that shows that a volume is why.
type shownObject struct {
	kind string // Pod, PersistentVolumeClaim or PersistentVolume
	types.NamespacedName
	why string
}

// usualEnd is how long an object may be Terminating before somebody asks why.
const usualEnd = 15 * time.Minute

// shown are such objects, judged by the plainest signs alone and by none of the checks' code:
// what a person sees who knows kubectl and nothing about volumes.
func shown(s *snapshot.Snapshot) []shownObject {
	var list []shownObject
	show := func(kind, namespace, name, why string) {
		list = append(list, shownObject{kind, types.NamespacedName{Namespace: namespace, Name: name}, why})
	}
	long := func(at *metav1.Time) bool { return at != nil && s.TakenAt.Sub(at.Time) > usualEnd }
	for _, claim := range s.Claims {
		if claim.Status.Phase == corev1.ClaimLost && long(&claim.CreationTimestamp) && claim.DeletionTimestamp == nil && !comesBack(s, claim) {
			show("PersistentVolumeClaim", claim.Namespace, claim.Name, "Lost")
		}
		if long(claim.DeletionTimestamp) && len(claim.Finalizers) > 0 {
			show("PersistentVolumeClaim", claim.Namespace, claim.Name, "Terminating")
		}
	}
	for _, pv := range s.Volumes {
		detaches := slices.ContainsFunc(s.VolumeAttachments, func(va *storagev1.VolumeAttachment) bool {
			name := va.Spec.Source.PersistentVolumeName
			return name != nil && *name == pv.Name && va.DeletionTimestamp != nil && !long(va.DeletionTimestamp)
		})
		if long(pv.DeletionTimestamp) && len(pv.Finalizers) > 0 && !detaches { // without a finalizer it is gone
			show("PersistentVolume", "", pv.Name, "Terminating")
		}
	}
	for _, pod := range s.Pods {
		if why := podShown(s, pod, long); why != "" {
			show("Pod", pod.Namespace, pod.Name, why)
		}
	}
	return list
}

// comesBack reports whether the volume of a Lost claim exists and points to it, or to no claim:
// kube-controller-manager binds them within seconds.
func comesBack(s *snapshot.Snapshot, claim *corev1.PersistentVolumeClaim) bool {
	pv := s.Volume(claim.Spec.VolumeName)
	return claim.Spec.VolumeName == "" || pv != nil && (pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID == "" || pv.Spec.ClaimRef.UID == claim.UID)
}

func podShown(s *snapshot.Snapshot, pod *corev1.Pod, long func(*metav1.Time) bool) string {
	if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.HostPath == nil }) {
		return "" // a directory of the node is not mounted
	}
	node := s.Node(types.NodeName(pod.Spec.NodeName))
	if pod.DeletionTimestamp != nil {
		ended := pod.Status.Phase != corev1.PodPending && len(pod.Status.ContainerStatuses) > 0 && !slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Terminated == nil })
		if slices.ContainsFunc(s.Events, func(e *corev1.Event) bool { return e.InvolvedObject.UID == pod.UID && e.Reason == "FailedKillPod" }) {
			return "" // its sandbox or a container keeps it, not a volume
		}
		if ended && slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return mayBeMounted(s, node, pod, &v) }) && long(pod.DeletionTimestamp) && len(pod.Finalizers) == 0 && node != nil && reconcile.NodeReady(node) {
			return "Terminating, and its containers have ended"
		}
		return ""
	}
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return ""
	}
	started := false
	for _, c := range pod.Status.ContainerStatuses {
		// A container that has got further has its volumes, such as one whose image is being
		// pulled.
		started = started || c.State.Waiting != nil && c.State.Waiting.Reason != "ContainerCreating" && c.State.Waiting.Reason != "PodInitializing" || c.State.Running != nil || c.LastTerminationState.Terminated != nil || c.RestartCount > 0
		if w := c.State.Waiting; w != nil && node != nil && long(notReadySince(pod)) && namesMount(pod, w.Message+lastTry(c)) {
			return w.Reason + ": " + w.Message + lastTry(c)
		}
	}
	if pod.Status.Phase != corev1.PodPending || started {
		return ""
	}
	if pod.Spec.NodeName == "" {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && namesVolume(s, pod, c.Message) {
				return c.Message
			}
		}
		return ""
	}
	mounted := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionTrue
	})
	if node == nil || !reconcile.NodeReady(node) || mounted {
		return "" // it waits for its node, or for what comes after the mounts
	}
	for _, e := range s.Events {
		if o := e.InvolvedObject; o.Kind == "Pod" && o.UID == pod.UID && s.TakenAt.Sub(e.LastTimestamp.Time) < 3*time.Minute &&
			(e.Reason == "FailedMount" || e.Reason == "FailedAttachVolume" || e.Reason == "FailedMapVolume") {
			return e.Reason + ": " + e.Message
		}
	}
	return ""
}

// mayBeMounted reports whether the volume may still be mounted on the node: a container of the
// pod mounts it and, for a volume that is attached, the node reports it in use.
func mayBeMounted(s *snapshot.Snapshot, node *corev1.Node, pod *corev1.Pod, v *corev1.Volume) bool {
	if v.HostPath != nil || node == nil || !slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name })
	}) {
		return false
	}
	claim := s.Claim(types.NamespacedName{Namespace: pod.Namespace, Name: reconcile.ClaimName(pod, v)})
	if claim == nil {
		return reconcile.ClaimName(pod, v) == ""
	}
	pv := s.Volume(claim.Spec.VolumeName)
	// the controller begins it once the kubelet has unmounted it
	detaches := func(va *storagev1.VolumeAttachment) bool {
		name := va.Spec.Source.PersistentVolumeName
		if va.DeletionTimestamp == nil || va.Spec.NodeName != node.Name || name == nil {
			return false
		}
		other := s.Volume(*name) // a disk may have two volumes
		return other != nil && other.Spec.CSI != nil && other.Spec.CSI.Driver == pv.Spec.CSI.Driver && other.Spec.CSI.VolumeHandle == pv.Spec.CSI.VolumeHandle
	}
	return pv != nil && pv.Spec.CSI != nil && !slices.ContainsFunc(s.VolumeAttachments, detaches) && slices.Contains(node.Status.VolumesInUse, corev1.UniqueVolumeName("kubernetes.io/csi/"+pv.Spec.CSI.Driver+"^"+pv.Spec.CSI.VolumeHandle))
}

// lastTry is why a container that was created could not be started.
func lastTry(c corev1.ContainerStatus) string {
	if t := c.LastTerminationState.Terminated; t != nil && t.Reason == "StartError" {
		return t.Message
	}
	return ""
}

// namesMount reports whether a container's message names a path of the pod's volumes, or a
// subPath of one.
func namesMount(pod *corev1.Pod, message string) bool {
	return strings.Contains(message, "/pods/"+string(pod.UID)+"/volumes/") ||
		strings.Contains(message, "subPath") && slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return strings.Contains(message, `volumeMount "`+v.Name+`"`) })
}

// notReadySince is when the pod's Ready condition last changed; nil where it has none.
func notReadySince(pod *corev1.Pod) *metav1.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return &c.LastTransitionTime
		}
	}
	return nil
}

// namesVolume reports whether the scheduler's message is about volumes, or names a driver.
func namesVolume(s *snapshot.Snapshot, pod *corev1.Pod, message string) bool {
	lower := strings.ToLower(message)
	if strings.Contains(lower, "volume") {
		return true
	}
	return slices.ContainsFunc(s.CSIDrivers, func(d *storagev1.CSIDriver) bool { return strings.Contains(message, d.Name+"/") })
}

// inReport reports whether the report has the object: in a finding, or among the pods that
// wait.
func inReport(s *snapshot.Snapshot, r *finding.Report, o shownObject) bool {
	object := strings.ToLower(o.kind) + "/" + strings.TrimPrefix(o.String(), "/")
	var users []string
	volume := o.Name
	if o.kind == "PersistentVolumeClaim" {
		volume = s.Claim(o.NamespacedName).Spec.VolumeName
		for _, pod := range s.Pods {
			for i := range pod.Spec.Volumes {
				if pod.Namespace == o.Namespace && reconcile.ClaimName(pod, &pod.Spec.Volumes[i]) == o.Name {
					users = append(users, pod.Namespace+"/"+pod.Name)
				}
			}
		}
	}
	for _, f := range r.Findings {
		switch {
		case f.Subject.Kind == o.kind && f.Subject.Namespace == o.Namespace && f.Subject.Name == o.Name,
			o.kind == "Pod" && f.Names(o.String()),
			o.kind != "Pod" && volume != "" && f.PersistentVolume == volume,
			slices.ContainsFunc(f.Evidence, func(e finding.Evidence) bool { return e.Object == object }),
			slices.ContainsFunc(users, f.Names):
			return true
		}
	}
	return slices.ContainsFunc(r.Waiting, func(w finding.Waiting) bool { return o.kind == "Pod" && w.Pod == o.String() })
}

// TestShownOfRandomClusters: an object that "kubectl get" shows as Pending, Terminating, Lost
// or not running because of a volume is in the report.
func TestShownOfRandomClusters(t *testing.T) {
	cases := corpusSnapshots(t)
	count := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		drawn := testworld.Mounting(testcases.Draw(t, cases))
		o := drawn.Objects
		for range rapid.IntRange(1, 4).Draw(t, "ends") {
			endOrWait(t, &o, drawn.TakenAt)
		}
		s := remade(drawn, o, nil)
		settings := drawSettings(t)
		report := diagnose.Diagnose(s, settings)
		for _, object := range shown(s) {
			count[object.kind]++
			if inReport(s, report, object) {
				continue
			}
			trace := ""
			if pod := s.Pod(object.NamespacedName); object.kind == "Pod" && pod != nil {
				trace = "; its trace says: " + diagnose.TracePod(s, pod, settings).Verdict.Message
			}
			t.Errorf("%s %s is %s, and the report says nothing of it%s", object.kind, object.NamespacedName, object.why, trace)
		}
	})
	t.Logf("shown: %v", count)
	if len(count) < 3 {
		t.Errorf("only %v are shown: this shows little", count)
	}
}

// endOrWait makes a random object of the cluster one that people ask about.
func endOrWait(t *rapid.T, o *snapshot.Objects, now time.Time) {
	at := metav1.NewTime(now.Add(-time.Duration(rapid.SampledFrom([]int{90, 20, 4, 0}).Draw(t, "minutes ago")) * time.Minute))
	finalized := func(m *metav1.ObjectMeta, finalizers ...string) { // without a finalizer it would be gone
		m.DeletionTimestamp = &at
		m.Finalizers = append(slices.Clone(m.Finalizers), rapid.SampledFrom(finalizers).Draw(t, "finalizer"))
	}
	changes := []func(){
		func() {
			testcases.One(t, o.Claims, func(c *corev1.PersistentVolumeClaim) {
				finalized(&c.ObjectMeta, "kubernetes.io/pvc-protection", "example.com/own")
			})
		},
		func() {
			testcases.One(t, o.Volumes, func(pv *corev1.PersistentVolume) {
				if pv.Status.Phase == corev1.VolumeBound {
					// every volume has it as long as it is bound
					finalized(&pv.ObjectMeta, "kubernetes.io/pv-protection")
				} else {
					finalized(&pv.ObjectMeta, "kubernetes.io/pv-protection", "external-provisioner.volume.kubernetes.io/finalizer", "external-attacher/ebs-csi-aws-com", "example.com/own")
				}
			})
		},
		func() {
			testcases.One(t, o.Claims, func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost })
		},
		func() {
			testcases.One(t, o.Pods, func(p *corev1.Pod) {
				p.DeletionTimestamp, p.Status.StartTime = &at, &p.CreationTimestamp
				// all pods have one, except those that decline it
				if !slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Projected != nil }) && rapid.Bool().Draw(t, "token") {
					p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "kube-api-access", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}})
					for i := range p.Spec.Containers {
						p.Spec.Containers[i].VolumeMounts = append(p.Spec.Containers[i].VolumeMounts, corev1.VolumeMount{Name: "kube-api-access"})
					}
				}
				for i := range p.Status.ContainerStatuses {
					p.Status.ContainerStatuses[i].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: at}}
				}
			})
		},
		func() {
			testcases.One(t, o.Pods, func(p *corev1.Pod) {
				if len(p.Spec.Volumes) == 0 {
					return
				}
				message := fmt.Sprintf("failed to prepare subPath for volumeMount %q of container %q", p.Spec.Volumes[0].Name, "app")
				for _, claim := range o.Claims {
					if claim.Namespace == p.Namespace && claim.Name == reconcile.ClaimName(p, &p.Spec.Volumes[0]) && claim.Spec.VolumeName != "" && claim.Status.Phase != corev1.ClaimPending && rapid.Bool().Draw(t, "path") {
						message = fmt.Sprintf("failed to stat \"/var/lib/kubelet/pods/%s/volumes/kubernetes.io~csi/%s/mount\": transport endpoint is not connected", p.UID, claim.Spec.VolumeName)
					}
				}
				p.Status.Conditions = append(slices.DeleteFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady }),
					corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: at})
				backOff := rapid.Bool().Draw(t, "back-off")
				for i := range p.Status.ContainerStatuses {
					c := &p.Status.ContainerStatuses[i]
					c.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerError", Message: message}}
					if backOff {
						c.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 5m0s restarting failed container"}
						c.LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 128, Reason: "StartError", Message: message, FinishedAt: at}}
					}
				}
			})
		},
		func() {
			testcases.One(t, o.Pods, func(p *corev1.Pod) {
				message := rapid.SampledFrom([]string{
					"0/2 nodes are available: 2 node(s) had volume node affinity conflict.",
					"0/2 nodes are available: 2 node(s) exceed max volume count.",
					"0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
					`0/2 nodes are available: persistentvolumeclaim "data" is being deleted.`,
					"0/2 nodes are available: 2 node(s) had untolerated taint {ebs.csi.aws.com/agent-not-ready: }.",
				}).Draw(t, "scheduler")
				p.Spec.NodeName, p.Status.Phase, p.Status.ContainerStatuses, p.DeletionTimestamp = "", corev1.PodPending, nil, nil
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: message, LastTransitionTime: at}}
			})
		},
	}
	changes[rapid.IntRange(0, len(changes)-1).Draw(t, "end")]()
}
