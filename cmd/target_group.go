package cmd

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// ownerNames are kubectl's names of the kinds that make pods.
var ownerNames = map[string]string{
	"deployment": "Deployment", "deployments": "Deployment", "deploy": "Deployment",
	"statefulset": "StatefulSet", "statefulsets": "StatefulSet", "sts": "StatefulSet",
	"daemonset": "DaemonSet", "daemonsets": "DaemonSet", "ds": "DaemonSet",
	"replicaset": "ReplicaSet", "replicasets": "ReplicaSet", "rs": "ReplicaSet",
	"job": "Job", "jobs": "Job",
	"cronjob": "CronJob", "cronjobs": "CronJob", "cj": "CronJob",
}

// podsOf are the pods of the owner. The owner itself is not read.
func podsOf(kind string, name types.NamespacedName) target {
	return target{
		name:  name,
		title: strings.ToLower(kind) + " " + name.Name + " in namespace " + name.Namespace,
		group: func(pod *corev1.Pod) bool { return pod.Namespace == name.Namespace && madeBy(pod, kind, name.Name) },
	}
}

func madeBy(pod *corev1.Pod, kind, name string) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	switch {
	case owner == nil:
		return false
	case kind == "Deployment":
		return snapshot.DeploymentOf(pod) == name
	case kind == "CronJob": // its Jobs have its name and the minute
		minute, ok := strings.CutPrefix(owner.Name, name+"-")
		return ok && owner.Kind == "Job" && strings.Trim(minute, "0123456789") == ""
	default:
		return owner.Kind == kind && owner.Name == name
	}
}

// podsWith are the pods of a file with the labels, in the namespace, or in any for "".
func podsWith(selector labels.Selector, namespace string) target {
	return target{
		title: "selector " + selector.String(),
		group: func(pod *corev1.Pod) bool {
			return (namespace == "" || pod.Namespace == namespace) && selector.Matches(labels.Set(pod.Labels))
		},
	}
}

// podsNamed are the pods that have the labels by a server's answer: the snapshot of a live
// pod lacks most labels.
func podsNamed(selector string, names []types.NamespacedName) target {
	named := sets.New(names...)
	return target{
		title: "selector " + selector,
		group: func(pod *corev1.Pod) bool {
			return named.Has(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
		},
	}
}

// fewPods is the largest number of pods of a group that each get an answer of their own. Of a
// larger group only the waiting pods are listed.
const fewPods = 10

// single replaces each group by its pods. A group without pods stays: without any target the
// report would be about the whole cluster.
func single(targets []target, s *snapshot.Snapshot) []target {
	var list []target
	for _, t := range targets {
		if t.group == nil || !slices.ContainsFunc(s.Pods, t.group) {
			list = append(list, t)
			continue
		}
		for _, pod := range s.Pods {
			if t.group(pod) {
				list = append(list, target{kind: snapshot.Pods, name: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}})
			}
		}
	}
	return list
}

// toAnswer are the pods that get an answer of their own: those of the targets, and the named
// ones.
func toAnswer(targets []target, s *snapshot.Snapshot, named []string) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, full := range named {
		namespace, name, _ := strings.Cut(full, "/")
		if pod := s.Pod(types.NamespacedName{Namespace: namespace, Name: name}); pod != nil && len(named) <= fewPods {
			pods = append(pods, pod)
		}
	}
	for _, t := range targets {
		switch {
		case t.kind == snapshot.Pods:
			if pod := s.Pod(t.name); pod != nil && !slices.Contains(pods, pod) {
				pods = append(pods, pod)
			}
		case t.group != nil:
			group := slices.DeleteFunc(slices.Clone(s.Pods), func(pod *corev1.Pod) bool { return !t.group(pod) || slices.Contains(pods, pod) })
			if len(group) <= fewPods {
				pods = append(pods, group...)
			}
		}
	}
	return pods
}
