package driverwords

// pure holds words that users of the Pure Service Orchestrator pasted; its source is not public.
var pure = family{
	drivers: []string{"pure-csi"},
	entries: []Entry{
		{Words: "driver name pure-csi not found in the list of registered CSI drivers", Meaning: NotRegistered,
			Source: "https://github.com/purestorage/helm-charts/issues/114"},
		{Words: "code = Internal desc = exit status 32", Meaning: StorageError, Actor: StorageAdmin, Wrapper: true,
			Helps:  "Enable NFS 4.1 on the FlashBlade file system, or set the NFS version of the volume; the node's mount command failed.",
			Source: "https://github.com/purestorage/pso-csi/issues/89"},
		{Words: "(root): Invalid type. Expected: object, given: null", Meaning: DriverConfig,
			Source: "https://github.com/purestorage/helm-charts/issues/212"},
	},
}
