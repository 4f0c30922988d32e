package snapshot

import (
	"hash/maphash"
	"strconv"
)

// identity identifies one object.
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

// mark is a hash of an identity. Most objects of a large cluster are not kept, and their names
// would need as much memory as the objects that are. Two objects of a cluster with 150,000 pods
// share a mark with a probability of 1 in 10^27. Because the seeds are random, nobody can construct
// such a pair.
type mark [2]uint64

var markSeeds = [...]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func (i identity) mark() mark {
	return mark{maphash.Comparable(markSeeds[0], i), maphash.Comparable(markSeeds[1], i)}
}

// state is the newest state that was read of one object, and its place in the input.
type state struct {
	// uid is a hash of the UID and, if it is not a number, of the resourceVersion; 0 if one of them
	// is missing. Between states with equal uid, the larger version is newer.
	uid, version               uint64
	file, line, document, item int32
	// first and last are the numbers of the first and the last list that had the object, counted from 1
	// for each kind; 0 if it stood in none.
	first, last int32
	// manifest reports whether nothing in the object shows that it comes from an API server.
	manifest bool
}

// known is what had been read about an object before.
type known int

const (
	unseen known = iota
	newer        // newer than the state read before
	seenAlready
	older // than the state read before
)

// kept reports whether the state that was read now is kept.
func (k known) kept() bool { return k == unseen || k == newer }

// seen are the objects that were read, including those that were not kept.
type seen struct {
	states map[mark]state
	// files are the places of the objects.
	files []string
}

// add records the object and returns what was known about it. Of two states, the one with the
// higher resourceVersion counts. It is an error if the order of the two cannot be determined.
func (s *seen) add(key identity, object apiObject, at place) (known, error) {
	now := state{line: int32(at.line), document: int32(at.document), item: int32(at.item)}
	uid, resourceVersion := object.GetUID(), object.GetResourceVersion()
	now.manifest = uid == "" && resourceVersion == "" && object.GetCreationTimestamp().Time.IsZero()
	if key.kind == Events && uid != "" && resourceVersion == "" {
		resourceVersion = "0" // only the count of an event ever changes
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
	now.first, now.last = 0, 0
	return s.addState(key, now, o.at(now))
}

func (s *seen) addState(key identity, now state, at place) (known, error) {
	mark := key.mark()
	before, ok := s.states[mark]
	same := ok && now.uid != 0 && now.uid == before.uid
	switch {
	case same && now.version < before.version:
		return older, nil
	case same && now.version == before.version:
		return seenAlready, nil
	case ok && now.manifest && !before.manifest:
		return seenAlready, nil // somebody's manifest of the object that the API server shows
	case ok && before.manifest && !now.manifest:
		same = true
	case ok && !same:
		return seenAlready, at.errorf("%s %s is given a second time; the first is at %s: leave one of them out", resourceOf(key.kind).Object, key, s.at(before))
	}
	if len(s.files) == 0 || s.files[len(s.files)-1] != at.file {
		s.files = append(s.files, at.file)
	}
	now.file = int32(len(s.files) - 1)
	now.first, now.last = before.first, before.last
	s.states[mark] = now
	if same {
		return newer, nil
	}
	return unseen, nil
}

// placeOf returns the place of the object.
func (s *seen) placeOf(key identity) (at place, ok bool) {
	of, ok := s.states[key.mark()]
	if ok {
		at = s.at(of)
	}
	return at, ok
}

func (s *seen) at(o state) place {
	return place{file: s.files[o.file], line: int(o.line), document: int(o.document), item: int(o.item)}
}
