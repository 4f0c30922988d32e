// Package recorded keeps what real controllers and kubelets have answered, so that the model
// is held against them where none of them is built.
//
// A file holds one answer a line, compressed, below the fingerprint of what was asked: of
// the programs that draw the questions, of those that put them to a release, and of the
// releases. Where any of these has changed, the answers may be to other questions, and the
// file is refused until `make record` has asked again.
package recorded

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/printer"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// head is the first line of a file.
type head struct {
	Fingerprint string `json:"fingerprint"`
}

// Fingerprint identifies what the files of these patterns say. Comments and tests of a Go
// file do not count: no answer depends on them.
func Fingerprint(patterns ...string) (string, error) {
	hash := sha256.New()
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		files = slices.DeleteFunc(files, func(name string) bool { return strings.HasSuffix(name, "_test.go") && pattern != name })
		if len(files) == 0 {
			return "", fmt.Errorf("fingerprint: nothing is named %s", pattern)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				return "", err
			}
			_, _ = fmt.Fprintf(hash, "%s\n", filepath.Base(name))
			if strings.HasSuffix(name, ".go") {
				err = writeCode(hash, name, text)
			} else {
				_, err = hash.Write(text)
			}
			if err != nil {
				return "", err
			}
		}
	}
	return fmt.Sprintf("%x", hash.Sum(nil)[:12]), nil
}

// writeCode writes the declarations of a Go file, and its build constraints.
func writeCode(w io.Writer, name string, text []byte) error {
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "//go:build ") {
			if _, err := io.WriteString(w, line); err != nil {
				return err
			}
		}
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	// A file set without lines: where code stands does not count.
	return (&printer.Config{Mode: printer.RawFormat}).Fprint(w, token.NewFileSet(), file)
}

// Writer adds answers to a file.
type Writer struct {
	file *os.File
	gzip *gzip.Writer
	*json.Encoder
}

// Create begins a file of answers.
func Create(name, fingerprint string) (*Writer, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	compressed, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := &Writer{file: file, gzip: compressed, Encoder: json.NewEncoder(compressed)}
	return w, w.Encode(head{fingerprint})
}

// Close ends the file.
func (w *Writer) Close() error {
	return errors.Join(w.gzip.Close(), w.file.Close())
}

// Read are the answers of a file. It fails where they are not to the questions of the
// fingerprint.
func Read[T any](name, fingerprint string) (answers []T, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read what was recorded: %w: \"make record\" asks", err)
	}
	defer func() { _ = file.Close() }()
	text, err := gzip.NewReader(bufio.NewReader(file))
	if err != nil {
		return nil, fmt.Errorf("read what was recorded: %s: %w", name, err)
	}
	decoder := json.NewDecoder(text)
	var first head
	if err := decoder.Decode(&first); err != nil {
		return nil, fmt.Errorf("read what was recorded: %s: %w", name, err)
	}
	if first.Fingerprint != fingerprint {
		return nil, fmt.Errorf("%s is stale: the releases were asked by programs with the fingerprint %s, and these have %s: \"make record\" asks again",
			name, first.Fingerprint, fingerprint)
	}
	for {
		var answer T
		switch err := decoder.Decode(&answer); {
		case errors.Is(err, io.EOF):
			return answers, nil
		case err != nil:
			return nil, fmt.Errorf("read what was recorded: %s: %w", name, err)
		}
		answers = append(answers, answer)
	}
}
