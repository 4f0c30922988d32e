package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// What a kubelet can be asked for through the API server: the kinds of the gaps
// of a KubeletView.
const (
	KubeletPods    snapshot.Kind = "nodes/proxy/pods"
	KubeletMetrics snapshot.Kind = "nodes/proxy/metrics"
)

// KubeletView is what the kubelet of a node says itself, in place of the objects
// that it writes.
type KubeletView struct {
	// Pods are those that it knows, static ones under their own UID.
	Pods []*corev1.Pod
	// Samples are those of its metrics that KubeletFamilies names.
	Samples []KubeletSample
	// Gaps are what could not be read.
	Gaps []snapshot.Gap
}

// KubeletSample is one value of a kubelet's metrics; that of a histogram is how
// often it was observed.
type KubeletSample struct {
	Family string
	Labels map[string]string
	Value  float64
}

// The families of the kubelet's metrics that say something of volumes.
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
)

// KubeletFamilies are the families that a KubeletView has samples of.
func KubeletFamilies() []string {
	return []string{totalVolumes, operations, driverCalls, totalPlugins, seLinuxPods, seLinuxVolumes, reconstructFail, forceCleanFail, orphanFail}
}

// KubeletAccount is what the kubelet of the pod's node says of the trace.
type KubeletAccount struct {
	Statements []KubeletStatement `json:"statements"`
}

// KubeletStatement is one thing that the kubelet says.
type KubeletStatement struct {
	Bearing KubeletBearing `json:"bearing"`
	Text    string         `json:"text"`
}

// KubeletBearing is how a statement stands to what the objects show.
type KubeletBearing string

// The bearings.
const (
	KubeletAgrees  KubeletBearing = "agrees"
	KubeletDiffers KubeletBearing = "differs"
	KubeletAdds    KubeletBearing = "adds" // the objects do not show it
)

// countsOnlyRegistered is the release from which the kubelet's metric counts only registered
// sockets (kubernetes#133335). Before, it counted those whose registration had failed.
const countsOnlyRegistered facts.KubeletRelease = 36

// Corroborate adds what the kubelet of the pod's node says. It leaves the
// verdict as it is: the counters have no volume's name, and the kubelet was
// asked later than the API server.
func (t *Trace) Corroborate(s *snapshot.Snapshot, view KubeletView) {
	t.Gaps = append(t.Gaps, view.Gaps...)
	t.Complete = t.Complete && len(view.Gaps) == 0
	w := &witness{Trace: t, view: view, said: &KubeletAccount{Statements: []KubeletStatement{}}}
	if pod := s.Pod(types.NamespacedName{Namespace: t.Pod.Namespace, Name: t.Pod.Name}); pod != nil && w.read(KubeletPods) {
		w.knows(pod)
		w.leftovers(s, pod)
	}
	for _, plugin := range w.plugins() {
		w.counts(plugin)
		w.failures(plugin)
	}
	for _, driver := range w.drivers() {
		w.calls(driver)
		w.registration(driver)
	}
	w.totals()
	t.Kubelet = w.said
}

// KubeletAnswered says that the kubelet was asked and told all that it was asked
// for.
func (t *Trace) KubeletAnswered() bool {
	return t.Kubelet != nil && !slices.ContainsFunc(t.Gaps, func(g snapshot.Gap) bool { return g.Kind == KubeletPods || g.Kind == KubeletMetrics })
}

// witness is one kubelet that is being heard.
type witness struct {
	*Trace
	view KubeletView
	said *KubeletAccount
}

func (w *witness) read(kind snapshot.Kind) bool {
	return !slices.ContainsFunc(w.view.Gaps, func(g snapshot.Gap) bool { return g.Kind == kind })
}

func (w *witness) say(bearing KubeletBearing, format string, args ...any) {
	w.said.Statements = append(w.said.Statements, KubeletStatement{bearing, fmt.Sprintf(format, args...)})
}

