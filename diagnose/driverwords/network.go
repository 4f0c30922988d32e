package driverwords

// nfs holds the words of the NFS driver.
var nfs = family{
	drivers: []string{"nfs.csi.k8s.io"},
	source:  "kubernetes-csi/csi-driver-nfs pkg/nfs/controllerserver.go@v4.13.4",
	entries: []Entry{
		{Words: "An operation with the given Volume ID {} already exists", Meaning: OperationPending,
			Helps:  "{wait}; {if if it lasts,} the running mount hangs because the NFS server does not answer.",
			Source: "kubernetes-csi/csi-driver-nfs pkg/nfs/utils.go@v4.13.4"},
		{Words: "block volume capability not supported", Meaning: AccessType,
			Helps: "Use volumeMode Filesystem: NFS has no block volumes."},
		{Words: "server is a required parameter", Meaning: BadParameters,
			Helps:  "Set server and share in the PersistentVolume's volumeAttributes.",
			Source: "kubernetes-csi/csi-driver-nfs pkg/nfs/nodeserver.go@v4.13.4"},
		{Words: "failed to make subdirectory", Meaning: PermissionDenied, Wrapper: true,
			Helps: "{check} Check that the export is writable for root (no_root_squash) or that the directory belongs to the squashed user."},
		{Words: "could not split {} into server, baseDir and subDir", Meaning: BadParameters},
	},
}

// smb holds the words of the SMB driver.
var smb = family{
	drivers: []string{"smb.csi.k8s.io"},
	source:  "kubernetes-csi/csi-driver-smb pkg/smb/nodeserver.go@v1.20.3",
	entries: []Entry{
		{Words: "An operation with the given Volume ID {} already exists", Meaning: OperationPending,
			Source: "kubernetes-csi/csi-driver-smb pkg/smb/volume_lock.go@v1.20.3"},
		{Words: "Error getting username and password from secret {} in namespace", Meaning: SecretMissing},
		{Words: "mount volume {} to {} timeout after", Meaning: TimedOut, Actor: ClusterAdmin,
			Helps: "{check} Check that the node reaches the SMB server on TCP 445."},
		{Words: "Error writing kerberos cache", Meaning: StorageError, Actor: NodeAdmin, Wrapper: true},
		{Words: "Directory for kerberos caches must exist", Meaning: ToolMissing},
		{Words: "source field is missing, current context", Meaning: BadParameters,
			Helps: "Set source (//server/share) in the PersistentVolume's volumeAttributes."},
		{Words: "could not get secret(): resource name may not be empty", Meaning: SecretMissing,
			Helps:  "Name the Secret where the driver looks for it: in nodeStageSecretRef of the PersistentVolume, or as secretName in the volumeAttributes of an inline volume.",
			Source: "https://github.com/kubernetes-csi/csi-driver-smb/issues/950"},
	},
}
