package snapshot

import (
	"strings"
	"testing"
)

// TestWhole: a person's word closes the gap of a list of which the text does not say that it
// is whole, and no other; each object that names one which is not there is an error.
func TestWhole(t *testing.T) {
	const (
		node     = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n---\n"
		attached = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {volumesAttached: [{name: kubernetes.io/csi/d^v, devicePath: ''}]}\n---\n"
		ready    = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {conditions: [{type: Ready, status: 'True'}]}\n---\n"
		inUse    = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {volumesInUse: [kubernetes.io/csi/d^v]}\n---\n"
		pod      = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: a}\nspec: {nodeName: n1, containers: [], volumes: [{name: d, persistentVolumeClaim: {claimName: c}}]}\nstatus: {phase: Running}\n---\n"
		va       = "apiVersion: storage.k8s.io/v1\nkind: VolumeAttachment\nmetadata: {name: va}\nspec: {attacher: d, nodeName: n1, source: {persistentVolumeName: pv}}\n---\n"
		claim    = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c, namespace: a}\nspec: {volumeName: pv}\nstatus: {phase: Bound}\n---\n"
		pending  = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c, namespace: a}\nstatus: {phase: Pending}\n---\n"
		pv       = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: pv}\nspec: {claimRef: {namespace: b, name: c}}\nstatus: {phase: Bound}\n---\n"
		later    = "apiVersion: v2\nkind: Pod\nmetadata: {name: p, namespace: a}\n---\n"
	)
	for _, c := range []struct {
		kind       Kind
		text, says string // "" is taken
	}{
		{VolumeAttachments, node, ""},
		{VolumeAttachments, inUse, ""},
		{VolumeAttachments, attached, "node n1 has kubernetes.io/csi/d^v in its volumesAttached"},
		{VolumeAttachments, attached + va, ""},
		{CSINodes, attached, "in its volumesAttached"},
		{Nodes, pod, "pod p of namespace a runs on node n1"},
		{Nodes, va, "volumeattachment va is for node n1"},
		{Nodes, pending, ""},
		{Pods, node, ""},
		{Pods, inUse, "in its volumesInUse"},
		{Pods, node + later, "Undecodable"},
		{Claims, pod, "pod p of namespace a runs with claim c"},
		{Claims, pv, "persistentvolume pv is Bound to claim c of namespace b"},
		{Claims, pv + claim, "a volume is Bound to a claim of namespace b"},
		{Claims, node, ""},
		{Volumes, claim, "is Bound to volume pv"},
		{Volumes, pending, ""},
		{Leases, node, ""},
		{Leases, ready, "each node has one"},
		{Events, node, ""},
		{CSIDrivers, attached, ""},
		{StorageClasses, claim, ""},
	} {
		s, _, err := Read("f.yaml", strings.NewReader(c.text), ReadOptions{Now: noon, Whole: []Kind{c.kind}})
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s of %s: %v", c.kind, c.text, err)
		case c.says == "" && !s.Complete(c.kind):
			t.Errorf("%s of %s is a gap", c.kind, c.text)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), "--whole "+string(c.kind)+" is not so: ") || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s of %s: %v, want %q", c.kind, c.text, err, c.says)
		}
		if s == nil {
			continue
		}
		for _, kind := range Kinds() { // no other gap is closed
			plain, _, err := Read("f.yaml", strings.NewReader(c.text), ReadOptions{Now: noon})
			if err != nil {
				t.Fatal(err)
			}
			if kind != c.kind && s.Complete(kind) != plain.Complete(kind) {
				t.Errorf("--whole %s changes the gap of %s", c.kind, kind)
			}
		}
	}
}
