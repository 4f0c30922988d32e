package finding

import "slices"

// PodStuck is the code of the remainder: it repeats the verdict on pods that no other check names,
// and so tells that verdict nothing.
const PodStuck Code = "VD409"

// UnmountFails is the code of a kubelet that does not unmount an unused volume and says why only in its
// log.
const UnmountFails Code = "VD104"

// Groups are codes whose findings may share a cause that has no finding of its own, by the name of
// the cause. The worst finding represents the cause; among equals, the one with the first code.
// check.Groups tells which findings of a group share it, and what it is called.
var Groups = map[string][]Code{
	"lost node":       {"VD117", "VD111", "VD102", "VD403", "VD114", "VD112", "VD115"}, // those that show why it was lost come first
	"nobody attaches": {"VD406"},                                                       // a driver without a working attacher, where no lease shows since when
	"unrecorded":      {"VD405"},                                                       // an attacher that lacks the right to write its results
	"silent backend":  {"VD401", "VD103", "VD610"},
	"other machine":   {"VD307"}, // a machine that has taken another's name
	"force-detached":  {"VD116"}, // a node that lived on while its volumes were detached: one restart clears it
	"no plugin":       {"VD104"},
	"unused":          {"VD502", "VD101", "VD105"}, // one volume with several attachments that nothing uses
	"rollout":         {"VD202"},                   // pods that share several claims
	"consumers":       {"VD203"},                   // the same
	"disks gone":      {"VD516"},                   // by a storage system's list
	"unclaimed":       {"VD623"},                   // the same
}

// Findings of one code that differ only in the names of their pods, claims and volumes have one
// cause, and one of them represents the others.
var (
	// AlikeOfDriver are alike if they are about one driver, on any nodes.
	AlikeOfDriver = []Code{"VD410", "VD411", "VD416", "VD511", "VD512"}
	// AlikeOnNode are the codes whose findings about one driver on one node are alike: their
	// remedy is on that node, and one command line makes the repairs of all.
	AlikeOnNode = []Code{"VD101", "VD103", "VD104", "VD105", "VD119", "VD122", "VD301", "VD302", "VD401", "VD407", PodStuck, "VD413", "VD417"}
)

// IsAlike reports whether findings of the code can be alike.
func IsAlike(code Code) bool {
	return slices.Contains(AlikeOfDriver, code) || slices.Contains(AlikeOnNode, code)
}

// SameGroup reports whether a finding of one code may be listed under one of the other only
// because they share their cause.
func SameGroup(a, b Code) bool {
	if a == b && IsAlike(a) {
		return true
	}
	for _, codes := range Groups {
		if slices.Contains(codes, a) && slices.Contains(codes, b) {
			return true
		}
	}
	return false
}
