package driverwords

// geesefs holds the words of the k8s-csi-s3 driver (GeeseFS).
var geesefs = family{
	drivers: []string{"ru.yandex.s3.csi"},
	entries: []Entry{
		{Words: "Timeout waiting for mount", Meaning: TimedOut, Actor: StorageAdmin,
			Helps:  "{check} Check the endpoint, the keys and the bucket's name: the S3 file system did not come up; its log is on the node (journalctl).",
			Source: "yandex-cloud/k8s-csi-s3 pkg/mounter/mounter.go@v0.43.7"},
		{Words: "failed to initialize S3 client", Meaning: BadParameters,
			Helps:  "{check} Check endpoint, accessKeyID and secretAccessKey in the Secret.",
			Source: "yandex-cloud/k8s-csi-s3 pkg/driver/nodeserver.go@v0.43.7"},
		{Words: "bucket of volume with id {} does not exist", Meaning: VolumeNotFound,
			Source: "yandex-cloud/k8s-csi-s3 pkg/driver/controllerserver.go@v0.43.7"},
		{Words: "Error fuseMount command", Meaning: StorageError, Wrapper: true,
			Source: "yandex-cloud/k8s-csi-s3 pkg/mounter/mounter.go@v0.43.7"},
		{Words: "failed to check if bucket {} exists", Meaning: PermissionDenied, Wrapper: true,
			Source: "yandex-cloud/k8s-csi-s3 pkg/driver/controllerserver.go@v0.43.7"},
	},
}

// ctroxS3 holds the words of the csi-s3 driver of ctrox.
var ctroxS3 = family{
	drivers: []string{"ch.ctrox.csi.s3-driver"},
	entries: []Entry{
		{Words: "Timeout waiting for mount", Meaning: TimedOut, Actor: StorageAdmin,
			Helps:  "{check} Check the endpoint, the keys and the bucket's name: the S3 file system did not come up.",
			Source: "ctrox/csi-s3 pkg/mounter/mounter.go@cc18bd9bc181"},
		{Words: "Error mounting via goofys", Meaning: StorageError,
			Source: "ctrox/csi-s3 pkg/mounter/goofys.go@cc18bd9bc181"},
		{Words: "fsmeta of volume with id {} does not exist", Meaning: VolumeNotFound,
			Source: "ctrox/csi-s3 pkg/driver/controllerserver.go@cc18bd9bc181"},
		{Words: "failed to initialize S3 client", Meaning: BadParameters,
			Source: "ctrox/csi-s3 pkg/driver/nodeserver.go@cc18bd9bc181"},
	},
}
