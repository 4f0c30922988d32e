package driverwords

// azureDisk holds the words of the Azure disk driver.
var azureDisk = family{
	drivers: []string{"disk.csi.azure.com"},
	source:  "kubernetes-sigs/azuredisk-csi-driver pkg/azuredisk/nodeserver.go@v1.34.5",
	entries: []Entry{
		{Words: "already attached to node({}), could not be attached to node(", Meaning: AttachedElsewhere,
			Helps:  "{wait} for the driver to detach the disk from the other node; if that node's VM is in a failed provisioning state, update the VM in Azure.",
			Source: "kubernetes-sigs/azuredisk-csi-driver pkg/azuredisk/azure_controller_common.go@v1.34.5"},
		{Words: "failed to get azure instance id for node", Meaning: NodeUnknown,
			Helps:  "{check} Check that the VM exists under this name and that the driver's subscription, resource group and VM type settings are right; {restart-driver-controller} to clear its cache.",
			Source: "kubernetes-sigs/azuredisk-csi-driver pkg/azuredisk/controllerserver.go@v1.34.5"},
		{Words: "update instance {} failed with", Meaning: MachineBusy, Actor: StorageAdmin,
			Helps:  "{check} Look at the VM's provisioning state in Azure; \"az vm update\" or \"az vmss update-instances\" repairs a failed one.",
			Source: "kubernetes-sigs/azuredisk-csi-driver pkg/azuredisk/controllerserver.go@v1.34.5"},
		{Words: "Volume not found, failed with error", Meaning: VolumeNotFound, Wrapper: true,
			Source: "kubernetes-sigs/azuredisk-csi-driver pkg/azuredisk/controllerserver.go@v1.34.5"},
		{Words: "The maximum number of data disks allowed to be attached to a VM of this size is", Meaning: AttachLimit,
			Helps:  "Move a pod to another node, use a larger VM size, or detach disks that no pod uses; a stale disk counts too.",
			Source: "https://github.com/kubernetes-sigs/azuredisk-csi-driver/issues/436"},
		{Words: "failed to find disk on lun", Meaning: DeviceMissing,
			Helps: "{check} Check in Azure that the disk is attached to the VM at this LUN; if it is, rescan the SCSI bus or {reboot-node}."},
		{Words: "failed to find device path with lun", Meaning: DeviceMissing},
		{Words: "azureDisk - findDiskByLun({}) failed within timeout", Meaning: DeviceMissing},
		{Words: "MaxShares value not supported", Meaning: BadParameters},
		{Words: "An operation with the given Volume ID {} already exists", Meaning: OperationPending},
		{Words: "configured to mount disk {} as {} but current format is", Meaning: WrongFilesystem,
			Source: "kubernetes-sigs/azuredisk-csi-driver pkg/azuredisk/azure_common_linux.go@v1.34.5"},
		{Words: "'fsck' found errors on device {} with options {...} but could not correct them", Meaning: FilesystemDamaged,
			Source: "kubernetes-sigs/azuredisk-csi-driver pkg/azuredisk/azure_common_linux.go@v1.34.5"},
		{Words: "but mount options specify read-only", Meaning: ReadOnly,
			Source: "kubernetes-sigs/azuredisk-csi-driver pkg/azuredisk/azure_common_linux.go@v1.34.5"},
		{Words: "OperationPreempted", Meaning: MachineBusy,
			Source: "kubernetes-sigs/azuredisk-csi-driver pkg/azuredisk/azure_controller_common.go@v1.34.5"},
		{Words: "AttachDiskWhileBeingDetached", Meaning: BackendBusy,
			Helps:  "{wait} until Azure has detached the disk; {if if that failed,} update the VM with \"az vm update\" or \"az vmss update-instances\", or detach the disk explicitly.",
			Source: "https://github.com/kubernetes/kubernetes/issues/78657"},
		{Words: "is not supported for non-shared disk", Meaning: AccessType,
			Helps:  "Use ReadWriteOnce, or a block volume on a disk with maxShares greater than 1.",
			Source: "kubernetes-sigs/azuredisk-csi-driver pkg/azureutils/azure_disk_utils.go@v1.34.5"},
	},
}

// azureFile holds the words of the Azure Files driver.
var azureFile = family{
	drivers: []string{"file.csi.azure.com"},
	source:  "kubernetes-sigs/azurefile-csi-driver pkg/azurefile/azurefile.go@v1.35.7",
	entries: []Entry{
		{Words: "An operation with the given Volume ID {} already exists", Meaning: OperationPending,
			Source: "kubernetes-sigs/azurefile-csi-driver pkg/azurefile/volume_lock.go@v1.35.7"},
		{Words: "An operation using azcopy with the given Volume ID {} already exists", Meaning: OperationPending,
			Source: "kubernetes-sigs/azurefile-csi-driver pkg/azurefile/volume_lock.go@v1.35.7"},
		{Words: "could not find accountkey or azurestorageaccountkey field in secrets", Meaning: SecretMissing},
		{Words: "could not find accountname or azurestorageaccountname field in secrets", Meaning: SecretMissing},
		{Words: "could not get secret(", Meaning: SecretMissing,
			Helps: "Create the Secret in the namespace that the volume names, or let the driver's identity read the storage account's key."},
		{Words: "error parsing volume id: {}, should at least contain two #", Meaning: BadParameters,
			Helps: "Write the volumeHandle of the PersistentVolume as resource-group#account#share."},
		{Words: "mount operation timed out after {} seconds", Meaning: TimedOut, Actor: ClusterAdmin,
			Helps:  "{check} Check that the node reaches the storage account on TCP 445 (SMB) or 2049 (NFS), through the firewall or the private endpoint.",
			Source: "kubernetes-sigs/azurefile-csi-driver pkg/azurefile/nodeserver.go@v1.35.7"},
		{Words: "setCredentialCache failed for", Meaning: PermissionDenied, Wrapper: true,
			Source: "kubernetes-sigs/azurefile-csi-driver pkg/azurefile/nodeserver.go@v1.35.7"},
	},
}

// azureBlob holds the words of the Azure Blob driver.
var azureBlob = family{
	drivers: []string{"blob.csi.azure.com"},
	source:  "kubernetes-sigs/blob-csi-driver pkg/blob/blob.go@v1.27.9",
	entries: []Entry{
		{Words: "An operation with the given Volume ID {} already exists", Meaning: OperationPending,
			Source: "kubernetes-sigs/blob-csi-driver pkg/blob/volume_lock.go@v1.27.9"},
		{Words: "no key for storage account({}) under resource group(", Meaning: PermissionDenied},
		{Words: "could not find containerName from attributes", Meaning: BadParameters},
		{Words: "container is being deleted", Meaning: BackendBusy},
		{Words: "requested volume({}) does not exist", Meaning: VolumeNotFound,
			Source: "kubernetes-sigs/blob-csi-driver pkg/blob/controllerserver.go@v1.27.9"},
		{Words: "the account info is not enough", Meaning: SecretMissing},
	},
}
