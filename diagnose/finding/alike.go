package finding

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
)

// Words are the finding's texts about its cause and what to do, without the names of its own
// objects. Findings with equal Words have one remedy. The texts about what to do keep their
// names: an action on each single object is not one remedy.
func (f Finding) Words() string {
	words := []string{f.Message, f.Cause}
	if f.Said != nil {
		words = append(words, requests.ReplaceAllString(f.Said.Text, "#"))
	}
	for i := range words {
		words[i] = times.ReplaceAllString(f.withoutNames(words[i]), "#")
	}
	byHand := f.ByHand
	if slices.Contains(AlikeOnNode, f.Code) {
		byHand = f.withoutNames(byHand) // one command line makes the repairs of all
	}
	return strings.Join(append(words, byHand, f.Advice, f.Never), "\x00")
}

var (
	// times matches moments and durations.
	times = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z|\b([0-9]+(\.[0-9]+)?(ms|[smhd]))+\b`)
	// requests matches the numbers that a storage system gives to its requests.
	requests = regexp.MustCompile(`\b[0-9a-fA-F]{8}[0-9a-fA-F-]*\b`)
)

// withoutNames replaces the names of the finding's own objects by "#".
func (f Finding) withoutNames(text string) string {
	_, handle, _ := strings.Cut(string(f.Volume), "^")
	names := sets.New(f.Context, string(f.Node), string(f.Holder), f.PersistentVolume, f.VolumeAttachment, f.Subject.Name, f.Subject.Namespace, string(f.Volume), handle)
	for _, list := range [][]string{f.Pods, f.Workloads, f.Claims} {
		for _, name := range list {
			names.Insert(name).Insert(strings.Split(name, "/")...)
		}
	}
	names.Delete("")
	longestFirst := sets.List(names)
	slices.SortStableFunc(longestFirst, func(a, b string) int { return len(b) - len(a) })
	for _, name := range longestFirst {
		text = withoutName(text, name)
	}
	return text
}
