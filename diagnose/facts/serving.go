package facts

import (
	_ "embed" // for servings.txt
	"maps"
	"slices"
	"strings"
)

// Serving is whether a process in the pod of a driver's node plugin serves the driver's mounts,
// so that they end with the pod.
type Serving string

// The answers, and what decides them in servings.txt. "no" stands there for mounts that the kernel
// makes, and that need nobody.
const (
	serves       Serving = "yes"
	ServesNone   Serving = "no"
	mayServe     Serving = "unknown"
	byPlugin             = serves
	byEither             = mayServe    // depends on the driver's release or settings, which no object shows
	byOthers     Serving = "by others" // other pods or services of the machine serve the mounts
	overNetwork  Serving = "over the network"
	byAttributes Serving = "by the volume's attributes"
)

//go:embed servings.txt
var servingsText string

// servings are the drivers with a known architecture.
var servings = readServings()

func readServings() map[string]Serving {
	all := map[string]Serving{}
	for line := range strings.Lines(servingsText) {
		line, _, _ = strings.Cut(line, "#")
		if driver, serving, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			all[driver] = Serving(serving)
		}
	}
	return all
}

// Mount describes a mount, as far as it decides who serves it.
type Mount struct {
	// Attributes are the volume's, as far as trim.Object keeps them.
	Attributes map[string]string
	// Shared reports whether several nodes may write to the volume.
	Shared bool
	// HostNetwork reports whether the node plugin's pod is known to use the machine's network.
	// A connection that the kernel made in another network hangs once the pod is gone.
	HostNetwork bool
	// Unknown reports that the volume's objects are gone: it may have had any attributes.
	Unknown bool
}

// NodePluginServesMounts reports whether the driver's mount of the volume ends, or
// hangs, with the pod of the driver's node plugin.
func NodePluginServesMounts(driver string, m Mount) Serving {
	name, serving := servingOf(driver)
	switch {
	case serving == byAttributes && m.Unknown:
		serving = byEither
	case serving == byAttributes:
		serving = m.serving(name)
	}
	switch {
	case serving == overNetwork && m.HostNetwork || serving == byOthers:
		return ServesNone
	case serving == overNetwork || serving == "":
		return mayServe
	default:
		return serving
	}
}

// whyNone is why no mount of the drivers ends with the node plugin's pod.
func whyNone(drivers []string) string {
	var kernel, others []string
	for _, driver := range drivers {
		if name, serving := servingOf(driver); serving == byOthers || name == "driver.longhorn.io" {
			others = append(others, driver)
		} else {
			kernel = append(kernel, driver)
		}
	}
	var why []string
	if len(kernel) > 0 {
		why = append(why, strings.Join(kernel, " and ")+" mounts by the kernel")
	}
	if len(others) > 0 {
		why = append(why, "other pods or services serve the mounts of "+strings.Join(others, " and "))
	}
	return strings.Join(why, ", and ")
}

// servingOf is the driver's entry in servings, and its key; "" where the driver has none.
func servingOf(driver string) (name string, serving Serving) {
	for name := driver; ; {
		if s, known := servings[name]; known {
			return name, s
		}
		_, rest, more := strings.Cut(name, ".")
		if !more {
			break
		}
		name = rest
	}
	for _, name := range slices.Sorted(maps.Keys(servings)) {
		if prefix, ok := strings.CutSuffix(name, "*"); ok && strings.HasPrefix(driver, prefix) {
			return name, servings[name]
		}
	}
	return driver, ""
}

// serving is how the driver mounts where the volume's attributes decide.
func (m Mount) serving(name string) Serving {
	mounter := m.Attributes["mounter"]
	switch name {
	case "rbd.csi.ceph.com":
		switch {
		case mounter == "rbd-nbd":
			return byPlugin
		case m.Attributes["tryOtherMounters"] == "true" || !slices.Contains([]string{"", "rbd"}, mounter):
			return byEither
		}
		return overNetwork
	case "cephfs.csi.ceph.com":
		switch mounter {
		case "fuse":
			return byPlugin
		case "kernel":
			return overNetwork
		}
		return byEither // the driver uses the mounter that the node has
	case "blob.csi.azure.com":
		if strings.HasPrefix(strings.ToLower(m.Attributes["protocol"]), "nfs") {
			return overNetwork
		}
		return byEither // blobfuse, in the pod or in a proxy on the machine
	case "driver.longhorn.io":
		if m.Shared {
			return byEither // NFS, in whatever network
		}
		return byOthers // pods of their own make the device
	}
	return byEither
}
