package kubelettrace

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
	"github.com/volume-doctor/kubectl-volume-doctor/evidence/controllerlog"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// scene is a state that is being made: its namespace has its name.
type scene struct {
	*testing.T
	w       *World
	m       *Machine
	name    string
	pod     *corev1.Pod
	volumes []Volume
}

// state is a pod in a state of the table, with the truth about it.
type state struct {
	name string
	// arrange makes the scene's pod and sets its volumes.
	arrange func(*scene)
	// after, if set, runs once the pod was created.
	after func(*scene)
	// event is a part of an event that the pod must have by then.
	event string
	// volume is the volume that waits, and stage and actor are the truth about it; "" where
	// all volumes are mounted.
	volume string
	stage  trace.StageName
	actor  Actor
	// verdict is the verdict that the trace must give immediately.
	verdict finding.WaitState
	// called reports whether the driver received a call for the volume that waits.
	called bool
}

// newScene makes the namespace.
func newScene(t *testing.T, m *Machine, name string) *scene {
	t.Helper()
	if err := fixture.Namespace(world.plane, world.Client, name); err != nil {
		t.Fatal(err)
	}
	s := &scene{T: t, w: world, m: m, name: name, pod: fixture.Pod(name, "web-0", m.Node)}
	s.pod.UID = "" // the API server sets it
	return s
}

func (s *scene) ask(r wire.Request) {
	s.Helper()
	if _, err := s.m.Ask(r); err != nil {
		s.Fatal(err)
	}
}

func (s *scene) fault(driver string, f wire.Fault) {
	s.Helper()
	s.ask(wire.Request{Do: wire.SetFault, Driver: driver, Fault: f})
}

// disk adds a volume of Disk, with its claim.
func (s *scene) disk(name string, change func(*corev1.PersistentVolume)) *Volume {
	s.Helper()
	return s.of(Disk, name, change)
}

func (s *scene) of(driver, name string, change func(*corev1.PersistentVolume)) *Volume {
	s.Helper()
	v := s.w.claim(s.T, s.name, name, driver, change, nil)
	return s.add(v, corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}})
}

// add gives the pod a volume that its container mounts.
func (s *scene) add(v Volume, source corev1.VolumeSource) *Volume {
	s.pod.Spec.Volumes = append(s.pod.Spec.Volumes, corev1.Volume{Name: v.Name, VolumeSource: source})
	c := &s.pod.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: v.Name, MountPath: "/" + v.Name})
	s.volumes = append(s.volumes, v)
	return &s.volumes[len(s.volumes)-1]
}

func (s *scene) refuse(rpc wire.RPC, volume string) {
	s.fault(Disk, wire.Fault{RPC: rpc, Handle: "vol-" + s.name + "-" + volume, Code: uint32(codes.Internal), Message: "mkfs failed"})
}

func (s *scene) hang(rpc wire.RPC, volume string) {
	s.fault(Disk, wire.Fault{RPC: rpc, Handle: "vol-" + s.name + "-" + volume, Hang: true})
}

// create makes the pod.
func (s *scene) create() {
	s.Helper()
	pod, err := fixture.CreatePod(s.w.plane, s.w.Client, s.pod)
	if err != nil {
		s.Fatal(err)
	}
	s.pod = pod
}

// settle waits until the oracle shows the state of the row, and returns a look at it.
func (s *scene) settle(row state) (l Look) {
	s.Helper()
	s.w.await(s.T, "the state", func() (bool, error) {
		seen, err := s.w.see(s.m, s.volumes)
		if err != nil {
			return false, err
		}
		truth := seen.truth(s.pod.UID, s.volumes)
		for _, v := range s.volumes {
			told := truth[v.Name]
			switch {
			case v.Name == row.volume && (told.Stage != row.stage || told.Actor != row.actor):
				return false, statusOf(truth, seen, s.pod.UID)
			case v.Name != row.volume && !v.Unused && told.Stage != "":
				return false, statusOf(truth, seen, s.pod.UID)
			case v.Name == row.volume && row.called && !s.called(seen, v):
				return false, statusOf(truth, seen, s.pod.UID)
			}
		}
		if row.event != "" {
			events, err := fixture.Events(s.w.plane, s.w.Client, s.pod)
			if err != nil {
				return false, err
			}
			var texts []string
			for _, e := range events {
				texts = append(texts, e.Message)
			}
			if !strings.Contains(strings.Join(texts, "\n"), row.event) {
				return false, statusOf(truth, seen, s.pod.UID, texts...)
			}
		}
		var ok bool
		if l, ok, err = s.w.look(s.m, s.pod, s.volumes); err != nil || !ok {
			return false, err
		}
		// The pod's status, and the node's, are written some time after the changes.
		if wrong := slices.Concat(l.Compare(s.volumes), l.CompareRows(s.volumes)); len(wrong) > 0 {
			return false, fmt.Errorf("%v", wrong)
		}
		return true, nil
	})
	return l
}

