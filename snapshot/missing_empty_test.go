package snapshot

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestEmptyLists: a list that says its kind proves by being empty that there are none, and so
// does one of any kind in a file that is called after a kind.
func TestEmptyLists(t *testing.T) {
	const node, empty = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n---\n", "apiVersion: v1\nkind: List\nitems: []\n"
	for _, c := range []struct {
		name, file string
		complete   bool
	}{
		{"f.yaml", node + "apiVersion: storage.k8s.io/v1\nkind: VolumeAttachmentList\nitems: []\n", true},
		{"f.yaml", node + "apiVersion: storage.k8s.io/v1\nkind: VolumeAttachmentList\nmetadata: {continue: x}\nitems: []\n", false},
		{"f.yaml", node + "apiVersion: storage.k8s.io/v1\nkind: CSINodeList\nitems: []\n", false},
		{"f.yaml", node + empty, false},
		{"volumeattachments.yaml", node + empty, true},
		{"nodes.yaml", node + empty, false},
	} {
		s, _, err := Read(c.name, strings.NewReader(c.file), ReadOptions{Now: noon})
		if err != nil {
			t.Fatal(err)
		}
		if s.Complete(VolumeAttachments) != c.complete {
			t.Errorf("%s: %s: complete is %v", c.name, c.file, !c.complete)
		}
	}
}

// TestEmptyAgainst: an empty list, as kubectl prints it of one namespace, is a gap where
// another object shows that there must be more.
func TestEmptyAgainst(t *testing.T) {
	const (
		empty   = "apiVersion: v1\nkind: PodList\nitems: []\n---\napiVersion: v1\nkind: PersistentVolumeClaimList\nitems: []\n---\napiVersion: v1\nkind: NodeList\nitems: []\n---\napiVersion: coordination.k8s.io/v1\nkind: LeaseList\nitems: []\n---\napiVersion: storage.k8s.io/v1\nkind: VolumeAttachmentList\nitems: []\n---\n"
		lost    = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {volumesInUse: [kubernetes.io/csi/d^v], volumesAttached: [{name: kubernetes.io/csi/d^v, devicePath: ''}]}\n---\n"
		ready   = "apiVersion: v1\nkind: Node\nmetadata: {name: n2}\nstatus: {conditions: [{type: Ready, status: 'True'}]}\n---\n"
		bound   = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: pv}\nspec: {claimRef: {namespace: b, name: c}}\nstatus: {phase: Bound}\n---\n"
		running = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: a}\nspec: {nodeName: n2, containers: []}\nstatus: {phase: Running}\n---\n"
		lease   = "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: %s, namespace: %s}\n---\n"
	)
	for name, c := range map[string]struct {
		text string
		gaps []Kind
	}{
		"a node with a volume in use":      {empty + lost, []Kind{Pods, VolumeAttachments}},
		"a bound volume":                   {empty + bound, []Kind{Pods, Claims}},
		"a pod that runs":                  {empty + running, []Kind{Nodes}},
		"a node that is Ready":             {empty + ready, []Kind{Leases, Pods}},
		"... and leases of another space":  {empty + ready + fmt.Sprintf(lease, "kcm", "kube-system"), []Kind{Leases, Pods}},
		"... and its lease alone":          {empty + ready + fmt.Sprintf(lease, "n2", "kube-node-lease"), []Kind{Leases, Pods}},
		"... and that of a controller":     {empty + ready + fmt.Sprintf(lease, "n2", "kube-node-lease") + fmt.Sprintf(lease, "kcm", "kube-system"), []Kind{Pods}},
		"a node that is lost":              {empty + strings.ReplaceAll(ready, "'True'", "Unknown, reason: NodeStatusUnknown"), []Kind{Leases, Pods}},
		"a node that has never been Ready": {empty + strings.ReplaceAll(ready, "'True'", "Unknown, reason: NodeStatusNeverUpdated"), nil},
	} {
		s, _, err := Read("f.yaml", strings.NewReader(c.text), ReadOptions{Now: noon})
		if err != nil {
			t.Fatal(err)
		}
		var got []Kind
		for _, g := range s.Gaps {
			if g.Detail != "" {
				got = append(got, g.Kind)
			}
		}
		slices.Sort(got)
		slices.Sort(c.gaps)
		if !slices.Equal(got, c.gaps) {
			t.Errorf("%s: %v, want %v", name, got, c.gaps)
		}
	}
}

