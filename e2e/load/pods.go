package load

import (
	"crypto/sha256"
	"fmt"
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// pods are, on each node, those of two DaemonSets; those with a volume; and as
// many of Deployments, without one, as are missing.
func (c Cluster) pods() iter.Seq[Object] {
	return func(yield func(Object) bool) {
		made := 2 // of singles
		for n := range c.Size.Nodes {
			if !yield(c.daemon("ebs-csi-node", n, "/var/lib/kubelet/plugins/"+Driver)) || !yield(c.daemon("log-agent", n, "/var/log")) {
				return
			}
			made += 2
		}
		for v := range c.Size.Volumes {
			if !yield(c.volumePod(v)) {
				return
			}
			made++
		}
		for i := range c.Size.Pods - made {
			pod := c.pod("web", fmt.Sprintf("web-%04d-7d4b9c6f5d-%05d", i/50, i), Namespace(i), i, i%c.Size.Nodes)
			owner(pod, "ReplicaSet", fmt.Sprintf("web-%04d-7d4b9c6f5d", i/50))
			if !yield(pod) {
				return
			}
		}
	}
}

func owner(pod *corev1.Pod, kind, name string) {
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: uid(kind+name, 0), Controller: yes(), BlockOwnerDeletion: yes()}}
}

func (c Cluster) daemon(name string, n int, directory string) *corev1.Pod {
	pod := c.pod(name, fmt.Sprintf("%s-%05d", name, n), metav1.NamespaceSystem, n, n)
	owner(pod, "DaemonSet", name)
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "dir", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: directory}}})
	return pod
}

func (c Cluster) attacherPod(i int) *corev1.Pod {
	pod := c.pod("ebs-csi-controller", fmt.Sprintf("ebs-csi-controller-%d", i), metav1.NamespaceSystem, i, i%c.Size.Nodes)
	owner(pod, "ReplicaSet", "ebs-csi-controller")
	pod.Spec.Containers[0].Image = "registry.k8s.io/sig-storage/csi-attacher:v4.12.0"
	return pod
}

func (c Cluster) volumePod(v int) *corev1.Pod {
	pod := c.pod("db", VolumePod(v), Namespace(v), v, c.nodeOf(v))
	owner(pod, "StatefulSet", fmt.Sprintf("db-%06d", v))
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(v)}}})
	pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "data", MountPath: "/var/lib/data"})
	if c.unlisted(v) {
		pod.Status.Phase = corev1.PodPending
		pod.Status.PodIP, pod.Status.PodIPs = "", nil
		pod.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: "main", Image: pod.Spec.Containers[0].Image,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}
		for i := range pod.Status.Conditions {
			if t := pod.Status.Conditions[i].Type; t == corev1.PodReady || t == corev1.ContainersReady || t == corev1.PodReadyToStartContainers {
				pod.Status.Conditions[i].Status, pod.Status.Conditions[i].Reason = corev1.ConditionFalse, "ContainersNotReady"
			}
		}
	}
	return pod
}

// pod is a running one of a little more than 3 KB, as most are.
func (c Cluster) pod(app, name, namespace string, i, node int) *corev1.Pod {
	image := "602401143452.dkr.ecr.eu-central-1.amazonaws.com/team/" + app + ":v1.2.3"
	p := &corev1.Pod{ObjectMeta: c.meta("pod-"+app, name, i)}
	p.Namespace, p.GenerateName = namespace, app+"-"
	p.Labels = map[string]string{"app.kubernetes.io/name": app, "app.kubernetes.io/instance": app, "app.kubernetes.io/managed-by": "Helm", "pod-template-hash": "7d4b9c6f5d"}
	p.Annotations = map[string]string{"checksum/config": fmt.Sprintf("%x", sha256.Sum256([]byte(app))), "prometheus.io/scrape": "true", "prometheus.io/port": "9090"}
	p.ManagedFields = []metav1.ManagedFieldsEntry{c.written("kube-controller-manager", "", podFields), c.written("kubelet", "status", podStatusFields)}
	token := corev1.Volume{Name: "kube-api-access-" + string(p.UID[:5]), VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: ptr(int32(420)), Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: ptr(int64(3607)), Path: "token"}},
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
	}}}}
	container := corev1.Container{
		Name: "main", Image: image, Args: []string{"--config=/etc/app/config.yaml", "--log-level=info", "--listen=:8080"},
		Ports:                    []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
		TerminationMessagePath:   "/dev/termination-log",
		TerminationMessagePolicy: corev1.TerminationMessageReadFile, ImagePullPolicy: corev1.PullIfNotPresent,
		Resources:    corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("256Mi")}},
		VolumeMounts: []corev1.VolumeMount{{Name: token.Name, ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}},
		LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("http"), Scheme: corev1.URISchemeHTTP}},
			PeriodSeconds: 10, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3},
	}
	for _, name := range []string{"POD_NAME", "POD_NAMESPACE", "NODE_NAME", "DATABASE_URL", "CACHE_URL", "LOG_FORMAT"} {
		container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: "https://" + app + ".internal.example.com/" + name})
	}
	p.Spec = corev1.PodSpec{
		Volumes: []corev1.Volume{token}, Containers: []corev1.Container{container}, NodeName: nodeName(node), RestartPolicy: corev1.RestartPolicyAlways,
		TerminationGracePeriodSeconds: ptr(int64(30)), DNSPolicy: corev1.DNSClusterFirst, ServiceAccountName: app, SchedulerName: "default-scheduler",
		Priority: ptr(int32(0)), EnableServiceLinks: yes(), PreemptionPolicy: ptr(corev1.PreemptLowerPriority), SecurityContext: &corev1.PodSecurityContext{},
		Tolerations: []corev1.Toleration{
			{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr(int64(300))},
			{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr(int64(300))},
		},
	}
	ip := fmt.Sprintf("10.%d.%d.%d", 64+i>>16, i>>8&255, i&255)
	p.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, HostIP: "10.0.0.1", PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, StartTime: &p.CreationTimestamp, QOSClass: corev1.PodQOSBurstable,
		ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Image: image, ImageID: image + fmt.Sprintf("@sha256:%x", sha256.Sum256([]byte(image))), Ready: true, Started: yes(),
			ContainerID: fmt.Sprintf("containerd://%x", sha256.Sum256([]byte(name))), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: p.CreationTimestamp}}}},
	}
	for _, t := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: p.CreationTimestamp})
	}
	return p
}
