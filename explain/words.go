package explain

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/safetext"
)

// sayMeaning says what a message of a driver, of the kubelet or of one of their
// tools means. It reports whether anything is known about its words.
func sayMeaning(w io.Writer, message string) bool {
	entries := whatItMeans(message)
	for _, e := range entries {
		about, _ := e.Meaning.About()
		said := "as any driver may say it"
		switch {
		case e.Layer == driverwords.PlainWords:
			said = "as these plain words read; no driver is known to say them"
		case len(e.Drivers) > 0:
			said = "as " + strings.Join(e.Drivers, ", ") + " says it"
		}
		fmt.Fprintf(w, "%q, %s\n\n", e.Words, said)
		fmt.Fprintf(w, "  Means     %s\n", about.Says)
		fmt.Fprintf(w, "  Who acts  %s\n", e.Actor)
		fmt.Fprintf(w, "  Helps     %s\n", e.Helps)
		kinds, _ := step.In(e.Helps)
		for _, kind := range kinds {
			fmt.Fprintf(w, "  Hits      %s:\n            %s\n", step.Of(kind).Whom, step.Of(kind).Count)
		}
		for _, code := range pagesAbout(e.Meaning, message) {
			fmt.Fprintf(w, "  Page      %s\n", safetext.Kubectl("volume-doctor", "explain", code))
		}
		if e.Source != "" {
			fmt.Fprintf(w, "  Source    %s\n", e.Source)
		}
		fmt.Fprintln(w)
	}
	return len(entries) > 0
}

// whatItMeans are the entries for the words of the message, and else what its numbers or
// its plain words say.
func whatItMeans(message string) []driverwords.Entry {
	entries := driverwords.FindAll(message)
	if slices.ContainsFunc(entries, func(e driverwords.Entry) bool { return !e.Wrapper }) {
		return entries
	}
	if e, ok := driverwords.Read("", message); ok && (!e.Wrapper || len(entries) == 0) {
		entries = append([]driverwords.Entry{e}, entries...)
	}
	return entries
}

// What a known message adds to the score of the pages about it: more than any text
// scores where its driver is known to say so, and about as much as three rare words
// where any program may.
const (
	saidByDriver = 1e6
	saidByAny    = 15
)

// hintsOf are the pages about the known words of the message, by code.
func hintsOf(message string) map[string]float64 {
	hints := map[string]float64{}
	for _, e := range driverwords.FindAll(message) {
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

// pagesOfMeanings are the checks that look for one meaning of their own. All
// others belong to attach-refused and mount-refused.
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
	driverwords.ZoneMismatch:      "VD506",
}

// pagesAbout are the codes of the checks that report the meaning, as far as the
// message shows whether it comes from an attach, a detach or a mount.
func pagesAbout(meaning driverwords.Meaning, message string) []string {
	var codes []string
	mount := strings.Contains(message, "MountVolume") || strings.Contains(message, "MapVolume") || strings.Contains(message, "FailedMount")
	attach := strings.Contains(message, "AttachVolume") || strings.Contains(message, "attachError")
	if code := pagesOfMeanings[meaning]; code != "" && (!mount || code != "VD610") {
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
