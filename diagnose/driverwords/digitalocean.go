package driverwords

// digitalOcean holds the words of the DigitalOcean driver.
var digitalOcean = family{
	drivers: []string{"dobs.csi.digitalocean.com"},
	entries: []Entry{
		{Words: "is attached to the wrong droplet ({}), detach the volume to fix it", Meaning: AttachedElsewhere,
			Helps:  "Detach the volume from the droplet that the message names, only after nothing there uses it.",
			Source: "digitalocean/csi-digitalocean driver/controller.go@v4.16.0"},
		{Words: "cannot attach because droplet {} has pending action for volume", Meaning: MachineBusy,
			Source: "digitalocean/csi-digitalocean driver/controller.go@v4.16.0"},
		{Words: "cannot detach because droplet {} has pending action for volume", Meaning: MachineBusy,
			Source: "digitalocean/csi-digitalocean driver/controller.go@v4.16.0"},
		{Words: "cannot attach more volumes to the Droplet", Meaning: AttachLimit,
			Source: "digitalocean/csi-digitalocean driver/controller.go@v4.16.0"},
		{Words: "cannot attach more than 7 volumes to a single Droplet", Meaning: AttachLimit,
			Source: "digitalocean/csi-digitalocean driver/controller.go@v4.16.0"},
		{Words: "droplet {} does not exist", Meaning: MachineGone,
			Source: "digitalocean/csi-digitalocean driver/controller.go@v4.16.0"},
		{Words: "volume {} does not exist", Meaning: VolumeNotFound,
			Source: "digitalocean/csi-digitalocean driver/controller.go@v4.16.0"},
		{Words: "failed waiting on action ID {} for volume ID {} to get attached", Meaning: TimedOut,
			Source: "digitalocean/csi-digitalocean driver/controller.go@v4.16.0"},
		{Words: "failed waiting on action ID {} for volume ID {} to get detached", Meaning: TimedOut,
			Source: "digitalocean/csi-digitalocean driver/controller.go@v4.16.0"},
		{Words: "error comparing the state file content", Meaning: DeviceMissing,
			Source: "digitalocean/csi-digitalocean driver/mounter.go@v4.16.0"},
		{Words: "read only Volumes are not supported", Meaning: ReadOnly,
			Source: "digitalocean/csi-digitalocean driver/controller.go@v4.16.0"},
		{Words: "volume limit has been reached. Please contact support", Meaning: QuotaReached,
			Source: "digitalocean/csi-digitalocean driver/controller.go@v4.16.0"},
	},
}
