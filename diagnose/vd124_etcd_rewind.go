package diagnose

// etcdRewind has no proof in the objects: none says that it is of the past.
var etcdRewind = Check{
	Code:     "VD124",
	Name:     "etcd-rewind",
	Title:    "etcd was restored from a backup, and the objects describe the past",
	Severity: Error,
}
