package check

// Link is how a pod or a node is linked to a volume.
type Link string

// The links.
const (
	Wants   Link = "wants"   // a pod, for which the controller wants the volume on its node
	Holds   Link = "holds"   // a node, by a VolumeAttachment
	Reports Link = "reports" // a node, in its volumesAttached, which is the controller's
	Uses    Link = "uses"    // a node, in its volumesInUse, which is the kubelet's
)

// Link is the link that the findings are about: Breaks, or else the link of the check's layer,
// the first digit of its code.
func (c Check) Link() Link {
	switch {
	case c.Breaks != "":
		return c.Breaks
	case len(c.Code) > 2 && c.Code[2] == '3': // the node's status says otherwise
		return Reports
	case len(c.Code) > 2 && c.Code[2] == '5': // the pod's claim leads nowhere, or to the wrong volume
		return Wants
	}
	return Holds // attached and not wanted, or wanted and not attached
}
