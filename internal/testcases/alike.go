package testcases

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Alike adds copies of all pods with claims, of the claims, their volumes, attachments and
// events, under names of their own. They stand on the same nodes and have the same driver,
// so that whatever is wrong with one of them is wrong with all.
func Alike(s *snapshot.Snapshot, copies int) (*snapshot.Snapshot, error) {
	objects := s.Objects
	for n := 1; n <= copies; n++ {
		c := newCopier(s, n)
		if err := errors.Join(
			addCopies(c, &objects.Pods, s.Pods, func(o *corev1.Pod) bool { return c.renames(o.Name) }),
			addCopies(c, &objects.Claims, s.Claims, nil),
			addCopies(c, &objects.Volumes, s.Volumes, nil),
			addCopies(c, &objects.VolumeAttachments, s.VolumeAttachments, nil),
			addCopies(c, &objects.Events, s.Events, func(o *corev1.Event) bool { return c.renames(o.InvolvedObject.Name) }),
		); err != nil {
			return nil, err
		}
		objects.Nodes = slices.Clone(objects.Nodes)
		for i, node := range objects.Nodes {
			node = node.DeepCopy()
			for _, a := range s.Node(types.NodeName(node.Name)).Status.VolumesAttached {
				if name := c.text(string(a.Name)); name != string(a.Name) {
					a.Name = corev1.UniqueVolumeName(name)
					node.Status.VolumesAttached = append(node.Status.VolumesAttached, a)
				}
			}
			for _, v := range s.Node(types.NodeName(node.Name)).Status.VolumesInUse {
				if name := c.text(string(v)); name != string(v) {
					node.Status.VolumesInUse = append(node.Status.VolumesInUse, corev1.UniqueVolumeName(name))
				}
			}
			objects.Nodes[i] = node
		}
	}
	alike := snapshot.New(s.TakenAt, s.Source, objects, slices.Clone(s.Gaps))
	alike.Backends = s.Backends
	return alike, nil
}

// copier gives what is copied its new names.
type copier struct {
	n       int
	names   map[string]string
	byFirst map[byte][]string // the names by their first byte, the longest first
}

func newCopier(s *snapshot.Snapshot, n int) *copier {
	c := &copier{n: n, names: map[string]string{}, byFirst: map[byte][]string{}}
	add := func(names ...string) {
		for _, name := range names {
			if name != "" {
				c.names[name] = fmt.Sprintf("%s-alike%d", name, n)
			}
		}
	}
	for _, pvc := range s.Claims {
		add(pvc.Name, string(pvc.UID))
	}
	for _, pv := range s.Volumes {
		add(pv.Name, string(pv.UID))
		if pv.Spec.CSI != nil {
			add(pv.Spec.CSI.VolumeHandle)
		}
	}
	for _, pod := range s.Pods {
		if slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil }) {
			add(pod.Name, string(pod.UID))
		}
	}
	for _, va := range s.VolumeAttachments {
		c.names[va.Name] = fmt.Sprintf("%s-alike%d", va.Name, n)
		if name := va.Spec.Source.PersistentVolumeName; name != nil {
			for _, pv := range s.Volumes {
				if pv.Name == *name && pv.Spec.CSI != nil {
					handle := pv.Spec.CSI.VolumeHandle
					if reconcile.IsVolumeAttachmentName(va.Name, handle, va.Spec.Attacher, types.NodeName(va.Spec.NodeName)) {
						c.names[va.Name] = reconcile.VolumeAttachmentName(c.names[handle], va.Spec.Attacher, types.NodeName(va.Spec.NodeName))
					}
				}
			}
		}
	}
	for name := range c.names {
		c.byFirst[name[0]] = append(c.byFirst[name[0]], name)
	}
	for _, list := range c.byFirst {
		slices.SortFunc(list, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	}
	return c
}

func (c *copier) renames(name string) bool { return c.names[name] != "" }

// text has the new names in place of the old ones, where these stand as words of their own.
func (c *copier) text(old string) string {
	var text strings.Builder
	for i := 0; i < len(old); {
		if name := c.nameAt(old, i); name != "" {
			text.WriteString(c.names[name])
			i += len(name)
			continue
		}
		text.WriteByte(old[i])
		i++
	}
	return text.String()
}

// nameAt is the longest name that stands there as a word of its own, "" where none does.
func (c *copier) nameAt(text string, i int) string {
	if i > 0 && (text[i-1] == '.' || inWord(text[i-1])) {
		return ""
	}
	for _, name := range c.byFirst[text[i]] {
		rest, is := strings.CutPrefix(text[i:], name)
		if rest = strings.TrimPrefix(rest, "."); is && (rest == "" || !inWord(rest[0])) {
			return name
		}
	}
	return ""
}

func inWord(b byte) bool {
	return b == '_' || b == '-' || '0' <= b && b <= '9' || 'a' <= b|0x20 && b|0x20 <= 'z'
}

// addCopies adds a copy of each of the objects that are to be copied; nil copies all.
func addCopies[T any, P interface {
	*T
	metav1.Object
}](c *copier, to *[]P, from []P, copies func(P) bool) error {
	*to = slices.Clone(*to)
	for _, object := range from {
		if copies != nil && !copies(object) {
			continue
		}
		text, err := json.Marshal(object)
		if err != nil {
			return err
		}
		var made P = new(T)
		if err := json.Unmarshal([]byte(c.text(string(text))), made); err != nil {
			return err
		}
		if made.GetName() == object.GetName() {
			made.SetName(fmt.Sprintf("%s-alike%d", object.GetName(), c.n))
		}
		if made.GetUID() == object.GetUID() && object.GetUID() != "" {
			made.SetUID(types.UID(fmt.Sprintf("%s-alike%d", object.GetUID(), c.n)))
		}
		*to = append(*to, made)
	}
	return nil
}
