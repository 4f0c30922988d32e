package kubelettrace

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
	"github.com/volume-doctor/kubectl-volume-doctor/evidence/controllerlog"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// saying is a way to make the kubelet write a text that the checks know and that occurs
// neither in the table of states nor in the drawn ones.
type saying struct {
	name string
	// says are the texts, in the order in which they must come.
	says []string
	// arrange makes the scene's pod, created runs once it was created, and said once the
	// first text has come.
	arrange, created, said func(*scene)
	// actor is the actor in the trace once the last text has come.
	actor string
}

// down are the texts that the kubelet writes only to its log, once the pod has run and was
// deleted.
var down = []saying{
	{name: "unstage-refused", says: []string{"UnmountDevice failed"}, actor: "CSI driver ", arrange: func(s *scene) { s.disk(data, nil); s.refuse(wire.Unstage, data) }},
	{name: "mounted-elsewhere", says: []string{"GetDeviceMountRefs check failed"}, actor: "whoever mounted it at ", arrange: func(s *scene) { s.disk(data, nil) },
		created: func(s *scene) { s.hold(mountedElsewhere) }},
	{name: "device-mapped", says: []string{"UnmapDevice failed"}, actor: "the node admin", arrange: func(s *scene) { s.block() },
		created: func(s *scene) {
			left := filepath.Join(s.m.root, "plugins", "kubernetes.io", "csi", "volumeDevices", s.volumes[0].Spec, "dev", "left")
			if err := exec.Command("mknod", left, "b", "7", "250").Run(); err != nil {
				s.Fatal(err)
			}
			s.Cleanup(func() { _ = os.Remove(left) })
		}},
	{name: "unstage-refused-block", says: []string{"UnmapDevice.TearDownDevice failed"}, actor: "CSI driver ", arrange: func(s *scene) { s.block(); s.refuse(wire.Unstage, data) }},
	{name: "subpath-busy", says: []string{"error cleaning subPath mounts"}, actor: "the node admin", arrange: func(s *scene) {
		s.disk(data, nil)
		s.pod.Spec.Containers[0].VolumeMounts[0].SubPath = "some/where"
	}, created: func(s *scene) { s.hold(subPathOpen) }},
	{name: "tmpfs-busy", says: []string{"target is busy"}, actor: "the node admin", arrange: func(s *scene) {
		s.add(Volume{Name: data, Spec: data}, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}})
	}, created: func(s *scene) { s.hold(open) }},
}

// block adds a block volume of Disk.
func (s *scene) block() {
	s.disk(data, blockMode).Device = true
	c := &s.pod.Spec.Containers[0]
	c.VolumeMounts, c.VolumeDevices = nil, []corev1.VolumeDevice{{Name: data, DevicePath: "/dev/" + data}}
}

// hold keeps the scene's first volume busy.
func (s *scene) hold(how holding) {
	s.Helper()
	release, err := s.m.Hold(s.pod.UID, hold{of: s.volumes[0], how: how})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(release)
}

// TestSayingsDown is TestSayings for pods that end.
func TestSayingsDown(t *testing.T) {
	needsKubelet(t)
	m := world.Machine(t, "sayings-down")
	for _, row := range down {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, m, row.name)
			row.arrange(s)
			s.create()
			s.w.await(t, "the pod to run", func() (bool, error) { return s.w.runs(s.name, s.pod.Name) })
			if row.created != nil {
				row.created(s)
			}
			ends(s)
			var seen *snapshot.Snapshot
			var heard *trace.KubeletView
			s.w.await(t, "the kubelet's log to say "+row.says[0], func() (bool, error) {
				var err, logErr error
				seen, err = world.reader.Snapshot(world.plane)
				heard, logErr = m.Heard()
				return err == nil && logErr == nil && slices.ContainsFunc(heard.Failures, func(f controllerlog.KubeletFailure) bool {
					return strings.Contains(f.Message, row.says[0]) && (f.Pod == s.pod.UID || f.Pod == "" && f.Volume == s.volumes[0].Unique)
				}), errors.Join(err, logErr)
			})
			saidInStates.hear(m.root, seen, heard, s.pod, s.pod.UID)
			actor, said := "", ""
			if pod := seen.Pod(types.NamespacedName{Namespace: s.pod.Namespace, Name: s.pod.Name}); pod != nil {
				v := lookAt(seen, pod, planOf(seen, m.Node, heard), heard, nil).Trace.Verdict
				actor, said = v.Actor, v.Said
			}
			for _, v := range planOf(seen, m.Node, heard).Volumes {
				if v.Volume == s.volumes[0].Unique && v.Volume != "" && actor == "" {
					actor, said = v.Actor, v.Said
				}
			}
			if !strings.HasPrefix(actor, row.actor) || !strings.Contains(said, row.says[0]) {
				t.Errorf("%q is to act, want %s (said: %q)", actor, row.actor, said)
			}
		})
	}
}

