package explain

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// mostPages is how many pages a search shows.
const mostPages = 5

// hit is a page that has words of a text, with its score.
type hit struct {
	Page
	score float64
}

// search prints the pages that are nearest to the text, which may be a line of an event, each
// with its line that has most of the words. hints are additions to the score of a page, by
// its code, or its name where it has none.
func search(w io.Writer, text string, hints map[string]float64) error {
	hits := library().find(text, hints)
	if len(hits) == 0 {
		return fmt.Errorf("no page is called %q or has one of these words: \"kubectl volume-doctor explain\" lists all pages", text)
	}
	for _, h := range hits[:min(len(hits), mostPages)] {
		if err := h.list(w); err != nil {
			return err
		}
		if line := bestLine(h.Text, text); line != "" {
			fmt.Fprintf(w, "       > %s\n", line)
		}
	}
	return nil
}

// index ranks pages by BM25 (Robertson and Zaragoza, 2009): the fewer pages have a word, the
// more it counts for a page. Two neighbouring words count as one more word.
type index struct {
	pages []Page
	// terms has the frequency of each term in each page, weighted by its place; length is the
	// number of a page's terms.
	terms  []map[string]float64
	length []float64
	mean   float64
	// having is the number of pages with the term.
	having map[string]int
}

var library = sync.OnceValue(func() *index { return newIndex(Pages()) })

// The weights of a term by its place; in other places the weight is one.
const (
	inTitle   = 3
	inSymptom = 3
)

func newIndex(pages []Page) *index {
	x := &index{pages: pages, having: map[string]int{}}
	for _, p := range pages {
		terms, length := map[string]float64{}, 0.0
		for _, part := range strings.Split(p.Text, "\n## ") {
			weight := 1.0
			if strings.HasPrefix(part, "Symptom") {
				weight = inSymptom
			}
			for _, term := range termsOf(part) {
				terms[term] += weight
				length++
			}
		}
		for _, term := range termsOf(p.Name + " " + p.Title) {
			terms[term] += inTitle
		}
		for term := range terms {
			x.having[term]++
		}
		x.terms, x.length = append(x.terms, terms), append(x.length, length)
		x.mean += length / float64(len(pages))
	}
	return x
}

// find returns the pages with any of the text's terms or a hint, the nearest first.
func (x *index) find(text string, hints map[string]float64) []hit {
	const saturation, lengthWeight = 1.2, 0.75 // the usual values
	wanted := termsOf(text)
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	var hits []hit
	for i, p := range x.pages {
		score := 0.0
		for _, term := range wanted {
			n, having := x.terms[i][term], float64(x.having[term])
			if n == 0 {
				continue
			}
			rare := math.Log(1 + (float64(len(x.pages))-having+0.5)/(having+0.5))
			score += rare * n * (saturation + 1) / (n + saturation*(1-lengthWeight+lengthWeight*x.length[i]/x.mean))
		}
		if score += hints[cmp.Or(p.Code, p.Name)]; score > 0 {
			hits = append(hits, hit{p, score})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.score, a.score) })
	return hits
}

// identifier matches a text that names one object and not a failure.
var identifier = regexp.MustCompile(`(?i)\b(?:pvc|csi|vol|snap|i|pod)-[0-9a-f-]{8,}\b|\b[0-9a-f]{8}-[0-9a-f-]{20,}\b|\b\d{5,}\b`)

var wordOf = regexp.MustCompile(`[\pL\pN]+`)

// termsOf are the words of the text, and the pairs of neighbouring words within a clause.
func termsOf(text string) []string {
	var terms []string
	for clause := range strings.FieldsFuncSeq(identifier.ReplaceAllString(strings.ToLower(text), "\n\n"), func(r rune) bool { return strings.ContainsRune(".:;,\"`()[]", r) }) {
		for _, sentence := range strings.Split(clause, "\n\n") {
			previous := ""
			for _, word := range wordOf.FindAllString(sentence, -1) {
				terms = append(terms, word)
				if previous != "" {
					terms = append(terms, previous+" "+word)
				}
				previous = word
			}
		}
	}
	return terms
}

// bestLine is the line of the page with most of the text's terms; "" where none has
// any.
func bestLine(page, text string) string {
	best, most := "", 0.0
	x := library()
	wanted := termsOf(text)
	for _, line := range strings.Split(page, "\n")[1:] {
		score := 0.0
		for _, term := range termsOf(line) {
			if slices.Contains(wanted, term) {
				score += 1 / float64(1+x.having[term])
			}
		}
		if score > most {
			best, most = strings.TrimSpace(line), score
		}
	}
	return best
}
