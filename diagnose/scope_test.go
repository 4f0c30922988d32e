package diagnose_test

import (
	"bytes"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/scope"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// twice is the cluster with a second one beside it, whose objects have other
// names and the same drivers: what is counted over all of them is there twice.
func twice(s *snapshot.Snapshot) *snapshot.Snapshot {
	const other = "-twin"
	o, t := cloned(s.Objects), cloned(s.Objects)
	volumes := map[corev1.UniqueVolumeName]corev1.UniqueVolumeName{}
	renamed := func(v corev1.UniqueVolumeName) corev1.UniqueVolumeName { volumes[v] = v + other; return v + other }
	for _, n := range t.Nodes {
		n.Name, n.UID = n.Name+other, n.UID+other
		for i := range n.Status.VolumesAttached {
			n.Status.VolumesAttached[i].Name = renamed(n.Status.VolumesAttached[i].Name)
		}
		for i := range n.Status.VolumesInUse {
			n.Status.VolumesInUse[i] = renamed(n.Status.VolumesInUse[i])
		}
	}
	for _, n := range t.CSINodes {
		n.Name, n.UID = n.Name+other, n.UID+other
	}
	for _, pv := range t.Volumes {
		pv.Name, pv.UID = pv.Name+other, pv.UID+other
		if pv.Spec.CSI != nil {
			pv.Spec.CSI.VolumeHandle += other
		}
		if pv.Spec.ClaimRef != nil {
			pv.Spec.ClaimRef.Namespace += other
			if pv.Spec.ClaimRef.UID != "" {
				pv.Spec.ClaimRef.UID += other
			}
		}
	}
	for _, c := range t.Claims {
		c.Namespace, c.UID = c.Namespace+other, c.UID+other
		if c.Spec.VolumeName != "" {
			c.Spec.VolumeName += other
		}
	}
	for _, p := range t.Pods {
		p.Namespace, p.UID = p.Namespace+other, p.UID+other
		if p.Spec.NodeName != "" {
			p.Spec.NodeName += other
		}
	}
	for _, va := range t.VolumeAttachments {
		handle, driver := "", ""
		if name := va.Spec.Source.PersistentVolumeName; name != nil {
			if pv := s.Volume(*name); pv != nil && pv.Spec.CSI != nil {
				handle, driver = pv.Spec.CSI.VolumeHandle, pv.Spec.CSI.Driver
			}
			twin := *name + other
			va.Spec.Source.PersistentVolumeName = &twin
		}
		if handle != "" && va.Name == reconcile.VolumeAttachmentName(handle, driver, types.NodeName(va.Spec.NodeName)) {
			va.Name = reconcile.VolumeAttachmentName(handle+other, driver, types.NodeName(va.Spec.NodeName+other))
		} else {
			va.Name += other
		}
		va.UID, va.Spec.NodeName = va.UID+other, va.Spec.NodeName+other
	}
	for _, e := range t.Events {
		e.Namespace, e.Name = e.Namespace+other, e.Name+other
		e.InvolvedObject.UID += other
		e.InvolvedObject.Namespace += other
	}
	o.Nodes = append(o.Nodes, t.Nodes...)
	o.CSINodes = append(o.CSINodes, t.CSINodes...)
	o.Volumes = append(o.Volumes, t.Volumes...)
	o.Claims = append(o.Claims, t.Claims...)
	o.Pods = append(o.Pods, t.Pods...)
	o.VolumeAttachments = append(o.VolumeAttachments, t.VolumeAttachments...)
	o.Events = append(o.Events, t.Events...)
	for _, l := range t.Leases {
		if l.Namespace == corev1.NamespaceNodeLease {
			l.Name += other
			o.Leases = append(o.Leases, l)
		}
	}
	return remade(s, o, slices.Clone(s.Gaps))
}

// fataler is a test, or a rapid one.
type fataler interface {
	Helper()
	Errorf(string, ...any)
	Fatalf(string, ...any)
}

// part is what the API would give of it, out of a snapshot.
func part(t fataler, s *snapshot.Snapshot, p scope.Part, into *snapshot.Objects) {
	selector := fields.SelectorFromSet(p.Fields)
	switch p.Kind {
	case snapshot.Pods:
		partOf(s.Pods, p, &into.Pods, func(pod *corev1.Pod) bool {
			return selector.Matches(fields.Set{"metadata.name": pod.Name, "spec.nodeName": pod.Spec.NodeName})
		})
	case snapshot.Events:
		partOf(s.Events, p, &into.Events, func(e *corev1.Event) bool {
			return selector.Matches(fields.Set{"involvedObject.name": e.InvolvedObject.Name})
		})
	case snapshot.Claims:
		partOf(s.Claims, p, &into.Claims, byName[*corev1.PersistentVolumeClaim](selector))
	case snapshot.Volumes:
		partOf(s.Volumes, p, &into.Volumes, byName[*corev1.PersistentVolume](selector))
	case snapshot.Nodes:
		partOf(s.Nodes, p, &into.Nodes, byName[*corev1.Node](selector))
	case snapshot.VolumeAttachments:
		partOf(s.VolumeAttachments, p, &into.VolumeAttachments, byName[*storagev1.VolumeAttachment](selector))
	case snapshot.CSINodes:
		partOf(s.CSINodes, p, &into.CSINodes, byName[*storagev1.CSINode](selector))
	case snapshot.CSIDrivers:
		partOf(s.CSIDrivers, p, &into.CSIDrivers, byName[*storagev1.CSIDriver](selector))
	case snapshot.Leases:
		partOf(s.Leases, p, &into.Leases, byName[*coordinationv1.Lease](selector))
	case snapshot.StorageClasses, snapshot.Deployments:
		t.Fatalf("nothing gives a part of the %s", p.Kind)
	}
}

func byName[O metav1.Object](selector fields.Selector) func(O) bool {
	return func(o O) bool { return selector.Matches(fields.Set{"metadata.name": o.GetName()}) }
}

func partOf[O metav1.Object](all []O, p scope.Part, into *[]O, selected func(O) bool) {
	for _, o := range all {
		if selected(o) && (p.Namespace == "" || o.GetNamespace() == p.Namespace) && (p.Keep == nil || p.Keep(o)) {
			*into = append(*into, o)
		}
	}
}

// near is the snapshot of the pod's scope.
func near(t fataler, s *snapshot.Snapshot, pod types.NamespacedName, everyClaim bool) *snapshot.Snapshot {
	r := scope.OfPod(pod)
	r.EveryClaim = everyClaim
	var got snapshot.Objects
	for parts := r.Next(got); len(parts) > 0; parts = r.Next(got) {
		got = snapshot.Objects{}
		for _, p := range parts {
			part(t, s, p, &got)
		}
	}
	return remade(s, r.Objects(), nil)
}

// aboutPod is what a report says where the pod was asked for, with the repairs.
func aboutPod(s *snapshot.Snapshot, pod types.NamespacedName, settings diagnose.Options) *finding.Report {
	view := repair.Look(s, settings, repair.Consent{})
	view.Report.Keep(func(f finding.Finding) bool {
		return slices.Contains(f.Pods, pod.String()) || f.Subject.Kind == "Pod" && f.Subject.Namespace == pod.Namespace && f.Subject.Name == pod.Name
	})
	view.Report.KeepWaiting(func(w finding.Waiting) bool { return w.Pod == pod.String() })
	view.Report.Scope = finding.Scope{} // less was read
	repair.Propose(view)
	return view.Report
}

// newDriver is the case with a driver whose disks have never had a name in-tree.
func newDriver(t testing.TB, c *corpusCase) *snapshot.Snapshot {
	t.Helper()
	const before, after = "ebs.csi.aws.com", "disk.example.com"
	text := bytes.ReplaceAll(bytes.ReplaceAll(c.Cluster, []byte("ebs-csi-aws-com"), []byte("disk-example-com")), []byte(before), []byte(after))
	s, _, err := snapshot.Read(c.name, bytes.NewReader(text), snapshot.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o := s.Objects
	for _, va := range o.VolumeAttachments {
		for _, pv := range o.Volumes {
			node := types.NodeName(va.Spec.NodeName)
			if pv.Spec.CSI != nil && va.Name == reconcile.VolumeAttachmentName(pv.Spec.CSI.VolumeHandle, before, node) {
				va.Name = reconcile.VolumeAttachmentName(pv.Spec.CSI.VolumeHandle, after, node)
			}
		}
	}
	return remade(s, o, s.Gaps)
}

// tally counts what TestScope and its like have shown.
type tally struct {
	mu                     sync.Mutex
	pods, suffices, traced int
	found                  map[finding.Code]int
}

// same fails where the pod's scope suffices and shows something else than the
// whole cluster does.
func (n *tally) same(t fataler, s *snapshot.Snapshot, pod types.NamespacedName, settings diagnose.Options) {
	t.Helper()
	narrow, traced := near(t, s, pod, false), near(t, s, pod, true)
	suffices, traceable := diagnose.Suffices(narrow, pod, settings.Reconcile), diagnose.Suffices(traced, pod, settings.Reconcile)
	var want *finding.Report
	if suffices {
		want = aboutPod(s, pod, settings)
		if diff := gocmp.Diff(want, aboutPod(narrow, pod, settings)); diff != "" {
			t.Errorf("%s: the whole cluster, and the pod's scope:\n%s", pod, diff)
		}
	}
	if traceable {
		trace := func(s *snapshot.Snapshot) string { return asJSON(t, diagnose.TracePod(s, s.Pod(pod), settings)) }
		if diff := gocmp.Diff(trace(s), trace(traced)); diff != "" {
			t.Errorf("%s: the trace in the whole cluster, and in the pod's scope:\n%s", pod, diff)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods++
	n.suffices += count(suffices)
	n.traced += count(traceable)
	if want != nil {
		for _, f := range want.Findings {
			n.found[f.Code]++
		}
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// shown fails where what was held against each other was little.
func (n *tally) shown(t *testing.T, codes ...finding.Code) {
	t.Logf("of %d pods the scope suffices for %d, and to trace for %d; found %v", n.pods, n.suffices, n.traced, n.found)
	few := n.pods / 10
	if n.pods < 200 { // of few pods the share is a matter of chance
		few = 1
	}
	if n.suffices < few || n.traced < few || n.suffices > n.pods*9/10 {
		t.Error("this shows little")
	}
	for _, code := range codes {
		if n.found[code] == 0 {
			t.Errorf("the scope of no pod suffices to find %s", code)
		}
	}
}

// TestScope: what a pod's scope shows of it is what the whole cluster shows, in
// every case of the corpus, alone and with as much beside it, and with a driver
// that has no in-tree plugin to its name.
func TestScope(t *testing.T) {
	long.Test(t)
	shown := &tally{found: map[finding.Code]int{}}
	t.Run("cases", func(t *testing.T) {
		for _, c := range corpus(t) {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				alone := c.snapshot(t)
				if len(alone.Gaps) > 0 {
					return
				}
				other := newDriver(t, c)
				for _, s := range []*snapshot.Snapshot{alone, twice(alone), other, twice(other)} {
					for _, pod := range alone.Pods {
						shown.same(t, s, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, diagnose.Options{Reconcile: c.settings})
					}
				}
			})
		}
	})
	shown.shown(t, "VD301", "VD407", "VD506", "VD511")
}

func TestScopeOfRandomClusters(t *testing.T) {
	cases := corpusSnapshots(t)
	shown := &tally{found: map[finding.Code]int{}}
	rapid.Check(t, func(t *rapid.T) {
		s, settings := drawCluster(t, cases), drawSettings(t)
		for _, pod := range s.Pods {
			shown.same(t, s, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, settings)
		}
	})
	shown.shown(t)
}

// TestSuffices: a pod with one volume, which is attached and listed, keeps to
// itself until somebody else comes in.
func TestSuffices(t *testing.T) {
	all := corpus(t)
	c := all[slices.IndexFunc(all, func(c *corpusCase) bool { return c.name == "vd301-current-release" })]
	web := types.NamespacedName{Namespace: "default", Name: "web-0"}
	const vol = "kubernetes.io/csi/ebs.csi.aws.com^vol-1"
	other := func(namespace, node string, source corev1.VolumeSource) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other", UID: "other"}}
		pod.Spec.NodeName, pod.Spec.Volumes = node, []corev1.Volume{{Name: "v", VolumeSource: source}}
		return pod
	}
	attachment := func(name, node string) *storagev1.VolumeAttachment {
		va := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "other"}}
		va.Spec.Attacher, va.Spec.NodeName = "ebs.csi.aws.com", node
		return va
	}
	inline := attachment("inline", "n2")
	inline.Spec.Source.InlineVolumeSpec = &corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-1"}}}
	second := func(pv corev1.PersistentVolume) *corev1.PersistentVolume {
		pv.Name, pv.UID, pv.Spec.ClaimRef = "pv-second", "second", nil
		return &pv
	}
	socket := corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/kubelet/plugins/ebs.csi.aws.com"}}
	leaving := other("elsewhere", "n1", scratch)
	leaving.DeletionTimestamp = &metav1.Time{Time: c.snapshot(t).TakenAt}
	for name, tt := range map[string]struct {
		suffices, traces bool
		change           func(o *snapshot.Objects)
	}{
		"nobody":           {true, true, func(*snapshot.Objects) {}},
		"other pods":       {true, true, func(o *snapshot.Objects) { o.Pods = append(o.Pods, other("default", "n1", scratch)) }},
		"no node":          {false, false, func(o *snapshot.Objects) { o.Pods[0].Spec.NodeName = "" }},
		"no such node":     {false, false, func(o *snapshot.Objects) { o.Nodes = o.Nodes[1:] }},
		"the node goes":    {false, false, func(o *snapshot.Objects) { o.Nodes[0].DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }},
		"the node is lost": {false, false, func(o *snapshot.Objects) { o.Nodes[0].Status.Conditions[0].Status = corev1.ConditionUnknown }},
		"the node is fenced": {false, false, func(o *snapshot.Objects) {
			o.Nodes[0].Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService}}
		}},
		"the node is virtual":     {false, false, func(o *snapshot.Objects) { o.Nodes[0].Labels = map[string]string{"type": "virtual-kubelet"} }},
		"the node is not managed": {false, false, func(o *snapshot.Objects) { o.Nodes[0].Annotations = nil }},
		"the pod goes":            {false, false, func(o *snapshot.Objects) { o.Pods[0].DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }},
		"the pod has ended":       {false, false, func(o *snapshot.Objects) { o.Pods[0].Status.Phase = corev1.PodSucceeded }},
		"no claim":                {false, false, func(o *snapshot.Objects) { o.Claims = nil }},
		"no volume":               {false, false, func(o *snapshot.Objects) { o.Volumes = nil }},
		"a claim made anew":       {false, false, func(o *snapshot.Objects) { o.Claims[0].UID = "other" }},
		"the volume goes":         {false, false, func(o *snapshot.Objects) { o.Volumes[0].DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }},
		"a volume not of CSI":     {false, false, func(o *snapshot.Objects) { o.Volumes[0].Spec.CSI = nil }},
		"a pod with the claim": {false, false, func(o *snapshot.Objects) {
			o.Pods = append(o.Pods, other("default", "n2", o.Pods[0].Spec.Volumes[0].VolumeSource))
		}},
		"a claim of that name": {true, true, func(o *snapshot.Objects) {
			o.Pods = append(o.Pods, other("elsewhere", "n2", o.Pods[0].Spec.Volumes[0].VolumeSource))
		}},
		"a disk without a claim": {false, false, func(o *snapshot.Objects) {
			o.Pods[0].Spec.Volumes = append(o.Pods[0].Spec.Volumes, other("", "", ebs).Spec.Volumes...)
		}},
		"a neighbour with a disk": {false, false, func(o *snapshot.Objects) { o.Pods = append(o.Pods, other("elsewhere", "n1", ebs)) }},
		"a disk in the namespace": {false, false, func(o *snapshot.Objects) { o.Pods = append(o.Pods, other("default", "n2", ebs)) }},
		"a second volume":         {false, false, func(o *snapshot.Objects) { o.Volumes = append(o.Volumes, second(*o.Volumes[0])) }},
		"the disk in-tree": {false, false, func(o *snapshot.Objects) {
			pv := second(*o.Volumes[0])
			pv.Spec.CSI, pv.Spec.AWSElasticBlockStore = nil, &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://zone/vol-1"}
			o.Volumes = append(o.Volumes, pv)
		}},
		"somebody else's claim": {true, false, func(o *snapshot.Objects) {
			claim := *o.Claims[0]
			claim.Namespace, claim.UID = "elsewhere", "other"
			o.Claims = append(o.Claims, &claim)
		}},
		"no attachment":       {false, false, func(o *snapshot.Objects) { o.VolumeAttachments = nil }},
		"an attach under way": {false, false, func(o *snapshot.Objects) { o.VolumeAttachments[0].Status.Attached = false }},
		"a detach under way": {false, false, func(o *snapshot.Objects) {
			o.VolumeAttachments[0].DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}},
		"attached elsewhere":          {false, false, func(o *snapshot.Objects) { o.VolumeAttachments[0].Spec.NodeName = "n2" }},
		"attached by another name":    {false, false, func(o *snapshot.Objects) { o.VolumeAttachments[0].Name = "other" }},
		"attached by another":         {false, false, func(o *snapshot.Objects) { o.VolumeAttachments[0].Spec.Attacher = "other" }},
		"attached to the old machine": {false, false, func(o *snapshot.Objects) { o.VolumeAttachments[0].CreationTimestamp = metav1.Unix(1, 0) }},
		"attached under a running pod": {false, false, func(o *snapshot.Objects) {
			o.Pods[0].Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Unix(1, 0)}}
		}},
		"a second attachment": {false, false, func(o *snapshot.Objects) {
			va := attachment("other", "n2")
			va.Spec.Source.PersistentVolumeName = &o.Volumes[0].Name
			o.VolumeAttachments = append(o.VolumeAttachments, va)
		}},
		"an attachment by name": {false, false, func(o *snapshot.Objects) {
			o.VolumeAttachments = append(o.VolumeAttachments, attachment(reconcile.VolumeAttachmentName("vol-1", "ebs.csi.aws.com", "n2"), "n2"))
		}},
		"an attachment of an inline volume": {false, false, func(o *snapshot.Objects) { o.VolumeAttachments = append(o.VolumeAttachments, inline) }},
		"an attachment of something else": {true, true, func(o *snapshot.Objects) {
			o.VolumeAttachments = append(o.VolumeAttachments, attachment("other", "n1"))
		}},
		"another node lists it":      {false, false, func(o *snapshot.Objects) { o.Nodes[1].Status.VolumesAttached = []corev1.AttachedVolume{{Name: vol}} }},
		"another node uses it":       {false, false, func(o *snapshot.Objects) { o.Nodes[1].Status.VolumesInUse = []corev1.UniqueVolumeName{vol} }},
		"its node does not use it":   {false, false, func(o *snapshot.Objects) { o.Nodes[0].Status.VolumesInUse = nil }},
		"no driver on the node":      {false, false, func(o *snapshot.Objects) { o.CSINodes[0].Spec.Drivers = nil }},
		"a plugin that is not Ready": {false, false, func(o *snapshot.Objects) { o.Pods = append(o.Pods, other("kube-system", "n1", socket)) }},
		"a plugin elsewhere":         {true, true, func(o *snapshot.Objects) { o.Pods = append(o.Pods, other("kube-system", "n2", socket)) }},
		"a neighbour that leaves":    {false, false, func(o *snapshot.Objects) { o.Pods = append(o.Pods, leaving) }},
	} {
		s := c.snapshot(t)
		o := s.Objects
		o.Nodes[0].Status.VolumesAttached = []corev1.AttachedVolume{{Name: vol}}
		for i := range o.Pods[0].Status.Conditions { // it has time
			o.Pods[0].Status.Conditions[i].LastTransitionTime = metav1.NewTime(s.TakenAt.Add(-10 * time.Second))
		}
		tt.change(&o)
		s = remade(s, o, nil)
		if got := diagnose.Suffices(near(t, s, web, false), web, c.settings); got != tt.suffices {
			t.Errorf("%s: suffices %v, want %v", name, got, tt.suffices)
		}
		if got := diagnose.Suffices(near(t, s, web, true), web, c.settings); got != tt.traces {
			t.Errorf("%s: suffices to trace %v, want %v", name, got, tt.traces)
		}
	}
	s := newDriver(t, c)
	unlisted := near(t, s, web, false)
	if !diagnose.Suffices(unlisted, web, c.settings) {
		t.Error("what is found about a disk that only a claim can name is not the pod's own")
	}
	if diagnose.Suffices(remade(s, unlisted.Objects, []snapshot.Gap{{Kind: snapshot.Events}}), web, c.settings) {
		t.Error("a gap suffices")
	}
}

