package snapshot

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An API server shows every node, pod, claim, volume and VolumeAttachment with a status, and every
// object with a UID and the time of its creation. In an input in which anything has a UID, an object
// without them is not what an API server showed: something such as kubectl neat has taken them away,
// or somebody has written the object by hand. Nothing is known of its state, so it is not used, and
// its kind is a gap. An event is used as it is: it has times of its own. An input in which nothing has
// a UID may be a small example that is written by hand throughout.

// fewAltered is the number of objects from which the lack of any status is no example.
const fewAltered = 3

// altered are the objects that lack what an API server always shows.
type altered struct {
	// of are the objects that lack it until all is read, and then those that were dropped.
	of map[Kind][]identity
	// served reports whether an object has a UID; all counts those that have to have a status, by kind.
	served bool
	all    map[Kind]int
}

// note notes whether the object is as an API server shows it.
func (a *altered) note(key identity, raw []byte, object apiObject) {
	a.served = a.served || object.GetUID() != ""
	lacks := object.GetUID() == "" && object.GetCreationTimestamp().Time.IsZero()
	switch o := object.(type) {
	case *corev1.Pod, *corev1.PersistentVolumeClaim, *corev1.PersistentVolume, *corev1.Node, *storagev1.VolumeAttachment:
		a.all[key.kind]++
		lacks = !hasStatus(raw, object)
	case *storagev1.CSINode, *storagev1.CSIDriver:
		lacks = lacks || fieldOf(raw, "spec") == nil // of a file that was cut off
	case *coordinationv1.Lease:
		lacks = lacks || fieldOf(raw, "spec") == nil || o.Spec.RenewTime == nil && (o.Spec.AcquireTime != nil || o.Spec.HolderIdentity != nil) // who holds a lease renews it
	case *storagev1.StorageClass:
		lacks = lacks || o.UID != "" && (o.ReclaimPolicy == nil || o.VolumeBindingMode == nil)
	case *corev1.Event:
		lacks = false // what it says stands in fields of its own
	}
	if lacks {
		a.add(key)
	}
}

func (a *altered) add(key identity) {
	a.of[key.kind] = append(a.of[key.kind], key)
}

// forget takes back the note of an object.
func (a *altered) forget(key identity) {
	a.of[key.kind] = slices.DeleteFunc(a.of[key.kind], func(k identity) bool { return k == key })
	if a.all[key.kind] > 0 {
		a.all[key.kind]--
	}
}

// merge adds the objects of a kind that another collector has noted.
func (a *altered) merge(kind Kind, o *altered) {
	a.of[kind] = append(a.of[kind], o.of[kind]...)
	a.all[kind] += o.all[kind]
	a.served = a.served || o.served
}

// gap returns the gap of a kind that has lost objects here; nil if it has not.
func (a *altered) gap(kind Kind) *Gap {
	var names []string
	for _, key := range a.of[kind] {
		names = append(names, key.String())
	}
	if len(names) == 0 {
		return nil
	}
	object, have := string(kind), "have"
	if len(names) == 1 {
		object, have = strings.ToLower(resourceOf(kind).Object), "has"
	}
	why := "no status or no uid, which an API server always shows: was it taken away (kubectl neat?), or written by hand?"
	if kind == Volumes {
		why = strings.Replace(why, " or no uid", ", no uid or no uid of its claim", 1)
	}
	if kind == Leases || kind == StorageClasses {
		why = "no uid, or ends before its last field: was it cut off, or written by hand?"
	}
	return &Gap{Kind: kind, Reason: ReasonUndecodable, Detail: fmt.Sprintf("%s %s %s %s", object, some(names), have, why)}
}

// dropAltered drops the objects that are not as an API server shows them, unless a header says what
// the objects are.
func (c *collector) dropAltered() {
	if c.header != nil {
		clear(c.altered.of)
		return
	}
	c.withoutReplacedUIDs()
	before, lacking, all := c.altered.of, 0, 0
	for kind, n := range c.altered.all {
		lacking, all = lacking+len(before[kind]), all+n
	}
	if !c.altered.served && (lacking < fewAltered || lacking < all) {
		before = nil
	}
	c.altered.of = map[Kind][]identity{}
	named, unclaimed, manifests := c.objects.namedByUID(), c.objects.withoutClaimUID(c.altered.served), []string(nil)
	for _, r := range resources {
		without := map[identity]bool{}
		for _, key := range before[r.Kind] {
			without[key] = true
			if c.isManifest(key) {
				manifests = append(manifests, key.String())
			} else {
				c.altered.add(key)
			}
		}
		r.drop(&c.objects, func(object apiObject) bool {
			key := identity{r.Kind, object.GetNamespace(), object.GetName()}
			if !without[key] && (named[key] && object.GetUID() == "" || unclaimed[key]) {
				without[key] = true
				c.altered.add(key)
			}
			return without[key]
		})
		if r.Kind == Pods && len(without) > 0 {
			c.left.drop(func(pod identity) bool { return without[pod] })
		}
	}
	if len(manifests) > 0 {
		c.notes = append(c.notes, Warning("passed over "+count(len(manifests), "manifest")+", which say nothing of the cluster: "+some(manifests)))
	}
}