var sayings = []saying{
	{name: "claim-terminating", says: []string{kubeletwords.ClaimTerminating}, actor: kubeletwords.Nobody, arrange: func(s *scene) {
		s.disk(data, nil)
		s.changeClaim(func(c *corev1.PersistentVolumeClaim) { c.Finalizers = append(c.Finalizers, "volume-doctor.test/kept") })
		if err := s.w.Client.CoreV1().PersistentVolumeClaims(s.name).Delete(s.w.plane, data, metav1.DeleteOptions{}); err != nil {
			s.Fatal(err)
		}
		s.Cleanup(func() {
			s.changeClaim(func(c *corev1.PersistentVolumeClaim) { c.Finalizers = nil })
		})
	}},
	{name: "claim-names-none", says: []string{kubeletwords.ClaimNamesNone}, actor: "the provisioner of ", arrange: func(s *scene) {
		s.w.unboundClaim(s.T, s.name, data, "")
		s.changeClaim(func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimBound })
		s.add(Volume{Name: data}, corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: data}})
	}},
	{name: "volume-missing", says: []string{kubeletwords.VolumeUnread}, actor: kubeletwords.Nobody, arrange: func(s *scene) {
		s.w.unboundClaim(s.T, s.name, data, "pv-gone")
		s.add(Volume{Name: data}, corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: data}})
	}},
	{name: "volume-unclaimed", says: []string{kubeletwords.VolumeUnclaimed}, actor: "the persistent volume controller", arrange: func(s *scene) {
		s.disk(data, nil)
		s.changeVolume(func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef = nil })
	}},
	{name: "claim-of-another", says: []string{kubeletwords.ClaimOfAnother}, actor: kubeletwords.WorkloadOwner, arrange: func(s *scene) {
		s.w.claim(s.T, s.name, s.pod.Name+"-"+data, Disk, nil, nil)
		s.add(Volume{Name: data}, ephemeral())
	}},
	{name: "attachment-fails-later", says: []string{kubeletwords.NotAttached, kubeletwords.BeingDetached}, actor: "the external-attacher of ", arrange: func(s *scene) {
		v := s.disk(data, nil)
		s.refuse(wire.Stage, data)
		s.w.Cluster.Driver.FailUnpublish(status.Error(codes.Internal, "busy"), v.Handle)
		s.Cleanup(func() { s.w.Cluster.Driver.FailUnpublish(nil, v.Handle); s.w.Cluster.Driver.Delay(0, v.Handle) })
	}, created: (*scene).loseAttachment, said: func(s *scene) {
		if err := s.w.Client.StorageV1().VolumeAttachments().Delete(s.w.plane, s.attachment(), metav1.DeleteOptions{}); err != nil {
			s.Fatal(err)
		}
	}},
	{name: "plugin-silent", says: []string{kubeletwords.SocketMissing, kubeletwords.NobodyListens}, actor: "CSI driver", arrange: func(s *scene) {
		s.of(Files, data, nil)
		if err := os.Rename(s.socket(), s.socket()+".kept"); err != nil {
			s.Fatal(err)
		}
		s.Cleanup(func() {
			if err := os.Rename(s.socket()+".kept", s.socket()); err != nil {
				s.Error(err)
			}
		})
	}, said: func(s *scene) {
		listener, err := net.Listen("unix", s.socket())
		if err != nil {
			s.Fatal(err)
		}
		listener.(*net.UnixListener).SetUnlinkOnClose(false)
		if err := listener.Close(); err != nil {
			s.Fatal(err)
		}
	}},
}

// socket is the socket of the node plugin of Files.
func (s *scene) socket() string { return s.m.socket(Files) }

