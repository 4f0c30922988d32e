package history

import (
	"cmp"
	_ "embed"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/api"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/bubble"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/claims"
)

var page = flag.String("page", "", "the page to write what came of the stories and histories to")

// outcome is what the page has.
var outcome = results{Tally: claims.NewTally()}

type results struct {
	*claims.Tally
	Stories   []told
	Histories int
	// WithFalse are the histories with a false claim.
	WithFalse int
	Took      time.Duration
}

func (r *results) add(s told, tally *claims.Tally) {
	r.Stories = append(r.Stories, s)
	r.Tally.Add(tally)
}

func TestMain(m *testing.M) {
	flag.Parse()
	bubble.Quiet()
	began := time.Now()
	code := m.Run()
	outcome.Took = time.Since(began)
	if *page != "" {
		if err := outcome.write(*page); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

//go:embed page.tmpl
var pageText string

func (r *results) write(file string) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"clock": func(d time.Duration) string {
			if d == 0 {
				return ""
			}
			return clock(d)
		},
		"join":   func(s []string) string { return strings.Join(s, ", ") },
		"counts": counts,
		"deeds":  func() []string { return slices.Sorted(maps.Keys(deeds)) },
		"kinds": func() []count {
			kinds := map[string]int{}
			for _, f := range r.False {
				kinds[f.Key()]++
			}
			return counts(kinds)
		},
		"version": func() string { return api.Version },
		"minutes": func(d time.Duration) int { return int(d.Minutes()) },
	}).Parse(pageText)
	if err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return t.Execute(f, r)
}

type count struct {
	Name string
	N    int
}

// counts are in the order of their numbers, the largest first.
func counts(m map[string]int) []count {
	var all []count
	for name, n := range m {
		all = append(all, count{name, n})
	}
	slices.SortFunc(all, func(a, b count) int { return cmp.Or(b.N-a.N, cmp.Compare(a.Name, b.Name)) })
	return all
}
