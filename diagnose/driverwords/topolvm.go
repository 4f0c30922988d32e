package driverwords

// topolvm holds the words of TopoLVM.
var topolvm = family{
	drivers: []string{"topolvm.io", "topolvm.cybozu.com"},
	entries: []Entry{
		{Words: "failed to find LV", Meaning: ZoneMismatch,
			Helps:  "Run the pod on the node that has the logical volume: the data is on that node only; \"kubectl get logicalvolumes\" shows the node.",
			Source: "topolvm/topolvm internal/driver/node.go@v0.41.0"},
		{Words: "target device is already formatted with different filesystem", Meaning: WrongFilesystem,
			Source: "topolvm/topolvm internal/driver/node.go@v0.41.0"},
		{Words: "LogicalVolume for volume id {} is not found", Meaning: VolumeNotFound,
			Source: "topolvm/topolvm internal/driver/controller.go@v0.41.0"},
		{Words: "not enough space", Meaning: OutOfSpace,
			Source: "topolvm/topolvm internal/driver/controller.go@v0.41.0"},
		{Words: "lvmd does not working", Meaning: DriverUnavailable,
			Source: "topolvm/topolvm cmd/lvmd/app/health.go@v0.41.0"},
	},
}
