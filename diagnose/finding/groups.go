package finding

import "slices"

// PodStuck is the code of the remainder: it repeats the verdict on pods that no other check names,
// and so tells that verdict nothing.
const PodStuck Code = "VD409"

// Groups of codes whose findings may share a cause that has no finding of its own. The worst
// finding represents the cause; among equals, the one with the first code in the group.
var (
	// GroupLostNode is a lost node. The codes that show why it was lost come first.
	GroupLostNode = []Code{"VD117", "VD111", "VD102", "VD403", "VD114", "VD112", "VD115"}
	// GroupNobodyAttaches is a driver without a working attacher, where no lease shows since
	// when.
	GroupNobodyAttaches = []Code{"VD406"}
	// GroupUnrecorded is an attacher that lacks the right to write its results.
	GroupUnrecorded = []Code{"VD405"}
	// GroupSilentBackend is a storage system that does not answer.
	GroupSilentBackend = []Code{"VD401", "VD103", "VD610"}
	// GroupOtherMachine is a machine that has taken another's name.
	GroupOtherMachine = []Code{"VD307"}
	// GroupForceDetached is a node that lived on while its volumes were detached:
	// one restart clears it.
	GroupForceDetached = []Code{"VD116"}
	// GroupNoPlugin is a driver without a node plugin.
	GroupNoPlugin = []Code{"VD104"}
	// GroupUnused is one volume with several attachments that nothing uses.
	GroupUnused = []Code{"VD502", "VD101", "VD105"}
	// GroupRollout and GroupConsumers are pods that share several claims.
	GroupRollout   = []Code{"VD202"}
	GroupConsumers = []Code{"VD203"}
	// GroupDiskGone and GroupUnclaimed are differences from a storage system's list.
	GroupDiskGone  = []Code{"VD516"}
	GroupUnclaimed = []Code{"VD623"}
)

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

var groups = [][]Code{
	GroupLostNode, GroupNobodyAttaches, GroupUnrecorded, GroupSilentBackend, GroupOtherMachine, GroupForceDetached, GroupNoPlugin, GroupUnused, GroupRollout, GroupConsumers, GroupDiskGone, GroupUnclaimed,
}

// SameGroup reports whether a finding of one code may be listed under one of the other only
// because they share their cause.
func SameGroup(a, b Code) bool {
	return a == b && IsAlike(a) || slices.ContainsFunc(groups, func(codes []Code) bool { return slices.Contains(codes, a) && slices.Contains(codes, b) })
}