// changeClaim changes the scene's claim: its spec and then its status.
func (s *scene) changeClaim(change func(*corev1.PersistentVolumeClaim)) {
	s.Helper()
	claims := s.w.Client.CoreV1().PersistentVolumeClaims(s.name)
	c, err := claims.Get(s.w.plane, data, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	change(c)
	wanted := c.Status
	if c, err = claims.Update(s.w.plane, c, metav1.UpdateOptions{}); err != nil {
		s.Fatal(err)
	}
	if len(c.Finalizers) == 0 && c.DeletionTimestamp != nil {
		return // the claim is gone
	}
	c.Status = wanted
	if _, err := claims.UpdateStatus(s.w.plane, c, metav1.UpdateOptions{}); err != nil {
		s.Fatal(err)
	}
}

func (s *scene) changeVolume(change func(*corev1.PersistentVolume)) {
	s.Helper()
	volumes := s.w.Client.CoreV1().PersistentVolumes()
	pv, err := volumes.Get(s.w.plane, "pv-"+s.name+"-"+data, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	change(pv)
	if _, err := volumes.Update(s.w.plane, pv, metav1.UpdateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// attachment is the name of the VolumeAttachment of the scene's volume.
func (s *scene) attachment() string {
	s.Helper()
	vas, err := s.w.Client.StorageV1().VolumeAttachments().List(s.w.plane, metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for _, va := range vas.Items {
		if name := va.Spec.Source.PersistentVolumeName; name != nil && *name == "pv-"+s.name+"-"+data {
			return va.Name
		}
	}
	s.Fatal("the volume has no VolumeAttachment")
	return ""
}

// awaitSaid waits for the text in an event of the scene's pod.
func (s *scene) awaitSaid(text string) {
	s.Helper()
	s.w.await(s.T, "the kubelet to say "+text, func() (bool, error) {
		events, err := fixture.Events(s.w.plane, s.w.Client, s.pod)
		for _, e := range events {
			if strings.Contains(strings.ToLower(e.Message), strings.ToLower(text)) {
				return true, nil
			}
		}
		return false, err
	})
}

// TestSayings makes a real kubelet write the texts that the checks know, and checks whom the
// trace then names.
func TestSayings(t *testing.T) {
	needsKubelet(t)
	m := world.Machine(t, "sayings")
	for _, row := range sayings {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, m, row.name)
			row.arrange(s)
			s.create()
			if row.created != nil {
				row.created(s)
			}
			for i, text := range row.says {
				s.awaitSaid(text)
				if i == 0 && row.said != nil {
					row.said(s)
				}
			}
			time.Sleep(time.Second) // the facts beside the text come a moment later
			seen, err := world.reader.Snapshot(world.plane)
			if err != nil {
				t.Fatal(err)
			}
			heard, err := m.Heard()
			if err != nil {
				t.Fatal(err)
			}
			pod := seen.Pod(types.NamespacedName{Namespace: s.pod.Namespace, Name: s.pod.Name})
			saidInStates.hear(m.root, seen, heard, pod, pod.UID)
			for _, l := range []Look{lookAt(seen, pod, planOf(seen, m.Node, nil), nil, nil), lookAt(seen, pod, planOf(seen, m.Node, heard), heard, nil)} {
				// Where a list may just be too old to show the missing object, no actor is
				// named.
				if v := l.Trace.Verdict; !strings.HasPrefix(v.Actor, row.actor) && (v.Actor != "" || row.actor != kubeletwords.Nobody) {
					t.Errorf("the trace names %q, want %s: %s (said: %q)", v.Actor, row.actor, v.Message, v.Said)
				}
			}
		})
	}
}

// loseAttachment waits until the volume is attached and its mount fails, and then detaches it
// without the controller's knowledge, while the driver is slow to attach it again.
func (s *scene) loseAttachment() {
	s.Helper()
	s.awaitSaid("MountVolume.MountDevice failed")
	s.w.Cluster.Driver.Delay(patience, s.volumes[0].Handle)
	vas := s.w.Client.StorageV1().VolumeAttachments()
	va, err := vas.Get(s.w.plane, s.attachment(), metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	va.Status.Attached = false
	if _, err := vas.UpdateStatus(s.w.plane, va, metav1.UpdateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// TestDataLost: a kubelet cannot unmount the volume of a pod that ends, because the file that
// it needs for that is gone. A kubelet of 1.34 deletes the file itself where it was killed
// while the driver published the volume, and the driver then refuses. No object shows that;
// the kubelet's log does, and restarting the kubelet ends it.
func TestDataLost(t *testing.T) {
	needsKubelet(t)
	m := world.Machine(t, "data-lost")
	s := newScene(t, m, "data-lost")
	s.of(Files, data, nil)
	s.create()
	s.w.await(t, "the volume to be mounted", func() (bool, error) {
		seen, err := s.w.see(m, s.volumes)
		return err == nil && seen.truth(s.pod.UID, s.volumes)[data].Mounted, err
	})
	if err := os.Remove(filepath.Join(m.root, "pods", string(s.pod.UID), "volumes", "kubernetes.io~csi", "pv-"+s.name+"-"+data, "vol_data.json")); err != nil {
		t.Fatal(err)
	}
	if err := s.w.Client.CoreV1().Pods(s.name).Delete(s.w.plane, s.pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var l Look
	s.w.await(t, "the kubelet to say what it lacks", func() (bool, error) {
		seen, err := world.reader.Snapshot(world.plane)
		if err != nil {
			return false, err
		}
		heard, err := m.Heard()
		if err != nil {
			return false, err
		}
		pod := seen.Pod(types.NamespacedName{Namespace: s.pod.Namespace, Name: s.pod.Name})
		if pod == nil {
			t.Fatalf("the pod went; the kubelet's log: %s", m.KeepLog())
		}
		saidInStates.hear(m.root, seen, heard, pod, pod.UID)
		l = lookAt(seen, pod, planOf(seen, m.Node, heard), heard, nil)
		return strings.Contains(l.Trace.Verdict.Said, kubeletwords.DataLost), fmt.Errorf("%s (said: %q)", l.Trace.Verdict.Message, l.Trace.Verdict.Said)
	})
	if v := l.Trace.Verdict; v.State != finding.Stuck || v.Stage != trace.StageUnmounted || actorOf(v.Actor) != TheKubelet {
		t.Errorf("the verdict is %s in %s, for %s: %s", v.State, v.Stage, v.Actor, v.Message)
	}
	s.ask(wire.Request{Do: wire.Kill})
	s.ask(wire.Request{Do: wire.Start})
	s.w.await(t, "the pod to go", func() (bool, error) {
		_, err := s.w.Client.CoreV1().Pods(s.name).Get(s.w.plane, s.pod.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}
