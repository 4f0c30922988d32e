package backend

// OpenEBS's cStor and Jiva need no attach: a volume counts as attached to the node where it
// is staged. Both drivers refuse to stage a volume that by their record is on another node
// that is ready.

// cstorObjects are cStor's own attachments. cStor makes one before it stages the volume on a
// node, and removes it after unstaging.
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

// jivaObjects are Jiva's volumes: a label names the node on which a volume is staged, and is
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
