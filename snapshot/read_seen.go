package snapshot

import (
	"hash/maphash"
	"path"
	"strings"
)

// identity is what only one object can have.
type identity struct {
	kind            Kind
	namespace, name string
}

func (i identity) String() string {
	if i.namespace == "" {
		return plain(i.name)
	}
	return plain(i.namespace + "/" + i.name)
}

// mark stands for an identity: of a large cluster's objects most are not kept, and their
// names would take as much memory as what is. By chance two objects have one mark in one
// of 10^27 clusters of 150,000 pods, and nobody can find two that have.
type mark [2]uint64

var markSeeds = [...]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func (i identity) mark() mark {
	return mark{maphash.Comparable(markSeeds[0], i), maphash.Comparable(markSeeds[1], i)}
}

// state is one state of one object, and where it stands. There is one for each object.
type state struct {
	// version stands for the UID and the resourceVersion; 0 where one is missing.
	version                    uint64
	file, line, document, item int32
}

// seen are the objects that were read, those that were left, too.
type seen struct {
	states map[mark]state
	// files are where they stand. The path of a file that is called as its object is the
	// same for all of them, with ownName for the object's name.
	files []string
}

const ownName = "\x00"

// add says whether the object is known already. It is an error that it is in another
// state: with two nobody can tell which is true.
func (s *seen) add(key identity, object apiObject, at place) (known bool, err error) {
	now := state{line: int32(at.line), document: int32(at.document), item: int32(at.item)}
	if uid, resourceVersion := object.GetUID(), object.GetResourceVersion(); uid != "" && resourceVersion != "" {
		now.version = maphash.Comparable(markSeeds[0], [...]string{string(uid), resourceVersion}) | 1
	}
	return s.addState(key, now, at)
}

// merge is add for an object that another collector has read.
func (s *seen) merge(key identity, o *seen) (known bool, err error) {
	now := o.states[key.mark()]
	return s.addState(key, now, o.at(now, key.name))
}

func (s *seen) addState(key identity, now state, at place) (known bool, err error) {
	mark := key.mark()
	before, ok := s.states[mark]
	switch {
	case !ok:
		file := at.file
		if strings.TrimSuffix(path.Base(file), path.Ext(file)) == key.name {
			file = strings.ReplaceAll(file, key.name, ownName)
		}
		if len(s.files) == 0 || s.files[len(s.files)-1] != file {
			s.files = append(s.files, file)
		}
		now.file = int32(len(s.files) - 1)
		s.states[mark] = now
		return false, nil
	case now.version != 0 && now.version == before.version:
		return true, nil
	default:
		return false, at.errorf("%s %s is given a second time; the first is at %s", resourceOf(key.kind).Object, key, s.at(before, key.name))
	}
}

func (s *seen) at(o state, name string) place {
	return place{file: strings.ReplaceAll(s.files[o.file], ownName, name), line: int(o.line), document: int(o.document), item: int(o.item)}
}

// onlyIn is the namespace of all objects, where they have one in common.
type onlyIn struct {
	namespace   string
	any, differ bool
}

func (o *onlyIn) note(namespace string) {
	o.differ = o.differ || o.any && namespace != o.namespace
	o.namespace, o.any = namespace, true
}

// others says that an object is not of the namespace.
func (o *onlyIn) others(namespace string) bool {
	return o.differ || o.any && o.namespace != namespace
}
