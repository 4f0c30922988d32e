package driverwords

// localPath holds the words of the local path provisioner, which is no CSI driver but says its words in the same events.
var localPath = family{
	drivers: []string{"rancher.io/local-path"},
	source:  "rancher/local-path-provisioner provisioner.go@v0.0.37",
	entries: []Entry{
		{Words: "config doesn't contain node {}, and no", Meaning: DriverConfig,
			Helps: "Add the node or DEFAULT_PATH_FOR_NON_LISTED_NODES to the provisioner's ConfigMap."},
		{Words: "no local path available on node", Meaning: DriverConfig},
		{Words: "create process timeout after", Meaning: TimedOut, Actor: ClusterAdmin,
			Helps: "{check} Look at the helper pod in the provisioner's namespace: it did not run on the node."},
		{Words: "NodePath only supports ReadWriteOnce and ReadWriteOncePod", Meaning: AccessType},
		{Words: "configuration error, no node was specified", Meaning: BadParameters,
			Helps: "Set volumeBindingMode WaitForFirstConsumer in the StorageClass."},
	},
}
