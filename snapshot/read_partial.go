package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// partial returns the gaps that the objects themselves show, for a file that does not say which
// lists are complete. For example, "kubectl get" without -A leaves a file that lacks other
// namespaces.
func (o *Objects) partial(each byNamespace, now time.Time) []Gap {
	gaps := o.unbound()
	for _, g := range o.hinted(each, now) {
		if !slices.ContainsFunc(gaps, func(proven Gap) bool { return proven.Kind == g.Kind }) {
			gaps = append(gaps, g)
		}
	}
	return gaps
}

// unbound returns the gaps that bound volumes prove: a volume is Bound to a claim in a namespace of
// which the file has no claim.
func (o *Objects) unbound() []Gap {
	claims, pods, missing := namespacesOf(o.Claims), namespacesOf(o.Pods), sets.New[string]()
	for _, pv := range o.Volumes {
		if ref := pv.Spec.ClaimRef; ref != nil && pv.Status.Phase == corev1.VolumeBound && !claims.Has(ref.Namespace) {
			missing.Insert(ref.Namespace)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	why := fmt.Sprintf("a volume is Bound to a claim of namespace %s, of which no claim is there", plain(sets.List(missing)[0]))
	gaps := []Gap{notAll(Claims, claims, why)}
	if !pods.HasAny(missing.UnsortedList()...) {
		gaps = append(gaps, notAll(Pods, pods, why), notAll(Events, namespacesOf(o.Events), why))
	}
	return withoutMany(gaps)
}

// hinted returns the gaps that other objects suggest, for example if all pods are of one namespace
// and an object names a pod of another. The hint may be out of date, because a deleted pod leaves
// its events. So the user may declare the list complete nevertheless.
func (o *Objects) hinted(each byNamespace, now time.Time) []Gap {
	var gaps []Gap
	pods, claims := namespacesOf(o.Pods), namespacesOf(o.Claims)
	if namespace, what := o.podElsewhere(pods, each.lists(Pods)); what != "" {
		gaps = o.noPodsOf(namespace, what)
	}
	if namespace, what := o.claimElsewhere(claims, each.lists(Claims)); len(claims) > 0 && what != "" {
		gaps = append(gaps, notAll(Claims, claims, fmt.Sprintf("%s of namespace %s, of which no claim is there", what, plain(namespace))))
	}
	if why := cmp.Or(suffixed(cmp.Or(o.ofOneNode(), o.onlyRunning(now)), ": was --field-selector given?"), suffixed(cmp.Or(o.usedWithoutPods(), o.nodeWithoutPods()), ": was -l or --field-selector given?")); why != "" && !slices.ContainsFunc(gaps, func(g Gap) bool { return g.Kind == Pods }) {
		gaps = append(gaps, Gap{Kind: Pods, Reason: ReasonNotInFile, Detail: why})
	}
	if why := o.nodeElsewhere(); why != "" {
		gaps = append(gaps, Gap{Kind: Nodes, Reason: ReasonNotInFile, Detail: why + ": was -l given?"})
	}
	if why := o.csiNodeElsewhere(); why != "" {
		gaps = append(gaps, Gap{Kind: CSINodes, Reason: ReasonNotInFile, Detail: why + ": was a name or -l given?"})
	}
	if why := o.against(Claims, len(o.Claims)); why != "" && len(claims) > 0 && !slices.ContainsFunc(gaps, func(g Gap) bool { return g.Kind == Claims }) {
		gaps = append(gaps, Gap{Kind: Claims, Reason: ReasonNotInFile, Detail: why + ": was a name or -l given?"})
	}
	if why := o.volumeElsewhere(); why != "" {
		gaps = append(gaps, Gap{Kind: Volumes, Reason: ReasonNotInFile, Detail: why + ": was a name or -l given?"})
	}
	return withoutMany(gaps)
}

// suffixed returns the reason with the question what may have led to it; "" if there is no reason.
func suffixed(why, question string) string {
	if why == "" {
		return ""
	}
	return why + question
}

// noPodsOf returns the gaps that something of another namespace suggests, which has or had pods.
func (o *Objects) noPodsOf(namespace, what string) []Gap {
	why := fmt.Sprintf("%s of namespace %s, of which no pod is there", what, plain(namespace))
	return withoutMany([]Gap{notAll(Pods, namespacesOf(o.Pods), why), notAll(Events, namespacesOf(o.Events), why)})
}

// ofOneNode returns a reason if all pods are of one node while another node has volumes in use.
// Nearly every node has pods, at least those of DaemonSets.
func (o *Objects) ofOneNode() string {
	on := sets.New[string]()
	for _, pod := range o.Pods {
		on.Insert(pod.Spec.NodeName)
	}
	if on.Delete(""); len(on) != 1 {
		return ""
	}
	for _, node := range o.Nodes {
		if len(node.Status.VolumesInUse) > 0 && !on.Has(node.Name) {
			return fmt.Sprintf("all pods are of node %s, and node %s has volumes in its volumesInUse", plain(sets.List(on)[0]), plain(node.Name))
		}
	}
	return ""
}

// usedWithoutPods returns a reason if two nodes each have a volume in use whose claim no pod names. A
// kubelet that is Ready and has the volume's driver unmounts it once its pod is gone: one may fail, and hardly two at once.
func (o *Objects) usedWithoutPods() string {
	if len(o.Pods) == 0 {
		return ""
	}
	named := sets.New[string]()
	for _, pod := range o.Pods {
		for _, v := range pod.Spec.Volumes {
			switch {
			case v.PersistentVolumeClaim != nil:
				named.Insert(pod.Namespace + "/" + v.PersistentVolumeClaim.ClaimName)
			case v.Ephemeral != nil:
				named.Insert(pod.Namespace + "/" + pod.Name + "-" + v.Name)
			}
		}
	}
	unnamed := map[string]string{} // the claims that no pod names, by the unique names of their volumes
	for _, pv := range o.Volumes {
		if ref, csi := pv.Spec.ClaimRef, pv.Spec.CSI; ref != nil && csi != nil && pv.Status.Phase == corev1.VolumeBound && !named.Has(ref.Namespace+"/"+ref.Name) {
			unnamed["kubernetes.io/csi/"+csi.Driver+"^"+csi.VolumeHandle] = ref.Namespace + "/" + ref.Name
		}
	}
	first := ""
	for _, node := range o.Nodes {
		i := slices.IndexFunc(node.Status.VolumesInUse, func(v corev1.UniqueVolumeName) bool {
			return unnamed[string(v)] != "" && o.hasDriver(node.Name, string(v))
		})
		if i < 0 || !ready(node) {
			continue
		}
		uses := fmt.Sprintf("node %s has in its volumesInUse that of claim %s", plain(node.Name), plain(unnamed[string(node.Status.VolumesInUse[i])]))
		if first != "" {
			return first + ", and " + uses + ", and no pod names these claims"
		}
		first = uses
	}
	return ""
}

// hasDriver reports whether the node's kubelet has the driver of the volume with the unique name.
func (o *Objects) hasDriver(node, volume string) bool {
	driver, _, _ := strings.Cut(strings.TrimPrefix(volume, "kubernetes.io/csi/"), "^")
	return slices.ContainsFunc(o.CSINodes, func(n *storagev1.CSINode) bool {
		return n.Name == node && slices.ContainsFunc(n.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == driver })
	})
}

// nodeWithoutPods returns a reason if a Ready node has a volume in use and no pod at all, not even that
// of a DaemonSet, while each of several other Ready nodes has one.
func (o *Objects) nodeWithoutPods() string {
	on := map[string]bool{}
	for _, pod := range o.Pods {
		on[pod.Spec.NodeName] = true
	}
	without, others := "", 0
	for _, node := range o.Nodes {
		switch {
		case !ready(node):
		case on[node.Name]:
			others++
		case without == "" && len(node.Status.VolumesInUse) > 0 && o.hasDriver(node.Name, string(node.Status.VolumesInUse[0])):
			without = plain(node.Name)
		default:
			return ""
		}
	}
	if without == "" || others < 2 {
		return ""
	}
	return fmt.Sprintf("node %s is Ready and has volumes in its volumesInUse, and no pod of it is there, not even that of a DaemonSet", without)
}

// waitTold is how old the last event of a pod that waits is at most, as long as the pod is there: a
// kubelet that cannot mount a volume repeats it within 2m2s, and the scheduler looks at a pod again
// after 5 minutes at the latest.
const waitTold = 6 * time.Minute

// onlyRunning returns a reason if all pods run, and one is not there: of a Deployment that has more,
// or one of which an event told a moment ago that it waited. It may have been deleted since; more
// often somebody asked only for the pods that run.
func (o *Objects) onlyRunning(now time.Time) string {
	if len(o.Pods) == 0 || slices.ContainsFunc(o.Pods, func(pod *corev1.Pod) bool { return pod.Status.Phase != corev1.PodRunning }) {
		return ""
	}
	there, of := sets.New[string](), map[string]int32{}
	for _, pod := range o.Pods {
		there.Insert(pod.Namespace + "/" + pod.Name)
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && owner.Kind == "ReplicaSet" {
			if end := strings.LastIndex(owner.Name, "-"); end > 0 { // the Deployment's name, and the hash of its template
				of[pod.Namespace+"/"+owner.Name[:end]]++
			}
		}
	}
	for _, d := range o.Deployments {
		if name := d.Namespace + "/" + d.Name; d.Status.Replicas > of[name] {
			return fmt.Sprintf("all pods run, and deployment %s has %d, of which %d are there", plain(name), d.Status.Replicas, of[name])
		}
	}
	for _, e := range o.Events {
		name := e.InvolvedObject.Namespace + "/" + e.InvolvedObject.Name
		if e.InvolvedObject.Kind == "Pod" && slices.Contains([]string{"FailedMount", "FailedMapVolume", "FailedAttachVolume", "FailedScheduling"}, e.Reason) &&
			!there.Has(name) && now.Sub(EventTime(e).Time) < waitTold {
			return fmt.Sprintf("all pods run, and an event (%s) is about pod %s, which is not there", plain(e.Reason), plain(name))
		}
	}
	return ""
}

// EventTime is when the event was last seen.
func EventTime(e *corev1.Event) metav1.Time {
	switch {
	case e.Series != nil && !e.Series.LastObservedTime.IsZero():
		return metav1.NewTime(e.Series.LastObservedTime.Time)
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp
	case !e.EventTime.IsZero():
		return metav1.NewTime(e.EventTime.Time)
	default:
		return e.CreationTimestamp
	}
}

// nodeElsewhere returns a reason if a node is missing while its CSINode is present. When a Node is
// deleted, its CSINode is removed within seconds and its pods within minutes.
func (o *Objects) nodeElsewhere() string {
	nodes, csi := sets.New[string](), sets.New[string]()
	for _, node := range o.Nodes {
		nodes.Insert(node.Name)
	}
	for _, n := range o.CSINodes {
		csi.Insert(n.Name)
	}
	for _, pod := range o.Pods {
		if name := pod.Spec.NodeName; len(nodes) > 0 && csi.Has(name) && !nodes.Has(name) && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			return fmt.Sprintf("pod %s of namespace %s runs on node %s, which is not there, though its CSINode is", plain(pod.Name), plain(pod.Namespace), plain(name))
		}
	}
	for _, n := range o.CSINodes {
		if len(nodes) > 0 && !nodes.Has(n.Name) {
			return fmt.Sprintf("node %s is not there, though its CSINode is", plain(n.Name))
		}
	}
	return ""
}

