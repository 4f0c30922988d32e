// Package step has the marks with which an advice names its actions, such as {check} and
// {delete-pod}: see Kind.Undo and the constants beside it. It recognizes the steps that delete or
// restart something, and describes whom each kind can hit.
package step

import "slices"

// Kind is what a step deletes or restarts.
type Kind string

// The kinds, the narrowest first.
const (
	DeletePod         Kind = "delete-pod"
	StopPod           Kind = "stop-pod" // so that it does not come back, unlike DeletePod
	RestartNodePlugin Kind = "restart-node-plugin"
	RestartController Kind = "restart-driver-controller"
	RestartDriver     Kind = "restart-driver"
	RestartService    Kind = "restart-node-service"
	RestartKubelet    Kind = "restart-kubelet"
	TaintNode         Kind = "taint-node"
	DrainNode         Kind = "drain-node"
	RebootNode        Kind = "reboot-node"
	PowerOff          Kind = "power-off"
	BlockAddress      Kind = "block-address" // of another machine, at the storage
	DeleteNode        Kind = "delete-node"
	RestartManager    Kind = "restart-kube-controller-manager"
)

// Reach describes whom a step of one kind can hit, for a page that is about no particular
// cluster.
type Reach struct {
	Kind Kind
	// Whom is the sentence about those whom it can hit.
	Whom string
	// Count is the command that lists them.
	Count string
}

// The commands that list whom a step can hit.
const (
	onNode     = "kubectl get pods -A --field-selector spec.nodeName=NODE"
	ofDriver   = "kubectl get pv -o custom-columns=D:.spec.csi.driver,C:.spec.claimRef.name"
	everywhere = "kubectl get pods -A"
)

// Reaches returns one Reach for each kind, in the order of the kinds.
func Reaches() []Reach {
	return []Reach{
		{DeletePod, "The deletion of a pod ends that pod", "kubectl get pod POD -n NAMESPACE -o wide"},
		{StopPod, "A workload that is scaled to 0 ends all its pods", "kubectl get pods -n NAMESPACE -o wide"},
		{RestartNodePlugin, "A restart of a node plugin can hit all pods on the node with volumes of its driver: mounts that a process in its pod serves (FUSE, " +
			"rbd-nbd) end with it. A finding says whether they do; drain these pods first. The pods there", onNode},
		{RestartController, "While a driver's controller restarts, none of its volumes is attached or detached. They are", ofDriver},
		{RestartDriver, "A restart of all pods of a driver can hit all pods with volumes of it: some mounts end with the node plugin's pod. The volumes", ofDriver},
		{RestartService, "A restart of a service of the machine can hit all pods of the node whose volumes go through it. The pods there", onNode},
		{RestartKubelet, "While a kubelet restarts, no pod of the node is started or mounted. The pods there", onNode},
		{TaintNode, "The out-of-service taint ends all pods of the node that do not tolerate it, and their volumes are detached without an unmount. The pods there", onNode},
		{DrainNode, "A drain evicts all pods of the node but those of DaemonSets. The pods there", onNode},
		{RebootNode, "The restart of a machine ends all pods of the node. The pods there", onNode},
		{PowerOff, "The end of a machine ends all pods of the node. The pods there", onNode},
		{BlockAddress, "The block of a machine's address at the storage ends all mounts of that storage on the machine, and their last writes are lost. The pods there", onNode},
		{DeleteNode, "With a Node all pods that are bound to it are deleted. The pods there", onNode},
		{RestartManager, "While kube-controller-manager restarts, no volume of the cluster is attached or detached, and what it only remembers is lost. All pods " +
			"with volumes can be hit. The pods", everywhere},
	}
}

// Of is the Reach of the kind. It panics for a kind that has none, such as Wait.
func Of(kind Kind) Reach {
	all := Reaches()
	return all[slices.IndexFunc(all, func(r Reach) bool { return r.Kind == kind })]
}
