package facts

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

func templateHash(pod *corev1.Pod) string { return pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey] }

// mostPlaces is the largest number of pods that PodPlaces names.
const mostPlaces = 10

// PodPlaces lists the pods with their nodes, and whether each runs or waits.
func PodPlaces(pods []*corev1.Pod) string {
	places := make([]string, 0, len(pods))
	for i, pod := range pods {
		if i == mostPlaces && len(pods) > mostPlaces+1 {
			places = append(places, fmt.Sprintf("and %d more", len(pods)-i))
			break
		}
		verb := "waits"
		if Started(pod) {
			verb = "runs"
		}
		places = append(places, fmt.Sprintf("pod %s %s on %s", PodName(pod), verb, pod.Spec.NodeName))
	}
	return strings.Join(places, ", ")
}
