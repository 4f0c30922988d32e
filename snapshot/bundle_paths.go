package snapshot

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// bundlePath says where a tool puts files of one sort in a bundle.
type bundlePath struct {
	format *format
	// path ends the path of the files. A word in capitals that begins a segment stands for any text;
	// NAMESPACE is there if the list is of one namespace.
	path string
	form form
	// holds reports whether the list is of the resource, by the words of the path.
	holds func(r *row, words map[string]string) bool
	// tell returns the reader of files that are no list, as in bundleFile; nil if they are no files
	// of the bundle.
	tell func(words map[string]string) func(r *root, text []byte)

	segments []segment
}

// segment is a segment of a path: a word, or "", and the text that follows it.
type segment struct{ word, text string }

// bundlePaths are those of all formats. The first that fits decides.
var bundlePaths = compiled(slices.Concat(mustGatherPaths, supportBundlePaths, crustGatherPaths, supportBundleKitPaths, sonobuoyPaths, veleroPaths, insightsPaths))

func compiled(all []bundlePath) []bundlePath {
	for i := range all {
		for s := range strings.SplitSeq(all[i].path, "/") {
			word := capitals.FindString(s)
			all[i].segments = append(all[i].segments, segment{word, s[len(word):]})
		}
	}
	return all
}

// capitals match the word of a segment. A name such as "Namespaces" has none.
var capitals = regexp.MustCompile(`^[A-Z]{2,}`)

// always makes the tell of files that are read alike whatever their path.
func always(tell func(r *root, text []byte)) func(map[string]string) func(*root, []byte) {
	return func(map[string]string) func(*root, []byte) { return tell }
}

// match returns the folder of the bundle, and the text of each word.
func (p *bundlePath) match(path []string) (root string, words map[string]string, ok bool) {
	above := len(path) - len(p.segments)
	if above < 0 {
		return "", nil, false
	}
	for i, s := range p.segments {
		if at := path[above+i]; s.word == "" && at != s.text || !strings.HasSuffix(at, s.text) {
			return "", nil, false
		}
	}
	words = map[string]string{}
	for i, s := range p.segments {
		text := strings.TrimSuffix(path[above+i], s.text)
		if before, twice := words[s.word]; s.word != "" && twice && text != before {
			return "", nil, false
		}
		words[s.word] = text
	}
	return strings.Join(path[:above], "/"), words, true
}

// bundleFileOf recognizes the files of all layouts by their paths.
func bundleFileOf(p string) (bundleFile, bool) {
	if !fs.ValidPath(p) {
		return bundleFile{}, false
	}
	segments := strings.Split(p, "/")
	for i := range bundlePaths {
		b := &bundlePaths[i]
		folder, words, ok := b.match(segments)
		if !ok {
			continue
		}
		namespace, isNamespaced := words["NAMESPACE"]
		f := bundleFile{format: b.format, root: folder, part: partKey{namespace: namespace, form: b.form}}
		if b.tell != nil {
			if f.tell = b.tell(words); f.tell != nil {
				return f, true
			}
			continue
		}
		for _, r := range resources {
			if r.Namespaced == isNamespaced && b.holds(r, words) {
				f.part.kind = r.Kind
				return f, true
			}
		}
	}
	return bundleFile{}, false
}
