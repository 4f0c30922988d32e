package driverwords

// harvester holds the words of the Harvester driver.
var harvester = family{
	drivers: []string{"driver.harvesterhci.io"},
	source:  "harvester/harvester-csi-driver pkg/csi/controller_server.go@v0.2.9",
	entries: []Entry{
		{Words: "The hot-plug volume {} is not ready", Meaning: DeviceMissing, Actor: ClusterAdmin,
			Helps:  "{check} Look at volumeStatus of the VirtualMachineInstance in the Harvester cluster: the hot-plug of the volume has not finished or has failed.",
			Source: "harvester/harvester-csi-driver pkg/csi/node_server.go@v0.2.9"},
		{Words: "no matching disk for volume", Meaning: DeviceMissing, Actor: ClusterAdmin,
			Helps:  "{check} Look at the VirtualMachineInstance in the Harvester cluster: the volume is not among its disks.",
			Source: "harvester/harvester-csi-driver pkg/csi/node_server.go@v0.2.9"},
		{Words: "NetworkFS {} is not ready", Meaning: VolumeNotReady,
			Source: "harvester/harvester-csi-driver pkg/csi/node_server.go@v0.2.9"},
		{Words: "not yet attached to VM/VMI", Meaning: BackendBusy},
		{Words: "removal in progress from VM/VMI", Meaning: BackendBusy},
		{Words: "The PVC {} does not exist", Meaning: VolumeNotFound},
		{Words: "is not ready to be attached", Meaning: VolumeNotReady},
	},
}
