package driverwords

// secretsStore holds the words of the secrets store driver.
var secretsStore = family{
	drivers: []string{"secrets-store.csi.k8s.io"},
	source:  "kubernetes-sigs/secrets-store-csi-driver pkg/secrets-store/provider_client.go@v1.6.0",
	entries: []Entry{
		{Words: "failed to get secretproviderclass", Meaning: BadParameters, Actor: WorkloadOwner,
			Helps:  "Create the SecretProviderClass that the pod names, in the pod's namespace.",
			Source: "kubernetes-sigs/secrets-store-csi-driver pkg/secrets-store/utils.go@v1.6.0"},
		{Words: "provider not found: provider", Meaning: DriverUnavailable, Actor: ClusterAdmin,
			Helps: "Install the provider that the message names, and check that its pod runs on this node."},
		{Words: "invalid provider: provider", Meaning: BadParameters},
		{Words: "error connecting to provider", Meaning: DriverUnavailable, Actor: ClusterAdmin, Wrapper: true,
			Helps:  "{check} Check that the provider's pod runs on this node.",
			Source: "kubernetes-sigs/secrets-store-csi-driver pkg/secrets-store/nodeserver.go@v1.6.0"},
		{Words: "mount request failed with provider error code", Meaning: PermissionDenied,
			Helps: "{check} Read the provider's log: the secret does not exist there, or the pod's identity may not read it."},
		{Words: "secretProviderClass is not set", Meaning: BadParameters, Actor: WorkloadOwner,
			Source: "kubernetes-sigs/secrets-store-csi-driver pkg/secrets-store/nodeserver.go@v1.6.0"},
		{Words: "Readonly is not true in request", Meaning: ReadOnly,
			Helps:  "Set readOnly: true on the pod's csi volume.",
			Source: "kubernetes-sigs/secrets-store-csi-driver pkg/secrets-store/nodeserver.go@v1.6.0"},
		{Words: "provider not set in", Meaning: BadParameters, Actor: WorkloadOwner,
			Source: "kubernetes-sigs/secrets-store-csi-driver pkg/secrets-store/utils.go@v1.6.0"},
	},
}
