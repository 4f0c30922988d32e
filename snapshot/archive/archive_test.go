package archive

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/ulikunitz/xz"
)

var roomy = Limits{Unpacked: 1 << 20, Files: 100}

// contents are the names and texts of an archive, or the one text without a name.
func contents(r io.Reader, limits Limits) (list []string, err error) {
	text, files, err := Open(r, limits)
	if err != nil {
		return nil, err
	}
	if files == nil {
		all, err := io.ReadAll(text)
		return []string{string(all)}, err
	}
	for file, err := range files {
		if err != nil {
			return list, err
		}
		list = append(list, file.Name)
		if file.Kind == Special {
			return list, errors.New("a link or a special file")
		}
		if file.Kind == Regular {
			all, err := io.ReadAll(file.Text)
			if err != nil {
				return list, err
			}
			list = append(list, string(all))
		}
	}
	return list, nil
}

func tarOf(t testing.TB, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		must(t, w.WriteHeader(&tar.Header{Name: files[i], Mode: 0o644, Size: int64(len(files[i+1])), Typeflag: tar.TypeReg}))
		_, err := io.WriteString(w, files[i+1])
		must(t, err)
	}
	must(t, w.Close())
	return b.Bytes()
}

func zipOf(t testing.TB, method uint16, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		entry, err := w.CreateHeader(&zip.FileHeader{Name: files[i], Method: method})
		must(t, err)
		_, err = io.WriteString(entry, files[i+1])
		must(t, err)
	}
	must(t, w.Close())
	return b.Bytes()
}

func gzipOf(t testing.TB, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(text)
	must(t, err)
	must(t, w.Close())
	return b.Bytes()
}

