package driverwords

// localPath holds the words of the local path provisioner, which is no CSI driver but says its words in the same events.
var localPath = family{
	drivers: []string{"rancher.io/local-path"},
	entries: []Entry{
		{Words: "config doesn't contain node {}, and no", Meaning: DriverConfig,
			Helps:  "Add the node or DEFAULT_PATH_FOR_NON_LISTED_NODES to the provisioner's ConfigMap.",
			Source: "rancher/local-path-provisioner provisioner.go@v0.0.37"},
		{Words: "no local path available on node", Meaning: DriverConfig,
			Source: "rancher/local-path-provisioner provisioner.go@v0.0.37"},
		{Words: "create process timeout after", Meaning: TimedOut, Actor: ClusterAdmin,
			Helps:  "Look at the helper pod in the provisioner's namespace: it did not run on the node.",
			Source: "rancher/local-path-provisioner provisioner.go@v0.0.37"},
		{Words: "NodePath only supports ReadWriteOnce and ReadWriteOncePod", Meaning: AccessType,
			Source: "rancher/local-path-provisioner provisioner.go@v0.0.37"},
		{Words: "configuration error, no node was specified", Meaning: BadParameters,
			Helps:  "Set volumeBindingMode WaitForFirstConsumer in the StorageClass.",
			Source: "rancher/local-path-provisioner provisioner.go@v0.0.37"},
	},
}
