package snapshot

import (
	"fmt"
	"regexp"
	"slices"
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

// TestListsOfSomeObjects: what --field-selector and -l have left out, and what has no status or no uid
// any more, proves nothing.
func TestListsOfSomeObjects(t *testing.T) {
	object := func(kind, name, rest string) string {
		version := "v1"
		if strings.HasPrefix(kind, "CSI") || kind == "VolumeAttachment" {
			version = "storage.k8s.io/v1"
		}
		return "apiVersion: " + version + "\nkind: " + kind + "\nmetadata: {name: " + name + ", uid: " + kind + name + "}\n" + rest + "---\n"
	}
	n1, n2 := object("Node", "n1", "status: {volumesInUse: [kubernetes.io/csi/d^v]}\n"), object("Node", "n2", "status: {nodeInfo: {kubeletVersion: ''}}\n")
	csi1, csi2 := object("CSINode", "n1", "spec: {drivers: []}\n"), object("CSINode", "n2", "spec: {drivers: []}\n")
	on1, on2 := object("Pod", "a", "spec: {nodeName: n1, containers: []}\nstatus: {phase: Running}\n"), object("Pod", "b", "spec: {nodeName: n2, containers: []}\nstatus: {phase: Running}\n")
	open := object("Pod", "c", "spec: {containers: []}\nstatus: {phase: Pending}\n")
	readyNode := func(name string) string {
		return object("Node", name, "status: {conditions: [{type: Ready, status: 'True'}]}\n")
	}
	bound := object("PersistentVolumeClaim", "c", "spec: {volumeName: pv}\nstatus: {phase: Bound}\n")
	attachment := object("VolumeAttachment", "va", "spec: {attacher: d, nodeName: n1, source: {persistentVolumeName: pv}}\nstatus: {attached: true}\n")
	eventOf := func(name, uid string) string {
		return object("Event", "e", "involvedObject: {kind: Pod, namespace: default, name: "+name+", uid: "+uid+"}\n")
	}
	deployment := func(pods int) string {
		return fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: app, namespace: default, uid: d}\nspec: {}\nstatus: {replicas: %d}\n---\n", pods)
	}
	fails := func(pod, reason, at string) string {
		return object("Event", "f", "involvedObject: {kind: Pod, namespace: default, name: "+pod+"}\nreason: "+reason+"\nlastTimestamp: \""+at+"\"\n")
	}
	of := object("PersistentVolume", "pv", "spec: {claimRef: {namespace: default, name: c}}\nstatus: {phase: Bound}\n")
	noStatus := func(text string) string { return regexp.MustCompile(`(?m)^status: .*\n`).ReplaceAllString(text, "") }
	noUID := func(text string) string { return regexp.MustCompile(`, uid: \w+`).ReplaceAllString(text, "") }
	neat := func(text string) string { return noStatus(noUID(text)) }
	says := func(name, uid string) string {
		return strings.Replace(of, "name: "+name+"}", "name: "+name+", uid: "+uid+"}", 1)
	}
	owned := strings.Replace(csi1, "name: n1,", "name: n1, ownerReferences: [{apiVersion: v1, kind: Node, name: n1, uid: x}],", 1)
	for name, c := range map[string]struct {
		text  string
		gap   Kind
		words string
	}{
		"pods of one node":                      {n1 + n2 + on2 + open, Pods, "all pods are of node n2, and node n1 has volumes in its volumesInUse: was --field-selector given?"},
		"pods of both":                          {n1 + n2 + on1 + on2, Pods, ""},
		"the only node":                         {n1 + on1, Pods, ""},
		"pods that run":                         {n1 + on1 + fails("b", "FailedMount", "2026-11-20T11:59:00Z"), Pods, "all pods run, and an event (FailedMount) is about pod default/b, which is not there: was --field-selector given?"},
		"pods of a deployment that run":         {n1 + on1 + deployment(1), Pods, "all pods run, and deployment default/app has 1, of which 0 are there: was --field-selector given?"},
		"a deployment without pods":             {n1 + on1 + deployment(0), Pods, ""},
		"a pod that was deleted a while ago":    {n1 + on1 + fails("b", "FailedMount", "2026-11-20T11:50:00Z"), Pods, ""},
		"a pod that failed and runs":            {n1 + on1 + fails("a", "FailedMount", "2026-11-20T11:59:00Z"), Pods, ""},
		"pods that do not run, too":             {n1 + on1 + open + fails("b", "FailedMount", "2026-11-20T11:59:00Z"), Pods, ""},
		"nothing in use elsewhere":              {n1 + n2 + on1, Pods, ""},
		"nodes of a label":                      {n2 + csi1 + csi2 + on1 + on2, Nodes, "pod a of namespace default runs on node n1, which is not there, though its CSINode is: was -l given?"},
		"a node that is gone":                   {n2 + csi2 + on1 + on2, Nodes, ""},
		"CSINodes of one name":                  {readyNode("n1") + readyNode("n2") + readyNode("n3") + csi1, CSINodes, "nodes n2 and n3 are Ready and have no CSINode: was a name or -l given?"},
		"a CSINode that is lost":                {readyNode("n1") + readyNode("n2") + csi1, CSINodes, ""},
		"volumes of one name":                   {bound + attachment + object("PersistentVolume", "other", "status: {phase: Available}\n"), Volumes, "claim c of namespace default is Bound to volume pv, which is attached and not there"},
		"claims of one name":                    {strings.Replace(bound, "name: c,", "name: other,", 1) + of, Claims, "persistentvolume pv is Bound to claim c of namespace default, which is not there: was a name or -l given?"},
		"a claim that is there":                 {bound + of, Claims, ""},
		"a claim that is gone":                  {strings.Replace(bound, "name: c,", "name: other,", 1) + strings.Replace(of, "Bound", "Released", 1), Claims, ""},
		"volumes of one name, none attached":    {bound + object("PersistentVolume", "other", "status: {phase: Available}\n"), Volumes, "claim c of namespace default is Bound to volume pv, which is not there"},
		"nodes of one name":                     {n2 + csi1 + csi2, Nodes, "node n1 is not there, though its CSINode is: was -l given?"},
		"a volume that is lost":                 {strings.Replace(bound, "Bound", "Lost", 1) + attachment + object("PersistentVolume", "other", "status: {phase: Available}\n"), Volumes, ""},
		"nothing but what a manifest has":       {neat(n1 + n2 + on1 + on2), Pods, "pods default/a, default/b have no status or no uid, which an API server always shows: was it taken away (kubectl neat?), or written by hand?"},
		"what a manifest has, and one that is":  {neat(n1+n2+on1) + on2, Pods, "pod default/a has no status"},
		"two that are written by hand":          {neat(n1 + on1), Nodes, ""},
		"one that is written by hand":           {n1 + neat(on1), Pods, "pod default/a has no status"},
		"pods as a manifest has them":           {n1 + neat(on1+on2+open), Pods, "pods default/a, default/b, default/c have no status"},
		"pods without a status":                 {n1 + noStatus(on1+on2+open), Pods, "pods default/a, default/b, default/c have no status"},
		"nodes without a status":                {noStatus(n1+n2) + on2, Nodes, "nodes n1, n2 have no status"},
		"a node that nobody has written to":     {n2 + on2, Nodes, ""},
		"an attachment without a status":        {n1 + noStatus(attachment), VolumeAttachments, "volumeattachment va has no status"},
		"an attachment that is under way":       {n1 + strings.Replace(attachment, "true", "false", 1), VolumeAttachments, ""},
		"a claim without a uid":                 {noUID(bound) + says("c", "x"), Claims, "persistentvolumeclaim default/c has no status or no uid"},
		"a claim with its uid":                  {bound + says("c", "x"), Claims, ""},
		"a class without what is always there":  {n1 + "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: fast}\n---\n", StorageClasses, "storageclass fast has no status or no uid"},
		"an event without what is always there": {n1 + "apiVersion: v1\nkind: Event\nmetadata: {name: e, namespace: default}\ninvolvedObject: {kind: Node, name: n1}\nreason: R\nlastTimestamp: \"2026-11-20T09:00:00Z\"\n---\n", Events, ""},
		"a class without a uid":                 {n1 + "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: fast, creationTimestamp: \"2026-11-20T09:00:00Z\"}\n---\n", StorageClasses, ""},
		"no uid is seen at all":                 {noUID(bound + of), Claims, ""},
		"a node without a uid":                  {noUID(n1) + owned, Nodes, "node n1 has no status or no uid"},
		"a node with its uid":                   {n1 + owned, Nodes, ""},
		"a pod without a uid":                   {n1 + noUID(on1) + eventOf("a", "x"), Pods, "pod default/a has no status or no uid"},
		"a pod with its uid":                    {n1 + on1 + eventOf("a", "x"), Pods, ""},
	} {
		s, _, err := Read("f.yaml", strings.NewReader(c.text), ReadOptions{Now: noon})
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		for _, g := range s.Gaps {
			if g.Kind == c.gap {
				said = g.Detail
			}
		}
		if (c.words == "") != s.Complete(c.gap) || !strings.Contains(said, c.words) {
			t.Errorf("%s: %s complete: %v, %q", name, c.gap, s.Complete(c.gap), said)
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
		"... and its lease":                {empty + ready + fmt.Sprintf(lease, "n2", "kube-node-lease"), []Kind{Pods}},
		"a node that has never been Ready": {empty + strings.ReplaceAll(ready, "'True'", "Unknown"), nil},
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
		of         = `{"metadata": {"name": "va"}, "spec": {"attacher": "d", "nodeName": "n1", "source": {"persistentVolumeName": "pv"}}, "status": {"attached": false}}`
		inline     = `{"metadata": {"name": "va"}, "spec": {"attacher": "d", "nodeName": "n1", "source": {}}, "status": {"attached": false}}`
	)
	for _, c := range []struct {
		kind  Kind
		there map[Kind]string
		says  string // "" is no gap
	}{
		{Pods, map[Kind]string{Nodes: nodeReady}, "node n1 is Ready: a node has some"},
		{Pods, map[Kind]string{Nodes: nodeOff}, ""},
		{Nodes, map[Kind]string{Pods: waiting}, "pod p of namespace a is on node n1"},
		{Nodes, map[Kind]string{CSINodes: bareNode}, "csinode n1 is there"},
		{Nodes, map[Kind]string{Pods: unplaced}, ""},
		{Nodes, map[Kind]string{Pods: done}, ""},
		{CSINodes, map[Kind]string{Nodes: nodeReady}, "node n1 is Ready: each kubelet makes one"},
		{CSINodes, map[Kind]string{Nodes: nodeOff}, ""},
		{CSIDrivers, map[Kind]string{CSINodes: csiNode}, "node n1 has driver d"},
		{CSIDrivers, map[Kind]string{CSINodes: bareNode}, ""},
		{VolumeAttachments, map[Kind]string{Nodes: nodeHas}, "node n1 has kubernetes.io/csi/d^v in its volumesAttached"},
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