// csiNodeElsewhere returns a reason if several Ready nodes have no CSINode. A kubelet creates its
// CSINode when it starts; a single node may have lost it.
func (o *Objects) csiNodeElsewhere() string {
	csi, without := sets.New[string](), []string{}
	for _, n := range o.CSINodes {
		csi.Insert(n.Name)
	}
	for _, node := range o.Nodes {
		if ready(node) && !csi.Has(node.Name) {
			without = append(without, plain(node.Name))
		}
	}
	if len(without) < 2 {
		return ""
	}
	return fmt.Sprintf("nodes %s and %s are Ready and have no CSINode", without[0], without[1])
}

// volumeElsewhere returns a reason if a claim is Bound to a volume that is missing beside others. If
// the volume really were gone, the claim would be Lost.
func (o *Objects) volumeElsewhere() string {
	volumes, attached := sets.New[string](), o.attachedVolumes()
	for _, pv := range o.Volumes {
		volumes.Insert(pv.Name)
	}
	for _, claim := range o.Claims {
		if name := claim.Spec.VolumeName; claim.Status.Phase == corev1.ClaimBound && len(volumes) > 0 && !volumes.Has(name) {
			is := ""
			if attached.Has(name) {
				is = "attached and "
			}
			return fmt.Sprintf("claim %s of namespace %s is Bound to volume %s, which is %snot there", plain(claim.Name), plain(claim.Namespace), plain(name), is)
		}
	}
	return ""
}