// uidThere is the pod's UID as its kubelet knows it: that of a static pod is not
// its mirror's (GetPods leaves mirrors out).
func uidThere(pod *corev1.Pod) types.UID {
	return types.UID(cmp.Or(pod.Annotations[corev1.MirrorPodAnnotationKey], string(pod.UID)))
}

// knows compares the kubelet's own copy of the pod with the API server's.
func (w *witness) knows(pod *corev1.Pod) {
	var own, namesake *corev1.Pod
	for _, p := range w.view.Pods {
		switch {
		case p.UID == uidThere(pod):
			own = p
		case p.Namespace == pod.Namespace && p.Name == pod.Name:
			namesake = p
		}
	}
	switch {
	case own == nil && namesake != nil:
		w.say(KubeletDiffers, "it does not know this pod, but another of the same name, with uid %s", namesake.UID)
	case own == nil:
		w.say(KubeletDiffers, "it does not know the pod: it has not received it yet, or the pod went after the objects were read")
	case own.DeletionTimestamp == nil && pod.DeletionTimestamp != nil:
		w.say(KubeletDiffers, "it does not know yet that the pod is to be deleted: it works with what the API server said earlier")
	case own.DeletionTimestamp != nil && pod.DeletionTimestamp == nil:
		w.say(KubeletDiffers, "it knows the pod as one that is to be deleted, which came after the objects were read")
	case own.Status.Phase != pod.Status.Phase:
		w.say(KubeletDiffers, "it knows the pod in phase %s, and the API server in phase %s: one of them is behind", cmp.Or(own.Status.Phase, "none"), cmp.Or(pod.Status.Phase, "none"))
	default:
		w.say(KubeletAgrees, "it knows the pod, in phase %s", cmp.Or(pod.Status.Phase, "none"))
	}
}

// leftovers are pods that use a claim of this one, and that only the kubelet
// still has.
func (w *witness) leftovers(s *snapshot.Snapshot, pod *corev1.Pod) {
	if !s.Complete(snapshot.Pods) {
		return
	}
	there := map[types.UID]bool{}
	for _, p := range s.Pods {
		there[uidThere(p)] = true
	}
	for _, p := range w.view.Pods {
		if there[p.UID] || p.Namespace != pod.Namespace {
			continue
		}
		for _, v := range w.Volumes {
			if v.Claim != "" && slices.ContainsFunc(p.Spec.Volumes, func(o corev1.Volume) bool { return reconcile.ClaimName(p, &o) == v.Claim }) {
				w.say(KubeletAdds, "it still has pod %s (uid %s), which uses claim %s and which the API server did not list: it is new, or its volumes are being unmounted",
					facts.PodName(p), p.UID, v.Claim)
			}
		}
	}
}

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

