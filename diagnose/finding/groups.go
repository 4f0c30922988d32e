package finding

import "slices"

// Groups of codes whose findings may share a cause that has no finding of its
// own. The worst finding of a group then stands for the cause, and among equals
// the one whose code comes first here.
var (
	// GroupLostNode is a node that is lost. The codes that tell why come first.
	GroupLostNode = []Code{"VD117", "VD111", "VD102", "VD403", "VD114", "VD112", "VD115"}
	// GroupNobodyAttaches is a driver for which nobody attaches, while no lease
	// tells since when.
	GroupNobodyAttaches = []Code{"VD406"}
	// GroupUnrecorded is an attacher that may not write what it has done.
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
	// GroupDiskGone and GroupUnclaimed are what a storage system's list differs by.
	GroupDiskGone  = []Code{"VD516"}
	GroupUnclaimed = []Code{"VD623"}
)

// What differs in nothing but the names of its pods, claims and volumes has one cause, where
// one and the same is at fault for all: one finding then stands for the others of its code.
var (
	// AlikeOfDriver are those of one driver, on whatever nodes.
	AlikeOfDriver = []Code{"VD410", "VD411", "VD416", "VD511", "VD512"}
	// AlikeOnNode are those of one driver on one node: what is done about them is done there,
	// and one command line makes the repairs of all.
	AlikeOnNode = []Code{"VD101", "VD103", "VD104", "VD105", "VD119", "VD122", "VD301", "VD302", "VD401", "VD407", "VD409", "VD413"}
)

// IsAlike reports whether findings of the code can be alike.
func IsAlike(code Code) bool {
	return slices.Contains(AlikeOfDriver, code) || slices.Contains(AlikeOnNode, code)
}

var groups = [][]Code{
	GroupLostNode, GroupNobodyAttaches, GroupUnrecorded, GroupSilentBackend, GroupOtherMachine, GroupForceDetached, GroupNoPlugin, GroupUnused, GroupRollout, GroupConsumers, GroupDiskGone, GroupUnclaimed,
}

// SameGroup reports whether one finding of the second code may follow from one of the
// first for no other reason than that they share their cause.
func SameGroup(a, b Code) bool {
	return a == b && IsAlike(a) || slices.ContainsFunc(groups, func(codes []Code) bool { return slices.Contains(codes, a) && slices.Contains(codes, b) })
}
