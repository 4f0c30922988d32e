package driverwords

// democratic holds the words of democratic-csi, whose instances are usually named org.democratic-csi.something.
var democratic = family{
	drivers: []string{"org.democratic-csi.*"},
	source:  "democratic-csi/democratic-csi src/driver/index.js@v1.9.4",
	entries: []Entry{
		{Words: "unable to attach any iscsi devices", Meaning: PathsMissing,
			Helps: "{check} Check that iscsid runs on the node, and that the portal answers on TCP 3260 and allows the node's initiator."},
		{Words: "unable to attach any nvme devices", Meaning: PathsMissing},
		{Words: "failed to discover multipath device", Meaning: PathsMissing},
		{Words: "unable to find iscsi session for iqn", Meaning: PathsMissing},
		{Words: "staging path is not mounted", Meaning: StaleMount},
		{Words: "unknown/unsupported node_attach_driver", Meaning: BadParameters},
		{Words: "unable to retrieve volume_context for volume", Meaning: VolumeNotFound},
		{Words: "FreeNAS http error - code", Meaning: StorageError, Wrapper: true,
			Helps:  "{check} Check the address, the API key and the version of TrueNAS in the driver's configuration.",
			Source: "democratic-csi/democratic-csi src/driver/freenas/http/api.js@v1.9.4"},
		{Words: "unsupported/unknown filesystem", Meaning: WrongFilesystem},
	},
}
