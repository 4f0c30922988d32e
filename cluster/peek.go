package cluster

import corev1 "k8s.io/api/core/v1"

// podPeeker decodes the fields of a pod that decide whether it is kept. Four pods in five are
// not kept, and decoding each in full takes longer than receiving it.
type podPeeker struct {
	pod     corev1.Pod
	reduced []byte
}

// peek returns a pod that is valid until the next call. It is false for a pod that cannot be
// read; decoding the whole pod then gives the error.
func (p *podPeeker) peek(raw []byte) (*corev1.Pod, bool) {
	reduced, ok := podPeek.cut(p.reduced[:0], raw)
	if !ok {
		return nil, false
	}
	p.reduced = reduced
	volumes, containers := p.pod.Spec.Volumes[:0], p.pod.Spec.Containers[:0] // their memory is used again
	p.pod = corev1.Pod{Spec: corev1.PodSpec{Volumes: volumes, Containers: containers}}
	return &p.pod, p.pod.Unmarshal(reduced) == nil
}

// podPeek has the fields of a pod that facts.PodNeeds reads.
var podPeek = partOf[corev1.Pod]("metadata: name namespace deletionTimestamp", "spec: nodeName", "status: phase reason",
	"spec.containers: name image", "spec.volumes: name", "spec.volumes.volumeSource: hostPath.path "+neverAttached)

// neverAttached are the sources of volumes that reconcile.CanBeAttached excludes.
const neverAttached = "emptyDir{} gitRepo{} secret{} downwardAPI{} configMap{} projected{} image{}"
