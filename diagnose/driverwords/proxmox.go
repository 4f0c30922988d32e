package driverwords

// proxmox holds the words of the Proxmox driver.
var proxmox = family{
	drivers: []string{"csi.proxmox.sinextra.dev"},
	source:  "sergelogvinov/proxmox-csi-plugin pkg/csi/utils.go@v0.19.1",
	entries: []Entry{
		{Words: "no free lun found", Meaning: AttachLimit,
			Helps: "Move a pod to another node, or detach disks of the VM that no pod uses."},
		{Words: "is not attached to VM", Meaning: NotAttached},
		{Words: "still attached to VM", Meaning: BackendBusy},
		{Words: "not found in any node for storage", Meaning: VolumeNotFound,
			Source: "sergelogvinov/proxmox-csi-plugin pkg/csi/controller.go@v0.19.1"},
		{Words: "zone {} not found in cluster", Meaning: ZoneMismatch, Actor: ClusterAdmin,
			Helps:  "{check} Check that the Proxmox node that the volume names still exists under this name.",
			Source: "sergelogvinov/proxmox-csi-plugin pkg/csi/controller.go@v0.19.1"},
		{Words: "unable to attach virtual machine disk", Meaning: StorageError, Wrapper: true,
			Helps: "{check} Look at the failed task of the VM in Proxmox."},
		{Words: "failed to find best zone: no nodes with the storage", Meaning: ZoneMismatch, Actor: ClusterAdmin,
			Source: "sergelogvinov/proxmox-csi-plugin pkg/csi/controller.go@v0.19.1"},
		{Words: "failed to get vm config", Meaning: Unreachable, Wrapper: true,
			Helps: "{check} Check that the Proxmox API answers and that the token may read the VM (VM.Audit)."},
		{Words: "device {} is not found", Meaning: DeviceMissing,
			Source: "sergelogvinov/proxmox-csi-plugin pkg/csi/helper.go@v0.19.1"},
	},
}