func (s *scene) called(seen seen, v Volume) bool {
	for _, rpc := range []wire.RPC{wire.Stage, wire.Publish, wire.Unpublish} {
		if seen.received(rpc, v.Handle, s.pod.CreationTimestamp.Time) {
			return true
		}
	}
	return false
}

var data = "data"

func secretVolume(name string) corev1.VolumeSource {
	return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}
}

// states is the table of the kubelet's half.
var states = []state{
	{name: "all-mounted", arrange: func(s *scene) { s.disk(data, nil) }, verdict: finding.NoWait},
	{name: "all-kinds", arrange: func(s *scene) {
		s.disk(data, nil)
		s.of(Files, "files", nil)
		s.add(Volume{Name: "inline", Driver: Files}, corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: Files}})
		s.add(Volume{Name: "empty"}, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
		s.add(Volume{Name: "host"}, corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}})
	}, verdict: finding.NoWait},
	{name: "stage-secret", arrange: func(s *scene) {
		v := s.disk(data, func(pv *corev1.PersistentVolume) {
			pv.Spec.CSI.NodeStageSecretRef = &corev1.SecretReference{Namespace: s.name, Name: "gone"}
		})
		v.Local = Creator
	}, event: `secrets "gone" not found`, volume: data, stage: trace.StageStaged, actor: Creator, verdict: finding.InFlight},
	{name: "publish-secret", arrange: func(s *scene) {
		v := s.disk(data, func(pv *corev1.PersistentVolume) {
			pv.Spec.CSI.NodePublishSecretRef = &corev1.SecretReference{Namespace: s.name, Name: "gone"}
		})
		v.Local = Creator
	}, event: `secrets "gone" not found`, volume: data, stage: trace.StageMounted, actor: Creator, verdict: finding.InFlight},
	{name: "affinity", arrange: func(s *scene) {
		v := s.disk(data, func(pv *corev1.PersistentVolume) {
			pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"west"}}},
			}}}}
		})
		v.Local, v.Never = Nobody, true
	}, event: "MountVolume.NodeAffinity check failed", volume: data, stage: trace.StageStaged, actor: Nobody, verdict: finding.Stuck},
	{name: "block-as-files", arrange: func(s *scene) {
		block := corev1.PersistentVolumeBlock
		v := s.disk(data, func(pv *corev1.PersistentVolume) { pv.Spec.VolumeMode = &block })
		v.Local, v.Never = Nobody, true
	}, event: "volume data has volumeMode Block, but is specified in volumeMounts", volume: data, stage: trace.StageInVolumesInUse, actor: Nobody, verdict: finding.Stuck},
	{name: "files-as-block", arrange: func(s *scene) {
		v := s.of(Files, data, nil)
		v.Local, v.Never = Nobody, true
		c := &s.pod.Spec.Containers[0]
		c.VolumeDevices, c.VolumeMounts = []corev1.VolumeDevice{{Name: data, DevicePath: "/dev/data"}}, nil
	}, event: "volume data has volumeMode Filesystem, but is specified in volumeDevices", volume: data, stage: trace.StageInVolumesInUse, actor: Nobody, verdict: finding.Stuck},
	{name: "stage-refused", arrange: func(s *scene) { s.disk(data, nil); s.refuse(wire.Stage, data) }, event: "MountVolume.MountDevice failed",
		volume: data, stage: trace.StageStaged, actor: TheDriver, called: true, verdict: finding.InFlight},
	{name: "stage-hangs", arrange: func(s *scene) { s.disk(data, nil); s.hang(wire.Stage, data) },
		volume: data, stage: trace.StageStaged, actor: TheDriver, called: true, verdict: finding.InFlight},
	{name: "publish-refused", arrange: func(s *scene) { s.disk(data, nil); s.refuse(wire.Publish, data) }, event: "MountVolume.SetUp failed",
		volume: data, stage: trace.StageMounted, actor: TheDriver, called: true, verdict: finding.InFlight},
	{name: "publish-hangs", arrange: func(s *scene) {
		s.disk(data, nil)
		s.hang(wire.Publish, data)
		other := s.pod.DeepCopy()
		other.Name = "other"
		if _, err := fixture.CreatePod(s.w.plane, s.w.Client, other); err != nil {
			s.Fatal(err)
		}
	}, volume: data, stage: trace.StageMounted, actor: TheDriver, called: true, verdict: finding.InFlight},
	{name: "one-of-two-attached", arrange: func(s *scene) {
		s.disk("first", nil)
		s.disk(data, nil)
		s.w.Cluster.Driver.FailPublish(status.Error(codes.FailedPrecondition, volumeLocked), "vol-"+s.name+"-"+data)
	}, event: volumeLocked, volume: data, stage: trace.StageAttached, actor: TheDriver, verdict: finding.InFlight},
	{name: "one-of-two-staged", arrange: func(s *scene) { s.disk("first", nil); s.disk(data, nil); s.refuse(wire.Stage, data) },
		event: "MountVolume.MountDevice failed", volume: data, stage: trace.StageStaged, actor: TheDriver, called: true, verdict: finding.InFlight},
	{name: "unused", arrange: func(s *scene) {
		s.disk(data, nil)
		s.disk("spare", nil).Unused = true
		c := &s.pod.Spec.Containers[0]
		c.VolumeMounts = c.VolumeMounts[:1]
	}, verdict: finding.NoWait},
	{name: "claim-missing", arrange: func(s *scene) {
		s.add(Volume{Name: data, Unclaimed: true, Local: Creator}, corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "gone"}})
	}, event: `failed to fetch PVC from API server: persistentvolumeclaims "gone" not found`, volume: data, stage: trace.StageClaimBound, actor: Creator, verdict: finding.InFlight},
	{name: "volume-of-another", arrange: func(s *scene) {
		v := s.disk(data, nil)
		v.Unclaimed, v.Local = true, Nobody
		if err := s.w.Client.CoreV1().PersistentVolumeClaims(s.name).Delete(s.w.plane, data, metav1.DeleteOptions{}); err != nil {
			s.Fatal(err)
		}
		s.w.unboundClaim(s.T, s.name, data, "pv-"+s.name+"-"+data)
	}, event: "does not point to claim.UID", volume: data, stage: trace.StageClaimBound, actor: Nobody, verdict: finding.InFlight},
	{name: "claim-unbound", arrange: func(s *scene) {
		s.w.unboundClaim(s.T, s.name, data, "")
		s.add(Volume{Name: data, Unclaimed: true, Local: Binder}, corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: data}})
	}, event: "PVC is not bound", volume: data, stage: trace.StageClaimBound, actor: Binder, verdict: finding.InFlight},
	{name: "secret", arrange: func(s *scene) { s.add(Volume{Name: data, Local: Creator}, secretVolume("gone")) },
		event: `secret "gone" not found`, volume: data, stage: trace.StageMounted, actor: Creator, verdict: finding.InFlight},
	{name: "configmap", arrange: func(s *scene) {
		s.add(Volume{Name: data, Local: Creator}, corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "gone"}}})
	}, event: `configmap "gone" not found`, volume: data, stage: trace.StageMounted, actor: Creator, verdict: finding.InFlight},
	{name: "secret-key", arrange: func(s *scene) {
		_, err := s.w.Client.CoreV1().Secrets(s.name).Create(s.w.plane, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "there"}}, metav1.CreateOptions{})
		if err != nil {
			s.Fatal(err)
		}
		source := secretVolume("there")
		source.Secret.Items = []corev1.KeyToPath{{Key: "gone", Path: "gone"}}
		s.add(Volume{Name: data, Local: Creator}, source)
	}, event: "references non-existent secret key: gone", volume: data, stage: trace.StageMounted, actor: Creator, verdict: finding.InFlight},
	{name: "projected", arrange: func(s *scene) {
		s.add(Volume{Name: data, Local: Creator}, corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "gone"}}},
		}}})
	}, event: `configmap "gone" not found`, volume: data, stage: trace.StageMounted, actor: Creator, verdict: finding.InFlight},
	{name: "secret-beside-disk", arrange: func(s *scene) { s.disk("first", nil); s.add(Volume{Name: data, Local: Creator}, secretVolume("gone")) },
		event: `secret "gone" not found`, volume: data, stage: trace.StageMounted, actor: Creator, verdict: finding.InFlight},
	{name: "host-path-type", arrange: func(s *scene) {
		file := corev1.HostPathSocket
		s.add(Volume{Name: data, Local: Creator}, corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/no/such/socket", Type: &file}})
	}, event: "hostPath type check failed", volume: data, stage: trace.StageMounted, actor: Creator, verdict: finding.InFlight},
	{name: "no-plugin", arrange: func(s *scene) {
		s.add(Volume{Name: data, Local: Nobody, Never: true}, corev1.VolumeSource{Glusterfs: &corev1.GlusterfsVolumeSource{EndpointsName: "e", Path: "/"}})
	}, event: "no volume plugin matched", volume: data, stage: trace.StageInVolumesInUse, actor: Nobody, verdict: finding.Stuck},
	{name: "driver-away", arrange: func(s *scene) { s.of(Away, data, nil) }, event: "not found in the list of registered CSI drivers",
		volume: data, stage: trace.StageRegistered, actor: ThePlugin, verdict: finding.InFlight},
	{name: "inline-away", arrange: func(s *scene) {
		s.add(Volume{Name: data, Driver: Away}, corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: Away}})
	}, event: "not found in the list of registered CSI drivers", volume: data, stage: trace.StageRegistered, actor: ThePlugin, verdict: finding.InFlight},
	{name: "inline-unsupported", arrange: func(s *scene) {
		s.add(Volume{Name: data, Driver: Disk, Local: Nobody, Never: true}, corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: Disk}})
	}, event: "volume mode \"Ephemeral\" not supported by driver", volume: data, stage: trace.StageMounted, actor: Nobody, verdict: finding.Stuck},
	{name: "attach-refused", arrange: func(s *scene) {
		s.disk(data, nil)
		s.w.Cluster.Driver.FailPublish(status.Error(codes.FailedPrecondition, volumeLocked), "vol-"+s.name+"-"+data)
	}, event: volumeLocked, volume: data, stage: trace.StageAttached, actor: TheDriver, verdict: finding.InFlight},
	{name: "once-only-pod", arrange: func(s *scene) {
		v := s.w.claim(s.T, s.name, data, Disk, nil, nil, corev1.ReadWriteOncePod)
		v.Local = Other
		s.add(v, corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: data}})
		other := s.pod.DeepCopy()
		other.Name = "other"
		if _, err := fixture.CreatePod(s.w.plane, s.w.Client, other); err != nil {
			s.Fatal(err)
		}
		s.w.await(s.T, "the other pod to run", func() (bool, error) { return s.w.runs(s.name, "other") })
	}, event: "volume uses the ReadWriteOncePod access mode and is already in use by another pod", volume: data, stage: trace.StageMounted, actor: Other, verdict: finding.InFlight},
	{name: "unpublish-refused", arrange: func(s *scene) { s.disk(data, nil); s.disk("other", nil); s.refuse(wire.Unpublish, data) }, after: ends,
		volume: data, stage: trace.StageUnmounted, actor: TheDriver, called: true, verdict: finding.InFlight},
	{name: "unpublish-refused-other-driver-away", arrange: func(s *scene) {
		s.of(Away, "away", nil)
		s.disk(data, nil)
		s.refuse(wire.Unpublish, data)
	}, after: endsUnstarted, volume: data, stage: trace.StageUnmounted, actor: TheDriver, called: true, verdict: finding.InFlight},
	{name: "unpublish-hangs", arrange: func(s *scene) { s.disk(data, nil); s.hang(wire.Unpublish, data) }, after: ends,
		volume: data, stage: trace.StageUnmounted, actor: TheDriver, called: true, verdict: finding.InFlight},
}

