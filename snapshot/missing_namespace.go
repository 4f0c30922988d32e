package snapshot

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
)

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

// noPodsOf returns the gaps that something of another namespace suggests, which has or had pods.
func (o *Objects) noPodsOf(namespace, what string) []Gap {
	why := fmt.Sprintf("%s of namespace %s, of which no pod is there", what, plain(namespace))
	pods := notAll(Pods, namespacesOf(o.Pods), why)
	pods.Detail += " (if it has none: --whole " + string(Pods) + ")"
	return withoutMany([]Gap{pods, notAll(Events, namespacesOf(o.Events), why)})
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

// holderLives is how long ago a process that lives has renewed its lease at most: leases of controllers
// last 15 seconds by default, and the lists of one input are read one after the other.
const holderLives = 2 * time.Minute

// holderElsewhere returns a namespace that is not among those read, and the process that renews a lease
// in it, which by its name is a pod of this cluster. HOST_UUID is the identity of controllers that may run
// outside the cluster, and so may all controllers where kube-controller-manager runs as the pod of a
// Deployment.
func (c *collector) holderElsewhere(read sets.Set[string], now time.Time) (namespace, what string) {
	if len(read) == 0 {
		return "", ""
	}
	for _, lease := range c.objects.Leases {
		holder, renewed := ptr.Deref(lease.Spec.HolderIdentity, ""), lease.Spec.RenewTime
		if host, _, isHost := strings.Cut(holder, "_"); isHost && lease.Name == controllerManager && DeploymentByName(host) != "" && !c.hasPodOfName(host) {
			return "", ""
		}
		if what == "" && !read.Has(lease.Namespace) && lease.Namespace != corev1.NamespaceNodeLease && !strings.Contains(holder, "_") &&
			renewed != nil && now.Sub(renewed.Time) <= holderLives && c.lacksHolder(lease.Name, holder) {
			namespace, what = lease.Namespace, plain(holder)+" renews a lease"
		}
	}
	return namespace, what
}

// ofStatefulSet matches the name of a StatefulSet's pod.
var ofStatefulSet = regexp.MustCompile(`-[0-9]+$`)

// lacksHolder reports whether the lease's holder is a pod that was not read: it has the name of a
// Deployment's pod or, if it is a CSI sidecar, that of a StatefulSet's pod or of a node.
func (c *collector) lacksHolder(lease, holder string) bool {
	sidecar, isSidecar := strings.CutPrefix(lease, "external-")
	sidecar, _, _ = strings.Cut(sidecar, "-")
	for _, node := range c.objects.Nodes {
		if isSidecar && slices.Contains(HolderNames(node), holder) {
			return !slices.ContainsFunc(c.objects.Pods, func(pod *corev1.Pod) bool {
				return pod.Spec.HostNetwork && pod.Spec.NodeName == node.Name && slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return IsSidecar(c, "csi-"+sidecar) })
			})
		}
	}
	return (DeploymentByName(holder) != "" || isSidecar && ofStatefulSet.MatchString(holder)) && !c.hasPodOfName(holder)
}

// hasPodOfName reports whether a pod was read that may hold a lease as holder: some processes write more
// behind the name of their pod.
func (c *collector) hasPodOfName(holder string) bool {
	for pod := range c.all(Pods) {
		if holder == pod.name || strings.HasPrefix(holder, pod.name+"-") {
			return true
		}
	}
	return false
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
		case csi != nil && inUse.Has(uniqueName(csi.Driver, csi.VolumeHandle)):
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
	if pod, _ := o.claimNamed(read); pod != nil {
		return pod.Namespace, "a pod names a claim"
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
