package output

import (
	"cmp"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// printReportWide writes each finding with its proof, without folding any. Only this format shows
// the commands that carry out a repair by hand.
func printReportWide(b *strings.Builder, r *finding.Report, opts Options) error {
	if len(r.Findings) > 0 {
		heading(b, r, opts)
	}
	causes := causeNames(r)
	for _, f := range r.Findings {
		b.WriteString("\n")
		proof(b, r, f, causes[f.CausedBy], opts)
	}
	if len(r.Waiting) > 0 {
		b.WriteString("\n")
	}
	header := []string{"POD", "NODE", "WAITS", "VOLUME", "STAGE", "NEXT TO ACT", "SINCE", "DUE"}
	err := table(b, header, waitingRows(r), nil, opts)
	end(b, r, opts)
	return err
}

// causeNames maps the fingerprint of each possible cause to its code, check and subject.
func causeNames(r *finding.Report) map[string]string {
	names := map[string]string{}
	for _, c := range r.OmittedCauses {
		names[c.Fingerprint] = fmt.Sprintf("%s %s on %s", c.Code, c.Check, c.Subject)
	}
	for _, f := range r.Findings {
		names[f.Fingerprint] = fmt.Sprintf("%s %s on %s", f.Code, f.Check, f.Subject)
	}
	delete(names, "")
	return names
}

// inFull writes the parts of a telling about one finding, as far as it has them.
func inFull(b *strings.Builder, t telling, opts Options) {
	title(b, t, opts)
	field(b, "who", t.who, opts)
	field(b, "wait?", t.wait, opts)
	do(b, t.do, opts)
	list(b, "hits", t.hits, opts)
	field(b, "don't", t.dont, opts)
	field(b, "why", t.why, opts)
	field(b, "said", t.said, opts)
}

func proof(b *strings.Builder, r *finding.Report, f finding.Finding, follows string, opts Options) {
	t := tell(r, []finding.Finding{f})
	inFull(b, t, opts)
	field(b, "began", sinceText(r.TakenAt, f.Since), opts)
	field(b, "object", objects(f), opts)
	field(b, "follows", follows, opts)
	label := "proof"
	for _, e := range f.Evidence {
		field(b, label, fmt.Sprintf("%s %s: %s", e.Object, e.Field, e.Value), opts)
		label = ""
	}
	field(b, "known", knownFrom(f), opts)
	field(b, "repair", riskOf(f.Repair), opts)
	if f.Repair != nil {
		label = "not"
		for _, lower := range f.Repair.Lower {
			field(b, label, fmt.Sprintf("%s: %s", lower.Kind, lower.Because), opts)
			label = ""
		}
	}
	if commands := byHand(f); len(commands) > 0 {
		field(b, "raw", attributed(r, "by hand, without the guards:"), opts)
		for _, c := range commands {
			fmt.Fprintf(b, "%*s%s\n", labelled, "", Safe(c))
		}
	}
	field(b, "more", f.Check+": "+explain(f.Code), opts)
}

// wordLayers describes each source of a known meaning, by its name in the report.
var wordLayers = map[string]string{
	"driver":       "the driver's own words",
	"tool":         "the words or the exit code of a tool",
	"other-driver": "another driver's words",
	"objects":      "the objects",
	"plain-words":  "plain words",
	"code":         "a code alone",
}

// knownFrom says where the meaning of the error message comes from; "" if the finding depends on no
// message.
func knownFrom(f finding.Finding) string {
	if f.KnownFrom == nil {
		return ""
	}
	said := fmt.Sprintf("from %s, %q: %s", cmp.Or(wordLayers[f.KnownFrom.Layer], f.KnownFrom.Layer), f.KnownFrom.Entry, f.KnownFrom.Meaning)
	for _, lookUp := range f.KnownFrom.LookUps {
		said += "; " + lookUp
	}
	return said
}

// sinceText returns the time and its age; "" if it is not known.
func sinceText(now metav1.Time, since *metav1.Time) string {
	if since == nil {
		return ""
	}
	return fmt.Sprintf("%s (%s ago)", facts.Stamp(*since), ago(now.Sub(since.Time)))
}

// objects names all objects that the finding is about.
func objects(f finding.Finding) string {
	names := []string{f.Subject.String()}
	for _, o := range []struct{ kind, name string }{
		{"node", string(f.Node)}, {"persistentvolume", f.PersistentVolume}, {"volumeattachment", f.VolumeAttachment},
	} {
		if name := o.kind + "/" + o.name; o.name != "" && name != names[0] {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}
