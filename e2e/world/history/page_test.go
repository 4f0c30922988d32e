package history

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/template"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/api"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/bubble"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/claims"
)

var (
	page = flag.String("page", "", "the page to write what came of the stories and histories to")
	save = flag.String("save", "", "a file to write the same to, for -add")
	add  = flag.String("add", "", "a pattern of files of -save, the results of other runs of this very program, to add to the page")
)

// outcome is what the page has.
var outcome = results{Tally: claims.NewTally(), Deeds: Deeds{Not: map[string]int{}}}

type results struct {
	mu sync.Mutex
	*claims.Tally
	// Program is the hash of the program that was run.
	Program   string
	Stories   []told
	Histories int
	// Seeds are those of the histories, each with their number.
	Seeds []string
	// WithFalse are the histories with a false claim.
	WithFalse int
	Took      time.Duration
	// Deeds are what findings of the stories said to do, and what came of it.
	Deeds Deeds
}

// DeedKinds counts the outcomes by what was done.
func (r *results) DeedKinds() []deedKind {
	var kinds []deedKind
	for _, o := range r.Deeds.Done {
		i := slices.IndexFunc(kinds, func(k deedKind) bool { return k.Kind == o.Kind })
		if i < 0 {
			i = len(kinds)
			kinds = append(kinds, deedKind{Kind: o.Kind})
		}
		k := &kinds[i]
		k.Done++
		for _, c := range []struct {
			so bool
			n  *int
		}{{o.Needed, &k.Needed}, {o.Cured, &k.Cured}, {o.Lasted, &k.Lasted}, {o.Harm != "", &k.Harmed}} {
			if c.so {
				*c.n++
			}
		}
		if code := string(o.Code); !slices.Contains(k.Codes, code) {
			k.Codes = append(k.Codes, code)
		}
	}
	slices.SortFunc(kinds, func(a, b deedKind) int { return cmp.Compare(a.Kind, b.Kind) })
	return kinds
}

type deedKind struct {
	Kind                                string
	Codes                               []string
	Done, Needed, Cured, Lasted, Harmed int
}

// InTime counts the stories that were answered within a minute of their proof, and a look.
func (r *results) InTime() (n int) {
	for _, s := range r.Stories {
		if s.After != nil && *s.After <= time.Minute+LookEvery {
			n++
		}
	}
	return n
}

// Proven counts the stories with a proof.
func (r *results) Proven() (n int) {
	for _, s := range r.Stories {
		if s.After != nil {
			n++
		}
	}
	return n
}

func (r *results) add(s told, tally *claims.Tally) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Stories = append(r.Stories, s)
	r.Add(tally)
}

// asked adds what copies of worlds were asked.
func (r *results) asked(tally *claims.Tally) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Add(tally)
}

// judge judges what was done.
func (r *results) judge(q claims.Question, left *claims.Record, acted Played) Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Deeds.judge(q, left, acted)
}

func TestMain(m *testing.M) {
	flag.Parse()
	bubble.Quiet()
	debug.SetGCPercent(800) // a world is small, and the machine's memory is not
	began := time.Now()
	code := m.Run()
	outcome.Took = time.Since(began)
	if err := outcome.keep(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// keep adds the results of other runs, and writes what was asked for.
func (r *results) keep() error {
	var err error
	if r.Program, err = program(); err != nil {
		return err
	}
	files, err := filepath.Glob(*add)
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		other := results{Tally: claims.NewTally()}
		if err := json.Unmarshal(text, &other); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if other.Program != r.Program {
			return fmt.Errorf("%s is of another program", file)
		}
		r.Add(other.Tally)
		for _, s := range other.Stories {
			if !slices.ContainsFunc(r.Stories, func(told told) bool { return told.Name == s.Name }) {
				r.Stories = append(r.Stories, s)
			}
		}
		r.Histories, r.WithFalse, r.Took = r.Histories+other.Histories, r.WithFalse+other.WithFalse, r.Took+other.Took
		r.Seeds = append(r.Seeds, other.Seeds...)
		r.Deeds.Done = append(r.Deeds.Done, other.Deeds.Done...)
		for why, n := range other.Deeds.Not {
			r.Deeds.Not[why] += n
		}
	}
	if *save != "" {
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if err := os.WriteFile(*save, text, 0o600); err != nil {
			return err
		}
	}
	if *page != "" {
		slices.SortStableFunc(r.Stories, func(a, b told) int { return place(a) - place(b) })
		return r.write(*page)
	}
	return nil
}

// program is the hash of the file of this program: it links the tool and the judges.
func program() (string, error) {
	file, err := os.Executable()
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(file)
	return fmt.Sprintf("%x", sha256.Sum256(text)), err
}

// place is that of the story among Stories.
func place(t told) int {
	return slices.IndexFunc(Stories, func(s Story) bool { return s.Name == t.Name })
}

//go:embed page.tmpl
var pageText string

func (r *results) write(file string) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"realParts": realParts,
		"clock": func(d time.Duration) string {
			if d == 0 {
				return ""
			}
			return clock(d)
		},
		"after": func(d *time.Duration) string {
			if d == nil {
				return ""
			}
			return d.Round(time.Second).String()
		},
		"join":   func(s []string) string { return strings.Join(s, ", ") },
		"counts": counts,
		"deeds": func() []string {
			return slices.DeleteFunc(slices.Sorted(maps.Keys(deeds)), func(d string) bool { return slices.Contains(byHand, d) })
		},
		"byHand": func() []string { return byHand },
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