// TestDoubtedLists: an empty list is a gap where another object makes it unlikely, unless a person
// says that there is none; and none where nothing does.
func TestDoubtedLists(t *testing.T) {
	list := func(r Resource, items string) string {
		return fmt.Sprintf("{\"apiVersion\": %q, \"kind\": %q, \"metadata\": {}, \"items\": [%s]}\n", r.Version, r.Object+"List", items)
	}
	const (
		nodeReady  = `{"metadata": {"name": "n1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}`
		nodeOff    = `{"metadata": {"name": "n1"}, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}`
		nodeNew    = `{"metadata": {"name": "n1"}, "status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusNeverUpdated"}]}}`
		nodeHas    = `{"metadata": {"name": "n1"}, "status": {"volumesAttached": [{"name": "kubernetes.io/csi/d^v", "devicePath": ""}]}}`
		nodeInTree = `{"metadata": {"name": "n1"}, "status": {"volumesAttached": [{"name": "kubernetes.io/rbd/v", "devicePath": ""}]}}`
		csiNode    = `{"metadata": {"name": "n1"}, "spec": {"drivers": [{"name": "d", "nodeID": "n1"}]}}`
		bareNode   = `{"metadata": {"name": "n1"}, "spec": {"drivers": []}}`
		waiting    = `{"metadata": {"name": "p", "namespace": "a"}, "spec": {"nodeName": "n1", "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]}, "status": {"phase": "Pending"}}`
		unplaced   = `{"metadata": {"name": "p", "namespace": "a"}, "spec": {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": "persistentvolumeclaim \"c\" not found"}]}}`
		young      = `{"metadata": {"name": "p", "namespace": "a", "creationTimestamp": "2026-11-20T11:45:00Z"}, "status": {"phase": "Running"}}`
		old        = `{"metadata": {"name": "p", "namespace": "a", "creationTimestamp": "2026-11-20T09:45:00Z"}, "status": {"phase": "Running"}}`
		done       = `{"metadata": {"name": "p", "namespace": "a"}, "spec": {"nodeName": "n1", "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]}, "status": {"phase": "Succeeded"}}`
		bound      = `{"metadata": {"name": "c", "namespace": "a"}, "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}}`
		lost       = `{"metadata": {"name": "c", "namespace": "a"}, "spec": {"volumeName": "pv"}, "status": {"phase": "Lost"}}`
		asks       = `{"metadata": {"name": "c", "namespace": "a"}, "spec": {"storageClassName": "fast"}, "status": {"phase": "Pending"}}`
		refused    = `{"metadata": {"name": "e", "namespace": "a"}, "reason": "ProvisioningFailed", "involvedObject": {"kind": "PersistentVolumeClaim", "namespace": "a", "name": "c"}, "message": "storageclass.storage.k8s.io \"fast\" not found"}`
		gone       = `{"metadata": {"name": "e", "namespace": "a"}, "reason": "FailedMount", "involvedObject": {"kind": "Pod", "namespace": "a", "name": "p"}, "message": "volume v has GET error for volume attachment csi-1: volumeattachments.storage.k8s.io \"csi-1\" not found"}`
		otherGone  = `{"metadata": {"name": "e", "namespace": "a"}, "reason": "FailedMount", "involvedObject": {"kind": "Pod", "namespace": "a", "name": "p"}, "message": "volume w has GET error for volume attachment csi-2: volumeattachments.storage.k8s.io \"csi-2\" not found"}`
		of         = `{"metadata": {"name": "va"}, "spec": {"attacher": "d", "nodeName": "n1", "source": {"persistentVolumeName": "pv"}}, "status": {"attached": false}}`
		inline     = `{"metadata": {"name": "va"}, "spec": {"attacher": "d", "nodeName": "n1", "source": {}}, "status": {"attached": false}}`
	)
	for _, c := range []struct {
		kind  Kind
		there map[Kind]string
		says  string // "" is no gap
	}{
		{Pods, map[Kind]string{Nodes: nodeReady}, "the kubelet of node n1 has reported: a node has some"},
		{Pods, map[Kind]string{Nodes: nodeOff}, "the kubelet of node n1 has reported: a node has some"},
		{Pods, map[Kind]string{Nodes: nodeNew}, ""},
		{Nodes, map[Kind]string{Pods: waiting}, "pod p of namespace a is on node n1"},
		{Nodes, map[Kind]string{CSINodes: bareNode}, "csinode n1 is there"},
		{Nodes, map[Kind]string{Pods: unplaced}, ""},
		{Nodes, map[Kind]string{Pods: done}, ""},
		{CSINodes, map[Kind]string{Nodes: nodeReady}, "the kubelet of node n1 has reported: each kubelet makes one"},
		{CSINodes, map[Kind]string{Nodes: nodeOff}, "the kubelet of node n1 has reported: each kubelet makes one"},
		{CSINodes, map[Kind]string{Nodes: nodeNew}, ""},
		{CSIDrivers, map[Kind]string{CSINodes: csiNode}, "node n1 has driver d"},
		{CSIDrivers, map[Kind]string{CSINodes: bareNode}, ""},
		{VolumeAttachments, map[Kind]string{Nodes: nodeHas}, "node n1 has kubernetes.io/csi/d^v in its volumesAttached"},
		{VolumeAttachments, map[Kind]string{Nodes: nodeHas, Events: gone}, ""},
		{VolumeAttachments, map[Kind]string{Nodes: nodeHas, Events: otherGone}, "node n1 has kubernetes.io/csi/d^v in its volumesAttached"},
		{VolumeAttachments, map[Kind]string{Nodes: nodeInTree}, ""},
		{Volumes, map[Kind]string{Claims: bound}, "claim c of namespace a is Bound to volume pv"},
		{Volumes, map[Kind]string{Claims: lost}, ""},
		{Volumes, map[Kind]string{VolumeAttachments: of}, "volumeattachment va is of volume pv"},
		{Volumes, map[Kind]string{VolumeAttachments: inline}, ""},
		{Claims, map[Kind]string{Pods: waiting}, "pod p of namespace a names claim c"},
		{Claims, map[Kind]string{Pods: unplaced}, ""},
		{Claims, map[Kind]string{Pods: done}, ""},
		{StorageClasses, map[Kind]string{Claims: asks}, "claim c of namespace a names class fast"},
		{StorageClasses, map[Kind]string{Claims: asks, Events: refused}, ""},
		{StorageClasses, map[Kind]string{Claims: bound}, ""},
		{Events, map[Kind]string{Pods: young}, "pod p of namespace a was made at 2026-11-20T11:45:00Z"},
		{Events, map[Kind]string{Pods: old}, ""},
		{Events, map[Kind]string{Pods: waiting, Nodes: nodeReady}, "pod p of namespace a is Pending on node n1, which is Ready"},
		{Events, map[Kind]string{Pods: waiting, Nodes: nodeOff}, ""},
	} {
		var text strings.Builder
		for _, r := range Resources() {
			if !r.Optional {
				text.WriteString(list(r, c.there[r.Kind]))
			}
		}
		said := func(whole ...Kind) string {
			s, _, err := Read("f.json", strings.NewReader(text.String()), ReadOptions{Now: noon, Whole: whole})
			if err != nil {
				return err.Error()
			}
			for _, g := range s.Gaps {
				if g.Kind == c.kind {
					return g.Detail
				}
			}
			return ""
		}
		if got := said(); (got == "") != (c.says == "") || !strings.Contains(got, "there is none, and "+c.says) && c.says != "" {
			t.Errorf("%s beside %v: %q, want %q", c.kind, c.there, got, c.says)
		}
		if got := said(c.kind); c.says != "" && got != "" && !strings.Contains(got, "--whole "+string(c.kind)+" is not so") {
			t.Errorf("%s beside %v, with --whole: %q", c.kind, c.there, got)
		}
	}
}
