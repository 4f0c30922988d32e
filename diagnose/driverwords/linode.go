package driverwords

// linode holds the words of the Linode driver.
var linode = family{
	drivers: []string{"linodebs.csi.linode.com"},
	source:  "linode/linode-blockstorage-csi-driver internal/driver/errors.go@v1.1.4",
	entries: []Entry{
		{Words: "is already attached to linode", Meaning: AttachedElsewhere,
			Helps: "{check} Look in the Linode console to which Linode the volume is attached; detach it there only after nothing uses it."},
		{Words: "max number of volumes ({}) already attached to instance", Meaning: AttachLimit,
			Helps: "Move a pod to another node, or use a larger plan: instance disks take slots too."},
		{Words: "max number of volumes already attached to instance", Meaning: AttachLimit,
			Helps: "Move a pod to another node, or use a larger plan: instance disks take slots too."},
		{Words: "linode instance {} not found", Meaning: MachineGone},
		{Words: "volume not found:", Meaning: VolumeNotFound},
		{Words: "wait for volume {} to detach", Meaning: TimedOut,
			Source: "linode/linode-blockstorage-csi-driver internal/driver/controllerserver.go@v1.1.4"},
		{Words: "needs to be in region", Meaning: ZoneMismatch},
		{Words: "is already published at a different target path", Meaning: DeviceBusy,
			Source: "linode/linode-blockstorage-csi-driver internal/driver/nodeserver.go@v1.1.4"},
		{Words: "closing luks to unstage volume", Meaning: DeviceBusy, Wrapper: true,
			Source: "linode/linode-blockstorage-csi-driver internal/driver/nodeserver.go@v1.1.4"},
	},
}
