// Package intern lets objects share equal values, because in a large cluster most values are
// repeated.
package intern

import (
	"hash/maphash"
	"maps"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Interner deduplicates equal strings, maps and lists across objects, such as the labels of a
// ReplicaSet's pods, or a capacity that thousands of volumes have. A map of one entry takes
// half a kilobyte. Sharing is safe because nothing writes to a snapshot.
type Interner struct {
	texts       map[string]string
	maps        table[map[string]string]
	resources   table[corev1.ResourceList]
	containers  table[[]corev1.Container]
	affinities  table[*corev1.VolumeNodeAffinity]
	tolerated   table[[]corev1.Toleration]
	owners      table[[]metav1.OwnerReference]
	lists       table[[]string]
	projected   table[*corev1.ProjectedVolumeSource]
	conditions  table[[]corev1.PodCondition]
	security    table[*corev1.PodSecurityContext]
	modes       table[[]corev1.PersistentVolumeAccessMode]
	classes     table[*string]
	volumeModes table[*corev1.PersistentVolumeMode]
	key         []byte
	words       []string
}

// table holds values by a hash of their content, which takes less memory than the content.
// Two values collide by chance in one of 10^27 clusters, and nobody can construct such
// values: the seeds are new in each process.
type table[T any] map[[2]uint64]T

var seeds = [...]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func hashOf(key []byte) [2]uint64 {
	return [...]uint64{maphash.Bytes(seeds[0], key), maphash.Bytes(seeds[1], key)}
}

// mostShared bounds each table: for unique values the keys would cost more than interning
// saves. Objects with equal values are read close together.
const mostShared = 1 << 14

// New returns an empty Interner.
func New() *Interner { return &Interner{texts: map[string]string{}} }

// shared is the first value that was seen with the key.
func shared[T any](seen *table[T], key []byte, value T) T {
	hash := hashOf(key)
	if first, ok := (*seen)[hash]; ok {
		return first
	}
	if *seen == nil || len(*seen) >= mostShared {
		*seen = table[T]{}
	}
	(*seen)[hash] = value
	return value
}

// encoded is a message with generated protobuf code.
type encoded interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
}

// sharedList shares a list of messages by its content.
func sharedList[T any, P interface {
	*T
	encoded
}](s *Interner, seen *table[[]T], list []T) []T {
	if len(list) == 0 {
		return nil
	}
	s.key = s.key[:0]
	for i := range list {
		s.key = appendMessage(s.key, P(&list[i]))
	}
	return shared(seen, s.key, exact(list))
}

// appendMessage ends each message with its length, so that different lists have different
// keys.
func appendMessage(key []byte, m encoded) []byte {
	size := m.Size()
	key = slices.Grow(key, size+4)
	at := len(key)
	key = key[:at+size]
	if n, err := m.MarshalToSizedBuffer(key[at:]); err != nil || n != size {
		panic("a message that was just decoded cannot be encoded")
	}
	return append(key, byte(size), byte(size>>8), byte(size>>16), byte(size>>24))
}

// Text shares one string.
func (s *Interner) Text(t *string) {
	first, ok := s.texts[*t]
	if !ok {
		if len(s.texts) >= mostShared {
			clear(s.texts)
		}
		first = *t
		s.texts[first] = first
	}
	*t = first
}

// words shares strings of any type that mostly have one of a few values.
func words[T ~string](s *Interner, words ...*T) {
	for _, word := range words {
		text := string(*word)
		s.Text(&text)
		*word = T(text)
	}
}

func (s *Interner) stringMap(m *map[string]string) {
	if len(*m) == 0 {
		*m = nil
		return
	}
	s.words = slices.AppendSeq(s.words[:0], maps.Keys(*m))
	slices.Sort(s.words)
	s.key = s.key[:0]
	for _, k := range s.words {
		s.key = append(append(append(append(s.key, k...), 0), (*m)[k]...), 0)
	}
	if _, ok := s.maps[hashOf(s.key)]; !ok { // a map that another object has already is not copied again
		own := make(map[string]string, len(s.words))
		for _, k := range s.words {
			v := (*m)[k]
			s.Text(&k)
			s.Text(&v)
			own[k] = v
		}
		*m = own
	}
	*m = shared(&s.maps, s.key, *m)
}

