package history

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
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
	page    = flag.String("page", "", "the page to write what came of the stories and histories to")
	tallies = flag.String("tallies", "", "a folder that keeps what came of the stories, and of each 100 histories: a run of the same program that was stopped goes on after them, and one with another seed adds to them")
)

// outcome is what the page has.
var outcome *results

// variant is what this run plays: the release of the attach/detach controller, and what else is real.
func variant() string {
	if *real {
		return api.Version + " with volume managers"
	}
	return api.Version
}

func newResults() *results {
	return &results{Tally: claims.NewTally(), Program: program(), Variant: variant(), others: map[string]*results{}, Seeds: map[string]int{}, Deeds: Deeds{Not: map[string]int{}}}
}

type results struct {
	mu sync.Mutex
	*claims.Tally
	// Program is the hash of the program that was run.
	Program, Variant string
	Stories          []told
	Histories        int
	// Seeds are those of the histories, each with their number.
	Seeds map[string]int
	// WithFalse are the histories with a false claim, as seed/number.
	WithFalse []string
	// Took is the time of the processor.
	Took time.Duration
	// Deeds are what findings of the stories said to do, and what came of it.
	Deeds Deeds

	// parts are the files of the tallies that it has.
	parts []string
	// others are the results of other variants.
	others map[string]*results
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
	o, drained := r.Deeds.judge(q, left, acted)
	if drained > 0 {
		r.Exempt["ended what nothing named: a drain of the history evicted it"] += drained
	}
	return o
}

func TestMain(m *testing.M) {
	flag.Parse()
	outcome = newResults()
	bubble.Quiet()
	debug.SetGCPercent(800) // a world is small, and the machine's memory is not
	code := m.Run()
	if err := outcome.keep(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// keep adds what other runs have kept in the folder of tallies, and writes the page.
func (r *results) keep() error {
	if *page == "" {
		return nil
	}
	if *tallies != "" {
		files, err := filepath.Glob(filepath.Join(*tallies, "*.json"))
		if err != nil {
			return err
		}
		for _, file := range files {
			if slices.Contains(r.parts, file) {
				continue
			}
			other, err := load(file)
			if err != nil {
				return err
			}
			if err := r.of(other.Variant).merge(other); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	slices.SortStableFunc(r.Stories, func(a, b told) int { return place(a) - place(b) })
	return r.write(*page)
}

// of is where the results of the variant belong.
func (r *results) of(variant string) *results {
	if variant == r.Variant {
		return r
	}
	if r.others[variant] == nil {
		r.others[variant] = newResults()
		r.others[variant].Program = ""
	}
	return r.others[variant]
}

// part adds to the outcome what run finds, or what an earlier run of this program has found in the part of
// that name. It is kept where it is complete.
func part(t *testing.T, name string, run func(*results), complete func(*results) bool) {
	file := filepath.Join(*tallies, name+"-"+variant()+".json")
	outcome.parts = append(outcome.parts, file)
	if *tallies != "" {
		switch kept, err := load(file); {
		case err == nil:
			t.Logf("%s is kept, with false claims of %v", name, kept.WithFalse)
			for _, f := range kept.False {
				t.Error(f)
			}
			for _, o := range kept.Deeds.Done {
				if o.Harm != "" {
					t.Error(o.Code, o.Harm)
				}
			}
			if err := outcome.merge(kept); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			return
		case !errors.Is(err, fs.ErrNotExist):
			t.Fatal(err)
		}
	}
	r, began := newResults(), bubble.Processor()
	run(r)
	r.Took = bubble.Processor() - began
	if err := outcome.merge(r); err != nil {
		t.Fatal(err)
	}
	if *tallies == "" || !complete(r) {
		return
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(*tallies, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// load reads what a run has kept.
func load(file string) (*results, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := newResults()
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}

// merge adds the other results, which are of the same program.
func (r *results) merge(other *results) error {
	if r.Program = cmp.Or(r.Program, other.Program); r.Program != other.Program {
		return errors.New("its results are of another program")
	}
	r.Add(other.Tally)
	r.Stories = append(r.Stories, other.Stories...)
	r.Histories, r.WithFalse, r.Took = r.Histories+other.Histories, append(r.WithFalse, other.WithFalse...), r.Took+other.Took
	for _, m := range []struct{ to, from map[string]int }{{r.Seeds, other.Seeds}, {r.Deeds.Not, other.Deeds.Not}} {
		for key, n := range m.from {
			m.to[key] += n
		}
	}
	r.Deeds.Done = append(r.Deeds.Done, other.Deeds.Done...)
	return nil
}

// program is the hash of the file of this program: it links the tool and the judges.
var program = sync.OnceValue(func() string {
	file, err := os.Executable()
	if err != nil {
		panic(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
})

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
		"join": func(s []string) string { return strings.Join(s, ", ") },
		"seeds": func() string {
			var all []string
			for _, seed := range slices.Sorted(maps.Keys(r.Seeds)) {
				all = append(all, fmt.Sprintf("%s (%d)", seed, r.Seeds[seed]))
			}
			return strings.Join(all, ", ")
		},
		"counts": counts,
		"sum": func(of map[string]int) (n int) {
			for _, c := range of {
				n += c
			}
			return n
		},
		"others": func() map[string]*results { return r.others },
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