func xzOf(t testing.TB, config xz.WriterConfig, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := config.NewWriter(&b)
	must(t, err)
	_, err = w.Write(text)
	must(t, err)
	must(t, w.Close())
	return b.Bytes()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestForms: the same files in every form read the same, from a file and from a pipe that
// gives one byte at a time.
func TestForms(t *testing.T) {
	files := []string{"a.yaml", "kind: Pod\n", "b/c.json", strings.Repeat("{}\n", 5000), "empty.yml", ""}
	tarred := tarOf(t, files...)
	small := xz.WriterConfig{DictCap: 4096, BlockSize: 1000}
	for name, packed := range map[string][]byte{
		"tar":                 tarred,
		"tar.gz":              gzipOf(t, tarred),
		"tar.xz":              xzOf(t, xz.WriterConfig{}, tarred),
		"tar.xz, CRC32":       xzOf(t, xz.WriterConfig{CheckSum: xz.CRC32}, tarred),
		"tar.xz, SHA256":      xzOf(t, xz.WriterConfig{CheckSum: xz.SHA256}, tarred),
		"tar.xz, no check":    xzOf(t, xz.WriterConfig{NoCheckSum: true}, tarred),
		"tar.xz, many blocks": xzOf(t, small, tarred),
		"tar.xz, two streams": append(append(xzOf(t, small, tarred[:700]), 0, 0, 0, 0, 0, 0, 0, 0), xzOf(t, xz.WriterConfig{CheckSum: xz.SHA256}, tarred[700:])...),
		"zip":                 zipOf(t, zip.Deflate, files...),
		"zip, stored":         zipOf(t, zip.Store, files...),
	} {
		for from, r := range map[string]io.Reader{"file": bytes.NewReader(packed), "pipe": iotest.OneByteReader(bytes.NewReader(packed))} {
			got, err := contents(r, roomy)
			if err != nil {
				t.Errorf("%s from a %s: %v", name, from, err)
			}
			if diff := cmp.Diff(files, got); diff != "" {
				t.Errorf("%s from a %s: %s", name, from, diff)
			}
		}
	}
	for name, packed := range map[string][]byte{"text": tarred[512:522], "gz": gzipOf(t, tarred[512:522]), "xz": xzOf(t, xz.WriterConfig{}, tarred[512:522])} {
		if got, err := contents(bytes.NewReader(packed), roomy); err != nil || got[0] != files[1] {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestOtherTools reads what xz 5.4 and Info-ZIP 3.0 wrote.
func TestOtherTools(t *testing.T) {
	files := map[string]string{}
	for _, name := range []string{"a.yaml", "b.yaml"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		must(t, err)
		files[name] = string(text)
	}
	both := []string{"a.yaml", files["a.yaml"], "b.yaml", files["b.yaml"]}
	for name, want := range map[string][]string{
		"sha256.tar.xz": both, "blocks.tar.xz": both, "infozip.zip": both, "two-streams.xz": {files["a.yaml"] + files["b.yaml"]},
	} {
		f, err := os.Open(filepath.Join("testdata", name))
		must(t, err)
		got, err := contents(f, roomy)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		must(t, f.Close())
	}
}

// TestRefused: a format that is not read is refused in one line that says what to do.
func TestRefused(t *testing.T) {
	file := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		must(t, err)
		return text
	}
	one := zipOf(t, zip.Deflate, "a.yaml", "kind: Pod\n")
	encrypted := bytes.Clone(one)
	encrypted[6] |= 1
	directory := bytes.Index(one, []byte("PK\x01\x02"))
	encrypted[directory+8] |= 1
	foreignMethod := bytes.Clone(one)
	foreignMethod[8], foreignMethod[directory+10] = 93, 93
	comment := append(bytes.Clone(one), "behind it"...)
	stored := zipOf(t, zip.Store, "a.yaml", "kind: Pod\n", "inner.zip", string(zipOf(t, zip.Store, "b.yaml", "kind: Node\n")))
	inner := stored[:bytes.Index(stored, []byte(emptyZip))+22]
	long := strings.Repeat("#", 1<<20+1)
	packed := xzOf(t, xz.WriterConfig{}, []byte("kind: Pod\n"))
	const apart = "the zip archive is damaged, or stands beside another in one file; give one archive at a time"
	for name, tt := range map[string]struct {
		in   []byte
		want string
	}{
		"bzip2":               {[]byte("BZh91AY&SY"), "packed with bzip2, which is not read: unpack it, or pack it with gzip, xz or zip"},
		"zstd":                {[]byte("\x28\xb5\x2f\xfd\x00"), "packed with zstd, which is not read: unpack it, or pack it with gzip, xz or zip"},
		"xz, filter":          {file("filter.xz"), "xz data with a filter that is not read: pack it with gzip"},
		"xz, dictionary":      {file("large-dictionary.xz"), "xz data that takes more than 64 MiB to unpack: pack it with xz -9 or less"},
		"xz, bytes behind":    {append(bytes.Clone(packed), "more than four"...), "more data follows the end of the xz data"},
		"xz, two bytes":       {append(bytes.Clone(packed), 0, 0), "the xz data is cut off"},
		"xz, bomb":            {xzOf(t, xz.WriterConfig{}, []byte(long)), "unpacks to more than 1 MiB"},
		"gzip, bomb":          {gzipOf(t, []byte(long)), "unpacks to more than 1 MiB"},
		"zip, bomb":           {zipOf(t, zip.Deflate, "a", long[:1<<19], "b", long[:1<<19], "c", "#"), "unpacks to more than 1 MiB"},
		"zip, encrypted":      {encrypted, "encrypted: unpack it"},
		"zip, method":         {foreignMethod, "packed with method 93, which is not read: unpack it"},
		"two zips":            {append(bytes.Clone(one), one...), apart},
		"zip, cut second":     {append(bytes.Clone(one), one[:len(one)-30]...), apart},
		"zip, bytes behind":   {comment, apart},
		"zip in a cut zip":    {inner, apart},
		"zip of nothing, two": {append(zipOf(t, zip.Store), one...), apart},
		"two tars":            {append(tarOf(t, "a", "b"), tarOf(t, "c", "d")...), "more data follows the end of the tar archive; give one archive at a time"},
	} {
		if _, err := contents(bytes.NewReader(tt.in), roomy); err == nil || err.Error() != tt.want {
			t.Errorf("%s: got  %v\nwant %s", name, err, tt.want)
		}
	}
}

// TestDamage cuts each form at every byte, and flips every bit: each time there is an error,
// or the result is the same. An archive with a flipped bit may have another name or time for
// a file; a wrong text is never returned.
func TestDamage(t *testing.T) {
	files := []string{"a.yaml", "kind: Pod\n", "b.yaml", strings.Repeat("kind: Node\nname: n\n", 20)}
	tarred := tarOf(t, files...)
	for name, packed := range map[string][]byte{
		"tar.gz": gzipOf(t, tarred), "zip": zipOf(t, zip.Deflate, files...), "zip, stored": zipOf(t, zip.Store, files...),
		"xz": xzOf(t, xz.WriterConfig{DictCap: 4096, BlockSize: 1500}, tarred), "xz, SHA256": xzOf(t, xz.WriterConfig{DictCap: 4096, CheckSum: xz.SHA256}, tarred),
	} {
		for n := range len(packed) {
			if got, err := contents(bytes.NewReader(packed[:n]), roomy); err == nil && n >= len(xzMagic) {
				t.Errorf("%s cut after %d of %d bytes: %q", name, n, len(packed), got)
			}
		}
		for n := range len(packed) * 8 {
			damaged := bytes.Clone(packed)
			damaged[n/8] ^= 1 << (n % 8)
			got, err := contents(bytes.NewReader(damaged), roomy)
			if err != nil || n/8 < 6 {
				continue // with other first bytes it is a text
			}
			for i := 1; i < len(files); i += 2 {
				if len(got) != len(files) || got[i] != files[i] {
					t.Errorf("%s with bit %d of byte %d over: %q", name, n%8, n/8, got)
					break
				}
			}
		}
	}
}

// TestLinks: links have no text, and folders are told from files.
func TestLinks(t *testing.T) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	link := &zip.FileHeader{Name: "link.yaml"}
	link.SetMode(0o777 | os.ModeSymlink)
	for _, header := range []*zip.FileHeader{link, {Name: "folder/"}, {Name: `old\windows.yaml`}} {
		entry, err := w.CreateHeader(header)
		must(t, err)
		if header == link {
			_, err = io.WriteString(entry, "/etc/passwd")
			must(t, err)
		}
	}
	must(t, w.Close())
	_, files, err := Open(bytes.NewReader(b.Bytes()), roomy)
	must(t, err)
	var got []string
	for file, err := range files {
		must(t, err)
		got = append(got, fmt.Sprintf("%s %d %t", file.Name, file.Kind, file.Text != nil))
	}
	if diff := cmp.Diff([]string{"link.yaml 2 false", "folder/ 1 false", "old/windows.yaml 0 true"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestContentsOfAZip: a table of contents that is longer than it says takes no memory.
func TestContentsOfAZip(t *testing.T) {
	var b bytes.Buffer
	entry := append([]byte("PK\x01\x02"), make([]byte, 42)...)
	b.WriteString(zipMagic)
	b.Write(make([]byte, 26))
	const entries = 1 << 20
	for range entries {
		b.Write(entry)
	}
	end := append([]byte(emptyZip), make([]byte, 18)...)
	binary.LittleEndian.PutUint16(end[10:], 0) // 65,536 times more entries than it says
	binary.LittleEndian.PutUint32(end[12:], uint32(entries*len(entry)))
	binary.LittleEndian.PutUint32(end[16:], 30)
	b.Write(end)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := contents(bytes.NewReader(b.Bytes()), roomy)
	runtime.ReadMemStats(&after)
	if err == nil || err.Error() != "more than 100 files in it" {
		t.Error(err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 32<<20 {
		t.Errorf("took %d MiB", took>>20)
	}
}

// TestLargeZip: a table of contents of the long form is found where it says.
func TestLargeZip(t *testing.T) {
	var files []string
	for i := range 1<<16 + 1 {
		files = append(files, fmt.Sprint(i), "")
	}
	packed := zipOf(t, zip.Store, files...)
	limits := Limits{Unpacked: 1 << 20, Files: 1 << 17}
	if got, err := contents(bytes.NewReader(packed), limits); err != nil || len(got) != len(files) {
		t.Errorf("%d names and texts, %v", len(got), err)
	}
	if _, err := contents(bytes.NewReader(append(bytes.Clone(packed), packed...)), limits); !errors.Is(err, errZipMore) {
		t.Errorf("two of them: %v", err)
	}
}

// TestDictionary: no file makes xz reserve more than MaxDictionary, whichever block asks for
// it.
func TestDictionary(t *testing.T) {
	packed := xzOf(t, xz.WriterConfig{DictCap: 4096, BlockSize: 1000}, bytes.Repeat([]byte("kind: Pod\n"), 300))
	const second = 2
	at := -1
	for n := range second {
		next := bytes.Index(packed[at+1:], []byte{0x21, 0x01})
		if next < 0 {
			t.Fatalf("%d blocks", n)
		}
		at += 1 + next
	}
	packed[at+2] = 40 // 4 GiB
	header := at - 2
	for packed[header] == 0 || !fits(packed[header:]) {
		header-- // back to the byte that holds the header's length
		if header < at-40 {
			t.Fatal("no header")
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := io.ReadAll(newXZReader(bufio.NewReader(bytes.NewReader(packed))))
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "takes more than 64 MiB") {
		t.Errorf("got %v", err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
		t.Errorf("took %d MiB", took>>20)
	}
}

// fits gives the block's changed header the right checksum, where the bytes can be a header.
func fits(header []byte) bool {
	length := (int(header[0]) + 1) * 4
	if length > 64 || length > len(header) || header[1]&0x3f != 0 {
		return false
	}
	sum := binary.LittleEndian.Uint32(header[length-4:])
	was := bytes.Clone(header[:length-4])
	i := bytes.Index(was, []byte{0x21, 0x01, 40})
	if i < 0 {
		return false
	}
	was[i+2] = 0
	if crc := crc32.ChecksumIEEE(was); crc != sum {
		return false
	}
	binary.LittleEndian.PutUint32(header[length-4:], crc32.ChecksumIEEE(header[:length-4]))
	return true
}

// TestReadErrors: an error of the disk is reported as such, not as damage.
func TestReadErrors(t *testing.T) {
	lost := errors.New("input/output error")
	packed := zipOf(t, zip.Store, "a.yaml", "kind: Pod\n")
	for name, in := range map[string][]byte{"zip": packed[:20], "text": []byte("kind")} {
		if _, err := contents(io.MultiReader(bytes.NewReader(in), iotest.ErrReader(lost)), roomy); !errors.Is(err, lost) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzOpen: whatever the bytes, the bounds hold and errors are one line.
func FuzzOpen(f *testing.F) {
	files := []string{"a.yaml", "kind: Pod\n", "b/c.json", strings.Repeat("{}\n", 500)}
	tarred := tarOf(f, files...)
	for _, seed := range [][]byte{
		tarred, gzipOf(f, tarred), zipOf(f, zip.Deflate, files...), zipOf(f, zip.Store, files...), xzOf(f, xz.WriterConfig{DictCap: 4096, BlockSize: 1000}, tarred),
		xzOf(f, xz.WriterConfig{CheckSum: xz.SHA256}, []byte("a: b\n")), []byte("kind: Pod\n"), []byte(emptyZip), []byte(xzMagic),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		list, err := contents(bytes.NewReader(in), Limits{Unpacked: 64 << 10, Files: 20})
		if err != nil && (strings.ContainsAny(err.Error(), "\n\r") || len(err.Error()) > 300) {
			t.Errorf("not one line: %q", err)
		}
		total := 0
		for _, text := range list {
			total += len(text)
		}
		if len(list) <= 1 && total > 64<<10 {
			t.Errorf("%d bytes", total)
		}
		piped, pipeErr := contents(iotest.HalfReader(bytes.NewReader(in)), Limits{Unpacked: 64 << 10, Files: 20})
		if (err == nil) != (pipeErr == nil) || err == nil && !cmp.Equal(list, piped) {
			t.Errorf("from a file %d, %v; from a pipe %d, %v", len(list), err, len(piped), pipeErr)
		}
	})
}

// TestPackedTwice: an upload packs again what is packed already.
func TestPackedTwice(t *testing.T) {
	packed := []byte("apiVersion: v1\n")
	for range 2 {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		if _, err := w.Write(packed); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		packed = out.Bytes()
	}
	text, files, err := Open(bytes.NewReader(packed), Limits{Unpacked: 1 << 20, Files: 10})
	if err != nil || files != nil {
		t.Fatal(files, err)
	}
	if got, err := io.ReadAll(text); string(got) != "apiVersion: v1\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
