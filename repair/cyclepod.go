package repair

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var cyclePod = action{
	kind: CyclePod,
	risk: RiskLow,
	// VD107 and VD608: a pod that failed before it started holds the volume until
	// it is deleted.
	codes:    slices.Concat([]finding.Code{"VD107", "VD608"}, restartsMend),
	detaches: true,
	needs:    []Permission{RightTo(VerbDelete, snapshot.Pods, "")},
	guards: []Guard{
		findingGuard,
		samePodGuard,
		neverStartedGuard,
		hasControllerGuard,
		notGoingGuard,
		disksStayGuard,
	},
	propose: proposeCycle,
}

// restartsMend are the findings that a restart of kube-controller-manager fixes. Where nobody
// may restart it, a new pod on another node fixes them as well; the refusal says why a new
// pod on this node does not.
var restartsMend = []finding.Code{"VD301", "VD303"}

// proposeCycle deletes, gracefully, a pod that has never started, so that its controller
// makes a new one.
func proposeCycle(v *View, f finding.Finding) (Repair, error) {
	pod, err := pinningPod(v, f)
	if err != nil {
		return Repair{}, err
	}
	target := refTo(snapshot.Pods, pod)
	return Repair{
		Do:       Operation{Verb: VerbDelete, Target: target},
		WhyNot:   "a pod that is deleted does not come back; its controller makes another",
		PreImage: Compact(map[string]any{"metadata": map[string]any{"namespace": pod.Namespace, "name": pod.Name, "uid": pod.UID}}),
		stands:   func(v *View) bool { return v.goneOrGoing(target) },
		// the answer to a deletion does not show what is stored
		check: func(json.RawMessage) error { return nil },
	}, nil
}

// pinningPod is the failed pod that holds the finding's volume on its node.
func pinningPod(v *View, f finding.Finding) (*corev1.Pod, error) {
	if slices.Contains(restartsMend, f.Code) {
		return nil, errors.New("its controller would recreate the pod immediately, most likely on this node, before the volume has been detached, " +
			"and the new pod would wait as this one does; it helps after kubectl cordon")
	}
	var pinning *corev1.Pod
	for _, pod := range v.Snapshot.PodsOnNode(f.Node) {
		if pod.Status.Phase == corev1.PodFailed && v.Facts.Mounts(pod, f.Volume) && (pinning == nil || !facts.MayUseVolumes(pod)) {
			pinning = pod
		}
	}
	if pinning == nil {
		return nil, errors.New("no failed pod holds the volume")
	}
	return pinning, nil
}

func samePod(v *View, r *Repair) (*corev1.Pod, error) {
	t := r.Do.Target
	pod := v.Snapshot.Pod(types.NamespacedName{Namespace: t.Namespace, Name: t.Name})
	switch {
	case pod == nil:
		return nil, fmt.Errorf("pod %s/%s does not exist", t.Namespace, t.Name)
	case pod.UID != t.UID:
		return nil, fmt.Errorf("pod %s/%s is not the one that was examined: its controller has made another", t.Namespace, t.Name)
	}
	return pod, nil
}

func checkSamePod(v *View, r *Repair) error { _, err := samePod(v, r); return err }

// checkNeverStarted: a pod that has run may have written data, and its logs may be wanted.
func checkNeverStarted(v *View, r *Repair) error {
	if pod, err := samePod(v, r); err == nil && facts.MayUseVolumes(pod) {
		return fmt.Errorf("pod %s/%s has run", pod.Namespace, pod.Name)
	}
	return nil
}

// checkHasController: nobody would make a bare pod again. Deleting a pod of a Job may count
// against the Job's limit of failures.
func checkHasController(v *View, r *Repair) error {
	pod, err := samePod(v, r)
	if err != nil {
		return nil // same-pod refuses
	}
	if facts.Bare(pod) {
		return fmt.Errorf("pod %s/%s has no controller that would recreate it", pod.Namespace, pod.Name)
	}
	owner := metav1.GetControllerOf(pod)
	switch owner.Kind {
	case "StatefulSet", "ReplicaSet", "DaemonSet":
		return nil
	}
	return fmt.Errorf("pod %s/%s belongs to a %s, which may take its deletion for a failure", pod.Namespace, pod.Name, owner.Kind)
}

func checkNotGoing(v *View, r *Repair) error {
	if pod, err := samePod(v, r); err == nil && pod.DeletionTimestamp != nil {
		return fmt.Errorf("pod %s/%s is being deleted already", pod.Namespace, pod.Name)
	}
	return nil
}
