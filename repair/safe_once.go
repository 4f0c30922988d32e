package repair

// SafeOnce says what would make a repair safe that the guard refuses: what a person
// does, or waits for. It is "" where the guard says that in its reason, or nothing
// would.
func SafeOnce(guard string) string { return safeOnce[guard] }

var safeOnce = map[string]string{
	GuardComplete:   "give the rights to read everything (kubectl volume-doctor auth), and look again",
	GuardController: "look again in a few minutes",
	guardCertain:    "look again then",

	"attacher-at-work":       "bring the driver's controller pods back",
	"disk-stays":             "set the volume's reclaim policy to Retain, if its data is still needed",
	"driver-is-asked":        "detach the volume at the storage system",
	"driver-on-node":         "bring the driver's node plugin back",
	"has-controller":         "decide whether anybody still needs the pod",
	"in-use":                 "wait until the kubelet reports the volume in use",
	"never-started":          "end the pod in the ordinary way",
	"no-live-pod":            "end the pods there that use the volume",
	"no-stale-mount":         "cordon and reboot the node",
	"nobody-elses":           "let its owner delete it",
	"node-lives":             "wait until the node is Ready",
	"node-ready":             "wait until the node is Ready",
	"not-alive":              "leave the repair to the node, which is alive",
	"not-attached-elsewhere": "end the pods that use the volume on the other node",
	"not-elsewhere":          "end the pods that use the volume on the other node",
	"not-in-use":             "wait until the kubelet has unmounted the volume",
	"not-mounted":            "end the pods there that use the volume",
	"not-reported":           "wait until the kubelet no longer reports the volume in use",
	"not-used":               "wait until the kubelet no longer reports the volume in use",
	"not-wanted":             "end the pods there that use the volume",
	"only-finalizer":         "let the owner of the other finalizer remove it",
	"only-waiting":           "end the pods there that use the volume",
	"own-name":               "check at the storage system which disk is attached to the node",
	"same-machine":           "check at the provider which machine has the volume",
	"same-node-id":           "check at the provider which machine has the volume",
	"storage-has-it":         "get the storage system's list again",
	"storage-lacks-it":       "get the storage system's list again",
	"storage-let-go":         "detach the volume at the storage system, and get its list again",
	"volume-gone":            "wait until the volume is gone",
}
