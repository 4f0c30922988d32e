package snapshot

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// dump recognizes the files that `kubectl cluster-info dump --output-directory` writes:
//
//	nodes.json
//	NAMESPACE/events.json
//	NAMESPACE/pods.json
//
// By default it reads two namespaces, and it never says whether there are others.
type dump struct {
	files map[string][]string // by folder: the file names without their endings
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

// gap returns the gap of the pods or of the events, or nil if the files are not a dump.
func (d *dump) gap(kind Kind) *Gap {
	var names []string
	for dir, files := range d.files {
		if slices.Contains(files, string(Pods)) && slices.Contains(files, string(Events)) && path.Dir(dir) != dir && slices.Contains(d.files[path.Dir(dir)], string(Nodes)) {
			names = append(names, path.Base(dir))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return &Gap{Kind: kind, Namespace: ofNamespaces(names), Reason: ReasonNotInBundle, Detail: "a dump does not say which other namespaces there are"}
}

// dumpGaps returns the gaps of a dump that kubectl cluster-info dump printed to one stream. Several
// lists of one kind have the same gaps: each may be the list of a single namespace.
func (c *collector) dumpGaps() []Gap {
	var gaps []Gap
	for _, r := range resources {
		if _, isTold := c.told[r.Kind]; isTold || r.Optional || !r.Namespaced || !c.dumped && (c.typed[r.Version+" "+r.Object]-c.again(r.Kind) < 2 || c.isPaged(r.Kind)) || c.dumped && r.Kind != Pods && r.Kind != Events {
			continue
		}
		names := map[string]bool{}
		for object := range r.all(&c.objects) {
			names[object.GetNamespace()] = true
		}
		gap := Gap{Kind: r.Kind, Namespace: ofNamespaces(slices.Collect(maps.Keys(names))), Reason: ReasonNotInFile, Detail: "each of several lists is of one namespace, and nothing says which others there are"}
		if c.dumped {
			gap.Detail = "a dump does not say which other namespaces there are"
		}
		gaps = append(gaps, gap)
	}
	return gaps
}