// attachedVolumes returns the names of the volumes that are attached to a node.
func (o *Objects) attachedVolumes() sets.Set[string] {
	attached := sets.New[string]()
	for _, va := range o.VolumeAttachments {
		if name := va.Spec.Source.PersistentVolumeName; name != nil && va.Status.Attached {
			attached.Insert(*name)
		}
	}
	return attached
}

// podElsewhere returns a namespace that is not among those read, and the object that names a pod in
// it; "" if there is none. If one list has pods of several namespaces, a volume may be in use without
// its pod because of a failure, and an event may have outlived its pod, so both are needed. lists is
// the number of lists if each has pods of one namespace.
func (o *Objects) podElsewhere(read sets.Set[string], lists int) (namespace, what string) {
	for _, claim := range o.Claims {
		for _, owner := range claim.OwnerReferences {
			if owner.Kind == "Pod" && claim.DeletionTimestamp == nil && len(read) > 0 && !read.Has(claim.Namespace) {
				return claim.Namespace, "a pod owns a claim"
			}
		}
	}
	for _, d := range o.Deployments {
		if d.Status.ReadyReplicas > 0 && len(read) > 0 && !read.Has(d.Namespace) {
			return d.Namespace, "a deployment has ready pods"
		}
	}
	if len(read) == 0 {
		return "", ""
	}
	few := len(read) == 1 || lists >= 2
	if namespace, what := o.volumeOfElsewhere(func(namespace string) bool {
		return !read.Has(namespace) && (few || o.hasEvents("Pod", namespace))
	}); what != "" {
		return namespace, what
	}
	if !few {
		return "", ""
	}
	if lists >= 2 {
		for _, claim := range o.Claims {
			if !read.Has(claim.Namespace) {
				return claim.Namespace, "there is a claim"
			}
		}
	}
	return o.eventElsewhere("Pod", read)
}

