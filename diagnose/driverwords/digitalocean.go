package driverwords

// digitalOcean holds the words of the DigitalOcean driver.
var digitalOcean = family{
	drivers: []string{"dobs.csi.digitalocean.com"},
	source:  "digitalocean/csi-digitalocean driver/controller.go@v4.16.0",
	entries: []Entry{
		{Words: "is attached to the wrong droplet ({}), detach the volume to fix it", Meaning: AttachedElsewhere,
			Helps: "Detach the volume from the droplet that the message names, only after nothing there uses it."},
		{Words: "cannot attach because droplet {} has pending action for volume", Meaning: MachineBusy},
		{Words: "cannot detach because droplet {} has pending action for volume", Meaning: MachineBusy},
		{Words: "cannot attach more volumes to the Droplet", Meaning: AttachLimit},
		{Words: "cannot attach more than 7 volumes to a single Droplet", Meaning: AttachLimit},
		{Words: "droplet {} does not exist", Meaning: MachineGone},
		{Words: "volume {} does not exist", Meaning: VolumeNotFound},
		{Words: "failed waiting on action ID {} for volume ID {} to get attached", Meaning: TimedOut},
		{Words: "failed waiting on action ID {} for volume ID {} to get detached", Meaning: TimedOut},
		{Words: "error comparing the state file content", Meaning: DeviceMissing,
			Source: "digitalocean/csi-digitalocean driver/mounter.go@v4.16.0"},
		{Words: "read only Volumes are not supported", Meaning: ReadOnly},
		{Words: "volume limit has been reached. Please contact support", Meaning: QuotaReached},
	},
}
