package conformance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// Random makes the cluster of a seed. Names come from small pools, so that objects refer to
// each other; everything that the controller reads varies, right and wrong.
func Random(seed uint64) *Cluster {
	g := &generator{r: rand.New(rand.NewPCG(seed, 0)), c: &Cluster{}}
	g.c.DisableForceDetachOnTimeout = g.chance(0.2)
	g.nodes()
	g.csiNodes()
	g.drivers()
	g.volumes()
	g.claims()
	g.pods()
	g.attachments()
	g.statuses()
	if g.chance(0.35) {
		g.rivals()
	}
	return g.c
}

type generator struct {
	r    *rand.Rand
	c    *Cluster
	uids int
}

func (g *generator) chance(p float64) bool { return g.r.Float64() < p }

// between is a random number from low to high, both included.
func (g *generator) between(low, high int) int { return low + g.r.IntN(high-low+1) }

func pick[T any](g *generator, list ...T) T { return list[g.r.IntN(len(list))] }

func maybe[T any](g *generator, p float64, v T) *T {
	if g.chance(p) {
		return &v
	}
	return nil
}

func (g *generator) uid() types.UID {
	g.uids++
	return types.UID(fmt.Sprintf("uid-%d", g.uids))
}

// node is the name of a node: most often one that exists.
func (g *generator) node() string {
	if g.chance(0.12) {
		return "gone"
	}
	return g.c.Nodes[g.r.IntN(len(g.c.Nodes))].Name
}

func (g *generator) nodes() {
	for i := range g.between(1, 4) {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i+1), UID: g.uid()}}
		if g.chance(0.85) {
			n.Annotations = map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": pick(g, "true", "true", "false", "")}
		}
		if g.chance(0.15) {
			metav1.SetMetaDataAnnotation(&n.ObjectMeta, "volumes.kubernetes.io/keep-terminated-pod-volumes", pick(g, "true", "true", "false"))
		}
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue})
		if g.chance(0.9) {
			g.ready(n)
		}
		if g.chance(0.05) {
			g.ready(n) // the API server accepts a second one
		}
		n.Spec.Unschedulable = g.chance(0.1)
		if g.chance(0.25) {
			g.taint(n, pick(g, corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady, corev1.TaintNodeUnschedulable), "")
		}
		if g.chance(0.2) {
			g.taint(n, corev1.TaintNodeOutOfService, pick(g, "", "nodeshutdown", "false"))
		}
		if g.chance(0.05) {
			n.DeletionTimestamp, n.Finalizers = &metav1.Time{Time: now}, []string{"x/y"}
		}
		g.c.Nodes = append(g.c.Nodes, n)
	}
}

func (g *generator) ready(n *corev1.Node) {
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady, Status: pick(g,
		corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionFalse,
		corev1.ConditionUnknown, corev1.ConditionUnknown, "")})
}

func (g *generator) taint(n *corev1.Node, key, value string) {
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Value: value,
		Effect: pick(g, corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule)})
}

// csiNodes marks the in-tree plugins that have moved to CSI on their nodes: in most cases all
// of them.
func (g *generator) csiNodes() {
	for _, n := range g.c.Nodes {
		if g.chance(0.1) {
			continue
		}
		csiNode := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
		if g.chance(0.9) {
			moved := slices.Clone(migratedPlugins)
			if g.chance(0.3) {
				g.r.Shuffle(len(moved), func(i, j int) { moved[i], moved[j] = moved[j], moved[i] })
				moved = moved[:g.between(0, len(moved))]
			}
			separator := ","
			if g.chance(0.05) {
				separator = ", " // the controller does not trim it
			}
			csiNode.Annotations = map[string]string{corev1.MigratedPluginsAnnotationKey: strings.Join(moved, separator)}
		}
		g.c.CSINodes = append(g.c.CSINodes, csiNode)
	}
	if g.chance(0.3) {
		g.c.CSINodes = append(g.c.CSINodes, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{
			Name: "gone", Annotations: map[string]string{corev1.MigratedPluginsAnnotationKey: strings.Join(migratedPlugins, ",")},
		}})
	}
}

var migratedPlugins = []string{
	"kubernetes.io/aws-ebs", "kubernetes.io/azure-disk", "kubernetes.io/azure-file", "kubernetes.io/cinder",
	"kubernetes.io/gce-pd", "kubernetes.io/portworx-volume", "kubernetes.io/vsphere-volume", "kubernetes.io/rbd",
}

// The CSI drivers of the pool; "absent" has no CSIDriver object.
var csiDrivers = []string{"absent.csi", "required.csi", "optional.csi", "unset.csi"}

func (g *generator) drivers() {
	add := func(name string, attachRequired *bool) {
		g.c.CSIDrivers = append(g.c.CSIDrivers, &storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{AttachRequired: attachRequired},
		})
	}
	yes, no := true, false
	add("required.csi", &yes)
	add("optional.csi", &no)
	add("unset.csi", nil)
	for _, migrated := range []string{
		"ebs.csi.aws.com", "pd.csi.storage.gke.io", "disk.csi.azure.com", "file.csi.azure.com", "cinder.csi.openstack.org",
		"csi.vsphere.vmware.com", "pxd.portworx.com",
	} {
		if g.chance(0.3) {
			add(migrated, pick(g, &yes, &no, nil))
		}
	}
}

