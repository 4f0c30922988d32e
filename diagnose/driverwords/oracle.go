package driverwords

// oci holds the words of the Oracle Cloud block volume driver.
var oci = family{
	drivers: []string{"blockvolume.csi.oraclecloud.com"},
	source:  "oracle/oci-cloud-controller-manager pkg/csi/driver/bv_controller.go@v1.35.0",
	entries: []Entry{
		{Words: "failed to get ProviderID by nodeName for node", Meaning: NodeUnknown,
			Helps: "Run the Oracle cloud controller manager: it sets the node's providerID, and the kubelet needs --cloud-provider=external."},
		{Words: "failed to get compartmentID from node annotation", Meaning: NodeUnknown,
			Helps: "{check} Check the cloud controller manager: it writes the annotation oci.oraclecloud.com/compartment-id on the node."},
		{Words: "before attaching to new instance", Meaning: BackendBusy,
			Helps: "{wait}; {if if it lasts,} look in the console for the instance from which the volume does not detach."},
		{Words: "timed out waiting for volume {} to get detached from instance", Meaning: TimedOut},
		{Words: "Error occurred while waiting for volume {} to get attached to instance", Meaning: TimedOut},
		{Words: "Authorization failed or requested resource not found", Meaning: PermissionDenied,
			Helps:  "{check} Check that the volume exists and that the driver's policies allow \"manage volume-family\" and \"use instance-family\" in its compartment.",
			Source: "https://github.com/oracle/oci-cloud-controller-manager/issues/332"},
		{Words: "Boot Volume ID not found", Meaning: VolumeNotFound},
		{Words: "FS Type mismatch detected", Meaning: WrongFilesystem,
			Source: "oracle/oci-cloud-controller-manager pkg/csi/driver/bv_node.go@v1.35.0"},
		{Words: "Failed to wait for device to exist", Meaning: DeviceMissing,
			Source: "oracle/oci-cloud-controller-manager pkg/csi/driver/bv_node.go@v1.35.0"},
		{Words: "Failed to get device path for iscsi volume", Meaning: DeviceMissing,
			Source: "oracle/oci-cloud-controller-manager pkg/csi/driver/bv_node.go@v1.35.0"},
		{Words: "has in transit encryption enabled, but attachment type is not paravirtualized", Meaning: BadParameters},
		{Words: "iscsi: error logging in target", Meaning: PathsMissing, Wrapper: true,
			Helps:  "Start and enable the service iscsid on the node, and check that the node reaches the target on TCP 3260.",
			Source: "https://github.com/oracle/oci-cloud-controller-manager/issues/412"},
	},
}
