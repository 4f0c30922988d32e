package facts

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// UsedByPods begins the controller's message, sent once, that names the other pods with the
// pod's volume (reportMultiAttachError,
// pkg/controller/volume/attachdetach/reconciler/reconciler.go).
const UsedByPods = "Volume is already used by"

// Outstayed reports whether the pods that used the volume may have left its node long after the first
// waiter came, and when one was last there: the controller tells each waiting pod, once, which pods use
// the volume elsewhere.
func (p *View) Outstayed(volume corev1.UniqueVolumeName, waiters []*corev1.Pod) (told metav1.Time, may bool) {
	for _, pv := range p.World.Volumes(volume) {
		for _, pod := range waiters {
			if e := p.LastAttachEvent(pod, pv.Name, AttachFailedReason); e != nil && strings.Contains(e.Message, UsedByPods) {
				told, may = Latest(told, snapshot.EventTime(e)), true
			}
		}
	}
	if len(waiters) > 0 && !p.Snapshot.CompleteIn(snapshot.Events, waiters[0].Namespace) { // it may have told the last of them
		for _, pod := range waiters {
			told, may = Latest(told, BoundAt(pod)), true
		}
	}
	return told, may
}
