package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v2"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/yamljson"
)

// realYAML are files as kubectl, this tool and people write them. Bytes drawn at
// random never get as far as a Pod, so the targets below change one place of a
// real file.
func realYAML(t testing.TB) []string {
	t.Helper()
	var files []string
	for _, name := range []string{"testdata/kubectl-get.yaml", "testdata/snapshot.golden.yaml"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, string(text))
	}
	for _, name := range []string{"waiting", "running"} {
		text, err := os.ReadFile("../testdata/bases/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		s, _, err := Read(name, bytes.NewReader(text), ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, string(text), written(t, s))
	}
	return files
}

func written(t testing.TB, s *Snapshot) string {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, s); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// splice replaces cut bytes of the text with others.
func splice(text string, at uint16, cut uint8, insert string) string {
	from := int(at) % (len(text) + 1)
	return text[:from] + insert + text[min(from+int(cut), len(text)):]
}

// FuzzYAML holds the reader of YAML against the library, over real files with one
// place changed. Where it does not leave a document to the library it must give
// the same objects.
func FuzzYAML(f *testing.F) {
	files := realYAML(f)
	for i := range files {
		f.Add(uint8(i), uint16(0), uint8(0), "")
	}
	for i, insert := range []string{
		"- ", "\n- ", "  ", ": ", "\n", "\n---\n", "\n...\n", "|\n", ">-\n", "&a ", "*a", "!!str ", "'", "\"", "#", " # ", "\t", "\r\n", "\nitems:\n- ", "<<: ",
		"{}", "[]", "null", "~", "yes", "010", "1e3", "0x1F", "1_000", "\\u0041", "\\x41", "\u0085", "\u2028", "\ufeff", "? ", "%YAML 1.2\n", "items:", "kind: List\n",
	} {
		f.Add(uint8(i), uint16(97*i), uint8(i%3), insert)
	}
	f.Fuzz(func(t *testing.T, which uint8, at uint16, cut uint8, insert string) {
		text := splice(files[int(which)%len(files)], at, cut, insert)
		own, _, err := Read("f", strings.NewReader(text), ReadOptions{Now: noon})
		if err != nil {
			checkLine(t, err.Error())
			return
		}
		other, err := readByLibrary(text)
		if err != nil {
			t.Fatalf("the library refuses it: %v\n%s", err, text)
		}
		if diff := cmp.Diff(writtenObjects(t, other), writtenObjects(t, own)); diff != "" {
			t.Fatalf("the library reads something else: %s\n%s", diff, text)
		}
	})
}

// readByLibrary has the library make JSON of the stream's documents that are none.
func readByLibrary(text string) (s *Snapshot, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	var documents bytes.Buffer
	text = strings.ReplaceAll(text, "\n\ufeff", "\n") // of a file that was put behind another
	for _, document := range documentsOf(withoutDirectives(text)) {
		if strings.Trim(document.content, " \t\r\n") == "" && document.begin == "" {
			continue // to the library a line of a tab is no blank one
		}
		if json.Valid([]byte(document.content)) {
			fmt.Fprintf(&documents, "---\n%s\n", document.content)
			continue
		}
		decoder := yaml.NewDecoder(strings.NewReader(document.begin + document.content + document.end))
		decoder.SetStrict(true)
		for {
			var value any
			if err := decoder.Decode(&value); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			if value == nil {
				continue
			}
			raw, err := yamljson.JSON(value, MaxDocument)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&documents, "---\n%s\n", raw)
		}
	}
	documents.WriteString("...\n") // it is whole
	s, _, err = Read("f", &documents, ReadOptions{Now: noon})
	return s, err
}

// withoutDirectives leaves out the lines before a document that the reader passes
// over: the library knows no version of YAML but 1.1.
func withoutDirectives(text string) string {
	var b strings.Builder
	before := true
	for line := range strings.Lines(text) {
		rest, begins := marker([]byte(line), "---")
		if !begins {
			rest, begins = marker([]byte(line), "...")
		}
		if !begins {
			rest = []byte(line)
		}
		if before = before || begins; before && !begins && line[0] == '%' {
			continue
		}
		content := strings.TrimLeft(string(rest), " \t\r\n")
		before = before && (content == "" || content[0] == '#')
		b.WriteString(line)
	}
	return b.String()
}

// document is one of a stream, between the marker that begins it and the one that
// ends it.
type document struct{ begin, content, end string }

// documentsOf cuts a stream at its markers. Documents that are JSON are nothing for the
// library: YAML 1.1, which is all that it knows, ends lines at other characters, wants lines
// to be indented, and keys to be shorter.
func documentsOf(text string) []document {
	var all []document
	var one document
	for line := range strings.Lines(text) {
		if rest, found := marker([]byte(line), "---"); found {
			all = append(all, one)
			one = document{begin: line[:len(line)-len(rest)]}
			line = string(rest)
		} else if rest, found := marker([]byte(line), "..."); found {
			one.end = "...\n"
			all = append(all, one)
			one = document{}
			line = string(rest)
		}
		one.content += line
	}
	return append(all, one)
}

// writtenObjects leaves out what a file says of itself.
func writtenObjects(t testing.TB, s *Snapshot) string {
	return written(t, New(s.TakenAt, Source{}, s.Objects, nil))
}

