package driver

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// attachedOrDetached is the attacher's task, as a participle.
func attachedOrDetached(t facts.Task) string {
	if t.DeletionTimestamp != nil {
		return "detached from"
	}
	return "attached to"
}

func oneTask(t facts.Task) finding.Evidence {
	answer := "no answer"
	switch {
	case t.Failure != nil:
		answer = fmt.Sprintf("last answer at %s: %s", facts.Stamp(t.Failure.Time), t.Failure.Message)
	case t.Untouched():
		answer = "nobody has looked at it"
	}
	return finding.Evidence{Object: "volumeattachment/" + t.Name, Field: "status",
		Value: fmt.Sprintf("to be %s node %s since %s; %s", attachedOrDetached(t), t.Spec.NodeName, facts.Stamp(t.Since), answer)}
}

// taskEvidence is a finding's evidence of its tasks: the first few say enough.
func taskEvidence(tasks []facts.Task) []finding.Evidence {
	const enough = 5
	var list []finding.Evidence
	for _, t := range tasks[:min(len(tasks), enough)] {
		list = append(list, oneTask(t))
	}
	return list
}

// taskPods are the pods that wait for any of the tasks: for an attach those on its node, for a
// detach those elsewhere that need the ReadWriteOnce volume.
func taskPods(p *facts.View, tasks []facts.Task) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, t := range tasks {
		pods = append(pods, podsOf(p, t)...)
	}
	return facts.LongestFirst(facts.EachOnce(pods))
}

func podsOf(p *facts.View, t facts.Task) []*corev1.Pod {
	pair, ok := p.TaskPair(t)
	if !ok {
		return nil
	}
	pods := p.WaitingPods(pair)
	if t.DeletionTimestamp != nil {
		pods = append(pods, p.KeptFrom(pair)...)
	}
	return pods
}

// lead is the task to name: the oldest for which a pod waits, else the first. tasks must not be
// empty.
func lead(p *facts.View, tasks []facts.Task) facts.Task {
	i := slices.IndexFunc(tasks, func(t facts.Task) bool { return len(podsOf(p, t)) > 0 })
	return tasks[max(i, 0)]
}

// queue is a clause about the tasks: how long the first to name has waited, for which pod, and
// how many others wait.
func queue(p *facts.View, tasks []facts.Task) string {
	lead, whom := lead(p, tasks), ""
	if pods := taskPods(p, []facts.Task{lead}); len(pods) > 0 {
		whom = " for pod " + facts.PodName(pods[0])
		if pods[0].Spec.NodeName != lead.Spec.NodeName {
			whom += " on node " + pods[0].Spec.NodeName
		}
	}
	text := fmt.Sprintf("volume %s has waited %s to be %s node %s%s",
		p.TaskVolume(lead), facts.Rounded(p.Age(lead.Since)), attachedOrDetached(lead), lead.Spec.NodeName, whom)
	switch n := len(tasks) - 1; n {
	case 0:
		return text
	case 1:
		return text + "; another attachment waits like it"
	default:
		return fmt.Sprintf("%s; %d other attachments wait like it", text, n)
	}
}
