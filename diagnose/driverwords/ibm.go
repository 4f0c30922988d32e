package driverwords

// ibmVPC holds the words of the IBM Cloud VPC block driver, most of which come from its volume library.
var ibmVPC = family{
	drivers: []string{"vpc.block.csi.ibm.io"},
	source:  "IBM/ibmcloud-volume-vpc common/messages/messages_en.go@v1.1.22",
	entries: []Entry{
		{Words: "A volume with the specified volume ID {} could not be found", Meaning: VolumeNotFound},
		{Words: "could not be attached to the instance ID", Meaning: StorageError, Wrapper: true},
		{Words: "could not be detached from the instance ID", Meaning: StorageError, Wrapper: true},
		{Words: "No volume attachment could be found for the specified volume ID", Meaning: NotAttached},
		{Words: "Failed to authenticate the user", Meaning: PermissionDenied},
		{Words: "IAM Token exchange endpoint is not reachable", Meaning: Unreachable},
		{Words: "did not get valid (available) status within timeout period", Meaning: TimedOut},
	},
}

// ibmBlock holds the words of the IBM block storage driver.
var ibmBlock = family{
	drivers: []string{"block.csi.ibm.com"},
	source:  "IBM/ibm-block-csi-driver controllers/array_action/messages.py@v1.12.4",
	entries: []Entry{
		{Words: "was not found, ensure all host ports are configured on storage", Meaning: NodeUnknown,
			Helps: "Define the host with the node's ports (WWPN, IQN or NQN) on the array, or let the driver's host definer do it."},
		{Words: "Multiple hosts found for port(s)", Meaning: NodeUnknown, Actor: StorageAdmin,
			Helps: "Remove the node's ports from all but one host definition on the array."},
		{Words: "Volume is already mapped to different hosts", Meaning: AttachedElsewhere},
		{Words: "No available lun was found for host", Meaning: AttachLimit},
		{Words: "is already processing. request cannot be completed", Meaning: OperationPending,
			Source: "IBM/ibm-block-csi-driver controllers/servers/messages.py@v1.12.4"},
		{Words: "Credential error has occurred while connecting to endpoint", Meaning: PermissionDenied},
		{Words: "Currently no connection is available to endpoint", Meaning: Unreachable},
		{Words: "Could not find iSCSI targets for endpoint", Meaning: PathsMissing, Actor: StorageAdmin},
		{Words: "Couldn't find multipath device for volumeID", Meaning: PathsMissing,
			Source: "IBM/ibm-block-csi-driver node/pkg/driver/device_connectivity/errors.go@v1.12.4"},
		{Words: "Multipath device(dm) is not found for this physical device", Meaning: PathsMissing,
			Source: "IBM/ibm-block-csi-driver node/pkg/driver/device_connectivity/errors.go@v1.12.4"},
		{Words: "BUT sg_inq identify this device as a different WWN", Meaning: PathsMissing,
			Helps:  "Flush the stale multipath device on the node and rescan: an old LUN has left it.",
			Source: "IBM/ibm-block-csi-driver node/pkg/driver/device_connectivity/errors.go@v1.12.4"},
		{Words: "Object {} is still in use by", Meaning: BackendBusy},
	},
}
