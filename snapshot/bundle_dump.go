package snapshot

import (
	"path"
	"slices"
	"strings"
)

// dump recognises what `kubectl cluster-info dump --output-directory` writes:
//
//	nodes.json
//	NAMESPACE/events.json
//	NAMESPACE/pods.json
//
// By default it takes two namespaces, and it never says whether those are all.
type dump struct {
	files map[string][]string // by folder: the names without their endings
}

func (d *dump) note(p string) {
	name := strings.TrimSuffix(path.Base(p), path.Ext(p))
	if name != string(Nodes) && name != string(Pods) && name != string(Events) {
		return
	}
	if d.files == nil {
		d.files = map[string][]string{}
	}
	dir := path.Dir(p)
	d.files[dir] = append(d.files[dir], name)
}

// gap is that of the pods or of the events; nil where the files are not those of
// a dump.
func (d *dump) gap(kind Kind) *Gap {
	var names []string
	for dir, files := range d.files {
		if slices.Contains(files, string(Pods)) && slices.Contains(files, string(Events)) && slices.Contains(d.files[path.Dir(dir)], string(Nodes)) {
			names = append(names, path.Base(dir))
		}
	}
	switch len(names) {
	case 0:
		return nil
	case 1:
		return &Gap{Kind: kind, Namespace: plain(names[0]), Reason: ReasonNotInBundle, Detail: "a dump does not say which other namespaces there are"}
	}
	slices.Sort(names)
	return &Gap{Kind: kind, Reason: ReasonNotInBundle, Detail: "only those of " + namespaces(names) + ": a dump does not say which others there are"}
}
