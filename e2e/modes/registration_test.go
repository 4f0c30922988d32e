package modes_test

import (
	"context"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubelet"
)

// unknownDriver is the kubelet's message about a driver that has not registered.
func (s *stage) unknownDriver(volume string) kubelet.MountFault {
	return kubelet.MountFailed(stageFails, volume, "kubernetes.io/csi: attacher.MountDevice failed to create newCsiDriverClient: driver name "+
		s.driver+" not found in the list of registered CSI drivers")
}

var registrationModes = []mode{
	{
		name: "registration-gone", check: "csinode-driver-missing", aged: true,
		story: "The node plugin of a driver goes, its entry in the CSINode with it, and a pod comes.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			s.volume(ctx, "data", nil)
			s.do(func() error { return s.kubelets["a"].Unregister(ctx) })
			s.pod(ctx, "web-0", "a")
			s.waits(ctx, "web-0")
		},
	},
	{
		name: "unheard-plugin", check: "plugin-not-registered", aged: true,
		story: "A node plugin runs and its registrar uses another directory than the kubelet.",
		provoke: func(ctx context.Context, s *stage) {
			s.unattended()
			s.do(func() error { return installDriver(ctx, s.driver, false) })
			s.node(ctx, "a", kubelet.Options{Unregistered: true})
			v := s.volume(ctx, "data", nil)
			s.failMount("a", v.PersistentVolume, s.unknownDriver(v.PersistentVolume))
			s.plugin(ctx, "node-plugin-a", "a")
			s.pod(ctx, "web-0", "a")
			s.waits(ctx, "web-0")
		},
	},
	{
		name: "kubelet-forgot", check: "registration-lost", aged: true,
		story: "A kubelet starts anew and does not find the driver's socket again; the CSINode still lists the driver.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			v := s.volume(ctx, "data", nil)
			s.failMount("a", v.PersistentVolume, s.unknownDriver(v.PersistentVolume))
			s.pod(ctx, "web-0", "a")
			s.waits(ctx, "web-0")
		},
	},
	{
		name: "crashing-plugin", check: "registered-but-not-served", also: []string{"mount-refused"}, aged: true,
		story: "A node plugin crashes again and again, and its driver stays in the CSINode.",
		provoke: func(ctx context.Context, s *stage) {
			s.unattended()
			s.do(func() error { return installDriver(ctx, s.driver, false) })
			s.nodes(ctx, "a")
			v := s.volume(ctx, "data", nil)
			s.failMount("a", v.PersistentVolume, kubelet.MountFailed(mountFails, v.PersistentVolume, "rpc error: code = Unavailable desc = connection error: "+
				"desc = \"transport: Error while dialing: dial unix /var/lib/kubelet/plugins/"+s.driver+"/csi.sock: connect: connection refused\""))
			s.plugin(ctx, "node-plugin-a", "a")
			s.crashes(ctx, "node-plugin-a")
			s.pod(ctx, "web-0", "a")
			s.waits(ctx, "web-0")
		},
	},
	{
		name: "two-plugins", check: "two-plugins-one-driver", later: true,
		story: "A driver is installed twice: two DaemonSets register it on a node.",
		provoke: func(ctx context.Context, s *stage) {
			s.unattended()
			s.do(func() error { return installDriver(ctx, s.driver, false) })
			s.nodes(ctx, "a")
			s.plugin(ctx, "node-plugin-old", "a")
			s.plugin(ctx, "node-plugin-new", "a")
		},
	},
	{
		name: "drained-plugin", check: "driver-gone-under-pods", aged: true, announced: true,
		story: "A node plugin is taken off a node, its driver with it; the pod there that is deleted then has ended and stays Terminating.",
		provoke: func(ctx context.Context, s *stage) {
			s.unattended()
			s.do(func() error { return installDriver(ctx, s.driver, false) })
			s.nodes(ctx, "a", "b")
			s.plugin(ctx, "node-plugin-b", "b")
			v := s.running(ctx, "web-0")
			s.do(func() error { s.kubelets["a"].FailUnmount(v.PersistentVolume); return nil })
			s.do(func() error { return s.kubelets["a"].Unregister(ctx) })
			s.do(func() error { return fixture.DeletePod(ctx, s.client, s.name, "web-0") })
			s.evicted(ctx, "web-0")
		},
	},
	{
		name: "annotation-lost", check: "pods-on-unmanaged-node", aged: true,
		story: "The node of a running pod loses the annotation by which the controller takes care of it.",
		provoke: func(ctx context.Context, s *stage) {
			s.nodes(ctx, "a")
			v := s.running(ctx, "web-0")
			s.attachment(ctx, "a", v, "attached", attached)
			s.unmanage(ctx, "a")
		},
	},
	{
		name: "csidriver-late", check: "attachability-flipped",
		story: "The CSIDriver of a driver that attaches nothing is made only after a pod has come, which its kubelet has wait for an attach.",
		provoke: func(ctx context.Context, s *stage) {
			s.unattended()
			s.nodes(ctx, "a")
			s.volume(ctx, "data", nil)
			s.pod(ctx, "web-0", "a")
			s.waits(ctx, "web-0")
			s.do(func() error { return installDriver(ctx, s.driver, false) })
		},
	},
	{
		name: "csinode-refused", check: "csinode-not-initialized",
		story: "A kubelet may not write its CSINode, and its node does not become Ready.",
		provoke: func(ctx context.Context, s *stage) {
			s.node(ctx, "a", kubelet.Options{NotReady: "CSINode is not yet initialized"})
		},
	},
}

