package snapshot

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestPodsThatASelectorLeftOut: two Ready nodes with volumes in use whose claims no pod names, or one
// without any pod beside others with those of a DaemonSet, show that the list of pods is not whole.
func TestPodsThatASelectorLeftOut(t *testing.T) {
	node := func(n, inUse string) string {
		return `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n` + n + `", "uid": "n` + n + `"}, "status": {"conditions": [{"type": "Ready", "status": "True"}], "volumesInUse": [` + inUse + `]}},` +
			`{"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n` + n + `", "uid": "c` + n + `"}, "spec": {"drivers": [{"name": "d", "nodeID": "i"}]}}`
	}
	volume := func(n string) string {
		return `{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv` + n + `", "uid": "v` + n + `"}, "spec": {"csi": {"driver": "d", "volumeHandle": "h` + n + `"}, "claimRef": {"namespace": "shop", "name": "c` + n + `", "uid": "k` + n + `"}}, "status": {"phase": "Bound"}},` +
			`{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": "shop", "name": "c` + n + `", "uid": "k` + n + `"}, "spec": {"volumeName": "pv` + n + `"}, "status": {"phase": "Bound"}}`
	}
	daemon := func(n string) string {
		return strings.Replace(podOf("kube-system", "d"+n, "3"), `"status"`, `"spec": {"nodeName": "n`+n+`", "containers": []}, "status"`, 1)
	}
	user := func(n string) string {
		return strings.Replace(podOf("shop", "p"+n, "3"), `"status"`, `"spec": {"nodeName": "n`+n+`", "containers": [], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c`+n+`"}}]}, "status"`, 1)
	}
	use := func(n string) string { return `"kubernetes.io/csi/d^h` + n + `"` }
	all := []string{node("1", use("1")), node("2", use("2")), node("3", ""), volume("1"), volume("2"), daemon("3"), strings.Replace(podOf("web", "w", "2"), `"status"`, `"spec": {"nodeName": "n3", "containers": []}, "status"`, 1)}
	for _, tt := range []struct {
		name  string
		more  []string
		whole bool
	}{
		{"both pods are there", []string{user("1"), user("2")}, true},
		{"one kubelet does not unmount", []string{user("1"), daemon("2")}, true},
		{"neither is there", []string{daemon("1"), daemon("2")}, false},
		{"no pod of one node at all", []string{user("1"), daemon("1")}, false},
	} {
		s, _, err := Read("f", strings.NewReader(clusterList(append(slices.Clone(all), tt.more...)...)), ReadOptions{Now: noon})
		if err != nil {
			t.Fatal(tt.name, err)
		}
		if s.Complete(Pods) != tt.whole {
			t.Errorf("%s: %q", tt.name, gapLines(s))
		}
	}
}

