package snapshot

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestOneNamespace: a file that does not say which lists are complete contradicts itself where
// a volume is Bound to a claim of a namespace that is not in it. Where pods or claims are of one
// namespace alone, any object that names one of another makes them a gap.
func TestOneNamespace(t *testing.T) {
	pv := func(name, phase, namespace string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: %s}\nspec: {claimRef: {namespace: %s, name: %s}}\nstatus: {phase: %s}\n---\n", name, namespace, name, phase)
	}
	claim := func(namespace string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c, namespace: %s}\nstatus: {phase: Pending}\n---\n", namespace)
	}
	pod := func(namespace string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: %s}\nstatus: {phase: Pending}\n---\n", namespace)
	}
	event := func(kind, namespace string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Event\nmetadata: {name: e-%s, namespace: %s}\ninvolvedObject: {kind: %s, namespace: %s, name: x}\n---\n", namespace, namespace, kind, namespace)
	}
	running := func(namespace, phase string) string {
		node := ""
		if phase == "Running" {
			node = "nodeName: n1, "
		}
		return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: r, namespace: %s}\nspec: {%svolumes: [{name: d, persistentVolumeClaim: {claimName: c}}]}\nstatus: {phase: %s}\n---\n", namespace, node, phase)
	}
	owned := func(namespace, more string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: o, namespace: %s, ownerReferences: [{apiVersion: v1, kind: Pod, name: gone, uid: u}]%s}\nstatus: {phase: Bound}\n---\n", namespace, more)
	}
	deployment := func(namespace string, ready int) string {
		return fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: %s}\nstatus: {readyReplicas: %d}\n---\n", namespace, ready)
	}
	workload := func(kind, namespace, status string) string {
		return fmt.Sprintf("apiVersion: apps/v1\nkind: %s\nmetadata: {name: w, namespace: %s}\nstatus: {%s}\n---\n", kind, namespace, status)
	}
	podList := func(namespaces ...string) string {
		var items []string
		for _, namespace := range namespaces {
			items = append(items, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": %q}, "status": {"phase": "Pending"}}`, namespace))
		}
		return "apiVersion: v1\nkind: List\nitems: [" + strings.Join(items, ", ") + "]\n---\n"
	}
	held := func(name, namespace, holder, renewed string) string {
		return fmt.Sprintf("apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: %s, namespace: %s}\nspec: {holderIdentity: %s, renewTime: \"2026-11-20T%s.000000Z\"}\n---\n", name, namespace, holder, renewed)
	}
	lease := func(namespace, holder, renewed string) string {
		return held("external-attacher-leader-d", namespace, holder, renewed)
	}
	attacher := func(namespace, network string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: %s}\nspec: {nodeName: n1, hostNetwork: %s, containers: [{name: csi-attacher}]}\nstatus: {phase: Pending}\n---\n", namespace, network)
	}
	claims := claim("a") + claim("b") + claim("d")
	attached := func(is string) string {
		return "apiVersion: storage.k8s.io/v1\nkind: VolumeAttachment\nmetadata: {name: va}\nspec: {attacher: d, nodeName: n1, source: {persistentVolumeName: used}}\nstatus: {attached: " + is + "}\n---\n"
	}
	const csi = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: used}\nspec: {csi: {driver: d, volumeHandle: h}, claimRef: {namespace: b, name: c}}\nstatus: {phase: Bound}\n---\n"
	const inUse = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {volumesInUse: [kubernetes.io/csi/d^h]}\n---\n"
	onlyPods, onlyClaims := []Gap{{Kind: Pods, Namespace: "a"}}, []Gap{{Kind: Claims, Namespace: "a"}}
	for name, c := range map[string]struct {
		file string
		want []Gap // of claims and pods, without their details
	}{
		"a node uses a volume of another namespace":                  {csi + inUse + claim("a") + claim("b") + pod("a"), onlyPods},
		"... which has a pod":                                        {csi + inUse + claim("a") + claim("b") + pod("a") + pod("b"), nil},
		"... which is attached":                                      {csi + attached("true") + claim("a") + claim("b") + pod("a"), onlyPods},
		"... or is not attached yet":                                 {csi + attached("false") + claim("a") + claim("b") + pod("a"), nil},
		"... beside pods of two others, and an event of a pod there": {csi + inUse + claims + event("Pod", "b") + pod("a") + pod("d"), []Gap{{Kind: Pods, Namespace: "a,d"}}},
		"... and no event of a pod there":                            {csi + inUse + claims + event("Pod", "a") + pod("a") + pod("d"), nil},
		"... and no node uses it, though there is one":               {csi + claims + event("Pod", "b") + pod("a") + pod("d"), nil},
		"... and no node uses it":                                    {csi + claim("a") + claim("b") + pod("a"), nil},
		"a pod owns a claim elsewhere":                               {claim("a") + owned("b", "") + pod("a"), onlyPods},
		"... which is going":                                         {claim("a") + owned("b", `, deletionTimestamp: "2026-11-20T09:00:00Z"`) + pod("a"), nil},
		"a deployment elsewhere has pods":                            {claim("a") + deployment("b", 1) + pod("a"), onlyPods},
		"... or none":                                                {claim("a") + deployment("b", 0) + pod("a"), nil},
		"a workload elsewhere has pods":                              {claim("a") + workload("StatefulSet", "b", "readyReplicas: 1") + pod("a"), onlyPods},
		"... on each node":                                           {claim("a") + workload("DaemonSet", "b", "numberReady: 2") + pod("a"), onlyPods},
		"... or is scaled to zero":                                   {claim("a") + workload("StatefulSet", "b", "replicas: 0") + pod("a"), nil},
		"... or has its pods here":                                   {claim("a") + workload("ReplicaSet", "a", "readyReplicas: 1") + pod("a"), nil},
		"a revision, which outlives pods":                            {claim("a") + workload("ControllerRevision", "b", "readyReplicas: 1") + pod("a"), nil},
		"one of several namespaces is missing":                       {pv("b", "Bound", "b") + claim("a") + claim("d") + pod("a") + pod("d"), []Gap{{Kind: Claims, Namespace: "a,d"}, {Kind: Pods, Namespace: "a,d"}}},
		"a workload in one of several":                               {owned("a", "") + workload("StatefulSet", "b", "readyReplicas: 1") + pod("a") + pod("d"), []Gap{{Kind: Pods, Namespace: "a,d"}}},
		"a list of pods for two of three namespaces":                 {claims + podList("a") + podList("d"), []Gap{{Kind: Pods, Namespace: "a,d"}}},
		"... or for each of them":                                    {claims + podList("a") + podList("b") + podList("d"), nil},
		"... or one of two namespaces":                               {claims + podList("a", "d"), nil},
		"... and events of pods of the third":                        {claim("a") + claim("d") + event("Pod", "b") + podList("a") + podList("d"), []Gap{{Kind: Pods, Namespace: "a,d"}}},
		"a process of one of several namespaces renews a lease":      {claims + lease("b", "csi-0", "11:59:58") + pod("a") + pod("d"), []Gap{{Kind: Pods, Namespace: "a,d"}}},
		"... or did long ago":                                        {claims + lease("b", "csi-0", "11:50:00") + pod("a") + pod("d"), nil},
		"... or has a pod there":                                     {claims + lease("b", "csi-0", "11:59:58") + pod("a") + pod("b") + pod("d"), nil},
		"... or in another namespace":                                {claims + lease("b", "p", "11:59:58") + pod("a") + pod("d"), nil},
		"... or is of a machine that is no node":                     {claims + lease("b", "n1", "11:59:58") + pod("a") + pod("d"), nil},
		"... by the name of a node, as on its network":               {claims + lease("b", "n1", "11:59:58") + inUse + pod("a") + pod("d"), []Gap{{Kind: Pods, Namespace: "a,d"}}},
		"... which is there":                                         {claims + lease("b", "n1", "11:59:58") + inUse + pod("a") + attacher("d", "true"), nil},
		"... or nobody holds it":                                     {claims + lease("b", `""`, "11:59:58") + inUse + pod("a") + pod("d"), nil},
		"... or has another network":                                 {claims + lease("b", "n1", "11:59:58") + inUse + pod("a") + attacher("d", "false"), []Gap{{Kind: Pods, Namespace: "a,d"}}},
		"... and is no sidecar":                                      {claims + held("l", "b", "n1", "11:59:58") + inUse + pod("a") + pod("d"), nil},
		"... with the name of a Deployment's pod":                    {claims + held("l", "b", "c-5d5b9c-bcdfg", "11:59:58") + pod("a") + pod("d"), []Gap{{Kind: Pods, Namespace: "a,d"}}},
		"... or with one that may be a machine's":                    {claims + held("l", "b", "ip-10-0-1-2", "11:59:58") + pod("a") + pod("d"), nil},
		"... beside a control plane that is in another cluster": {claims + held("l", "b", "c-5d5b9c-bcdfg", "11:59:58") +
			held("kube-controller-manager", "kube-system", "kube-controller-manager-6d9c7d9b5f-x2x7k_4", "11:59:58") + pod("a") + pod("d"), nil},
		"... and writes more behind its pod's name": {claims + held("l", "b", "p-external-cert-manager-controller", "11:59:58") + lease("b", "p-0", "11:59:58") + pod("a") + pod("d"), nil},
		"... or may run outside the cluster":        {claims + lease("b", "cp1_x", "11:59:58") + pod("a") + pod("d"), nil},
		"... or is a kubelet":                       {claims + lease("kube-node-lease", "n9", "11:59:58") + pod("a") + pod("d"), nil},
		"events of pods elsewhere":                  {claim("a") + event("Pod", "b") + pod("a"), onlyPods},
		"events of pods here":                       {claim("a") + event("Pod", "a") + pod("a"), nil},
		"events of claims elsewhere":                {claim("a") + event("PersistentVolumeClaim", "b") + pod("a"), onlyClaims},
		"a pod elsewhere runs with a claim":         {claim("a") + pod("a") + running("b", "Running"), onlyClaims},
		"... or waits for one":                      {claim("a") + pod("a") + running("b", "Pending"), onlyClaims},
		"... which the scheduler does not find":     {claim("a") + pod("a") + strings.Replace(running("b", "Pending"), "{phase", "{conditions: [{type: PodScheduled, message: 'persistentvolumeclaim \"c\" not found'}], phase", 1), nil},
		"... or has ended":                          {claim("a") + pod("a") + running("b", "Succeeded"), nil},
		"the volumes' claims are there":             {pv("c", "Bound", "a") + claim("a") + pod("a"), nil},
		"one is missing":                            {pv("a", "Bound", "a") + pv("b", "Bound", "b") + claim("a") + pod("a"), []Gap{{Kind: Claims, Namespace: "a"}, {Kind: Pods, Namespace: "a"}}},
		"pods were read with -A":                    {pv("b", "Bound", "b") + claim("a") + pod("a") + pod("b"), []Gap{{Kind: Claims, Namespace: "a"}}},
		"a released volume has lost its claim":      {pv("b", "Released", "b") + claim("a") + pod("a"), nil},
		"the file says that it is complete": {"apiVersion: volume-doctor/v1\nkind: Snapshot\ntakenAt: \"2026-11-20T10:00:00Z\"\ncomplete: [pods, persistentvolumeclaims]\n---\n" +
			pv("b", "Bound", "b") + claim("a") + pod("a"), nil},
	} {
		s, _, err := Read("f", strings.NewReader(c.file), ReadOptions{Now: noon})
		if err != nil {
			t.Fatal(err)
		}
		var got []Gap
		for _, g := range s.Gaps {
			if g.Kind == Claims || g.Kind == Pods {
				if !strings.Contains(g.Detail, "was -A given") {
					t.Errorf("%s: %+v", name, g)
				}
				got = append(got, Gap{Kind: g.Kind, Namespace: g.Namespace})
			}
		}
		slices.SortFunc(got, func(a, b Gap) int { return strings.Compare(string(a.Kind), string(b.Kind)) })
		slices.SortFunc(c.want, func(a, b Gap) int { return strings.Compare(string(a.Kind), string(b.Kind)) })
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		if len(c.want) != 1 || c.want[0].Kind == Claims && strings.Contains(name, "with -A") {
			continue
		}
		// Such an object may be out of date: a person's word counts more.
		if s, _, err = Read("f", strings.NewReader(c.file), ReadOptions{Now: noon, Whole: []Kind{c.want[0].Kind}}); err == nil && !s.Complete(c.want[0].Kind) || err != nil && c.want[0].Kind != Claims {
			t.Errorf("%s, with --whole %s: %v", name, c.want[0].Kind, err)
		}
	}
}
