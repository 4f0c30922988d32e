package finding

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
)

// Words are what the finding tells of its cause and of what to do about it, without the
// names of its own objects: the same for findings of which one remedy helps all. What to do
// counts with its names: what has to be done to each object for itself is no one remedy.
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
	// times are moments, and how long something has lasted.
	times = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z|\b([0-9]+(\.[0-9]+)?(ms|[smhd]))+\b`)
	// requests are the numbers that a storage system gives to what it is asked.
	requests = regexp.MustCompile(`\b[0-9a-fA-F]{8}[0-9a-fA-F-]*\b`)
)

// withoutNames puts "#" for the names of the finding's own objects.
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
