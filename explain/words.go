package explain

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
)

// eventBegins is how an event begins in the list of kubectl describe.
var eventBegins = regexp.MustCompile(`(?m)^[ \t]*(?:Warning|Normal)[ \t]+[A-Z]\w+[ \t]`)

// messagesOf are the warnings of a list of events, those first whose words show who has to act;
// any other text is one message.
func messagesOf(text string) []string {
	var list []string
	begins := append(eventBegins.FindAllStringIndex(text, -1), []int{len(text)})
	for i, at := range begins[:len(begins)-1] {
		if event := strings.TrimSpace(text[at[0]:begins[i+1][0]]); strings.HasPrefix(event, "Warning") {
			list = append(list, event)
		}
	}
	if len(list) == 0 {
		return []string{text}
	}
	open := func(message string) int {
		if s := spoken(message); s != nil && s.acts == "" {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(list, func(a, b string) int { return open(a) - open(b) })
	return list
}

// sayMeaning prints the meaning of a message of a component, a driver or one of their tools,
// and its speaker. It reports whether the words are known.
func sayMeaning(w io.Writer, message string) bool {
	said := spoken(message)
	entries := whatItMeans(message)
	if said != nil || slices.ContainsFunc(entries, func(e driverwords.Entry) bool { return !e.Wrapper }) {
		// Beside a component's sentence, plain words and wrappers add nothing, and a driver that
		// cannot be reached has said nothing.
		entries = slices.DeleteFunc(entries, func(e driverwords.Entry) bool {
			return e.Wrapper || said != nil && (e.Layer == driverwords.PlainWords || len(e.Drivers) == 0 && (said.has(e.Words) || e.Meaning == driverwords.DriverUnavailable))
		})
	}
	entries = slices.DeleteFunc(entries, func(e driverwords.Entry) bool { // it adds nothing
		return slices.ContainsFunc(entries, func(other driverwords.Entry) bool {
			return len(other.Words) > len(e.Words) && strings.Contains(other.Words, e.Words)
		})
	})
	component := func() {
		if said != nil {
			said.card(w)
		}
		for _, s := range alsoSpoken(message, said) {
			s.card(w)
		}
	}
	last := said != nil && said.acts == "" && len(entries) > 0 && driverSays(message) // the cause comes first
	if !last {
		component()
	}
	for _, alike := range byMeaning(entries) {
		verdict(w, message, alike)
	}
	if last {
		component()
	}
	if said != nil || len(entries) > 0 {
		return true
	}
	if by := saidBy(message, nil); by != nobodyKnown {
		said = &sentence{words: []string{"this message"}, by: by, means: "its words are in no table" + notInWords}
		if code := stage(message); code != "" {
			said.codes = []string{code}
		}
		said.card(w)
	}
	return false
}

// byMeaning puts together the entries that several drivers have of the same words with the same
// meaning, those of any driver last: they are told apart only by what helps.
func byMeaning(entries []driverwords.Entry) [][]driverwords.Entry {
	var list [][]driverwords.Entry
	for _, e := range entries {
		i := slices.IndexFunc(list, func(alike []driverwords.Entry) bool {
			return alike[0].Meaning == e.Meaning && alike[0].Actor == e.Actor && alike[0].Wrapper == e.Wrapper && strings.EqualFold(alike[0].Words, e.Words)
		})
		if i < 0 {
			list = append(list, []driverwords.Entry{e})
			continue
		}
		list[i] = append(list[i], e)
	}
	for _, alike := range list {
		slices.SortStableFunc(alike, func(a, b driverwords.Entry) int { return min(1, len(b.Drivers)) - min(1, len(a.Drivers)) })
	}
	return list
}

// verdict prints the one meaning of the entries, who acts, and what helps with each driver.
func verdict(w io.Writer, message string, alike []driverwords.Entry) {
	e := alike[0]
	note := ""
	if e.Layer == driverwords.PlainWords {
		note = ", as these plain words read"
	}
	fmt.Fprintf(w, "%q%s\n\n", e.Words, note)
	fmt.Fprintf(w, "  Said by   %s\n", saidBy(message, driversOf(alike)))
	fmt.Fprintf(w, "  Means     %s\n", saysOf(e))
	if e.Wrapper {
		fmt.Fprintf(w, "            The cause is not in these words.\n")
		pages(w, pagesAbout(e.Meaning, message))
		diagnoseIt(w)
		return
	}
	fmt.Fprintf(w, "  Who acts  %s\n", whoActs(e, message))
	var kinds []step.Kind
	for i, e := range alike {
		if i > 0 && len(e.Drivers) == 0 && len(alike[i-1].Drivers) == 0 {
			continue // of any other driver there is one help
		}
		whose := ""
		if len(alike) > 1 {
			whose = cmp.Or(strings.Join(e.Drivers, ", "), "any other driver") + ": "
		}
		fmt.Fprintf(w, "  Helps     %s%s\n", whose, step.Plain(e.Helps))
		kinds = append(kinds, step.Kinds(e.Helps)...)
	}
	if page := harms[e.Meaning]; page != "" {
		fmt.Fprintf(w, "  Beware    Neither format, delete nor restore anything before it is known what is there:\n            %s\n", safetext.Kubectl("volume-doctor", "explain", page))
	}
	slices.Sort(kinds)
	for _, kind := range slices.Compact(kinds) {
		fmt.Fprintf(w, "  Hits      %s:\n            %s\n", step.Of(kind).Whom, step.Of(kind).Count)
	}
	pages(w, pagesAbout(e.Meaning, message))
	last := ""
	for _, e := range alike {
		if e.Source != last {
			fmt.Fprintf(w, "  Source    %s\n", e.Source)
		}
		last = e.Source
	}
	fmt.Fprintln(w)
}

// saysOf is the meaning of the entry. Words that wrap whatever failed do not say that the storage did.
func saysOf(e driverwords.Entry) string {
	if e.Wrapper && e.Meaning == driverwords.StorageError {
		return "Something failed."
	}
	about, _ := e.Meaning.About()
	return about.Says
}

// notProven is said in place of an actor where an error mostly ends by itself, and the words do
// not show that this one does.
const notProven = "not known: mostly it ends by itself, which these words do not prove"

// whoActs is who has to act: nobody only where the message itself speaks of something that ends.
func whoActs(e driverwords.Entry, message string) string {
	if e.Actor.Heals() && !e.Passes(message) {
		return notProven
	}
	return string(e.Actor)
}

// harms are the meanings upon which people do what destroys data, each with the page about that.
var harms = map[driverwords.Meaning]string{
	driverwords.FilesystemDamaged:  "overwrite-file-system",
	driverwords.FilesystemTooLarge: "overwrite-file-system",
	driverwords.GrowRefused:        "overwrite-file-system",
	driverwords.WrongFilesystem:    "overwrite-file-system",
	driverwords.EncryptionKey:      "overwrite-file-system",
	driverwords.VolumeNotFound:     "delete-claim",
	driverwords.ObjectNotFound:     "delete-claim",
	driverwords.RecordMissing:      "delete-claim",
}

// driversOf are the drivers that say the words; none where any driver may.
func driversOf(alike []driverwords.Entry) []string {
	var names []string
	for _, e := range alike {
		if len(e.Drivers) == 0 {
			return nil
		}
		names = append(names, e.Drivers...)
	}
	return names
}

// card prints the meaning of the sentence.
func (s *sentence) card(w io.Writer) {
	fmt.Fprintf(w, "%q\n\n", strings.Join(s.words, " ... "))
	fmt.Fprintf(w, "  Said by   %s\n", s.by)
	fmt.Fprintf(w, "  Means     %s\n", s.means)
	if s.acts != "" {
		fmt.Fprintf(w, "  Who acts  %s\n", s.acts)
	}
	pages(w, s.codes)
	diagnoseIt(w)
}

func pages(w io.Writer, codes []string) {
	for _, code := range codes {
		fmt.Fprintf(w, "  Page      %s\n", safetext.Kubectl("volume-doctor", "explain", code))
	}
}

// has reports whether the words of a driver's entry are a part of the sentence.
func (s *sentence) has(words string) bool {
	words = strings.ToLower(words)
	return slices.ContainsFunc(s.words, func(w string) bool { return strings.Contains(words, w) || strings.Contains(w, words) })
}

// diagnoseIt prints the command that finds the cause.
func diagnoseIt(w io.Writer) {
	fmt.Fprintf(w, "  Now       %s\n\n", "kubectl volume-doctor diagnose pod/NAME -n NAMESPACE")
}

// whatItMeans returns the entries whose words are in the message. Without one of a driver, the
// first entry is made from the message's numbers or plain words.
func whatItMeans(message string) []driverwords.Entry {
	entries := driverwords.FindAll(message)
	if slices.ContainsFunc(entries, func(e driverwords.Entry) bool { return !e.Wrapper }) {
		for i, e := range entries {
			switch other, ok := e.OfAnother(message); {
			case ok && other.Helps == e.Helps:
				entries[i].Drivers = nil // nothing tells whose words they are
			case ok:
				entries = append(entries, other)
			}
		}
		return entries
	}
	if e, ok := driverwords.Read("", message); ok && (!e.Wrapper || len(entries) == 0) && (e.Layer != driverwords.PlainWords || isMessage(message)) {
		entries = append([]driverwords.Entry{e}, entries...)
	}
	return entries
}

// The additions of a known message to the score of the pages about it: more than any text
// scores where its driver is known to write it, and about as much as three rare words where
// any program may.
const (
	saidByDriver    = 1e6
	saidByComponent = 2e6
	saidByAny       = 15
)

// hintsOf has an addition for each page about the known words of the message, by its code or
// else its name.
func hintsOf(message string) map[string]float64 {
	hints := map[string]float64{}
	if page := harmOf(message); page != "" {
		hints[page] = saidByComponent
	}
	if s := spoken(message); s != nil {
		for i, code := range s.codes {
			hints[code] = saidByComponent / float64(i+1)
		}
	}
	if code := stage(message); code != "" {
		hints[code] += saidByAny
		if wholeStage(code) {
			hints[code] += saidByAny
		}
	}
	for _, e := range whatItMeans(message) {
		score := float64(saidByAny)
		if len(e.Drivers) > 0 {
			score = saidByDriver
		}
		for i, code := range pagesAbout(e.Meaning, message) {
			hints[code] = max(hints[code], score-float64(i))
		}
	}
	return hints
}

// wholeStage reports whether the page is the one about a stage, whatever fails there.
func wholeStage(code string) bool {
	return slices.Contains([]string{"VD104", "VD302", "VD416", "VD511", "VD512", "VD515"}, code)
}

// pagesOfMeanings are the checks that look for only one meaning. All other meanings belong to
// attach-refused and mount-refused.
var pagesOfMeanings = map[driverwords.Meaning]string{
	driverwords.AttachedElsewhere: "VD404",
	driverwords.AttachLimit:       "VD608",
	driverwords.BackendBusy:       "VD610",
	driverwords.BackendStuck:      "VD610",
	driverwords.DeviceMissing:     "VD308",
	driverwords.DriverUnavailable: "VD610",
	driverwords.MachineBusy:       "VD610",
	driverwords.MachineGone:       "VD620",
	driverwords.NodeUnknown:       "VD620",
	driverwords.NotAttached:       "VD308",
	driverwords.NotRegistered:     "VD602",
	driverwords.OperationPending:  "VD610",
	driverwords.SecretMissing:     "VD606",
	driverwords.Throttled:         "VD609",
	driverwords.TimedOut:          "VD610",
	driverwords.Unreachable:       "VD610",
	driverwords.GrowRefused:       "VD511",
	driverwords.RecordMissing:     "VD504",
	driverwords.ZoneMismatch:      "VD506",
}

// pagesAbout are the codes of the checks that report the meaning, as far as the message shows
// whether it comes from an attach, a detach or a mount.
func pagesAbout(meaning driverwords.Meaning, message string) []string {
	var codes []string
	if code := stage(message); meaning != driverwords.NotRegistered && wholeStage(code) {
		return []string{code}
	}
	mount := saidBy(message, nil) == nodeTool || strings.Contains(message, "MountVolume") || strings.Contains(message, "MapVolume") || strings.Contains(message, "FailedMount")
	attach := strings.Contains(message, "AttachVolume") || strings.Contains(message, "attachError")
	// a Secret of the pod, or of a volume that the kubelet mounts
	own := mount && meaning == driverwords.SecretMissing && !strings.Contains(message, "rpc error")
	if code := pagesOfMeanings[meaning]; code != "" && (!mount || code != "VD610") && !own {
		codes = append(codes, code)
	}
	switch {
	case strings.Contains(message, "etach") && !mount && !attach:
		codes = append(codes, "VD103")
	case mount:
		codes = append(codes, "VD411")
	case attach:
		codes = append(codes, "VD410")
	case len(codes) == 0:
		codes = append(codes, "VD410", "VD411")
	}
	return codes
}
