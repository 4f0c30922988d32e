package trace

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
)

// meaningOf is the meaning of the message by the table; "" where no entry matches.
func meaningOf(message string, table []kubeletwords.Word) string {
	w, _ := kubeletwords.Find(table, message)
	return w.Means
}

// mountMeans is the meaning of a failed mount of the volume: the message of the driver or of the
// mount program comes before the code beside it.
func (t *tracer) mountMeans(v *tracedVolume, f facts.MountFailure) string {
	word, found := kubeletwords.Find(kubeletwords.MountWords, f.Reason)
	if entry, known := facts.MountSays(kubeletwords.MountWords, f.Reason, t.Whose(t.pod, v.source, v.Driver)); known && found && !entry.Wrapper {
		switch {
		case strings.HasPrefix(word.Text, codeAlone) && entry.Layer.Sure():
			return "the driver says that " + facts.WhatItSays(entry, 0)
		case word.Text == exitAlone:
			return "the mount program says that " + facts.WhatItSays(entry, 0)
		}
	}
	return mountMeans(f, t.kubelet)
}

// codeAlone begins a kubelet's message that has only the code of a driver's answer; exitAlone is one
// that has only the code of the mount program.
const (
	codeAlone = "code = "
	exitAlone = "exit status 32"
)

// mountMeans is the meaning of a failed mount in the kubelet's release.
func mountMeans(w facts.MountFailure, k facts.KubeletRelease) string {
	switch {
	case facts.ServerUnreached(w.Reason):
		return "the kubelet got no answer of the API server, which says nothing of the volume"
	case facts.ContainsAny(w.Reason, kubeletwords.AttachTimeout, kubeletwords.AttacherTimeout):
		if k.Before(attachCheckedOnce) {
			return fmt.Sprintf("volumesAttached lists it and its VolumeAttachment does not say attached; a kubelet of 1.%d waits 10 min for that before it says so", k)
		}
		return "volumesAttached lists it, but its VolumeAttachment does not say attached"
	case strings.Contains(w.Step, kubeletwords.WhileExpanding):
		return "it is mounted only once its file system has grown: " + cmp.Or(meaningOf(w.Reason, kubeletwords.MountWords), "the driver fails to expand it on the node")
	default:
		return meaningOf(w.Reason, kubeletwords.MountWords)
	}
}
