package cluster

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/intern"
)

// typicalPods are pods as a cluster has them, of about 7 KB each. One of six uses
// a volume that can be attached.
func typicalPods(count int) *corev1.PodList {
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
	for i := range count {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: fmt.Sprintf("web-%06d", i), UID: types.UID(fmt.Sprintf("0f1e2d3c-0000-4000-8000-%012d", i)), ResourceVersion: fmt.Sprint(i),
			CreationTimestamp: metav1.NewTime(serverTime), GenerateName: "web-",
			Labels:      map[string]string{"app": "web", "pod-template-hash": "7c9d5b6f7", "app.kubernetes.io/managed-by": "Helm"},
			Annotations: map[string]string{"prometheus.io/scrape": "true", "checksum/config": strings.Repeat("ab", 32)},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "kube-controller-manager", FieldsV1: metav1.NewFieldsV1(strings.Repeat(`{"f:metadata":{}}`, 120))},
				{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(strings.Repeat(`{"f:status":{}}`, 120))},
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-7c9d5b6f7", UID: "u"}},
		}}
		container := corev1.Container{
			Name: "web", Image: "registry.example.com/shop/web:1.2.3", Args: []string{"--port=8080", "--verbose"},
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
			},
			LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080)}}, PeriodSeconds: 10},
			VolumeMounts:  []corev1.VolumeMount{{Name: "token", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}},
		}
		for e := range 8 {
			container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", e), Value: "a value of some length"})
		}
		sidecar := *container.DeepCopy()
		sidecar.Name = "sidecar"
		p.Spec = corev1.PodSpec{Containers: []corev1.Container{container, sidecar}, NodeName: fmt.Sprintf("node-%04d", i/30), ServiceAccountName: "default",
			SchedulerName: "default-scheduler", DNSPolicy: corev1.DNSClusterFirst, SecurityContext: &corev1.PodSecurityContext{},
			Tolerations: []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists}, {Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists}},
			Volumes: []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}}}}}}}
		if i%6 == 0 {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-" + p.Name}}})
		}
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, HostIP: "10.0.0.1", PodIP: "10.1.2.3", QOSClass: corev1.PodQOSBurstable}
		for _, c := range []corev1.PodConditionType{corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(serverTime)})
		}
		for _, c := range p.Spec.Containers {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Ready: true, Image: c.Image,
				ImageID: c.Image + "@sha256:" + strings.Repeat("0", 64), ContainerID: "containerd://" + strings.Repeat("0", 64),
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(serverTime)}}})
		}
		list.Items = append(list.Items, p)
	}
	return list
}

// BenchmarkPods reads a page of pods as diagnose does, from its bytes.
func BenchmarkPods(b *testing.B) {
	raw := encodedList(b, typicalPods(3000))
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		kept := benchmarkedPage(b, raw)
		if kept != 500 {
			b.Fatal(kept)
		}
	}
}

func benchmarkedPage(b *testing.B, raw []byte) int {
	ofUse := facts.NeedsOf(&snapshot.Objects{}).OfUse
	p := &pages[corev1.Pod, *corev1.Pod]{Cluster: &Cluster{}, kind: snapshot.Pods, sharer: intern.New(), choice: choice[*corev1.Pod]{
		peek: new(podPeeker).peek, keep: ofUse,
	}}
	if _, err := listPage(bytes.NewReader(raw), corev1.SchemeGroupVersion.WithKind("PodList"), p.take, nil); err != nil {
		b.Fatal(err)
	}
	return len(p.kept)
}