// volumeOfElsewhere returns the first of the namespaces that has a volume on a node, and what shows it.
func (o *Objects) volumeOfElsewhere(is func(namespace string) bool) (namespace, what string) {
	inUse, attached, asked := sets.New[string](), o.attachedVolumes(), map[string]bool{}
	for _, node := range o.Nodes {
		for _, v := range node.Status.VolumesInUse {
			inUse.Insert(string(v))
		}
	}
	for _, pv := range o.Volumes {
		ref, csi := pv.Spec.ClaimRef, pv.Spec.CSI
		if ref == nil || pv.Status.Phase != corev1.VolumeBound {
			continue
		}
		what := ""
		switch {
		case csi != nil && inUse.Has("kubernetes.io/csi/"+csi.Driver+"^"+csi.VolumeHandle):
			what = "a node has in its volumesInUse a volume"
		case attached.Has(pv.Name):
			what = "a VolumeAttachment is of a volume"
		default:
			continue
		}
		if _, known := asked[ref.Namespace]; !known {
			asked[ref.Namespace] = is(ref.Namespace)
		}
		if asked[ref.Namespace] {
			return ref.Namespace, what
		}
	}
	return "", ""
}

// claimElsewhere returns the same for a claim.
func (o *Objects) claimElsewhere(read sets.Set[string], lists int) (namespace, what string) {
	for _, pod := range o.Pods {
		for _, v := range pod.Spec.Volumes {
			if v.PersistentVolumeClaim != nil && pod.Status.Phase == corev1.PodRunning && !read.Has(pod.Namespace) {
				return pod.Namespace, "a pod runs with a claim"
			}
		}
	}
	if len(read) != 1 && lists < 2 {
		return "", ""
	}
	return o.eventElsewhere("PersistentVolumeClaim", read)
}

func (o *Objects) eventElsewhere(kind string, read sets.Set[string]) (namespace, what string) {
	for _, e := range o.Events {
		if of := e.InvolvedObject; of.Kind == kind && of.Namespace != "" && !read.Has(of.Namespace) {
			return of.Namespace, "there are events"
		}
	}
	return "", ""
}

func (o *Objects) hasEvents(kind, namespace string) bool {
	return slices.ContainsFunc(o.Events, func(e *corev1.Event) bool {
		return e.InvolvedObject.Kind == kind && e.InvolvedObject.Namespace == namespace
	})
}

const wasAllGiven = ": was -A given?"

// notAll returns the gap of a kind that was read in some namespaces only.
func notAll(kind Kind, read sets.Set[string], why string) Gap {
	g := Gap{Kind: kind, Reason: ReasonNotInFile, Detail: why}
	if resourceOf(kind).Namespaced {
		g.Detail += wasAllGiven
	}
	g.Namespace = ofNamespaces(read.UnsortedList())
	return g
}

// withoutMany removes the gap of events unless they are of one namespace: others may have none left.
func withoutMany(gaps []Gap) []Gap {
	return slices.DeleteFunc(gaps, func(g Gap) bool { return g.Kind == Events && len(g.Namespaces()) != 1 })
}

func namespacesOf[T interface{ GetNamespace() string }](list []T) sets.Set[string] {
	names := sets.New[string]()
	for _, object := range list {
		names.Insert(object.GetNamespace())
	}
	return names
}
