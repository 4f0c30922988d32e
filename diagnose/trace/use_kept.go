package trace

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// The finalizers whose meaning is known.
const (
	volumeProtection = "kubernetes.io/pv-protection"
	provisionerKeeps = "external-provisioner.volume.kubernetes.io/finalizer"
	inTreeKeeps      = "kubernetes.io/pv-controller"
)

// addKept adds each finalizer with its reason.
func (u *useTracer) addKept() {
	if u.claim != nil {
		object := facts.ClaimObject(u.claim)
		for _, f := range u.claim.Finalizers {
			k := Keeper{Object: object, Finalizer: f, Holds: Yes, By: "whoever put it on takes it off"}
			if known, ok := facts.KnownFinalizer(f); ok {
				k.By = fmt.Sprintf("the %s, for %s of it", known.Program, known.For)
			} else if f == claimProtection {
				k.Holds, k.By = u.podsHold()
			}
			u.Kept = append(u.Kept, k)
		}
	}
	if u.pv != nil {
		for _, f := range u.pv.Finalizers {
			u.Kept = append(u.Kept, u.volumeKept(f))
		}
	}
}

// podsHold is whether pods keep the claim, and which: those on a node, whether they run or have
// ended (Controller.podUsesPVC, pkg/controller/volume/pvcprotection).
func (u *useTracer) podsHold() (Answer, string) {
	var pods []string
	for _, p := range u.Pods {
		if p.Node != "" {
			pods = append(pods, p.Pod)
		}
	}
	switch {
	case len(pods) == 1:
		return Yes, "pod " + pods[0]
	case len(pods) > 1:
		return Yes, fmt.Sprintf("pod %s and %d more", pods[0], len(pods)-1)
	case !u.knows(snapshot.Pods, u.key.Namespace):
		return Unknown, "not known: not all pods could be read"
	default:
		return No, "no pod on a node names it"
	}
}

// volumeKept is the volume's finalizer with its reason.
func (u *useTracer) volumeKept(finalizer string) Keeper {
	pv := u.pv
	k := Keeper{Object: facts.PvObject(pv), Finalizer: finalizer, Holds: Yes, By: "whoever put it on takes it off"}
	switch {
	case finalizer == volumeProtection:
		k.Holds, k.By = answer(pv.Status.Phase == corev1.VolumeBound), "its claim"
		if k.Holds == No {
			k.By = "it is bound to no claim"
		}
	case finalizer == provisionerKeeps || finalizer == inTreeKeeps:
		k.By = "its provisioner, until the disk is deleted"
	case strings.HasPrefix(finalizer, reconcile.AttacherFinalizerPrefix):
		own := u.AttachmentsNaming(pv.Name)
		switch {
		case len(own) == 1:
			k.By = "VolumeAttachment " + own[0].Name
		case len(own) > 1:
			k.By = fmt.Sprintf("VolumeAttachment %s and %d more", own[0].Name, len(own)-1)
		case !u.knows(snapshot.VolumeAttachments, ""):
			k.Holds, k.By = Unknown, "not known: not all volumeattachments could be read"
		default:
			k.Holds, k.By = No, "no VolumeAttachment names it"
		}
	}
	return k
}
