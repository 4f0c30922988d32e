package trace

import (
	"fmt"
	"slices"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/evidence/metrics"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// The families of the kubelet's metrics about volumes.
const (
	totalVolumes    = "volume_manager_total_volumes"
	operations      = "storage_operation_duration_seconds"
	driverCalls     = "csi_operations_seconds"
	totalPlugins    = "plugin_manager_total_plugins"
	seLinuxPods     = "volume_manager_selinux_pod_context_mismatch_errors_total"
	seLinuxVolumes  = "volume_manager_selinux_volume_context_mismatch_errors_total"
	reconstructFail = "reconstruct_volume_operations_errors_total"
	forceCleanFail  = "force_cleaned_failed_volume_operation_errors_total"
	orphanFail      = "kubelet_orphan_pod_cleaned_volumes_errors"
	processStart    = "process_start_time_seconds"
)

// countsOnlyRegistered is the release from which the kubelet's metric counts only registered
// sockets (kubernetes#133335). Older releases also count those whose registration failed.
const countsOnlyRegistered facts.KubeletRelease = 36

// pluginNames are the kubelet's names for the types of a pod's volumes.
var pluginNames = map[string]string{
	"secret": "kubernetes.io/secret", "configMap": "kubernetes.io/configmap", "projected": "kubernetes.io/projected",
	"downwardAPI": "kubernetes.io/downward-api", "emptyDir": "kubernetes.io/empty-dir", "hostPath": "kubernetes.io/host-path",
	"nfs": "kubernetes.io/nfs", "iscsi": reconcile.ISCSIPlugin, "fc": reconcile.FCPlugin,
}

func pluginOf(v VolumeTrace) string {
	if v.Driver != "" {
		return reconcile.CSIPlugin + ":" + v.Driver // GetFullQualifiedPluginNameForVolume
	}
	return pluginNames[v.Type]
}

func driverOf(v VolumeTrace) string { return v.Driver }

// mounters are the plugins, or the drivers, of the volumes that the kubelet mounts for its
// pods.
func (w *witness) mounters(of func(VolumeTrace) string) []string {
	var names []string
	for _, v := range w.volumes() {
		if name := of(v); v.Referenced && name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// waits reports whether a volume of the plugin waits in one of the stages.
func (w *witness) waits(plugin string, stages ...StageName) bool {
	for _, v := range w.volumes() {
		if pluginOf(v) == plugin && v.Referenced && slices.Contains(stages, v.Broken) {
			return true
		}
	}
	return false
}

// has reports whether there are samples of the family.
func (w *witness) has(family string) bool {
	return slices.ContainsFunc(w.view.Samples, func(s metrics.Sample) bool { return s.Family == family })
}

// sum adds up the wanted samples of a family.
func (w *witness) sum(family string, want func(labels map[string]string) bool) (total float64) {
	for _, s := range w.view.Samples {
		if s.Family == family && want(s.Labels) {
			total += s.Value
		}
	}
	return total
}

// counts compares the kubelet's desired and actual state of the world. A volume that it has
// given up is in neither. The actual state counts volumes that are mounted for a pod, not those
// that are merely staged.
func (w *witness) counts(plugin string) {
	if !w.has(totalVolumes) {
		return
	}
	in := func(state string) float64 {
		return w.sum(totalVolumes, func(l map[string]string) bool { return l["plugin_name"] == plugin && l["state"] == state })
	}
	wanted, mounted := in("desired_state_of_world"), in("actual_state_of_world")
	words := fmt.Sprintf("of %s it wants %.0f mounted and has %.0f, in all its pods", plugin, wanted, mounted)
	up := w.waits(plugin, StageInVolumesInUse, StageAttached, StageInVolumesAttached, StageRegistered, StageStaged, StageMounted)
	switch {
	case wanted > mounted && up:
		w.say(KubeletAgrees, "%s: at least one waits", words)
	case wanted > mounted:
		w.say(KubeletAdds, "%s: at least one waits", words)
	case mounted > wanted && w.waits(plugin, StageUnmounted):
		w.say(KubeletAgrees, "%s: at least one is still to be unmounted", words)
	case mounted > wanted:
		w.say(KubeletAdds, "%s: at least one is still to be unmounted", words)
	case up:
		w.say(KubeletAdds, "%s: the counts show none that waits, but a mount and an unmount that both wait cancel out", words)
	default:
		w.say(KubeletAgrees, "%s", words)
	}
}

// ways are the kubelet's operations and its calls to the driver, by direction.
var ways = []struct {
	direction         Direction
	operations, calls []string
}{
	{Up, []string{"verify_controller_attached_volume", "volume_mount", "map_volume"}, []string{"NodeStageVolume", "NodePublishVolume"}},
	{Down, []string{"volume_unmount", "unmap_volume", "unmount_device", "unmap_device"}, []string{"NodeUnpublishVolume", "NodeUnstageVolume"}},
}

// failures reports the kubelet's failed operations. On the way down it writes no events about
// them.
func (w *witness) failures(plugin string) {
	for _, way := range ways {
		if !w.goes(way.direction) {
			continue
		}
		for _, operation := range way.operations {
			count := func(failed bool) float64 {
				return w.sum(operations, func(l map[string]string) bool {
					// An unmount after a restart is counted under the CSI plugin without the
					// driver.
					bare := way.direction == Down && l["volume_plugin"] == reconcile.CSIPlugin && strings.HasPrefix(plugin, reconcile.CSIPlugin)
					return (l["volume_plugin"] == plugin || bare) && l["operation_name"] == operation && (!failed || l["status"] != "success")
				})
			}
			if failed := count(true); failed > 0 {
				w.say(KubeletAdds, "%.0f of %.0f operations %s of %s have failed since it started", failed, count(false), operation, plugin)
			}
		}
	}
}

// calls reports the failed calls to the driver. A call that hangs is counted only once it ends,
// after 2 min.
func (w *witness) calls(driver string) {
	var calls []string
	for _, way := range ways {
		if w.goes(way.direction) {
			calls = append(calls, way.calls...)
		}
	}
	for _, call := range calls {
		var codes []string
		var total float64
		for _, s := range w.view.Samples {
			if s.Family != driverCalls || s.Labels["driver_name"] != driver || !strings.HasSuffix(s.Labels["method_name"], "/"+call) || s.Value == 0 {
				continue
			}
			total += s.Value
			if code := s.Labels["grpc_status_code"]; code != "OK" {
				codes = append(codes, fmt.Sprintf("%.0f with %s", s.Value, code))
			}
		}
		if slices.Sort(codes); len(codes) > 0 {
			w.say(KubeletAdds, "of %.0f calls %s to %s since it started have failed: %s", total, call, driver, strings.Join(codes, ", "))
		}
	}
}

// registration compares the plugin manager's desired and actual state of the world with the
// CSINode. The registrar names its socket after the driver.
func (w *witness) registration(driver string) {
	if !w.has(totalPlugins) {
		return
	}
	asked, claimed, version := false, false, ""
	for t, v := range w.volumes() {
		if s := v.stage(StageRegistered); v.Driver == driver && s.Stage != "" && !asked {
			asked, claimed, version = true, s.State == StageDone, t.KubeletVersion
		}
	}
	if !asked {
		return // on the way down the stage is not asked for
	}
	in := func(state string) float64 {
		return w.sum(totalPlugins, func(l map[string]string) bool {
			return strings.Contains(l["socket_path"], driver) && l["state"] == state
		})
	}
	found, registered := in("desired_state_of_world"), in("actual_state_of_world")
	switch release := facts.ParseKubelet(version); {
	case found > registered && claimed:
		w.say(KubeletDiffers, "it sees a socket of %s that is not registered, though the CSINode lists the driver", driver)
	case found > registered:
		w.say(KubeletAgrees, "it sees a socket of %s that is not registered: the registration fails", driver)
	case registered > 0 && claimed:
		w.say(KubeletAgrees, "%s is registered with it", driver)
	case registered > 0 && release.Before(countsOnlyRegistered):
		w.say(KubeletAdds, "it counts %s as registered; a kubelet of 1.%d does so even where the registration failed", driver, release)
	case registered > 0:
		w.say(KubeletDiffers, "%s is registered with it", driver)
	case !claimed:
		w.say(KubeletAgrees, "it sees no socket named after %s", driver)
	}
}

// totals reports counters that are not kept by plugin.
func (w *witness) totals() {
	total := func(family string) float64 { return w.sum(family, func(map[string]string) bool { return true }) }
	waits := slices.ContainsFunc(w.traces, func(t *Trace) bool { return t.Direction == Up && t.Verdict.State != finding.NoWait })
	if n := total(seLinuxPods) + total(seLinuxVolumes); waits && n > 0 {
		w.say(KubeletAdds, "it has counted %.0f conflicts between SELinux labels that keep a volume from being mounted", n)
	}
	if !w.goes(Down) {
		return
	}
	if reconstruct, clean := total(reconstructFail), total(forceCleanFail); reconstruct+clean > 0 {
		w.say(KubeletAdds, "%.0f volumes that it found on disk when it started could not be taken up again, and %.0f of them not be cleaned up", reconstruct, clean)
	}
	if orphans := total(orphanFail); orphans > 0 {
		w.say(KubeletAdds, "at its last sweep %.0f volumes of pods that are gone could not be cleaned up", orphans)
	}
}
