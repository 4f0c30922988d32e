package output

import (
	"bytes"
	"html"
	"path/filepath"
	"regexp"

	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestEveryFormatSaysWhomAdviceHits checks that wherever a report of a case or a thread advises to
// delete or restart something, each of its formats says who is hit.
func TestEveryFormatSaysWhomAdviceHits(t *testing.T) {
	steps := 0
	eachCase(t, func(t *testing.T, c corpusCase) { steps += saysHits(t, c.report) })
	paths, err := filepath.Glob("../testdata/threads/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal("there are no threads", err)
	}
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s, _, err := snapshot.Read(path, bytes.NewReader(archive.Files[0].Data), snapshot.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		steps += saysHits(t, examined(path, s, reconcile.Options{}).report)
	}
	if steps < 100 {
		t.Errorf("only %d steps are told", steps)
	}
}

var (
	notLetters = regexp.MustCompile(`[^A-Za-z0-9]+`)
	tags       = regexp.MustCompile(`\\u[0-9a-f]{4}|<[^>]*>`)
	ends       = regexp.MustCompile(`^kubectl (?:delete|drain|rollout)\b.*`)
)

// bare removes from the text everything that a format puts between its words.
func bare(text string) string {
	text = tags.ReplaceAllString(html.UnescapeString(text), "")
	return notLetters.ReplaceAllString(strings.ReplaceAll(text, `\n`, " "), "")
}

// saysHits returns the number of steps in the report that hit somebody. It fails if a format does
// not say who is hit.
func saysHits(t *testing.T, r *finding.Report) int {
	t.Helper()
	steps := 0
	for _, f := range r.Findings {
		for _, s := range tell(r, []finding.Finding{f}).do {
			if m := ends.FindString(s.command); m != "" && !strings.Contains(m, "volumeattachment") && len(f.Steps) == 0 {
				t.Errorf("%s: %s, and nobody says whom that hits", f.Code, m)
			}
		}
		steps += len(f.Steps)
	}
	if steps == 0 {
		return 0
	}
	for _, format := range []string{"tree", "wide", "json", "yaml", "markdown", "html", "sarif", "junit"} {
		text := bare(string(printed(t, format, r)))
		for _, f := range r.Findings {
			if f.Advice == "" || !strings.Contains(text, bare(f.Advice)) {
				continue // for example, because the finding is only a consequence of another
			}
			for _, s := range f.Steps {
				if !s.Told && !strings.Contains(text, bare(s.Says)) {
					t.Errorf("%s: %s advises %q and does not say: %s", format, f.Code, f.Advice, s.Says)
				}
			}
		}
	}
	return steps
}