var (
	scratch = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	ebs     = corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-2"}}
)

// TestScopeInTree: the same where, out of the pod's scope, other pods name its
// disks in themselves and wait for them on all other nodes.
func TestScopeInTree(t *testing.T) {
	long.Test(t)
	shown := &tally{found: map[finding.Code]int{}}
	for _, c := range corpus(t) {
		s := c.snapshot(t)
		if len(s.Gaps) > 0 || len(s.Pods) == 0 {
			continue
		}
		o := s.Objects
		for _, pv := range s.Volumes {
			if csi := pv.Spec.CSI; csi != nil && csi.Driver == "ebs.csi.aws.com" {
				for _, node := range s.Nodes {
					pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "with-" + pv.Name + "-on-" + node.Name}}
					pod.Spec.NodeName, pod.CreationTimestamp = node.Name, metav1.NewTime(s.TakenAt.Add(-time.Hour))
					pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
						AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: csi.VolumeHandle}}}}
					o.Pods = append(o.Pods, pod)
				}
			}
		}
		for _, pod := range s.Pods {
			name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
			others := o
			others.Pods = slices.DeleteFunc(slices.Clone(o.Pods), func(other *corev1.Pod) bool {
				return other.Namespace == "elsewhere" && other.Spec.NodeName == pod.Spec.NodeName
			})
			s := remade(s, others, nil)
			settings := diagnose.Options{Reconcile: c.settings}
			shown.same(t, s, name, settings)
		}
	}
	shown.shown(t)
}
