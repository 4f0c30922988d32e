package driverwords

// huawei holds the words of Huawei's driver for OceanStor.
var huawei = family{
	drivers: []string{"csi.huawei.com"},
	entries: []Entry{
		{Words: "no {} initiator", Meaning: PathsMissing,
			Helps:  "The driver found no iSCSI, Fibre Channel or NVMe initiator when its node pod started: set the initiator up on the node; {restart-node-plugin}.",
			Source: "Huawei/eSDK_K8S_Plugin storage/oceanstorage/base/attacher/attacher_utils.go@v4.9.0"},
		{Words: "initiator {} is already associated to another host", Meaning: ClientBlocked,
			Helps:  "In the storage system the node's initiator belongs to another host: take it off there, if no machine of that host uses it; two machines may have the same name.",
			Source: "Huawei/eSDK_K8S_Plugin storage/oceanstorage/base/attacher/attacher.go@v4.9.0"},
		{Words: "There is no alaivable target wwn of host initiators", Meaning: PathsMissing,
			Helps:  "{check} Check the zoning: the storage system sees none of the node's Fibre Channel ports.",
			Source: "Huawei/eSDK_K8S_Plugin storage/oceanstorage/base/attacher/attacher.go@v4.9.0"},
		{Words: "Backend {} doesn't exist", Meaning: DriverConfig,
			Helps:  "The volume is of a backend that the driver does not have: create it with oceanctl under the name that the message gives.",
			Source: "Huawei/eSDK_K8S_Plugin csi/driver/controller.go@v4.9.0"},
		{Words: "VolumeDeviceNotFound", Meaning: DeviceMissing,
			Source: "Huawei/eSDK_K8S_Plugin connector/connector.go@v4.9.0"},
		{Words: "VolumePathIncomplete", Meaning: PathsMissing,
			Source: "Huawei/eSDK_K8S_Plugin connector/connector.go@v4.9.0"},
		{Words: "no Fibre Channel support detected on system", Meaning: PathsMissing,
			Source: "Huawei/eSDK_K8S_Plugin connector/fibrechannel/fc_helper.go@v4.9.0"},
	},
}