// TestPodsThatWereLeft: pods that no question is about, and that are therefore not kept, count as there.
func TestPodsThatWereLeft(t *testing.T) {
	of := func(name string) string {
		return strings.Replace(podOf("shop", name, "3"), `"uid"`, `"labels": {"pod-template-hash": "5d"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d", "uid": "r", "controller": true}], "uid"`, 1)
	}
	app := `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "shop", "name": "web", "uid": "d"}, "spec": {}, "status": {"replicas": 2}}`
	failed := `{"apiVersion": "v1", "kind": "Event", "metadata": {"namespace": "shop", "name": "e", "uid": "e"}, "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "b"}, "reason": "FailedScheduling", "lastTimestamp": "2026-11-20T11:59:00Z"}`
	pending := strings.Replace(of("c"), "Running", "Pending", 1)
	for _, tt := range []struct {
		name    string
		objects []string
		whole   bool
	}{
		{"both are there", []string{app, failed, of("a"), of("b")}, true},
		{"one is not there", []string{app, of("a")}, false},
		{"the one that failed is not there", []string{failed, of("a")}, false},
		{"a pod that does not run is there", []string{failed, of("a"), pending}, true},
	} {
		none := func(*Objects) func(*corev1.Pod) bool { return func(*corev1.Pod) bool { return false } }
		for form, ofUse := range map[string]func(*Objects) func(*corev1.Pod) bool{"all kept": nil, "none kept": none} {
			s, _, err := Read("f", strings.NewReader(clusterList(tt.objects...)), ReadOptions{Now: noon, PodsOfUse: ofUse})
			if err != nil {
				t.Fatal(tt.name, err)
			}
			if s.Complete(Pods) != tt.whole {
				t.Errorf("%s, %s: %q", tt.name, form, gapLines(s))
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
	registered := func(name string) string {
		return strings.Replace(readyNode(name), ", uid", `, annotations: {csi.volume.kubernetes.io/nodeid: '{"d":"i"}'}, uid`, 1)
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
		"pods of one node":                       {n1 + n2 + on2 + open, Pods, "all pods are of node n2, and node n1 has volumes in its volumesInUse: was --field-selector given?"},
		"pods of both":                           {n1 + n2 + on1 + on2, Pods, ""},
		"the only node":                          {n1 + on1, Pods, ""},
		"pods that run":                          {n1 + on1 + fails("b", "FailedMount", "2026-11-20T11:59:00Z"), Pods, "all pods run, and an event (FailedMount) is about pod default/b, which is not there: was --field-selector given?"},
		"pods of a deployment that run":          {n1 + on1 + deployment(1), Pods, "all pods run, and deployment default/app has 1, of which 0 are there: was --field-selector given?"},
		"pods of a deployment without labels":    {n1 + strings.Replace(on1, "name: a,", "name: a, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: app-5d, uid: r, controller: true}],", 1) + deployment(1), Pods, ""},
		"a deployment without pods":              {n1 + on1 + deployment(0), Pods, ""},
		"a pod that was deleted a while ago":     {n1 + on1 + fails("b", "FailedMount", "2026-11-20T11:50:00Z"), Pods, ""},
		"a pod that failed and runs":             {n1 + on1 + fails("a", "FailedMount", "2026-11-20T11:59:00Z"), Pods, ""},
		"pods that do not run, too":              {n1 + on1 + open + fails("b", "FailedMount", "2026-11-20T11:59:00Z"), Pods, ""},
		"nothing in use elsewhere":               {n1 + n2 + on1, Pods, ""},
		"nodes of a label":                       {n2 + csi1 + csi2 + on1 + on2, Nodes, "pod a of namespace default runs on node n1, which is not there, though its CSINode is: was -l given?"},
		"a node that is gone":                    {n2 + csi2 + on1 + on2, Nodes, ""},
		"CSINodes of one name":                   {readyNode("n1") + readyNode("n2") + readyNode("n3") + csi1, CSINodes, "nodes n2 and n3 are Ready and have no CSINode: was a name or -l given?"},
		"a CSINode of a node with a driver's id": {registered("n1") + readyNode("n2") + csi2, CSINodes, "node n1 has no CSINode, though its annotation csi.volume.kubernetes.io/nodeid names a driver: was a name or -l given?"},
		"a CSINode of a node without an id":      {strings.Replace(registered("n1"), `{"d":"i"}`, "{}", 1) + readyNode("n2") + csi2, CSINodes, ""},
		"CSINodes of all nodes with an id":       {registered("n1") + registered("n2") + csi1 + csi2, CSINodes, ""},
		"a CSINode that is lost":                 {readyNode("n1") + readyNode("n2") + csi1, CSINodes, ""},
		"volumes of one name":                    {bound + attachment + object("PersistentVolume", "other", "status: {phase: Available}\n"), Volumes, "claim c of namespace default is Bound to volume pv, which is attached and not there"},
		"claims of one name":                     {strings.Replace(bound, "name: c,", "name: other,", 1) + of, Claims, "persistentvolume pv is Bound to claim c of namespace default, which is not there: was a name or -l given?"},
		"a claim that is there":                  {bound + of, Claims, ""},
		"a claim that is gone":                   {strings.Replace(bound, "name: c,", "name: other,", 1) + strings.Replace(of, "Bound", "Released", 1), Claims, ""},
		"volumes of one name, none attached":     {bound + object("PersistentVolume", "other", "status: {phase: Available}\n"), Volumes, "claim c of namespace default is Bound to volume pv, which is not there"},
		"nodes of one name":                      {n2 + csi1 + csi2, Nodes, "node n1 is not there, though its CSINode is: was -l given?"},
		"a volume that is lost":                  {strings.Replace(bound, "Bound", "Lost", 1) + attachment + object("PersistentVolume", "other", "status: {phase: Available}\n"), Volumes, ""},
		"nothing but what a manifest has":        {neat(n1 + n2 + on1 + on2), Pods, "pods default/a, default/b have no status or no uid, which an API server always shows: was it taken away (kubectl neat?), or written by hand?"},
		"what a manifest has, and one that is":   {neat(n1+n2+on1) + on2, Pods, "pod default/a has no status"},
		"two that are written by hand":           {neat(n1 + on1), Nodes, ""},
		"one that is written by hand":            {n1 + neat(on1), Pods, "pod default/a has no status"},
		"pods as a manifest has them":            {n1 + neat(on1+on2+open), Pods, "pods default/a, default/b, default/c have no status"},
		"pods without a status":                  {n1 + noStatus(on1+on2+open), Pods, "pods default/a, default/b, default/c have no status"},
		"nodes without a status":                 {noStatus(n1+n2) + on2, Nodes, "nodes n1, n2 have no status"},
		"a node that nobody has written to":      {n2 + on2, Nodes, ""},
		"an attachment without a status":         {n1 + noStatus(attachment), VolumeAttachments, "volumeattachment va has no status"},
		"an attachment that is under way":        {n1 + strings.Replace(attachment, "true", "false", 1), VolumeAttachments, ""},
		"a claim without a uid":                  {noUID(bound) + says("c", "x"), Claims, "persistentvolumeclaim default/c has no status or no uid"},
		"a claim with its uid":                   {bound + says("c", "x"), Claims, ""},
		"a class without what is always there":   {n1 + "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: fast}\n---\n", StorageClasses, "storageclass fast has no uid"},
		"an event without what is always there":  {n1 + "apiVersion: v1\nkind: Event\nmetadata: {name: e, namespace: default}\ninvolvedObject: {kind: Node, name: n1}\nreason: R\nlastTimestamp: \"2026-11-20T09:00:00Z\"\n---\n", Events, ""},
		"a class without a uid":                  {n1 + "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: fast, creationTimestamp: \"2026-11-20T09:00:00Z\"}\n---\n", StorageClasses, ""},
		"a CSINode that was cut off":             {n1 + csi2 + strings.Replace(csi1, "spec: {drivers: []}\n", "", 1), CSINodes, "csinode n1 has no status or no uid"},
		"a CSINode with no driver":               {n1 + csi2 + csi1, CSINodes, ""},
		"no uid is seen at all":                  {noUID(bound + of), Claims, ""},
		"a volume without its claim's uid":       {bound + of, Volumes, "persistentvolume pv has no status, no uid or no uid of its claim"},
		"a volume with its claim's uid":          {bound + says("c", "x"), Volumes, ""},
		"a volume that is reserved by name":      {bound + strings.Replace(of, "Bound", "Available", 1), Volumes, ""},
		"a released one without a claim's uid":   {n1 + strings.Replace(of, "Bound", "Released", 1), Volumes, "persistentvolume pv has no status, no uid or no uid of its claim"},
		"volume and claim without any uid":       {noUID(bound + of), Volumes, ""},
		"a node without a uid":                   {noUID(n1) + owned, Nodes, "node n1 has no status or no uid"},
		"a node with its uid":                    {n1 + owned, Nodes, ""},
		"a pod without a uid":                    {n1 + noUID(on1) + eventOf("a", "x"), Pods, "pod default/a has no status or no uid"},
		"a pod with its uid":                     {n1 + on1 + eventOf("a", "x"), Pods, ""},
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

// TestPodThatUsesAVolume: a pod that the controller has named as the user of a volume is missing, unless
// an event tells of its end, it never ran, or no node has the volume in use.
func TestPodThatUsesAVolume(t *testing.T) {
	event := func(name, pod, reason, message string) string {
		return `{"apiVersion": "v1", "kind": "Event", "metadata": {"namespace": "shop", "name": "` + name + `", "uid": "` + name + `"}, "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "` + pod + `"}, "reason": "` + reason + `", "message": ` +
			fmt.Sprintf("%q", message) + `, "lastTimestamp": "2026-11-20T11:45:00Z"}`
	}
	used := event("used", "b", "FailedAttachVolume", `Multi-Attach error for volume "pv1" Volume is already used by pod(s) x, a and 1 pod(s) in different namespaces`)
	cluster := func(inUse string) []string {
		return []string{
			`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "n1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}], "volumesInUse": [` + inUse + `]}}`,
			`{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv1", "uid": "v1"}, "spec": {"csi": {"driver": "d", "volumeHandle": "h"}, "claimRef": {"namespace": "shop", "name": "c", "uid": "k"}}, "status": {"phase": "Bound"}}`,
			`{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": "shop", "name": "c", "uid": "k"}, "spec": {"volumeName": "pv1"}, "status": {"phase": "Bound"}}`,
			podOf("shop", "b", "3"), podOf("shop", "x", "4"), podOf("web", "w", "5"),
		}
	}
	const inUse = `"kubernetes.io/csi/d^h"`
	for _, tt := range []struct {
		name  string
		inUse string
		more  []string
		whole bool
	}{
		{"the user is missing", inUse, []string{used}, false},
		{"it started lately", inUse, []string{used, event("s", "a", "Scheduled", "m"), event("r", "a", "Started", "m")}, false},
		{"it is there", inUse, []string{used, podOf("shop", "a", "6")}, true},
		{"its containers were stopped", inUse, []string{used, event("k", "a", "Killing", "m")}, true},
		{"it was evicted", inUse, []string{used, event("k", "a", "TaintManagerEviction", "m")}, true},
		{"it never ran", inUse, []string{used, event("s", "a", "Scheduled", "m")}, true},
		{"no node uses the volume", "", []string{used}, true},
		{"nobody has named it", inUse, nil, true},
	} {
		s, _, err := Read("f", strings.NewReader(clusterList(append(cluster(tt.inUse), tt.more...)...)), ReadOptions{Now: noon})
		if err != nil {
			t.Fatal(tt.name, err)
		}
		if s.Complete(Pods) != tt.whole {
			t.Errorf("%s: %q", tt.name, gapLines(s))
		}
	}
}
