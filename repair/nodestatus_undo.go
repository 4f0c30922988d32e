package repair

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// nodeStatusUndo takes one entry off a node's volumesAttached again.
type nodeStatusUndo struct {
	written
	volume corev1.UniqueVolumeName
	node   types.NodeName
	before nodeStatusFields
}

func undoNodeStatus(w written) (*reversal, error) {
	var image nodeStatusFields
	if err := json.Unmarshal(w.intent.PreImage, &image); err != nil {
		return nil, fmt.Errorf("read what was there before: %w", err)
	}
	f := w.intent.Finding
	u := &nodeStatusUndo{w, corev1.UniqueVolumeName(f.Volume), types.NodeName(f.Node), image}
	if u.volume == "" || u.node == "" || w.intent.Operation.Target.UID == "" {
		return nil, errors.New("it does not say which volume was written to which node")
	}
	return &reversal{
		summary: fmt.Sprintf("take volume %s off volumesAttached of node %s", u.volume, u.node),
		needs:   []Permission{patchNodeStatusOf(f.Node)},
		prepare: u.prepare,
		undone:  u.gone,
	}, nil
}

// prepare works the removal out on the list as it is now, or refuses.
func (u *nodeStatusUndo) prepare(v *View) (*write, error) {
	if no := u.refusal(v); no != nil {
		return nil, no
	}
	node := v.Snapshot.Node(u.node)
	written := markOf(u.intent.Repair, u.intent.Finding.Code, u.intent.Finding.Check)
	op := nodeStatusPatch(node, append(removeEntry(node, entryIndex(node, u.volume)),
		unmark(node.ObjectMeta, written, u.before.Metadata.Annotations[markAnnotation])...)...)
	return &write{
		op:      op,
		intent:  Entry{PreImage: nodeStatusImage(node)},
		check:   func(after json.RawMessage) error { return checkVolumesAttached(after, u.before.Status.VolumesAttached) },
		version: func(v *View) string { return nodeVersion(v, u.node) },
	}, nil
}

func (u *nodeStatusUndo) gone(v *View) bool {
	node := v.Snapshot.Node(u.node)
	return node != nil && node.UID == u.intent.Operation.Target.UID && entryIndex(node, u.volume) < 0
}

// undoReads are the kinds that tell whether the volume is in use.
var undoReads = []snapshot.Kind{snapshot.Nodes, snapshot.Pods, snapshot.Claims, snapshot.Volumes}

func (u *nodeStatusUndo) refusal(v *View) *Refusal {
	if err := complete(v.Snapshot, undoReads); err != nil {
		return &Refusal{guardComplete, err.Error()}
	}
	node := v.Snapshot.Node(u.node)
	if node == nil || node.UID != u.intent.Operation.Target.UID {
		return &Refusal{guardGone, fmt.Sprintf("node %s, as it was written to, is gone, and the entry with it", u.node)}
	}
	if entryIndex(node, u.volume) < 0 {
		if u.ended == nil {
			return &Refusal{guardGone, "the entry is not there: the write was announced but cut short, or the controller has taken it off since"}
		}
		return &Refusal{guardGone, "the entry is gone already"}
	}
	if after := append(slices.Clone(u.before.Status.VolumesAttached), corev1.AttachedVolume{Name: u.volume}); !slices.Equal(node.Status.VolumesAttached, after) {
		return &Refusal{"own-list", fmt.Sprintf("volumesAttached is not the list that was written, %v, but %v", after, node.Status.VolumesAttached)}
	}
	if manager := lastWriter(node); manager != "" && manager != FieldManager {
		return &Refusal{"own-list", fmt.Sprintf("%s has written volumesAttached since: the entry is its own now", manager)}
	}
	if slices.Contains(node.Status.VolumesInUse, u.volume) {
		return &Refusal{"not-in-use", u.inUse(v)}
	}
	return nil
}

// inUse says why an entry must stay while the kubelet reports the volume in
// use. A kubelet that starts without the entry takes the volume for one that
// the controller does not guard, stops reporting it before it is unmounted, and
// the controller detaches it under the mount. That holds with a pod on it or
// without.
func (u *nodeStatusUndo) inUse(v *View) string {
	reason := fmt.Sprintf("the kubelet of node %s reports the volume in use, and the entry protects the mount if it restarts", u.node)
	var pods []string
	for _, pod := range v.World.LivePods(reconcile.VolumeNode{Volume: u.volume, Node: u.node}) {
		pods = append(pods, pod.Namespace+"/"+pod.Name)
	}
	if len(pods) == 0 {
		return reason
	}
	return reason + "; used by " + strings.Join(pods, ", ")
}

// lastWriter is who last wrote volumesAttached, as far as the managed fields say.
func lastWriter(node *corev1.Node) (manager string) {
	var at int64
	for _, m := range node.ManagedFields {
		if m.FieldsV1 != nil && m.Time != nil && strings.Contains(m.FieldsV1.GetRawString(), `"f:volumesAttached"`) && m.Time.Unix() >= at {
			manager, at = m.Manager, m.Time.Unix()
		}
	}
	return manager
}
