package hashnames

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// common are names that every cluster has.
var common = map[string]bool{"default": true, "localhost": true}

type set = map[string]bool

// names are the names that the objects of a snapshot have or refer to.
type names struct {
	nodes, namespaces, workloads, pods, hosts, drivers set
	// others are the names of users, and of the components in front of the API server.
	others set
	// uids are the UIDs that do not have the form of one.
	uids []string
}

func find(s *snapshot.Snapshot) *names {
	f := &names{nodes: set{}, namespaces: set{}, workloads: set{}, pods: set{}, hosts: set{}, drivers: set{}, others: set{}}
	for _, o := range s.Nodes {
		f.nodes[o.Name] = true
		f.hosts[o.Labels[corev1.LabelHostname]] = true
		for _, a := range o.Status.Addresses {
			f.hosts[a.Address] = true
		}
	}
	for _, o := range s.CSINodes {
		f.nodes[o.Name] = true
		for _, d := range o.Spec.Drivers {
			f.drivers[d.Name] = true
		}
	}
	for _, o := range s.CSIDrivers {
		f.drivers[o.Name] = true
	}
	for _, o := range s.StorageClasses {
		f.drivers[o.Provisioner] = true
	}
	for _, o := range s.VolumeAttachments {
		f.nodes[o.Spec.NodeName], f.drivers[o.Spec.Attacher] = true, true
		if pv := o.Spec.Source.InlineVolumeSpec; pv != nil {
			f.volume(pv)
		}
	}
	for _, o := range s.Volumes {
		f.volume(&o.Spec)
	}
	for _, o := range s.Claims {
		f.namespaces[o.Namespace] = true
		f.nodes[o.Annotations[reconcile.SelectedNodeAnnotation]] = true
	}
	for _, o := range s.Leases {
		f.namespaces[o.Namespace] = true
		if o.Namespace == corev1.NamespaceNodeLease {
			f.nodes[o.Name] = true
		}
	}
	for _, o := range s.Deployments {
		f.namespaces[o.Namespace] = true
		f.workload(o.Namespace, o.Name)
	}
	for _, o := range s.Pods {
		f.pod(o)
		if id := string(o.UID); !uid.MatchString(id) {
			f.uids = append(f.uids, id)
		}
	}
	for _, o := range s.Events {
		f.event(o)
	}
	f.asked(s)
	if s.Controller != nil {
		for _, p := range s.Controller.Pairs {
			f.nodes[string(p.Node)] = true
		}
	}
	for _, all := range []set{f.nodes, f.namespaces, f.workloads, f.pods, f.hosts, f.drivers, f.others} {
		delete(all, "")
	}
	return f
}

func (f *names) pod(o *corev1.Pod) {
	f.namespaces[o.Namespace], f.nodes[o.Spec.NodeName], f.nodes[o.Status.NominatedNodeName] = true, true, true
	if name, _ := workloadOf(o); name != "" {
		f.workload(o.Namespace, name)
	}
	var images []string
	for _, c := range slices.Concat(o.Spec.InitContainers, o.Spec.Containers) {
		images = append(images, c.Image)
	}
	for _, v := range o.Spec.Volumes {
		if v.Image != nil {
			images = append(images, v.Image.Reference)
		}
	}
	for _, image := range images {
		if registry, _, ok := privateRegistry(image); ok {
			f.hosts[registry] = true // a kubelet names it where it cannot pull the image
		}
	}
}

// workloadOf is the workload that makes the pod, a Deployment rather than its ReplicaSet, and
// the rest of its owner's name; "" where nothing makes it.
func workloadOf(p *corev1.Pod) (name, rest string) {
	owner := metav1.GetControllerOfNoCopy(p)
	if owner == nil || owner.Kind == "Node" {
		return "", ""
	}
	hash := p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	if name, ok := strings.CutSuffix(owner.Name, "-"+hash); ok && hash != "" {
		return name, "-" + hash
	}
	return owner.Name, ""
}

// workload notes the name of a pod's workload; those of Kubernetes itself are nobody's
// secret.
func (f *names) workload(namespace, name string) {
	if !strings.HasPrefix(namespace, "kube-") {
		f.workloads[name] = true
	}
}

// event notes also the names of objects that no longer exist.
func (f *names) event(o *corev1.Event) {
	f.namespaces[o.Namespace], f.namespaces[o.InvolvedObject.Namespace] = true, true
	f.nodes[o.Source.Host] = true
	switch o.InvolvedObject.Kind {
	case "Node":
		f.nodes[o.InvolvedObject.Name] = true
	case "Pod":
		if !strings.HasPrefix(o.InvolvedObject.Namespace, "kube-") {
			f.pods[o.InvolvedObject.Name] = true
		}
	}
}

// asked notes, in the texts of all objects, the hosts that somebody called and the names that
// are no object's.
func (f *names) asked(s *snapshot.Snapshot) {
	lists := reflect.ValueOf(s.Objects)
	for i := range lists.NumField() {
		for _, object := range lists.Field(i).Seq2() {
			text, err := json.Marshal(object.Interface())
			if err != nil {
				continue // it is not written to the file either
			}
			said := unescaped.Replace(string(text))
			for _, found := range hosts.FindAllStringSubmatch(said, -1) {
				f.hosts[found[1]] = true
			}
			for _, found := range who.FindAllStringSubmatch(said, -1) {
				if !ofAll(found[2]) {
					f.others[found[2]] = true
				}
			}
		}
	}
}

var unescaped = strings.NewReplacer(`\n`, " ", `\"`, `"`)

// hosts matches a host that was called, as a text says.
var hosts = regexp.MustCompile(`(?:[a-z][a-z0-9+]*://|\blookup )([a-z0-9-]+(?:\.[a-z0-9-]+)+)\b`)

func (f *names) volume(o *corev1.PersistentVolumeSpec) {
	if o.ClaimRef != nil {
		f.namespaces[o.ClaimRef.Namespace] = true
	}
	switch {
	case o.CSI != nil:
		f.drivers[o.CSI.Driver] = true
		for key, value := range o.CSI.VolumeAttributes {
			if key = strings.ToLower(key); strings.Contains(key, "server") || strings.Contains(key, "host") || strings.Contains(key, "endpoint") {
				f.hosts[value] = true
			}
		}
	case o.NFS != nil:
		f.hosts[o.NFS.Server] = true
	case o.ISCSI != nil:
		host, _, _ := strings.Cut(o.ISCSI.TargetPortal, ":")
		f.hosts[host] = true
	}
	if o.NodeAffinity != nil && o.NodeAffinity.Required != nil {
		for _, term := range o.NodeAffinity.Required.NodeSelectorTerms {
			for _, e := range term.MatchExpressions {
				for _, value := range e.Values {
					if e.Key == corev1.LabelHostname {
						f.nodes[value] = true
					}
				}
			}
		}
	}
}
