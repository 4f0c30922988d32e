package diagnose

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/volumehealth"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// workloads are those of the pods, as namespace/Kind/name; sorted. Beside them stand the pods that have
// none, since they count, too.
func workloads(p *facts.View, pods []string) []string {
	var names, alone []string
	for _, pod := range named(p, pods) {
		if w := facts.WorkloadOf(pod); w.Kind != "" {
			names = append(names, w.Namespace+"/"+w.Kind+"/"+w.Name)
		} else {
			alone = append(alone, pod.Namespace+"/Pod/"+pod.Name)
		}
	}
	if len(names) > 0 {
		names = append(names, alone...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// claims are the claims through which the pods use the volume, as namespace/name; sorted.
func claims(p *facts.View, pods []string, pv string) []string {
	var names []string
	for _, pod := range named(p, pods) {
		for i := range pod.Spec.Volumes {
			claim := p.ClaimOf(pod, &pod.Spec.Volumes[i])
			if claim != nil && pv != "" && claim.Spec.VolumeName == pv {
				names = append(names, claim.Namespace+"/"+claim.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// health is the driver's evidence of the health of the finding's volume, from its pods and
// their claims.
func health(p *facts.View, f finding.Finding) []finding.Evidence {
	driver, _, _ := reconcile.ParseCSI(f.Volume)
	var said []finding.Evidence
	for _, pod := range named(p, f.Pods) {
		for i := range pod.Spec.Volumes {
			volume := &pod.Spec.Volumes[i]
			claim := p.ClaimOf(pod, volume)
			if claim == nil || f.PersistentVolume == "" || claim.Spec.VolumeName != f.PersistentVolume {
				continue
			}
			for _, h := range volumehealth.Of(p, pod, volume.Name, driver, claim) {
				e := finding.Evidence{Object: h.Object, Field: h.Field, Value: h.Text()}
				if !slices.Contains(said, e) {
					said = append(said, e)
				}
			}
		}
	}
	return said
}

func named(p *facts.View, pods []string) []*corev1.Pod {
	var list []*corev1.Pod
	for _, name := range pods {
		namespace, name, _ := strings.Cut(name, "/")
		if pod := p.Snapshot.Pod(types.NamespacedName{Namespace: namespace, Name: name}); pod != nil {
			list = append(list, pod)
		}
	}
	return list
}