func (g *generator) claims() {
	for _, pv := range g.c.Volumes {
		if !g.chance(0.9) {
			continue
		}
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: pick(g, "a", "a", "b"), Name: "claim-" + pv.Name, UID: g.uid()},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: pv.Name},
			Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		}
		pv.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
		pv.Status.Phase = corev1.VolumeBound
		if g.chance(0.1) { // nobody reads it
			pv.Status.Phase = pick(g, corev1.VolumeAvailable, corev1.VolumeReleased, corev1.VolumeFailed, corev1.VolumePending, "")
		}
		if g.chance(0.2) {
			pick(g,
				func() { claim.Status.Phase = pick(g, corev1.ClaimPending, corev1.ClaimLost, "") },
				func() { claim.Spec.VolumeName = "" },
				func() { claim.Spec.VolumeName = "missing" },
				func() { pv.Spec.ClaimRef = nil },
				func() { pv.Spec.ClaimRef.UID = "other" },
				func() { pv.Spec.ClaimRef.UID = "" },
				func() { claim.DeletionTimestamp, claim.Finalizers = &metav1.Time{Time: now}, []string{"x/y"} },
			)()
		}
		g.c.Claims = append(g.c.Claims, claim)
	}
}

// names are the unique names of the cluster's volumes, as far as the model
// knows them, for the node statuses to mention.
func (g *generator) names() []corev1.UniqueVolumeName {
	world := reconcile.NewWorld(g.c.Snapshot(Newest), g.c.Options())
	var names []corev1.UniqueVolumeName
	for _, pv := range g.c.Volumes {
		if name, err := world.VolumeName(pv); err == nil {
			names = append(names, name)
		}
	}
	for _, pod := range g.c.Pods {
		for i := range pod.Spec.Volumes {
			if name, _, err := world.PodVolume(pod, &pod.Spec.Volumes[i]); err == nil {
				names = append(names, name)
			}
		}
	}
	return names
}

// oddities are further entries of a node status: it may hold anything.
var oddities = []corev1.UniqueVolumeName{
	"", "garbage", "two/parts", "kubernetes.io/csi/", "kubernetes.io/csi/no-separator", "kubernetes.io/csi/absent.csi^gone",
	"kubernetes.io/csi/optional.csi^gone", "kubernetes.io/csi/absent.csi^a^b", "kubernetes.io/fc/[x]:0", "kubernetes.io/aws-ebs/vol-1",
	"kubernetes.io/aws-ebs/aws://us-east-1a/vol-1", "kubernetes.io/gce-pd/pd1", "kubernetes.io/azure-disk/" + azureDiskURI + "1",
	"kubernetes.io/vsphere-volume/[ds] d.vmdk", "kubernetes.io/rbd/pool:image", "kubernetes.io/cinder/cinder-1", "kubernetes.io/portworx-volume/px-1",
	"kubernetes.io/nfs/uid-pv", "acme/disk/gone", "acme/disk/a^b", "acme/share/gone", "acme/unknown/gone", "plain/gone", "kubernetes.io/csi", "//", "/",
}

func (g *generator) statuses() {
	names := g.names()
	some := func() corev1.UniqueVolumeName {
		if len(names) == 0 || g.chance(0.15) {
			return pick(g, oddities...)
		}
		if g.chance(0.3) {
			return names[0] // the favourite's volume: see claimName
		}
		return pick(g, names...)
	}
	most := pick(g, 0, 2, 4, 4)
	for _, n := range g.c.Nodes {
		for range g.between(0, most) {
			v := corev1.AttachedVolume{Name: some(), DevicePath: pick(g, "", "", "", "/dev/xvdb", "/dev/xvdc")}
			n.Status.VolumesAttached = append(n.Status.VolumesAttached, v)
			if g.chance(0.4) {
				n.Status.VolumesInUse = append(n.Status.VolumesInUse, v.Name)
			}
		}
		if g.chance(0.05) && len(n.Status.VolumesAttached) > 0 {
			again := n.Status.VolumesAttached[0]
			again.DevicePath = pick(g, again.DevicePath, "/dev/xvdd")
			n.Status.VolumesAttached = append(n.Status.VolumesAttached, again)
		}
		for range g.between(0, 1) {
			n.Status.VolumesInUse = append(n.Status.VolumesInUse, some())
		}
	}
	for _, n := range g.c.Nodes {
		if len(n.Status.VolumesAttached) == 0 && g.chance(0.15) {
			n.Status.VolumesAttached = []corev1.AttachedVolume{{DevicePath: "/dev/xvde"}} // only a nameless entry
		}
	}
}