// endsUnstarted deletes the pod once the volume is mounted, and before it runs.
func endsUnstarted(s *scene) {
	s.w.await(s.T, "the volume to be mounted", func() (bool, error) {
		seen, err := s.w.see(s.m, s.volumes)
		return err == nil && seen.truth(s.pod.UID, s.volumes)[data].Mounted, err
	})
	if err := fixture.DeletePod(s.w.plane, s.w.Client, s.name, s.pod.Name); err != nil {
		s.Fatal(err)
	}
}

// ends has the pod run and then deletes it.
func ends(s *scene) {
	s.w.await(s.T, "the pod to run", func() (bool, error) { return s.w.runs(s.name, s.pod.Name) })
	if err := fixture.DeletePod(s.w.plane, s.w.Client, s.name, s.pod.Name); err != nil {
		s.Fatal(err)
	}
}

// TestStates compares the trace of each state with a real kubelet in it.
func TestStates(t *testing.T) {
	needsKubelet(t)
	m := world.Machine(t, "states")
	var logged atomic.Int32
	t.Cleanup(func() {
		if got := int(logged.Load()); got < len(states)/3 {
			t.Errorf("in %d of %d states the kubelet's log told what fails", got, len(states))
		}
	})
	for _, row := range states {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, m, row.name)
			row.arrange(s)
			s.create()
			if row.after != nil {
				row.after(s)
			}
			l := s.settle(row)
			for _, wrong := range slices.Concat(l.Compare(s.volumes), l.CompareRows(s.volumes)) {
				t.Error(wrong)
			}
			if got := l.Trace.Verdict.State; got != row.verdict {
				t.Errorf("the verdict is %s, want %s: %s", got, row.verdict, l.Trace.Verdict.Message)
			}
			if v := l.Trace.Verdict; v.Volume != row.volume && !slices.Contains(v.Volumes, row.volume) {
				t.Errorf("the verdict names volume %q, want %s", v.Volume, row.volume)
			}
			if s.hear(l) {
				logged.Add(1)
			}
			if recorder != nil && !t.Failed() {
				if err := s.record(l, row); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// saidInStates are the texts of the newest kubelet in the states of the table, and saidIn all
// texts that are written at the end.
var (
	saidInStates = newTally(0, Newest)
	saidIn       = []*tally{saidInStates}
)

// hear checks the trace and the plan of the look where the kubelet is asked, too, first with
// all events and then without those of failed mounts, which the API server keeps for an hour:
// the log has them all. It returns whether the log shows a volume that waits.
func (s *scene) hear(l Look) bool {
	s.Helper()
	heard, err := s.m.Heard()
	if err != nil {
		s.Fatal(err)
	}
	saidInStates.hear(s.m.root, l.snapshot, heard, s.pod, s.pod.UID)
	compare := func(without string, seen *snapshot.Snapshot) {
		pod := seen.Pod(types.NamespacedName{Namespace: s.pod.Namespace, Name: s.pod.Name})
		asked := lookAt(seen, pod, planOf(seen, s.m.Node, heard), heard, l.Truth)
		for _, wrong := range slices.Concat(asked.Compare(s.volumes), asked.CompareRows(s.volumes)) {
			s.Errorf("the kubelet being asked%s: %s", without, wrong)
		}
	}
	compare("", l.snapshot)
	if !slices.ContainsFunc(heard.Failures, func(f controllerlog.KubeletFailure) bool {
		return f.Pod == s.pod.UID && slices.ContainsFunc(s.volumes, func(v Volume) bool { return v.Unique == f.Volume && l.Truth[v.Name].Stage != "" })
	}) {
		return false
	}
	o := l.snapshot.Objects
	o.Events = slices.DeleteFunc(slices.Clone(o.Events), func(e *corev1.Event) bool { return e.Reason == "FailedMount" || e.Reason == "FailedMapVolume" })
	compare(", without events", snapshot.New(l.snapshot.TakenAt, l.snapshot.Source, o, l.snapshot.Gaps))
	return true
}

// record records the look.
func (s *scene) record(l Look, row state) error {
	r, err := record(l.snapshot, world.kubelet.Release, s.m.Node, "state "+row.name)
	if err != nil {
		return err
	}
	r.Pods = []RecordedPod{{
		Pod:     types.NamespacedName{Namespace: s.pod.Namespace, Name: s.pod.Name},
		Volumes: s.volumes, Truth: l.Truth, MayCome: row.verdict == finding.InFlight,
	}}
	return recorder.Add(r)
}

// statusOf is the truth so far, as the error of a wait that fails.
func statusOf(truth map[string]Truth, seen seen, pod types.UID, texts ...string) error {
	return fmt.Errorf("so far %v; the kubelet's wait: %q; calls: %v; events: %q", truth, seen.answer.Kubelet.Pods[pod].Wait, seen.answer.Calls, texts)
}