// plugin runs the pod of the driver's node plugin. Its DaemonSet has no controller, and
// exists only so that the pod is not garbage-collected.
func (s *stage) plugin(ctx context.Context, name, node string) {
	s.do(func() error {
		labels := map[string]string{"app": name}
		pod := fixture.Pod(s.name, name, s.nodeName(node))
		owner, err := s.client.AppsV1().DaemonSets(s.name).Create(ctx, &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: appsv1.DaemonSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: fixture.Pod(s.name, name, "").Spec},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}
		directory := corev1.HostPathDirectoryOrCreate
		for _, path := range []string{"/var/lib/kubelet/plugins/" + s.driver, "/var/lib/kubelet/plugins_registry"} {
			volume := strings.ReplaceAll(strings.TrimPrefix(path, "/var/lib/kubelet/"), "/", "-")
			volume = strings.ReplaceAll(strings.ReplaceAll(volume, ".", "-"), "_", "-")
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &directory},
			}})
			mounts := &pod.Spec.Containers[0].VolumeMounts
			*mounts = append(*mounts, corev1.VolumeMount{Name: volume, MountPath: path})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: "node-driver-registrar", Image: "registry.k8s.io/sig-storage/csi-node-driver-registrar:v2.16.0",
			VolumeMounts: pod.Spec.Containers[0].VolumeMounts,
		})
		_, err = fixture.CreatePod(ctx, s.client, pod)
		return err
	})
	s.runs(ctx, name)
}

// crashes marks the pod's containers as ending again and again.
func (s *stage) crashes(ctx context.Context, pod string) {
	s.do(func() error {
		p, err := s.client.CoreV1().Pods(s.name).Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for i := range p.Status.ContainerStatuses {
			c := &p.Status.ContainerStatuses[i]
			c.Ready, c.RestartCount = false, 7
			c.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
		}
		for i := range p.Status.Conditions {
			if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
				c.Status, c.Reason, c.LastTransitionTime = corev1.ConditionFalse, "ContainersNotReady", metav1.Now()
			}
		}
		_, err = s.client.CoreV1().Pods(s.name).UpdateStatus(ctx, p, metav1.UpdateOptions{})
		return err
	})
}

// grantAttacher gives the limited attacher the lease of the namespace and these
// rights, each as "verb,verb resource".
func grantAttacher(ctx context.Context, namespace string, rights ...string) error {
	client, options := cluster.Client().RbacV1(), metav1.CreateOptions{}
	rules := []rbacv1.PolicyRule{{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"*"}}}
	for _, right := range rights {
		verbs, resource, _ := strings.Cut(right, " ")
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{"", "storage.k8s.io"}, Resources: []string{resource}, Verbs: strings.Split(verbs, ",")})
	}
	meta := metav1.ObjectMeta{Name: "limited-attacher-" + namespace}
	if _, err := client.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, options); err != nil {
		return err
	}
	_, err := client.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: controlplane.UserLimited}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
	}, options)
	return err
}