// withoutReplacedUIDs takes away the UIDs that two objects share: somebody has put one text in place of all.
func (c *collector) withoutReplacedUIDs() {
	replaced, before := map[types.UID]bool{}, types.UID("")
	for _, r := range resources {
		for object := range r.all(&c.objects) {
			if uid := object.GetUID(); uid != "" && uid == before {
				replaced[uid] = true
			}
			before = object.GetUID()
		}
	}
	if len(replaced) == 0 {
		return
	}
	take := func(uid *types.UID) {
		if replaced[*uid] {
			*uid = ""
		}
	}
	for _, r := range resources {
		for object := range r.all(&c.objects) {
			if replaced[object.GetUID()] {
				object.SetUID("")
			}
			owners := slices.Clone(object.GetOwnerReferences())
			for i := range owners {
				take(&owners[i].UID)
			}
			object.SetOwnerReferences(owners)
			switch o := object.(type) {
			case *corev1.PersistentVolume:
				if o.Spec.ClaimRef != nil {
					take(&o.Spec.ClaimRef.UID)
				}
			case *corev1.Event:
				take(&o.InvolvedObject.UID)
			}
		}
	}
	c.notes = append(c.notes, "several objects have one uid, which was put in place of their own: they are told apart by their names")
}

// isManifest reports whether the object stands alone in a file of a folder, with nothing that an API
// server writes, while a list of its kind is there: it is what somebody wants to apply.
func (c *collector) isManifest(key identity) bool {
	of, ok := c.seen.states[key.mark()]
	return ok && c.oneOfMany && of.manifest && of.first == 0 && len(c.listings[key.kind]) > 0
}

// namedByUID returns the objects that others name by their UID.
func (o *Objects) namedByUID() map[identity]bool {
	named := map[identity]bool{}
	name := func(kind Kind, namespace, name string, uid types.UID) {
		if uid != "" {
			named[identity{kind, namespace, name}] = true
		}
	}
	for _, pv := range o.Volumes {
		if ref := pv.Spec.ClaimRef; ref != nil {
			name(Claims, ref.Namespace, ref.Name, ref.UID)
		}
	}
	for _, claim := range o.Claims {
		for _, owner := range claim.OwnerReferences {
			if owner.Kind == "Pod" {
				name(Pods, claim.Namespace, owner.Name, owner.UID)
			}
		}
	}
	for _, n := range o.CSINodes {
		for _, owner := range n.OwnerReferences {
			name(Nodes, "", owner.Name, owner.UID)
		}
	}
	for _, pod := range o.Pods {
		for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			said := ""
			if c.State.Waiting != nil {
				said = c.State.Waiting.Message
			}
			if c.LastTerminationState.Terminated != nil {
				said += c.LastTerminationState.Terminated.Message
			}
			if strings.Contains(strings.ReplaceAll(said, `\`, "/"), "/pods/") { // the kubelet's directory of a pod, named by its UID
				named[identity{Pods, pod.Namespace, pod.Name}] = true
			}
		}
	}
	for _, e := range o.Events {
		switch of := e.InvolvedObject; of.Kind {
		case "Pod":
			name(Pods, of.Namespace, of.Name, of.UID)
		case "PersistentVolumeClaim":
			name(Claims, of.Namespace, of.Name, of.UID)
		}
	}
	return named
}

// withoutClaimUID returns the volumes that have lost their claimRef, or the UID of the claim in it. The binder
// writes both before a volume is Bound; one that an admin reserves for a claim by its name alone is Available.
// served reports whether any object has a UID.
func (o *Objects) withoutClaimUID(served bool) map[identity]bool {
	without, bound := map[identity]bool{}, map[string]*corev1.ObjectReference{}
	for _, pv := range o.Volumes {
		switch ref := pv.Spec.ClaimRef; {
		case ref == nil && served && (pv.Status.Phase == corev1.VolumeBound || pv.Status.Phase == corev1.VolumeReleased):
			without[identity{kind: Volumes, name: pv.Name}] = true
		case ref == nil || ref.UID != "":
		case pv.Status.Phase == corev1.VolumeBound:
			bound[pv.Name] = ref
		case pv.Status.Phase == corev1.VolumeReleased && served:
			without[identity{kind: Volumes, name: pv.Name}] = true
		}
	}
	for _, claim := range o.Claims {
		ref := bound[claim.Spec.VolumeName]
		if ref != nil && claim.UID != "" && claim.Status.Phase == corev1.ClaimBound && ref.Name == claim.Name && ref.Namespace == claim.Namespace {
			without[identity{kind: Volumes, name: claim.Spec.VolumeName}] = true
		}
	}
	return without
}

// hasStatus reports whether the object has what an API server always shows in the status of its
// kind, if that always has one. raw is its text: an empty status looks like none once it is decoded.
func hasStatus(raw []byte, object apiObject) bool {
	switch o := object.(type) {
	case *corev1.Pod:
		return o.Status.Phase != ""
	case *corev1.PersistentVolumeClaim:
		return o.Status.Phase != ""
	case *corev1.PersistentVolume:
		return o.Status.Phase != ""
	case *corev1.Node:
		s := &o.Status
		return len(s.Conditions)+len(s.VolumesAttached)+len(s.VolumesInUse) > 0 || s.NodeInfo.KubeletVersion != "" || len(statusIn(raw)) > 0
	case *storagev1.VolumeAttachment:
		return statusIn(raw)["attached"] != nil
	default:
		return true
	}
}

// fieldOf returns a field of an object; nil if the object lacks it.
func fieldOf(raw []byte, name string) json.RawMessage {
	var object map[string]json.RawMessage
	_ = json.Unmarshal(raw, &object) // it was decoded before
	return object[name]
}

// statusIn returns the fields of an object's status.
func statusIn(raw []byte) map[string]json.RawMessage {
	var object struct {
		Status map[string]json.RawMessage `json:"status"`
	}
	_ = json.Unmarshal(raw, &object) // it was decoded before
	return object.Status
}
