package diagnose_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// withSecret gives the pod a second volume, which the kubelet mounts by itself.
func withSecret(w *world) *world {
	w.pod.Spec.Volumes = append(w.pod.Spec.Volumes, corev1.Volume{Name: "keys", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "keys"}}})
	c := &w.pod.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "keys", MountPath: "/keys"})
	return w
}

// What the kubelet says while it does not know yet what the pod needs stays when it has
// mounted the volume. It is quoted and blamed for nothing.
func TestWordsThatPass(t *testing.T) {
	const (
		notRegistered = `MountVolume.SetUp failed for volume "keys" : object "default"/"keys" not registered`
		notSynced     = `MountVolume.SetUp failed for volume "keys" : failed to sync secret cache: timed out waiting for the condition`
		refused       = `MountVolume.MountDevice failed for volume "pv-data" : rpc error: code = Internal desc = mkfs failed`
	)
	lasting := func(w *world, minutes float64) *world {
		e := w.Events[len(w.Events)-1]
		e.LastTimestamp, e.Count = metav1.NewTime(e.FirstTimestamp.Add(minutesAgo(0).Sub(minutesAgo(minutes).Time))), 9
		return w
	}
	for _, c := range []traceCase{
		{name: "another volume fails", world: withSecret(newWorld().pending(1)).event("FailedMount", notRegistered, 1).event("FailedMount", refused, 0.2),
			verdict: "in-flight staged", says: []string{"volume data explains the wait", notRegistered, "nothing is written once it has"}},
		{name: "the caches filled late", world: withSecret(newWorld().pending(1)).event("FailedMount", notSynced, 1).event("FailedMount", refused, 0.2),
			verdict: "in-flight staged", says: []string{"volume data explains the wait", notSynced}},
		{name: "nothing else is said", world: withSecret(newWorld().pending(1)).event("FailedMount", notRegistered, 1),
			verdict: "in-flight mounted", says: []string{"Pod default/app waits on node n1 for volume data", notRegistered}},
		{name: "it is the only volume", world: with(withSecret(newWorld().pending(9)).event("FailedMount", notRegistered, 9), func(w *world) {
			w.pod.Spec.Volumes = w.pod.Spec.Volumes[1:]
		}), verdict: "stuck mounted", says: []string{"next to act: the kubelet of n1"}},
		{name: "the network is not ready", world: lasting(withSecret(newWorld().pending(9)).event("NetworkNotReady", "network is not ready", 1).event("FailedMount", notRegistered, 8), 7.5),
			verdict: "none NetworkNotReady"},
		{name: "the caches do not fill", world: lasting(withSecret(newWorld().pending(9)).event("FailedMount", notSynced, 8), 7.5),
			verdict: "stuck mounted", says: []string{"for volume keys", "unless the kubelet cannot reach the API server"}},
	} {
		t.Run(c.name, c.run)
	}
}

// A pod that ended before it ran, one of whose drivers never registered: what holds it
// is the volume whose driver is there. Where there is no other, its driver may have
// been there for a while.
func TestDriverThatNeverRegistered(t *testing.T) {
	ended := func(minutes float64) *world {
		w := newWorld().pending(minutes + 1)
		deleted := minutesAgo(minutes)
		w.pod.DeletionTimestamp = &deleted
		files := *w.Volumes[0]
		files.ObjectMeta, files.Spec.CSI = meta("", "pv-files"), &corev1.CSIPersistentVolumeSource{Driver: "files.example.com", VolumeHandle: "share"}
		claim := *w.Claims[0]
		claim.ObjectMeta, claim.Spec.VolumeName = meta("default", "files"), files.Name
		files.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: "files", UID: claim.UID}
		w.Volumes, w.Claims = append(w.Volumes, &files), append(w.Claims, &claim)
		driver := *w.CSIDrivers[0]
		no := false
		driver.ObjectMeta, driver.Spec.AttachRequired = meta("", "files.example.com"), &no
		w.CSIDrivers = append(w.CSIDrivers, &driver)
		w.pod.Spec.Volumes = append(w.pod.Spec.Volumes, corev1.Volume{Name: "files", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "files"}}})
		c := &w.pod.Spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "files", MountPath: "/files"})
		return w
	}
	for _, c := range []traceCase{
		{name: "beside one whose driver is there", world: ended(1), verdict: "in-flight unmounted",
			says: []string{"for volume data (pv-data)", "next to act: CSI driver ebs.csi.aws.com on n1", "or ever; volume data explains the wait"}},
		{name: "alone", world: with(ended(9), func(w *world) {
			w.node.Status.VolumesInUse, w.node.Status.VolumesAttached, w.VolumeAttachments = nil, nil, nil
		}), verdict: "stuck unmounted", says: []string{"next to act: the node plugin of files.example.com on n1"}},
	} {
		t.Run(c.name, c.run)
	}
}