// plugins are those of the volumes that the kubelet mounts for the pod.
func (w *witness) plugins() []string {
	var names []string
	for _, v := range w.Volumes {
		if name := pluginOf(v); v.Referenced && name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (w *witness) drivers() []string {
	var names []string
	for _, v := range w.Volumes {
		if v.Referenced && v.Driver != "" && !slices.Contains(names, v.Driver) {
			names = append(names, v.Driver)
		}
	}
	return names
}

// waits says whether a volume of the plugin is in a stage of the kubelet's.
func (w *witness) waits(plugin string, stages ...StageName) bool {
	return slices.ContainsFunc(w.Volumes, func(v VolumeTrace) bool {
		return pluginOf(v) == plugin && v.Referenced && slices.Contains(stages, v.Broken)
	})
}

// sum adds up the samples of a family that are wanted; known is false where it
// has none at all.
func (w *witness) sum(family string, want func(labels map[string]string) bool) (total float64, known bool) {
	for _, s := range w.view.Samples {
		if s.Family == family {
			known = true
			if want(s.Labels) {
				total += s.Value
			}
		}
	}
	return total, known
}

// counts compares the kubelet's two worlds. A pod's volume that it has given up
// is in neither, and the actual one counts what is mounted for a pod, not what
// is merely staged.
func (w *witness) counts(plugin string) {
	in := func(state string) float64 {
		n, _ := w.sum(totalVolumes, func(l map[string]string) bool { return l["plugin_name"] == plugin && l["state"] == state })
		return n
	}
	if _, known := w.sum(totalVolumes, func(map[string]string) bool { return false }); !known {
		return
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

// The operations of the kubelet and the calls to the driver of each direction.
var (
	operationsOf = map[Direction][]string{
		Up:   {"verify_controller_attached_volume", "volume_mount", "map_volume"},
		Down: {"volume_unmount", "unmap_volume", "unmount_device", "unmap_device"},
	}
	callsOf = map[Direction][]string{
		Up:   {"NodeStageVolume", "NodePublishVolume"},
		Down: {"NodeUnpublishVolume", "NodeUnstageVolume"},
	}
)

// failures are the kubelet's operations that have failed. On the way down it
// writes no event about any of them.
func (w *witness) failures(plugin string) {
	for _, operation := range operationsOf[w.Direction] {
		count := func(failed bool) float64 {
			n, _ := w.sum(operations, func(l map[string]string) bool {
				// An unmount after a restart knows the plugin alone.
				bare := w.Direction == Down && l["volume_plugin"] == reconcile.CSIPlugin && strings.HasPrefix(plugin, reconcile.CSIPlugin)
				return (l["volume_plugin"] == plugin || bare) && l["operation_name"] == operation && (!failed || l["status"] != "success")
			})
			return n
		}
		if failed := count(true); failed > 0 {
			w.say(KubeletAdds, "%.0f of %.0f operations %s of %s have failed since it started", failed, count(false), operation, plugin)
		}
	}
}

// calls are those to the driver that have failed. One that hangs is counted
// only once it ends, after 2 min.
func (w *witness) calls(driver string) {
	for _, call := range callsOf[w.Direction] {
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

// registration compares the plugin manager's two worlds with the CSINode. The
// registrar names its socket after the driver.
func (w *witness) registration(driver string) {
	in := func(state string) float64 {
		n, _ := w.sum(totalPlugins, func(l map[string]string) bool {
			return strings.Contains(l["socket_path"], driver) && l["state"] == state
		})
		return n
	}
	if _, known := w.sum(totalPlugins, func(map[string]string) bool { return false }); !known {
		return
	}
	i := slices.IndexFunc(w.Volumes, func(v VolumeTrace) bool { return v.Driver == driver && v.stage(StageRegistered).Stage != "" })
	if i < 0 {
		return // on the way down the stage is not asked for
	}
	claimed := w.Volumes[i].stage(StageRegistered).State == StageDone
	found, registered := in("desired_state_of_world"), in("actual_state_of_world")
	switch release := facts.ParseKubelet(w.KubeletVersion); {
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

// totals are counters that no plugin has of its own.
func (w *witness) totals() {
	all := func(map[string]string) bool { return true }
	if pods, _ := w.sum(seLinuxPods, all); w.Direction == Up && w.Verdict.State != finding.NoWait {
		volumes, _ := w.sum(seLinuxVolumes, all)
		if n := pods + volumes; n > 0 {
			w.say(KubeletAdds, "it has counted %.0f conflicts between SELinux labels that keep a volume from being mounted", n)
		}
	}
	if w.Direction != Down {
		return
	}
	reconstruct, _ := w.sum(reconstructFail, all)
	clean, _ := w.sum(forceCleanFail, all)
	orphans, _ := w.sum(orphanFail, all)
	if reconstruct+clean > 0 {
		w.say(KubeletAdds, "%.0f volumes that it found on disk when it started could not be taken up again, and %.0f of them not be cleaned up", reconstruct, clean)
	}
	if orphans > 0 {
		w.say(KubeletAdds, "at its last sweep %.0f volumes of pods that are gone could not be cleaned up", orphans)
	}
}