// rivals makes two nodes compete for a volume that can be attached, which random names bring
// about too seldom.
func (g *generator) rivals() {
	world := reconcile.NewWorld(g.c.Snapshot(Newest), g.c.Options())
	for _, claim := range g.c.Claims {
		pv := g.c.volume(claim.Spec.VolumeName)
		if pv == nil || pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != claim.UID || claim.Status.Phase != corev1.ClaimBound {
			continue
		}
		if name, err := world.VolumeName(pv); err == nil && len(g.c.Nodes) > 1 {
			g.quarrel(name, pv, claim)
			return
		}
	}
}

func (g *generator) quarrel(name corev1.UniqueVolumeName, pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) {
	order := g.r.Perm(len(g.c.Nodes))
	holder, other := g.c.Nodes[order[0]], g.c.Nodes[order[1]]
	metav1.SetMetaDataAnnotation(&other.ObjectMeta, "volumes.kubernetes.io/controller-managed-attach-detach", "true")
	switch {
	case g.chance(0.4): // it wants the volume as well
		g.rival("holder", holder, claim, corev1.PodRunning)
	case g.chance(0.5): // it had the volume
		g.rival("holder", holder, claim, pick(g, corev1.PodSucceeded, corev1.PodRunning))
		fallthrough
	default:
		holder.Status.VolumesAttached = append(holder.Status.VolumesAttached, corev1.AttachedVolume{Name: name})
		if g.chance(0.5) {
			holder.Status.VolumesInUse = append(holder.Status.VolumesInUse, name)
		}
	}
	if g.chance(0.5) {
		claim = g.twin(pv, claim)
	}
	g.rival("rival", other, claim, corev1.PodRunning)
}

func (g *generator) rival(name string, node *corev1.Node, claim *corev1.PersistentVolumeClaim, phase corev1.PodPhase) {
	g.c.Pods = append(g.c.Pods, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: name, UID: g.uid()},
		Spec: corev1.PodSpec{NodeName: node.Name, Volumes: []corev1.Volume{{Name: "v1", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}}}},
		Status: corev1.PodStatus{Phase: phase},
	})
}

// twin is another PV for the same device, with its claim. Most often one of the two is for
// many nodes and the other for one.
func (g *generator) twin(of *corev1.PersistentVolume, claimed *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	pv, claim := of.DeepCopy(), claimed.DeepCopy()
	pv.Name, pv.UID, pv.Spec.AccessModes = "twin", g.uid(), g.accessModes()
	if g.chance(0.7) {
		pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		if (&reconcile.VolumeSpec{PV: of}).MultiAttach() {
			pv.Spec.AccessModes[0] = corev1.ReadWriteOnce
		}
	}
	claim.Name, claim.UID, claim.Spec.VolumeName = "claim-twin", g.uid(), pv.Name
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	g.c.Volumes, g.c.Claims = append(g.c.Volumes, pv), append(g.c.Claims, claim)
	return claim
}

func (g *generator) attachments() {
	world := reconcile.NewWorld(g.c.Snapshot(Newest), g.c.Options())
	for i := range g.between(0, 6) {
		name := fmt.Sprintf("by-hand-%d", i)
		va := &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       storagev1.VolumeAttachmentSpec{NodeName: g.node(), Attacher: pick(g, csiDrivers...)},
			Status:     storagev1.VolumeAttachmentStatus{Attached: g.chance(0.7)},
		}
		switch {
		case g.chance(0.05):
			va.Spec.Source.InlineVolumeSpec = &corev1.PersistentVolumeSpec{}
		case g.chance(0.05) || len(g.c.Volumes) == 0:
			missing := "missing"
			va.Spec.Source.PersistentVolumeName = &missing
		default:
			pv := pick(g, g.c.Volumes...)
			va.Spec.Source.PersistentVolumeName = &pv.Name
			unique, err := world.VolumeName(pv)
			if driver, handle, ok := reconcile.ParseCSI(unique); err == nil && ok && g.chance(0.8) {
				node := types.NodeName(va.Spec.NodeName)
				if g.chance(0.08) {
					node = types.NodeName(g.node()) // another's name
				}
				va.Name, va.Spec.Attacher = reconcile.VolumeAttachmentName(handle, driver, node), driver
			}
		}
		if g.chance(0.1) {
			va.Spec.Attacher = "foreign.csi"
		}
		if g.chance(0.15) {
			va.DeletionTimestamp, va.Finalizers = &metav1.Time{Time: now}, []string{"external-attacher/x"}
			va.Status.DetachError = &storagev1.VolumeError{Message: "busy"}
		}
		if g.chance(0.1) {
			va.Status.AttachError = &storagev1.VolumeError{Message: "quota"}
		}
		if !g.c.hasAttachment(va.Name) {
			g.c.VolumeAttachments = append(g.c.VolumeAttachments, va)
		}
	}
}

func (c *Cluster) hasAttachment(name string) bool {
	return slices.ContainsFunc(c.VolumeAttachments, func(va *storagev1.VolumeAttachment) bool { return va.Name == name })
}
