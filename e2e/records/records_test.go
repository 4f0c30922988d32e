package records

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// volume is a folder with the records of a volume and what was written to it.
func volume(t *testing.T) (on, written string) {
	dir := t.TempDir()
	return filepath.Join(dir, File), filepath.Join(dir, "written")
}

func open(t *testing.T, on, written, name string) *Writer {
	t.Helper()
	w, err := Open(on, written, name)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func write(t *testing.T, writers ...*Writer) {
	t.Helper()
	for _, w := range writers {
		if err := w.Write(); err != nil {
			t.Fatal(err)
		}
	}
}

func check(t *testing.T, on, written string) (string, int) {
	t.Helper()
	var files [2]*os.File
	for i, name := range []string{on, written} {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		files[i] = file
	}
	wrong, n := Check(files[0], files[1])
	return strings.Join(wrong, "\n"), n
}

func TestOneAfterTheOther(t *testing.T) {
	on, written := volume(t)
	a := open(t, on, written, "a")
	write(t, a, a)
	b := open(t, on, written, "b")
	write(t, b)
	if wrong, n := check(t, on, written); wrong != "" || n != 3 {
		t.Errorf("%d records: %s", n, wrong)
	}
}

func TestWriters(t *testing.T) {
	r := func(name string) string { return Record{Number: 1, Writer: name}.String() }
	got := Writers(strings.NewReader(strings.Join([]string{r("b"), r("a"), r("b"), r("c")[:9]}, "\n")))
	if want := []string{"b", "a"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, first *Writer, on, written string)
		says  string
	}{
		"two at a time": {func(t *testing.T, first *Writer, on, written string) {
			write(t, open(t, on, written, "second"), first)
		}, "line 5 has number 4 by first after 4"},
		"one writes on after another": {func(t *testing.T, first *Writer, on, written string) {
			write(t, open(t, on, written, "second"))
			first.last++
			write(t, first)
		}, "first writes on after second"},
		"a record that is lost": {func(t *testing.T, _ *Writer, on, _ string) { truncate(t, on, 1) }, "record 3 of first is lost"},
		"half a record":         {func(t *testing.T, _ *Writer, on, _ string) { appendTo(t, on, "4 a 12") }, "line 4 is broken: checksum 12"},
		"a gap": {func(t *testing.T, first *Writer, _, _ string) {
			first.last = 7
			write(t, first)
		}, "has number 8 by first after 3"},
	} {
		t.Run(name, func(t *testing.T) {
			on, written := volume(t)
			first := open(t, on, written, "first")
			write(t, first, first, first)
			c.spoil(t, first, on, written)
			if wrong, _ := check(t, on, written); !strings.Contains(wrong, c.says) {
				t.Errorf("not noticed: want %q in %q", c.says, wrong)
			}
		})
	}
}

// truncate takes the last lines of a file away.
func truncate(t *testing.T, name string, n int) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
	if err := os.WriteFile(name, []byte(strings.Join(all[:len(all)-n], "")), 0o600); err != nil {
		t.Fatal(err)
	}
}

func appendTo(t *testing.T, name, text string) {
	t.Helper()
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
}
