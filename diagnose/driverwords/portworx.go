package driverwords

// portworx holds the words of Portworx, read in its open source part.
var portworx = family{
	drivers: []string{"pxd.portworx.com"},
	source:  "libopenstorage/openstorage volume/volume.go@033255168c21",
	entries: []Entry{
		{Words: "Volume is attached on another node", Meaning: AttachedElsewhere,
			Helps: "Run \"pxctl volume inspect\" to see the node that has the volume; stop what uses it there, or use a sharedv4 volume."},
		{Words: "Non-shared volume is already attached on another node", Meaning: AttachedElsewhere,
			Helps: "Run \"pxctl volume inspect\" to see the node that has the volume; stop what uses it there, or use a sharedv4 volume."},
		{Words: "Driver is initializing", Meaning: DriverUnavailable},
		{Words: "Volume does not exist.", Meaning: VolumeNotFound},
		{Words: "Volume is busy", Meaning: BackendBusy},
		{Words: "Volume is detached", Meaning: NotAttached},
		{Words: "Resource has not been initialized", Meaning: DriverUnavailable,
			Source: "libopenstorage/openstorage api/server/sdk/volume_node_ops.go@033255168c21"},
		{Words: "Trying to attach as block a non block device", Meaning: AccessType,
			Source: "libopenstorage/openstorage csi/node.go@033255168c21"},
		{Words: "CSI ephemeral inline volumes are disabled on this cluster", Meaning: DriverConfig,
			Source: "libopenstorage/openstorage csi/node.go@033255168c21"},
		{Words: "Failed to find volume with id", Meaning: VolumeNotFound,
			Source: "libopenstorage/openstorage csi/csi.go@033255168c21"},
		{Words: "Target location {} is not a directory", Meaning: BadParameters,
			Source: "libopenstorage/openstorage csi/node.go@033255168c21"},
	},
}
