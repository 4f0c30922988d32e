package backend

// OpenEBS's cStor and Jiva need no attach: what is attached to a node is what is staged
// there. Both drivers refuse to stage a volume that their record has on another node that
// is ready.

// cstorObjects are cStor's own attachments. One is made before the volume is staged on a
// node, and removed after it is unstaged.
type cstorObjects struct{ published }

func (o *cstorObjects) add(head objectHead, known bool, raw []byte) error {
	var d struct {
		Spec struct {
			Volume struct {
				Name string `json:"name"`
				Node string `json:"ownerNodeID"`
			} `json:"volume"`
		} `json:"spec"`
	}
	if !known {
		o.gap = true
		return nil
	}
	if err := decode(raw, &d); err != nil {
		return err
	}
	o.published.add(head, d.Spec.Volume.Name, d.Spec.Volume.Node)
	return nil
}

func (o *cstorObjects) list() []Volume {
	var volumes []Volume
	for id, attachments := range o.nodes {
		volumes = append(volumes, Volume{ID: id, Silent: o.gap, Attachments: attachments})
	}
	return volumes
}

// jivaObjects are Jiva's volumes: a label names the node on which one is staged, and is
// empty where none has it.
type jivaObjects struct{ volumes []Volume }

func (o *jivaObjects) add(head objectHead, known bool) error {
	v := Volume{ID: head.Metadata.Name, Silent: !known || head.Metadata.Deleted != nil}
	if node := head.Metadata.Labels["nodeID"]; node != "" && !v.Silent {
		v.Attachments = []Attachment{{Machine: node}}
	}
	o.volumes = append(o.volumes, v)
	return nil
}

func (o *jivaObjects) list() []Volume { return o.volumes }
