package snapshot

import (
	"fmt"
	"iter"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// isByName reports whether the objects of the kind were asked for by their names: each stands alone,
// while other kinds were listed or the only pod stands alone as well. Such objects prove nothing
// about others. A text that has no lists at all, such as one that was split into its objects, may be
// the whole cluster.
func (c *collector) isByName(kind Kind) bool {
	if len(c.told) > 0 || !c.standAlone(kind) {
		return false
	}
	return len(c.lists) > 0 || c.counts[Pods] == 1 && c.standAlone(Pods)
}

// standAlone reports whether each object of the kind is a document of its own, as an API server
// printed it, and the only one of its kind in its file. In a folder that is named after the kind, a
// tool has written a file for each object.
func (c *collector) standAlone(kind Kind) bool {
	files := map[string]bool{}
	for key := range c.all(kind) {
		of, ok := c.seen.states[key.mark()]
		if !ok || of.item != 0 || of.uid == 0 {
			return false
		}
		file := c.seen.at(of).file
		if files[file] || isFileForEach(file, key) {
			return false
		}
		files[file] = true
	}
	return len(files) > 0
}

// isFileForEach reports whether the file is named after its object, in a folder for its kind or for
// its namespace in such a folder.
func isFileForEach(file string, of identity) bool {
	folder, base := path.Split(filepath.ToSlash(file))
	folders := strings.Split(strings.ToLower(strings.TrimSuffix(folder, "/")), "/")
	return strings.TrimSuffix(base, path.Ext(base)) == of.name && slices.ContainsFunc(folders[max(0, len(folders)-2):], func(s string) bool {
		return strings.HasSuffix(s, string(of.kind)) || slices.Contains(resourceOf(of.kind).Names, s)
	})
}

// all yields the identities of the objects of the kind.
func (c *collector) all(kind Kind) iter.Seq[identity] {
	return func(yield func(identity) bool) {
		for object := range resourceOf(kind).all(&c.objects) {
			if !yield(identity{kind, object.GetNamespace(), object.GetName()}) {
				return
			}
		}
		if kind != Pods {
			return
		}
		for _, pod := range c.left.pods {
			if !yield(pod.identity()) {
				return
			}
		}
	}
}

// byName returns the gap of a kind whose objects were asked for by their names.
func (c *collector) byName(kind Kind) Gap {
	var names []string
	for key := range c.all(kind) {
		names = append(names, key.String())
	}
	object, stands, its := strings.ToLower(resourceOf(kind).Object), "stands", "its name"
	if len(names) > 1 {
		object, stands, its = string(kind), "stand", "their names"
	}
	return Gap{Kind: kind, Reason: ReasonNotInFile, Detail: fmt.Sprintf("%s %s %s alone, as what is asked for by %s: a list shows all (if the cluster has no other: --whole %s)",
		object, some(names), stands, its, kind)}
}
