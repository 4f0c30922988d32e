package kubelettrace

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// said are the texts of a kubelet, each without the parts that differ from run to run.
type said map[string]bool

// hear adds the kubelet's texts about the pod, which it knows by the UID: the pod's events,
// and the failures in the kubelet's log.
func (s said) hear(root string, seen *snapshot.Snapshot, heard *trace.KubeletView, pod *corev1.Pod, uid types.UID) {
	known := []string{string(uid), "UID", pod.Namespace, "NAMESPACE", pod.Spec.NodeName, "NODE", root, ""}
	for _, e := range seen.EventsOf(uid) {
		if e.Source.Component == "kubelet" {
			s[e.Reason+" "+withoutNames(e.Message, known)] = true
		}
	}
	for _, f := range heard.Failures {
		if f.Pod == uid || f.Pod == "" && strings.Contains(string(f.Volume), "-"+pod.Namespace+"-") {
			s["log "+withoutNames(f.Message, known)] = true
		}
	}
}

// differing are parts of a text that differ from run to run, each with its replacement.
var differing = []struct {
	part  *regexp.Regexp
	plain string
}{
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`csi-[0-9a-f]{64}`), "csi-HASH"},
	{regexp.MustCompile(`[0-9a-f]{64}`), "HASH"},
	{regexp.MustCompile(`(127\.0\.0\.1|\[::1\]):\d+`), "ADDRESS"},
	{regexp.MustCompile(`\bs\d+-v\d+-\d+-\d+-\d+-\d+-\d+`), "NAMESPACE"},
	{regexp.MustCompile(`\brandom-v\d+-\d+-\d+-\d+`), "NODE"},
	{regexp.MustCompile(`(/pods/[^ "]*/)v\d+/`), "${1}VOLUME/"}, // no version in an URL
	{regexp.MustCompile(`([ "\[/-])v\d+([ "\]:,]|$)`), "${1}VOLUME$2"},
	{regexp.MustCompile(`([ "\[/-])v\d+([ "\]:,]|$)`), "${1}VOLUME$2"}, // the one that begins where another ends
	{regexp.MustCompile(`\bweb-\d+`), "POD"},
	{regexp.MustCompile(`/dev/loop\d+`), "/dev/LOOP"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[0-9.]*( \+0000 UTC|Z)( m=\S+)?`), "TIME"},
	{regexp.MustCompile(`\[VOLUME( VOLUME)+\]`), "[VOLUME]"},
}

// withoutNames is the text in one line, without the parts that differ.
func withoutNames(text string, known []string) string {
	text = strings.NewReplacer(known...).Replace(strings.ReplaceAll(text, "\n", " "))
	for _, d := range differing {
		text = d.part.ReplaceAllString(text, d.plain)
	}
	return text
}

// writeSaid writes the texts of the kubelets, one in each line after the releases that wrote
// it.
func writeSaid(path string, tallies []*tally) error {
	by := map[string][]string{}
	for _, t := range tallies {
		for text := range t.Said {
			text = withoutNames(text, nil)
			if !slices.Contains(by[text], t.Release) {
				by[text] = append(by[text], t.Release)
			}
		}
	}
	var b strings.Builder
	for _, text := range slices.Sorted(maps.Keys(by)) {
		fmt.Fprintf(&b, "%s\t%s\n", strings.Join(by[text], " "), text)
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
