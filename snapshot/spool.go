package snapshot

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
)

// Spool holds pods in compressed form, as the documents of a file, in place of the list: 150,000
// pods take 35 MB instead of 400. The pods come in pages, as from an API server. The zero Spool is
// empty. A nil Spool holds nothing.
type Spool struct {
	pages [][]byte // each page is a complete member of a gzip file
	count int

	page   bytes.Buffer // the text of the current page
	inPage int
	lines  lineEncoder

	// A page is packed while the next one is read.
	packing sync.WaitGroup
	full    bytes.Buffer // the text of the page that is being packed
	packed  bytes.Buffer
	zip     *gzip.Writer
}

// Add writes a trimmed pod into the current page.
func (s *Spool) Add(pod *corev1.Pod) error {
	line, err := s.lines.encode(resourceOf(Pods), pod)
	if err != nil {
		return err
	}
	s.page.WriteString(line)
	s.inPage++
	return nil
}

// EndPage keeps the current page and starts the next one.
func (s *Spool) EndPage() error {
	if s == nil || s.inPage == 0 {
		return nil
	}
	s.packing.Wait()
	s.page, s.full, s.count = s.full, s.page, s.count+s.inPage
	s.DropPage()
	s.packing.Go(s.pack)
	return nil
}

// Count returns the number of pods in the kept pages.
func (s *Spool) Count() int {
	if s == nil {
		return 0
	}
	return s.count
}

func (s *Spool) pack() {
	s.packed.Reset()
	if s.zip == nil {
		s.zip = newZip(nil)
	}
	s.zip.Reset(&s.packed)
	_, _ = s.zip.Write(s.full.Bytes()) // a bytes.Buffer never fails
	_ = s.zip.Close()
	s.pages = append(s.pages, bytes.Clone(s.packed.Bytes()))
}

// DropPage discards the current page.
func (s *Spool) DropPage() {
	if s == nil {
		return
	}
	s.page.Reset()
	s.inPage = 0
}

// Reset discards all pages.
func (s *Spool) Reset() {
	if s == nil {
		return
	}
	s.packing.Wait()
	s.DropPage()
	s.pages, s.count = nil, 0
}

// copyTo writes the pages, either compressed as they are or as plain text.
func (s *Spool) copyTo(w io.Writer, compressed bool) error {
	s.packing.Wait()
	for _, page := range s.pages {
		var text io.Reader = bytes.NewReader(page)
		if !compressed {
			lines, err := gzip.NewReader(text)
			if err != nil {
				return err
			}
			text = lines
		}
		if _, err := io.Copy(w, text); err != nil {
			return err
		}
	}
	return nil
}

// lineEncoder encodes an object as the document that a file contains for it.
type lineEncoder struct {
	line    strings.Builder
	encoder *json.Encoder
}

// encode returns the object as one line. It sets the object's kind.
func (e *lineEncoder) encode(r *row, object apiObject) (string, error) {
	if e.encoder == nil {
		e.encoder = json.NewEncoder(&e.line)
		e.encoder.SetEscapeHTML(false)
	}
	object.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(r.Version, r.Object))
	e.line.Reset()
	e.line.WriteString("---\n")
	if err := e.encoder.Encode(object); err != nil {
		return "", fmt.Errorf("%s %s: %w", r.Object, identity{r.Kind, object.GetNamespace(), object.GetName()}, err)
	}
	return safetext.JSON(e.line.String()), nil
}