func (s *Interner) resourceList(m *corev1.ResourceList) {
	if len(*m) == 0 {
		*m = nil
		return
	}
	s.key = s.key[:0]
	for _, k := range slices.Sorted(maps.Keys(*m)) {
		q := (*m)[k]
		s.key = append(append(append(append(s.key, k...), 0), q.String()...), 0)
	}
	*m = shared(&s.resources, s.key, *m)
}

// texts shares a list of strings.
func texts[T ~string](s *Interner, seen *table[[]T], list *[]T) {
	if len(*list) == 0 {
		return
	}
	s.key = s.key[:0]
	for _, text := range *list {
		s.key = append(append(s.key, text...), 0)
	}
	*list = shared(seen, s.key, exact(*list))
}

// word shares a pointer to a string that has one of a few values.
func word[T ~string](s *Interner, seen *table[*T], pointer **T) {
	if *pointer != nil {
		s.key = append(s.key[:0], **pointer...)
		*pointer = shared(seen, s.key, *pointer)
	}
}

func (s *Interner) meta(m *metav1.ObjectMeta) {
	// Values that no other object has take less memory in one string.
	own := m.Name + string(m.UID) + m.ResourceVersion
	uid, version := len(m.Name), len(m.Name)+len(m.UID)
	m.Name, m.UID, m.ResourceVersion = own[:uid], types.UID(own[uid:version]), own[version:]
	s.Text(&m.Namespace)
	s.Text(&m.GenerateName)
	s.stringMap(&m.Labels)
	s.stringMap(&m.Annotations)
	texts(s, &s.lists, &m.Finalizers)
	for i := range m.OwnerReferences {
		words(s, &m.OwnerReferences[i].APIVersion, &m.OwnerReferences[i].Kind)
	}
	m.OwnerReferences = sharedList(s, &s.owners, m.OwnerReferences)
}

// Share replaces the object's strings, maps and lists by equal ones of earlier objects.
func (s *Interner) Share(object any) {
	switch o := object.(type) {
	case *corev1.Pod:
		s.pod(o)
	case *corev1.PersistentVolume:
		s.meta(&o.ObjectMeta)
		s.resourceList(&o.Spec.Capacity)
		s.Text(&o.Spec.StorageClassName)
		words(s, &o.Spec.PersistentVolumeReclaimPolicy)
		words(s, &o.Status.Phase)
		texts(s, &s.modes, &o.Spec.AccessModes)
		word(s, &s.volumeModes, &o.Spec.VolumeMode)
		if ref := o.Spec.ClaimRef; ref != nil {
			words(s, &ref.Kind, &ref.APIVersion, &ref.Namespace)
		}
		if csi := o.Spec.CSI; csi != nil {
			s.Text(&csi.Driver)
			s.Text(&csi.FSType)
		}
		if a := o.Spec.NodeAffinity; a != nil {
			s.key = appendMessage(s.key[:0], a)
			o.Spec.NodeAffinity = shared(&s.affinities, s.key, a)
		}
	case *corev1.PersistentVolumeClaim:
		s.meta(&o.ObjectMeta)
		s.resourceList(&o.Spec.Resources.Requests)
		s.resourceList(&o.Status.Capacity)
		words(s, &o.Status.Phase)
		word(s, &s.classes, &o.Spec.StorageClassName)
		word(s, &s.volumeModes, &o.Spec.VolumeMode)
		texts(s, &s.modes, &o.Spec.AccessModes)
		texts(s, &s.modes, &o.Status.AccessModes)
	case *storagev1.VolumeAttachment:
		s.meta(&o.ObjectMeta)
		s.Text(&o.Spec.Attacher)
		s.Text(&o.Spec.NodeName)
	case *storagev1.CSINode:
		s.meta(&o.ObjectMeta)
		for i := range o.Spec.Drivers {
			s.Text(&o.Spec.Drivers[i].Name)
			texts(s, &s.lists, &o.Spec.Drivers[i].TopologyKeys)
		}
	case *coordinationv1.Lease:
		s.meta(&o.ObjectMeta)
		if holder := o.Spec.HolderIdentity; holder != nil && *holder == o.Name { // as in the lease of a node
			o.Spec.HolderIdentity = &o.Name
		}
	case *corev1.Node:
		s.meta(&o.ObjectMeta)
		s.resourceList(&o.Status.Capacity)
		s.resourceList(&o.Status.Allocatable)
		for i := range o.Status.Conditions {
			c := &o.Status.Conditions[i]
			words(s, &c.Reason, &c.Message)
			words(s, &c.Type)
			words(s, &c.Status)
		}
		// Nearly every attached volume is in use.
		for i, v := range o.Status.VolumesAttached {
			if at := slices.Index(o.Status.VolumesInUse, v.Name); at >= 0 {
				o.Status.VolumesAttached[i].Name = o.Status.VolumesInUse[at]
			}
		}
		info := &o.Status.NodeInfo
		words(s, &info.KernelVersion, &info.OSImage, &info.ContainerRuntimeVersion, &info.KubeletVersion, &info.OperatingSystem, &info.Architecture)
	}
}