// FuzzCut holds a file that lost its end, or a piece, against the whole one, in
// each form that a snapshot has. It is an error, or what it says is complete has
// every object.
func FuzzCut(f *testing.F) {
	yamls := realYAML(f)
	own := yamls[3]
	var gathered []string
	files := bundle(f, "must-gather")
	for _, name := range slices.Sorted(maps.Keys(files)) {
		gathered = append(gathered, name, string(files[name].Data))
	}
	// Objects in other files than the header are not counted.
	header, objects, _ := strings.Cut(own, "objects: ")
	header += "objects: 0\n"
	_, objects, _ = strings.Cut(objects, "\n---\n")
	half := strings.LastIndex(objects[:len(objects)/2], "---\n")
	first, rest := objects[:half], objects[half:]
	counted := fmt.Sprintf("\nobjects: %d\n", strings.Count(own, "\n---\n"))
	forms := []struct {
		text string
		// counted reports whether the file says how many objects it has: only then is a
		// missing piece noticed.
		counted bool
	}{
		{own, true}, {zipped(own), true}, {tarOf(f, "s/snapshot.yaml", own), true}, {zipped(tarOf(f, "snapshot.yaml", own)), true},
		{yamls[0], false}, {tarOf(f, gathered...), false}, {tarOf(f, "a.yaml", header, "b.yaml", first, "c.yaml", rest), false},
		{xzOf(f, own), true}, {zipOf(f, "snapshot.yaml", own), true}, {zipOf(f, gathered...), false},
	}
	wholes := make([]*Snapshot, len(forms))
	for i, form := range forms {
		var err error
		if wholes[i], _, err = Read("f", strings.NewReader(form.text), ReadOptions{Now: noon}); err != nil {
			f.Fatal(i, err)
		}
		f.Add(uint8(i), uint32(len(form.text)/2), uint16(0))
		f.Add(uint8(i), uint32(len(form.text)/3), uint16(512))
	}
	f.Add(uint8(0), uint32(len(header)), uint16(0))
	f.Add(uint8(6), uint32(1024), uint16(0))
	f.Add(uint8(6), uint32(1024+(len(first)+511)/512*512+512), uint16(0))
	f.Fuzz(func(t *testing.T, which uint8, at uint32, lost uint16) {
		form, whole := forms[int(which)%len(forms)], wholes[int(which)%len(forms)]
		from := int(at) % len(form.text)
		text, rest := form.text[:from], form.text[min(from+int(lost), len(form.text)):]
		ended := lost == 0 || rest == "" || !form.counted
		if !ended {
			if text += rest; strings.Contains(form.text, counted) && !strings.Contains(text, counted) {
				return // as somebody may write it by hand
			}
		}
		s, _, err := Read("f", strings.NewReader(text), ReadOptions{Now: noon})
		if err != nil {
			checkLine(t, err.Error())
			return
		}
		missing := 0
		for _, kind := range Kinds() {
			fewer := countOf(whole, kind) - countOf(s, kind)
			if missing += fewer; ended && fewer > 0 && s.Complete(kind) {
				t.Errorf("%d %s are missing, and they are said to be whole", fewer, kind)
			}
		}
		if missing > 0 && !ended {
			t.Errorf("%d objects are missing, and nobody says so", missing)
		}
	})
}

// FuzzForms holds the same two files against each other as a directory and in every form
// of archive: all are an error, or all give the same snapshot.
func FuzzForms(f *testing.F) {
	whole := realYAML(f)[3]
	header, rest, _ := strings.Cut(whole, "---\n")
	f.Add("a.yaml", whole, "b.txt", "")
	f.Add("a.yaml", header, "b/c.yaml", rest)
	f.Add("kubectl/pods.json", `{"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}]}`, "kubectl/nodes.yaml", rest)
	files := bundle(f, "must-gather")
	for _, name := range slices.Sorted(maps.Keys(files))[:4] {
		f.Add(name, string(files[name].Data), path.Dir(name)+"/other.yaml", rest)
	}
	f.Fuzz(func(t *testing.T, nameA, textA, nameB, textB string) {
		for _, name := range []string{nameA, nameB} {
			if !fs.ValidPath(name) || name == "." || len(name) > 90 || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' || r == '\\' }) {
				return // no such file on any disk, or in any plain tar or zip
			}
		}
		if nameA >= nameB || strings.HasPrefix(nameB, nameA+"/") {
			return
		}
		dir := fstest.MapFS{nameA: {Data: []byte(textA)}, nameB: {Data: []byte(textB)}}
		fromDir, _, dirErr := ReadFS(".", dir, ReadOptions{Now: noon})
		// A directory is read in the order of its entries.
		var entries []string
		if err := fs.WalkDir(dir, ".", func(p string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				entries = append(entries, p, string(dir[p].Data))
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		tarred := tarOf(t, entries...)
		for form, text := range map[string]string{"tar": tarred, "tar.gz": zipped(tarred), "tar.xz": xzOf(t, tarred), "zip": zipOf(t, entries...)} {
			s, _, err := Read(".", strings.NewReader(text), ReadOptions{Now: noon})
			if (err == nil) != (dirErr == nil) {
				t.Fatalf("as a directory: %v; as a %s: %v", dirErr, form, err)
			}
			if err == nil {
				if diff := cmp.Diff(written(t, fromDir), written(t, s)); diff != "" {
					t.Fatalf("another snapshot as a %s: %s", form, diff)
				}
			}
		}
	})
}
