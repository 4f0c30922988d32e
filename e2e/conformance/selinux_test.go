package conformance

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/preflight"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// TestSELinux holds the SELinux conflicts that `preflight upgrade` tells of against
// those that upstream's own controller finds among the same pods. From 1.27, none of
// them is there already.
func TestSELinux(t *testing.T) {
	var mu sync.Mutex
	found := map[preflight.SELinuxProperty]int{}
	each(t, Newest, *seed, *clusters, func(t *testing.T, o *Oracle, s uint64) {
		c := seLinuxCluster(s)
		answer, err := o.Send(&wire.Request{Volumes: c.Volumes, Claims: c.Claims, Pods: c.Pods, CSIDrivers: c.CSIDrivers, SELinux: true})
		if err != nil {
			t.Errorf("seed %d: %v", s, err)
			return
		}
		upgrade := preflight.OfUpgrade(c.Snapshot("v1.27.16"), string(Newest), c.Options())
		conflicts, multiple := map[string]bool{}, map[string]bool{}
		for _, conflict := range upgrade.SELinux {
			mu.Lock()
			found[conflict.Property]++
			mu.Unlock()
			if conflict.Property == preflight.MultipleSELinuxLabels {
				for _, p := range conflict.Sides[0].Pods {
					multiple[p.Pod] = true
				}
				continue
			}
			for i, side := range conflict.Sides {
				other := conflict.Sides[1-i]
				for _, a := range side.Pods {
					for _, b := range other.Pods {
						conflicts[fmt.Sprintf("%s %s=%q %s=%q", conflict.Property, a.Pod, side.Value, b.Pod, other.Value)] = true
					}
				}
			}
		}
		if got := slices.Sorted(maps.Keys(conflicts)); !slices.Equal(got, answer.SELinux) {
			t.Errorf("seed %d: the model has\n%s\nand the controller\n%s", s, strings.Join(got, "\n"), strings.Join(answer.SELinux, "\n"))
		}
		warned := map[string]bool{}
		for _, event := range answer.SELinuxMultiple {
			pod, volume, _ := strings.Cut(event, ": ")
			if c.persistent(pod, volume) {
				warned[pod] = true
			}
		}
		if !maps.Equal(multiple, warned) {
			t.Errorf("seed %d: of several labels the model has %v, and the controller %v", s, multiple, warned)
		}
	})
	t.Logf("conflicts: %v", found)
	for _, property := range []preflight.SELinuxProperty{preflight.SELinuxLabel, preflight.SELinuxChangePolicy, preflight.MultipleSELinuxLabels} {
		if found[property] == 0 {
			t.Errorf("no cluster has a conflict of %s", property)
		}
	}
}

// persistent says whether the volume that the event speaks of is a persistent one: no
// other is ever mounted with a label.
func (c *Cluster) persistent(pod, event string) bool {
	for _, p := range c.Pods {
		for i := range p.Spec.Volumes {
			if v := &p.Spec.Volumes[i]; p.Namespace+"/"+p.Name == pod && strings.HasPrefix(event, fmt.Sprintf("Volume %q ", v.Name)) {
				_, _, err := reconcile.NewWorld(c.Snapshot(Newest), c.Options()).MountedVolume(p, v)
				return err == nil
			}
		}
	}
	return false
}

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
			if v := &pod.Spec.Volumes[i]; v.FC != nil || v.ISCSI != nil { // the controller warns of a pod's own, too
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

// eachVolumeOnce names the volumes of a pod, of two that are the same one alone: which of
// them counts the controller leaves to chance.
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
