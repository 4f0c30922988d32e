package backend

import (
	"slices"
	"strings"
)

// linstorObjects are the rows of LINSTOR's table of resources, where it keeps its database in
// objects: the nodes on which it has placed a volume, with a copy of the data or as a client
// of one. Its driver gives a node the volume by placing it there, so that it is attached to
// no other node. The table does not show to which of them it is attached: a node with a copy
// keeps its row, and LINSTOR also places clients for its own purposes.
type linstorObjects struct {
	placed map[string][]string
	// gap reports whether a row has an unknown version.
	gap bool
}

// linstorVersions are the versions of the table whose fields, as far as they are read, are
// the same.
var linstorVersions = []string{"v1-19-1", "v1-25-1", "v1-27-1", "v1-31-1", "v1-33-1"}

func (o *linstorObjects) add(version string, raw []byte) error {
	if o.placed == nil {
		o.placed = map[string][]string{}
	}
	var d struct {
		Spec struct {
			Node     string `json:"node_name"`
			Resource string `json:"resource_name"`
			Snapshot string `json:"snapshot_name"`
		} `json:"spec"`
	}
	if !slices.Contains(linstorVersions, version) {
		o.gap = true
		return nil
	}
	if err := decode(raw, &d); err != nil {
		return err
	}
	if d.Spec.Snapshot != "" {
		return nil // a snapshot's row
	}
	id, node := LINSTOR.Handle(d.Spec.Resource), strings.ToLower(d.Spec.Node)
	if !slices.Contains(o.placed[id], node) {
		o.placed[id] = append(o.placed[id], node)
	}
	return nil
}

func (o *linstorObjects) list() []Volume {
	var volumes []Volume
	for id, nodes := range o.placed {
		v := Volume{ID: id, Silent: true, Only: nodes}
		if o.gap {
			v.Only = nil
		}
		volumes = append(volumes, v)
	}
	return volumes
}
