package preflight

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// SELinuxProperty is the property in which pods conflict, as upstream's
// selinux-warning-controller names it.
type SELinuxProperty string

// The properties. A pod that conflicts with itself mounts a volume with several labels.
const (
	SELinuxLabel          SELinuxProperty = "SELinuxLabel"
	SELinuxChangePolicy   SELinuxProperty = "SELinuxChangePolicy"
	MultipleSELinuxLabels SELinuxProperty = "MultipleSELinuxLabels"
)

// SELinuxConflict keeps a kubelet that mounts with a label from mounting a volume for all of the
// pods, where their node enforces SELinux. No object shows whether it does.
type SELinuxConflict struct {
	Volume           corev1.UniqueVolumeName `json:"volume"`
	PersistentVolume string                  `json:"persistentVolume"`
	Property         SELinuxProperty         `json:"property"`
	// Sides are the two conflicting sides: at most one gets the volume on a node.
	// MultipleSELinuxLabels has one side, which never gets it.
	Sides []SELinuxSide `json:"sides"`
}

// SELinuxSide is a side of a SELinuxConflict: the pods that go together.
type SELinuxSide struct {
	// Value is the pods' policy, or their label without the parts that the node decides.
	Value string       `json:"value"`
	Pods  []SELinuxPod `json:"pods"`
}

// SELinuxPod is a pod of a SELinuxSide.
type SELinuxPod struct {
	Pod  string         `json:"pod"`
	Node types.NodeName `json:"node,omitempty"`
}

// byNode are the pods of the side that have a node.
func (s *SELinuxSide) byNode() map[types.NodeName][]SELinuxPod {
	pods := map[types.NodeName][]SELinuxPod{}
	for _, p := range s.Pods {
		if p.Node != "" {
			pods[p.Node] = append(pods[p.Node], p)
		}
	}
	return pods
}

// OnOneNode reports whether pods of all sides are on one node.
func (c *SELinuxConflict) OnOneNode() bool {
	other := c.Sides[len(c.Sides)-1].byNode()
	return slices.ContainsFunc(c.Sides[0].Pods, func(p SELinuxPod) bool { return len(other[p.Node]) > 0 })
}

// seLinuxUse is how pods mount a volume.
type seLinuxUse struct {
	label  string
	policy corev1.PodSELinuxChangePolicy
}

// seLinuxVolume is a volume and who mounts it, and how.
type seLinuxVolume struct {
	pv string
	// oncePod is VolumeSupportsSELinuxMount of the kubelets before SELinuxMount.
	oncePod  bool
	uses     map[seLinuxUse][]SELinuxPod
	multiple map[string][]SELinuxPod
	// last is the pod that was added last. Of a pod that mounts the volume under two
	// names, the first counts, as for the kubelet.
	last *corev1.Pod
}

// seLinuxConflicts are those between all pods that have not ended, and that kubelets of
// from do not know yet. It mirrors selinuxwarning.Controller, of 1.37, for persistent
// volumes: a kubelet mounts no others with a label.
func seLinuxConflicts(s *snapshot.Snapshot, w *reconcile.World, from facts.KubeletRelease) []SELinuxConflict {
	conflicts := []SELinuxConflict{}
	for name, v := range seLinuxVolumes(s, w) {
		if v.oncePod && from >= seLinuxMountOncePod {
			continue
		}
		for labels, pods := range v.multiple {
			conflicts = append(conflicts, SELinuxConflict{name, v.pv, MultipleSELinuxLabels, []SELinuxSide{{labels, pods}}})
		}
		uses := slices.SortedFunc(maps.Keys(v.uses), func(a, b seLinuxUse) int {
			return cmp.Or(cmp.Compare(a.label, b.label), cmp.Compare(a.policy, b.policy))
		})
		for i, a := range uses {
			for _, b := range uses[i+1:] {
				if a.policy != b.policy {
					conflicts = append(conflicts, SELinuxConflict{name, v.pv, SELinuxChangePolicy,
						[]SELinuxSide{{string(a.policy), v.uses[a]}, {string(b.policy), v.uses[b]}}})
				}
				if labelsConflict(a.label, b.label) {
					conflicts = append(conflicts, SELinuxConflict{name, v.pv, SELinuxLabel, []SELinuxSide{{a.label, v.uses[a]}, {b.label, v.uses[b]}}})
				}
			}
		}
	}
	slices.SortStableFunc(conflicts, func(a, b SELinuxConflict) int {
		return cmp.Or(cmp.Compare(a.Volume, b.Volume), cmp.Compare(a.Property, b.Property), cmp.Compare(a.Sides[0].Value, b.Sides[0].Value))
	})
	return conflicts
}

func seLinuxVolumes(s *snapshot.Snapshot, w *reconcile.World) map[corev1.UniqueVolumeName]*seLinuxVolume {
	volumes := map[corev1.UniqueVolumeName]*seLinuxVolume{}
	for _, pod := range s.Pods {
		if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
			continue
		}
		mounts, side := seLinuxLabels(pod), SELinuxPod{facts.PodName(pod), types.NodeName(pod.Spec.NodeName)}
		for i := range pod.Spec.Volumes {
			labels, mounted := mounts[pod.Spec.Volumes[i].Name]
			if !mounted {
				continue
			}
			name, spec, err := w.MountedVolume(pod, &pod.Spec.Volumes[i])
			if err != nil {
				continue
			}
			v := volumes[name]
			if v == nil {
				modes := spec.PV.Spec.AccessModes
				v = &seLinuxVolume{pv: spec.PV.Name, oncePod: len(modes) == 1 && modes[0] == corev1.ReadWriteOncePod, uses: map[seLinuxUse][]SELinuxPod{}, multiple: map[string][]SELinuxPod{}}
				volumes[name] = v
			}
			if v.last == pod {
				continue
			}
			v.last = pod
			if len(labels) > 1 {
				all := strings.Join(sets.List(labels), ", ")
				v.multiple[all] = append(v.multiple[all], side)
				continue
			}
			label, _ := labels.PopAny()
			use := seLinuxUse{label, corev1.SELinuxChangePolicyMountOption}
			own := pod.Spec.SecurityContext
			recursive := own != nil && own.SELinuxChangePolicy != nil && *own.SELinuxChangePolicy == corev1.SELinuxChangePolicyRecursive
			if recursive || label == "" || !mountsWithLabel(s, spec) {
				use = seLinuxUse{"", corev1.SELinuxChangePolicyRecursive}
			}
			v.uses[use] = append(v.uses[use], side)
		}
	}
	return volumes
}

