package main

import (
	"errors"
	"regexp"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// q is what %q writes.
const q = `("(?:[^"\\]|\\.)*")`

// formats are the messages that 1.26 formats before it logs them, and how later
// releases say the same: a message and values by key. A key with a "." is one
// half of an object's name; "err" is the rest of the message.
var formats = []struct {
	of   *regexp.Regexp
	msg  string
	keys []string
}{
	{regexp.MustCompile(`^Operation for volume ` + q + ` is already running or still in exponential backoff for node ` + q),
		"Operation for volume is already running or still in exponential backoff for node", []string{"volumeName", "nodeName"}},
	{regexp.MustCompile(`^Operation for volume ` + q + ` is already running or still in exponential backoff in the cluster. Can't start detach for ` + q),
		"Operation for volume is already running or still in exponential backoff in the cluster", []string{"volumeName", "nodeName"}},
	{regexp.MustCompile(`^Operation for volume ` + q + ` is already running for node ` + q),
		"Operation for volume is already running for node", []string{"volumeName", "nodeName"}},
	{regexp.MustCompile(`^Operation for volume ` + q + ` is already running. Can't start attach for ` + q),
		"Operation for volume is already running", []string{"volumeName", "nodeName"}},
	{regexp.MustCompile(`^node ` + q + ` has out-of-service taint`), outOfServiceTaint, []string{"node."}},

	{regexp.MustCompile(`^Error processing volume ` + q + ` for pod ` + q + `/` + q + `: (.*)`),
		"Error processing volume for pod", []string{"podVolume", "pod.namespace", "pod.name", "err"}},
	{regexp.MustCompile(`^Skipping volume ` + q + ` for pod ` + q + `/` + q + `: it does not implement attacher interface. err=(.*)`),
		"Skipping volume for pod, it does not implement attacher interface", []string{"podVolume", "pod.namespace", "pod.name", "err"}},
	{regexp.MustCompile(`^Failed to add volume ` + q + ` for pod ` + q + `/` + q + ` to desiredStateOfWorld`),
		"Failed to add volume for pod to desiredStateOfWorld", []string{"podVolume", "pod.namespace", "pod.name"}},
	{regexp.MustCompile(`^Failed to delete volume ` + q + ` for pod ` + q + `/` + q + ` from desiredStateOfWorld. GetUniqueVolumeNameFromSpec failed`),
		"Failed to delete volume for pod from desiredStateOfWorld. GetUniqueVolumeNameFromSpec failed", []string{"podVolume", "pod.namespace", "pod.name"}},

	{regexp.MustCompile(`^Skipping the va as its pvName is nil, va.Name: ` + q), "Skipping the va as its pvName is nil", []string{"vaName"}},
	{regexp.MustCompile(`^Unable to lookup pv object for: ` + q), "Unable to lookup pv object", []string{"PV."}},
	{regexp.MustCompile(`^Failed to translate intree volumeSpec to CSI volumeSpec for volume:` + q + `, va.Name:` + q),
		"Failed to translate intree volumeSpec to CSI volumeSpec for volume", []string{"PV.", "vaName"}},
	{regexp.MustCompile(`^Failed to find unique name for volume:` + q + `, va.Name:` + q),
		"Failed to find unique name for volume", []string{"PV.", "vaName"}},
	{regexp.MustCompile(`^Skipping processing the volume ` + q + ` on nodeName: ` + q + `, no attacher interface found. err=(.*)`),
		"Skipping processing the volume on node, no attacher interface found", []string{"PV.", "node.", "err"}},
}

// unformatted gives a formatted line the values of a structured one. Any other
// line stays as it is.
func unformatted(l line) line {
	if len(l.values) > 0 || l.err != nil {
		return l
	}
	for _, f := range formats {
		found := f.of.FindStringSubmatch(l.msg)
		if found == nil {
			continue
		}
		pod := klog.ObjectRef{}
		values := map[string]any{}
		for i, key := range f.keys {
			text, err := strconv.Unquote(found[i+1])
			switch key {
			case "err":
				values["err"] = errors.New(found[i+1])
			case "pod.namespace":
				pod.Namespace = text
			case "pod.name":
				pod.Name = text
				values["pod"] = pod
			case "podVolume":
				values["volumeName"] = text
			case "volumeName":
				values[key] = corev1.UniqueVolumeName(text)
			case "nodeName":
				values[key] = types.NodeName(text)
			case "node.", "PV.":
				values[key[:len(key)-1]] = klog.ObjectRef{Name: text}
			default:
				values[key] = text
			}
			if err != nil && key != "err" {
				return l
			}
		}
		return line{msg: f.msg, values: values}
	}
	return l
}
