package driverwords

// juicefs holds the words of the JuiceFS driver.
var juicefs = family{
	drivers: []string{"csi.juicefs.com"},
	entries: []Entry{
		{Words: "operation is already in progress, try again later", Meaning: OperationPending,
			Source: "juicedata/juicefs-csi-driver pkg/driver/node.go@v0.32.4"},
		{Words: "mount pod is not running in 60s, reason:", Meaning: VolumeNotReady, Actor: ClusterAdmin,
			Helps:  "{check} Look at the events of the mount pod that the message names.",
			Source: "juicedata/juicefs-csi-driver pkg/util/resource/pod.go@v0.32.4"},
		{Words: "mount point is not ready in 60s", Meaning: TimedOut, Actor: StorageAdmin,
			Helps:  "{check} Read the log of the mount pod that the message names: the metadata engine or the object storage does not answer.",
			Source: "juicedata/juicefs-csi-driver pkg/util/resource/pod.go@v0.32.4"},
		{Words: "juicefs auth error", Meaning: PermissionDenied,
			Source: "juicedata/juicefs-csi-driver pkg/juicefs/juicefs.go@v0.32.4"},
		{Words: "is not equal csi mounted kubelet root-dir", Meaning: DriverConfig,
			Helps:  "Set kubeletDir of the driver to the kubelet's --root-dir.",
			Source: "juicedata/juicefs-csi-driver pkg/juicefs/juicefs.go@v0.32.4"},
	},
}
