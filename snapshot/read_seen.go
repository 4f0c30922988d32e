package snapshot

import (
	"hash/maphash"
	"path"
	"strconv"
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
	// uid stands for the UID, with the resourceVersion where that is no number; 0 where one
	// of them is missing. Of one uid the larger version is the newer.
	uid, version               uint64
	file, line, document, item int32
}

// known says what was read before of an object.
type known int

const (
	unseen known = iota
	newer        // than the state that was read
	seenAlready
)

// seen are the objects that were read, those that were left, too.
type seen struct {
	states map[mark]state
	// files are where they stand. The path of a file that is called as its object is the
	// same for all of them, with ownName for the object's name.
	files []string
}

const ownName = "\x00"

// add tells what is known already of the object. Of two states the one with the newer
// resourceVersion counts; it is an error where nobody can tell which that is.
func (s *seen) add(key identity, object apiObject, at place) (known, error) {
	now := state{line: int32(at.line), document: int32(at.document), item: int32(at.item)}
	uid, resourceVersion := object.GetUID(), object.GetResourceVersion()
	if key.kind == Events && uid != "" && resourceVersion == "" {
		resourceVersion = "0" // the event itself never changes, but for its count
	}
	if uid != "" && resourceVersion != "" {
		of := [...]string{string(uid), ""}
		var err error
		if now.version, err = strconv.ParseUint(resourceVersion, 10, 64); err != nil {
			of[1], now.version = resourceVersion, 0
		}
		now.uid = maphash.Comparable(markSeeds[0], of) | 1
	}
	return s.addState(key, now, at)
}

// merge is add for an object that another collector has read.
func (s *seen) merge(key identity, o *seen) (known, error) {
	now := o.states[key.mark()]
	return s.addState(key, now, o.at(now, key.name))
}

func (s *seen) addState(key identity, now state, at place) (known, error) {
	mark := key.mark()
	before, ok := s.states[mark]
	same := ok && now.uid != 0 && now.uid == before.uid
	switch {
	case same && now.version <= before.version:
		return seenAlready, nil
	case ok && !same:
		return seenAlready, at.errorf("%s %s is given a second time; the first is at %s: leave one of them out", resourceOf(key.kind).Object, key, s.at(before, key.name))
	}
	file := at.file
	if strings.TrimSuffix(path.Base(file), path.Ext(file)) == key.name {
		file = strings.ReplaceAll(file, key.name, ownName)
	}
	if len(s.files) == 0 || s.files[len(s.files)-1] != file {
		s.files = append(s.files, file)
	}
	now.file = int32(len(s.files) - 1)
	s.states[mark] = now
	if same {
		return newer, nil
	}
	return unseen, nil
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

// others reports whether an object is not of the namespace.
func (o *onlyIn) others(namespace string) bool {
	return o.differ || o.any && o.namespace != namespace
}