// seLinuxLabels are the labels of the containers that mount each volume of the pod. A
// container has the pod's options, or its own, which replace all of the pod's
// (DetermineEffectiveSecurityContext); one with neither has no part in them.
func seLinuxLabels(pod *corev1.Pod) map[string]sets.Set[string] {
	mounts := map[string]sets.Set[string]{}
	containers := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	for _, c := range pod.Spec.EphemeralContainers {
		containers = append(containers, corev1.Container(c.EphemeralContainerCommon))
	}
	for _, c := range containers {
		var options *corev1.SELinuxOptions
		if own := pod.Spec.SecurityContext; own != nil {
			options = own.SELinuxOptions
		}
		if own := c.SecurityContext; own != nil && own.SELinuxOptions != nil {
			options = own.SELinuxOptions
		}
		for _, mount := range c.VolumeMounts {
			if mounts[mount.Name] == nil {
				mounts[mount.Name] = sets.New[string]()
			}
			if options != nil {
				mounts[mount.Name].Insert(seLinuxLabel(options))
			}
		}
	}
	return mounts
}

// seLinuxLabel is the label of a process. The node fills in what is not set.
func seLinuxLabel(o *corev1.SELinuxOptions) string {
	if *o == (corev1.SELinuxOptions{}) {
		return ""
	}
	return strings.Join([]string{o.User, o.Role, o.Type, o.Level}, ":")
}

// labelsConflict mirrors ControllerSELinuxTranslator.Conflicts: a part that the node
// fills in may come out equal, but for the level, which no node fills in.
func labelsConflict(a, b string) bool {
	as, bs := labelParts(a), labelParts(b)
	for i := range 3 {
		if as[i] != bs[i] && as[i] != "" && bs[i] != "" {
			return true
		}
	}
	return as[3] != bs[3]
}

// labelParts are user, role, type and level, which has colons of its own.
func labelParts(label string) (parts [4]string) {
	copy(parts[:], strings.SplitN(label, ":", 4))
	return parts
}

// mountsWithLabel mirrors SupportsSELinuxContextMount of the three plugins that do.
func mountsWithLabel(s *snapshot.Snapshot, spec *reconcile.VolumeSpec) bool {
	if driver, _, ok := spec.CSI(); ok {
		d := s.CSIDriver(driver)
		return d != nil && d.Spec.SELinuxMount != nil && *d.Spec.SELinuxMount
	}
	return spec.PV.Spec.FC != nil || spec.PV.Spec.ISCSI != nil
}

// seLinux adds what kubelets of the release that the upgrade leads to refuse to mount.
func (u *Upgrade) seLinux(s *snapshot.Snapshot, after worlds) {
	if u.SELinux = []SELinuxConflict{}; facts.ParseKubelet(u.From) >= seLinuxMount || facts.ParseKubelet(u.To) < seLinuxMount {
		return
	}
	u.SELinux = seLinuxConflicts(s, after.World, facts.ParseKubelet(u.From))
	for i := range u.SELinux {
		u.seLinuxPods(&u.SELinux[i])
	}
}

// seLinuxPods adds the pods that are on one node with a pod of the other side.
func (u *Upgrade) seLinuxPods(c *SELinuxConflict) {
	for i, side := range c.Sides {
		other := &c.Sides[len(c.Sides)-1-i]
		pods := other.byNode()
		for _, pod := range side.Pods {
			beside := pods[pod.Node]
			if len(beside) == 0 {
				continue
			}
			row := UpgradePod{Pod: pod.Pod, Node: pod.Node, Volume: c.Volume}
			if c.Property == MultipleSELinuxLabels {
				row.Because = fmt.Sprintf("where the node enforces SELinux, a kubelet of 1.%d does not mount it with several labels: %s", seLinuxMount, side.Value)
			} else {
				row.Because = fmt.Sprintf("where the node enforces SELinux, a kubelet of 1.%d does not mount it for this pod and for %s: %s %q and %q",
					seLinuxMount, firstPod(beside), c.Property, side.Value, other.Value)
			}
			if !slices.ContainsFunc(u.Pods, func(p UpgradePod) bool { return p.Pod == row.Pod && p.Volume == row.Volume }) {
				u.Pods = append(u.Pods, row) // the first reason is enough
			}
		}
	}
}

func firstPod(pods []SELinuxPod) string {
	if len(pods) == 1 {
		return "pod " + pods[0].Pod
	}
	return fmt.Sprintf("pod %s and %d more", pods[0].Pod, len(pods)-1)
}

// seLinuxMountOncePod and seLinuxMount: a ReadWriteOncePod volume, and later any volume, is
// mounted with one SELinux label. Of pods with different labels on a node only one gets it
// (the feature gates SELinuxMountReadWriteOncePod and SELinuxMount).
const seLinuxMountOncePod facts.KubeletRelease = 28

const seLinuxMount facts.KubeletRelease = 37
