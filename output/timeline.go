package output

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/fatih/color"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
)

// TimelineFormats returns the formats of a timeline, the default first.
func TimelineFormats() []string { return []string{"table", "json"} }

// PrintEntry prints an entry of a timeline: a line for people, or one JSON
// object on a line.
func PrintEntry(w io.Writer, format string, e finding.Entry, opts Options) error {
	if format == "json" {
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(w, safetext.JSON(string(line)))
		return err
	}
	_, err := fmt.Fprintf(w, "%s %s %s\n", e.Time.UTC().Format("15:04:05"), paintChange(e.Change, opts), visible(told(e)))
	return err
}

func paintChange(change finding.Change, opts Options) string {
	word := fmt.Sprintf("%-8s", strings.ToUpper(string(change)))
	switch change {
	case finding.Healed, finding.GapClosed:
		return paint(opts.Color, word, color.FgGreen)
	case finding.Appeared:
		return paint(opts.Color, word, color.FgRed)
	default:
		return paint(opts.Color, word, color.FgYellow)
	}
}

// told returns the part of an entry's line that follows its time and its change.
func told(e finding.Entry) string {
	if f := e.Finding; f != nil {
		line := fmt.Sprintf("%s %s %s %s", f.Severity, f.Code, f.Check, f.Subject) + suspected(*f)
		switch e.Change {
		case finding.Healed:
			return line + " after " + e.After
		case finding.Changed:
			return line + ": " + strings.Join(changes(e), "; ")
		default:
			return line + ": " + f.Line()
		}
	}
	kinds := strings.Join(texts(e.Gaps, gapKind), ", ")
	if e.Change == finding.GapClosed {
		return kinds + " can be read again"
	}
	return kinds + " cannot be followed: " + whys(e)
}

// whys returns the reasons of the entry's gaps, each once.
func whys(e finding.Entry) string {
	var all []string
	for _, g := range e.Gaps {
		if why := g.Reason + detail(g.Detail); !slices.Contains(all, why) {
			all = append(all, why)
		}
	}
	return strings.Join(all, "; ")
}

func changes(e finding.Entry) []string {
	var all []string
	if e.Was.Severity != "" {
		all = append(all, fmt.Sprintf("%s before", e.Was.Severity))
	}
	if e.Was.Since != nil {
		now := "no longer known"
		if e.Finding.Since != nil {
			now = e.Finding.Since.UTC().Format("15:04:05")
		}
		all = append(all, fmt.Sprintf("since %s, not %s", now, e.Was.Since.UTC().Format("15:04:05")))
	}
	if e.Was.Cause != "" || e.Was.Severity == "" && e.Was.Since == nil {
		all = append(all, "cause: "+e.Finding.Cause)
	}
	return all
}
