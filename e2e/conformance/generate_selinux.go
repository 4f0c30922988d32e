package conformance

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// seLinuxCluster is the cluster of a seed whose pods have containers with labels, and
// whose drivers may mount with one.
func seLinuxCluster(seed uint64) *Cluster {
	g := &generator{r: rand.New(rand.NewPCG(seed, 1)), c: Random(seed)}
	for _, d := range g.c.CSIDrivers {
		d.Spec.SELinuxMount = pick(g, new(true), new(true), new(true), new(false), nil)
	}
	for _, pod := range g.c.Pods {
		pod.Spec.SecurityContext = pick(g, nil, &corev1.PodSecurityContext{
			SELinuxOptions:      g.seLinux(),
			SELinuxChangePolicy: pick(g, nil, nil, new(corev1.SELinuxChangePolicyRecursive), new(corev1.SELinuxChangePolicyMountOption)),
		})
		for i := range pod.Spec.Volumes {
			if v := &pod.Spec.Volumes[i]; v.FC != nil || v.ISCSI != nil { // the controller warns about a pod's own volume, too
				v.VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
			}
		}
		names := g.eachVolumeOnce(pod)
		for i := range g.between(1, 2) {
			container := corev1.Container{Name: fmt.Sprintf("c%d", i)}
			if g.chance(0.3) {
				container.SecurityContext = &corev1.SecurityContext{SELinuxOptions: g.seLinux()}
			}
			for _, name := range names {
				if g.chance(0.8) {
					container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
				}
			}
			switch {
			case g.chance(0.2):
				pod.Spec.InitContainers = append(pod.Spec.InitContainers, container)
			case g.chance(0.1):
				pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers,
					corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon(container)})
			default:
				pod.Spec.Containers = append(pod.Spec.Containers, container)
			}
		}
	}
	return g.c
}

// eachVolumeOnce names the volumes of a pod, and only one of two that are the same volume:
// the controller leaves to chance which of them counts.
func (g *generator) eachVolumeOnce(pod *corev1.Pod) (names []string) {
	w := reconcile.NewWorld(g.c.Snapshot(Newest), g.c.Options())
	seen := map[corev1.UniqueVolumeName]bool{}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		name, _, err := w.MountedVolume(pod, v)
		if err != nil || !seen[name] {
			names = append(names, v.Name)
		}
		seen[name] = true
	}
	return names
}

func (g *generator) seLinux() *corev1.SELinuxOptions {
	return pick(g, nil, &corev1.SELinuxOptions{}, &corev1.SELinuxOptions{
		User: pick(g, "", "", "system_u", "user_u"), Role: pick(g, "", "", "object_r"),
		Type: pick(g, "", "", "container_t", "spc_t"), Level: pick(g, "", "s0:c1,c2", "s0:c1,c2", "s0:c3"),
	})
}