func (s *Interner) pod(pod *corev1.Pod) {
	s.meta(&pod.ObjectMeta)
	s.Text(&pod.Spec.NodeName)
	s.Text(&pod.Spec.ServiceAccountName)
	s.Text(&pod.Spec.DeprecatedServiceAccount)
	s.Text(&pod.Status.HostIP)
	words(s, &pod.Spec.SchedulerName)
	words(s, &pod.Spec.RestartPolicy)
	words(s, &pod.Spec.DNSPolicy)
	words(s, &pod.Status.Phase)
	words(s, &pod.Status.QOSClass)
	if c := &pod.Spec.SecurityContext; *c != nil {
		s.key = appendMessage(s.key[:0], *c)
		*c = shared(&s.security, s.key, *c)
	}
	pod.Spec.Volumes = exact(pod.Spec.Volumes)
	for i := range pod.Spec.Volumes {
		s.Text(&pod.Spec.Volumes[i].Name)
		if p := &pod.Spec.Volumes[i].Projected; *p != nil { // nearly every pod has the token of its service account
			s.key = appendMessage(s.key[:0], *p)
			*p = shared(&s.projected, s.key, *p)
		}
	}
	pod.Spec.Containers = sharedList(s, &s.containers, pod.Spec.Containers)
	pod.Spec.InitContainers = sharedList(s, &s.containers, pod.Spec.InitContainers)
	pod.Spec.Tolerations = sharedList(s, &s.tolerated, pod.Spec.Tolerations)
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		words(s, &c.Reason, &c.Message)
		words(s, &c.Type)
		words(s, &c.Status)
	}
	pod.Status.Conditions = sharedList(s, &s.conditions, pod.Status.Conditions)
	pod.Status.ContainerStatuses = exact(pod.Status.ContainerStatuses)
	pod.Status.InitContainerStatuses = exact(pod.Status.InitContainerStatuses)
	for i := range pod.Status.ContainerStatuses {
		s.Text(&pod.Status.ContainerStatuses[i].Name)
		s.Text(&pod.Status.ContainerStatuses[i].Image)
	}
}

// exact frees the spare capacity that a growing list has.
func exact[T any](list []T) []T {
	if len(list) == cap(list) {
		return list
	}
	return append(make([]T, 0, len(list)), list...)
}
