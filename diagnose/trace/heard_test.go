package trace_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/evidence/controllerlog"
	"github.com/volume-doctor/kubectl-volume-doctor/evidence/metrics"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testworld"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// logged is an operation that failed that many minutes ago and is retried a minute later.
func logged(minutes float64, volume corev1.UniqueVolumeName, pod types.UID, message string) controllerlog.KubeletFailure {
	return controllerlog.KubeletFailure{At: testworld.MinutesAgo(minutes).Time, Pause: time.Minute, Volume: volume, Pod: pod, Message: message}
}

// before is a failure of a kubelet that has started again since, by the log.
func before(f controllerlog.KubeletFailure) controllerlog.KubeletFailure {
	f.Before = true
	return f
}

func started(minutes float64) metrics.Sample {
	return testworld.Sample("process_start_time_seconds", float64(testworld.MinutesAgo(minutes).Unix()))
}

// TestNeverStaged: where the objects leave two stages open, the kubelet's counters exclude one.
func TestNeverStaged(t *testing.T) {
	const open, staged = "staged mounted", "staged"
	for name, row := range map[string]struct {
		samples []metrics.Sample
		want    string
	}{
		"not asked":                      {nil, open},
		"no call has succeeded":          {[]metrics.Sample{started(60), call("NodeStageVolume", "DeadlineExceeded", 2), call("NodeStageVolume", "Internal", 1)}, staged},
		"one has":                        {[]metrics.Sample{started(60), call("NodeStageVolume", "DeadlineExceeded", 2), call("NodeStageVolume", "OK", 1)}, open},
		"the series of what was never":   {[]metrics.Sample{started(60), call("NodeStageVolume", "DeadlineExceeded", 2), call("NodeStageVolume", "OK", 0)}, staged},
		"none has ended":                 {[]metrics.Sample{started(60), call("NodePublishVolume", "DeadlineExceeded", 2)}, open},
		"attached before it started":     {[]metrics.Sample{started(8), call("NodeStageVolume", "DeadlineExceeded", 2)}, open},
		"attached as it started":         {[]metrics.Sample{started(9.1), call("NodeStageVolume", "DeadlineExceeded", 2)}, open},
		"it does not say when":           {[]metrics.Sample{call("NodeStageVolume", "DeadlineExceeded", 2)}, open},
		"calls to another driver":        {[]metrics.Sample{started(60), testworld.Sample("csi_operations_seconds", 2, "driver_name", "other", "method_name", "/csi.v1.Node/NodeStageVolume", "grpc_status_code", "Internal")}, open},
		"only calls of the other stages": {[]metrics.Sample{started(60), call("NodePublishVolume", "Internal", 2), call("NodePublishVolume", "OK", 2)}, open},
	} {
		t.Run(name, func(t *testing.T) {
			w := testworld.New().Pending(9)
			w.VolumeAttachments[0].CreationTimestamp = testworld.MinutesAgo(9)
			view := &trace.KubeletView{Samples: row.samples}
			v := diagnose.TracePod(w.Snapshot(), w.Pod, diagnose.Options{Kubelet: view}).Verdict
			got := stagesOf(v.Stage, v.Stages)
			if got != row.want || strings.Contains(v.Message, "no object tells") != (row.want == open) {
				t.Errorf("it waits in %s, want %s: %s", got, row.want, v.Message)
			}
			for _, r := range testworld.Rows(w, view).Volumes {
				if got := stagesOf(r.Stage, r.Stages); got != row.want {
					t.Errorf("its row says %s, want %s: %s", got, row.want, r.Detail)
				}
			}
		})
	}
}

func stagesOf(stage trace.StageName, stages []trace.StageName) string {
	if len(stages) == 0 {
		stages = []trace.StageName{stage}
	}
	var names []string
	for _, s := range stages {
		names = append(names, string(s))
	}
	return strings.Join(names, " ")
}

// TestLoggedMount: the kubelet's log has a failed mount whose event is gone.
func TestLoggedMount(t *testing.T) {
	const (
		refused   = `MountVolume.MountDevice failed for volume "pv-data" : rpc error: code = Internal desc = no device`
		unreached = `MountVolume.WaitForAttach failed for volume "pv-data" : volume vol-1 has GET error for volume attachment csi-1: ` +
			`Get "https://10.0.0.1:6443/apis/storage.k8s.io/v1/volumeattachments/csi-1": read tcp 10.0.0.7:33462->10.0.0.1:6443: read: connection reset by peer`
		cutOff = `MountVolume.WaitForAttach failed for volume "pv-data" : volume vol-1 has GET error for volume attachment csi-1: ` +
			`unexpected error when reading response body. Please retry. Original error: unexpected EOF`
		unreachedBy = `MountVolume.MountDevice failed for volume "pv-data" : rpc error: code = Internal desc = Get "https://storage.test/v1/disks": dial tcp: no such host`
	)
	for name, row := range map[string]struct {
		failures []controllerlog.KubeletFailure
		want     string
		said     string
	}{
		"nothing":                 {nil, "staged mounted", ""},
		"staged":                  {[]controllerlog.KubeletFailure{logged(0.5, testworld.Volume, "uid-app", refused)}, "staged", refused},
		"published":               {[]controllerlog.KubeletFailure{logged(0.5, testworld.Volume, "uid-app", strings.Replace(refused, "MountDevice", "SetUp", 1))}, "mounted", strings.Replace(refused, "MountDevice", "SetUp", 1)},
		"the last one counts":     {[]controllerlog.KubeletFailure{logged(2, testworld.Volume, "uid-app", refused), logged(0.5, testworld.Volume, "uid-app", strings.Replace(refused, "MountDevice", "SetUp", 1))}, "mounted", strings.Replace(refused, "MountDevice", "SetUp", 1)},
		"the API server was away": {[]controllerlog.KubeletFailure{logged(2, testworld.Volume, "uid-app", refused), logged(0.5, testworld.Volume, "uid-app", unreached)}, "staged", refused},
		"its answer was cut off":  {[]controllerlog.KubeletFailure{logged(2, testworld.Volume, "uid-app", refused), logged(0.5, testworld.Volume, "uid-app", cutOff)}, "staged", refused},
		"that alone":              {[]controllerlog.KubeletFailure{logged(0.5, testworld.Volume, "uid-app", unreached)}, "staged mounted", unreached},
		"a driver says the same":  {[]controllerlog.KubeletFailure{logged(2, testworld.Volume, "uid-app", refused), logged(0.5, testworld.Volume, "uid-app", unreachedBy)}, "staged", unreachedBy},
		"before it came here":     {[]controllerlog.KubeletFailure{logged(91, testworld.Volume, "uid-app", refused)}, "staged mounted", ""},
		"of another pod":          {[]controllerlog.KubeletFailure{logged(0.5, testworld.Volume, "uid-other", refused)}, "staged mounted", ""},
		"of another volume":       {[]controllerlog.KubeletFailure{logged(0.5, "kubernetes.io/csi/d^other", "uid-app", strings.Replace(refused, "pv-data", "pv-other", 1))}, "staged mounted", ""},
		"of another step":         {[]controllerlog.KubeletFailure{logged(0.5, testworld.Volume, "uid-app", `UnmountVolume.TearDown failed for volume "pv-data" : busy`)}, "staged mounted", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := testworld.New().Pending(90)
			doc := diagnose.TracePod(w.Snapshot(), w.Pod, diagnose.Options{Kubelet: &trace.KubeletView{Failures: row.failures}})
			if got := stagesOf(doc.Verdict.Stage, doc.Verdict.Stages); got != row.want || doc.Verdict.Said != row.said {
				t.Errorf("it waits in %s, want %s: %s; said: %s", got, row.want, doc.Verdict.Message, doc.Verdict.Said)
			}
			for _, s := range doc.Volumes[0].Stages {
				for _, said := range s.Said {
					if said.By != "kubelet's log on n1" || !strings.HasPrefix(said.Text, "MountVolume.") {
						t.Errorf("%s said %q", said.By, said.Text)
					}
				}
			}
		})
	}
}

// TestLoggedSince: where the kubelet's log has later words than the event on which a finding rests,
// and somebody else has to act by them, the trace takes these, and leaves the finding out.
func TestLoggedSince(t *testing.T) {
	const (
		mode    = `MountVolume.MountDevice failed for volume "pv-data" : rpc error: code = InvalidArgument desc = unsupported access mode`
		missing = `MountVolume.MountDevice failed for volume "pv-data" : fetching NodeStageSecretRef a/gone failed: kubernetes.io/csi: failed to find the secret gone in the namespace a with error: secrets "gone" not found`
		refused = `MountVolume.MountDevice failed for volume "pv-data" : rpc error: code = Internal desc = Could not attach volume: InvalidVolume.NotFound`
		aborted = `MountVolume.MountDevice failed for volume "pv-data" : rpc error: code = Aborted desc = An operation with the given Volume ID already exists`
		creator = "whoever is to create secret/gone"
	)
	for name, row := range map[string]struct {
		events []string // all but the last are a minute older than the one after them
		ago    float64  // of the last event
		logged string
		actor  string
		code   finding.Code
	}{
		"no log":                         {[]string{mode}, 8, "", "the cluster admin", "VD411"},
		"the log says something else":    {[]string{mode}, 8, missing, creator, finding.PodStuck},
		"it says the same":               {[]string{mode}, 8, mode, "the cluster admin", "VD411"},
		"the event came after it":        {[]string{mode}, 0.1, missing, "the cluster admin", "VD412"},
		"it only follows from the event": {[]string{refused, aborted}, 8, aborted, "the storage admin", "VD411"},
	} {
		t.Run(name, func(t *testing.T) {
			w := testworld.New().Pending(30)
			for i, said := range row.events {
				w.Event("FailedMount", said, row.ago+float64(len(row.events)-1-i))
				e := w.Events[len(w.Events)-1]
				e.FirstTimestamp, e.Count = testworld.MinutesAgo(29-float64(i)), 9
			}
			view := &trace.KubeletView{Samples: []metrics.Sample{started(60)}}
			if row.logged != "" {
				view.Failures = []controllerlog.KubeletFailure{logged(0.5, testworld.Volume, "uid-app", row.logged)}
			}
			doc := diagnose.TracePod(w.Snapshot(), w.Pod, diagnose.Options{Kubelet: view})
			var codes []finding.Code
			for _, f := range doc.Findings {
				codes = append(codes, f.Code)
			}
			if doc.Verdict.Actor != row.actor || doc.Verdict.State != finding.Stuck || len(codes) != 1 || codes[0] != row.code {
				t.Errorf("it waits for %q, which is %s, with %s; want %q with %s: %s", doc.Verdict.Actor, doc.Verdict.State, codes, row.actor, row.code, doc.Verdict.Message)
			}
			for _, wrong := range testworld.TraceActorsDiffer(w.Snapshot(), doc) {
				t.Error(wrong)
			}
		})
	}
}

// TestLoggedUnmount: on the way down the kubelet writes no events: only its log shows the
// failure.
func TestLoggedUnmount(t *testing.T) {
	const (
		open    = "unmounted unstaged"
		tear    = `UnmountVolume.TearDown failed for volume "kubernetes.io/csi/ebs.csi.aws.com^vol-1" : kubernetes.io/csi: Unmounter.TearDownAt failed: rpc error: code = Internal desc = busy`
		refs    = `GetDeviceMountRefs check failed for volume "pv-data" : the device mount path "/x" is still mounted by other references [/y]`
		device  = `UnmountDevice failed for volume "pv-data" : rpc error: code = Internal desc = busy`
		itself  = `UnmountVolume.TearDown failed for volume "kubernetes.io/csi/ebs.csi.aws.com^vol-1" : remove /var/lib/kubelet/pods: directory not empty`
		another = "kubernetes.io/csi/ebs.csi.aws.com^vol-2"
	)
	ended := func() *testworld.World {
		w := testworld.New()
		w.Pod.Status.Phase = corev1.PodSucceeded
		w.Pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: testworld.MinutesAgo(9), FinishedAt: testworld.MinutesAgo(1)}}
		w.Pod.Status.Conditions[1].Status = corev1.ConditionFalse
		return w
	}
	nobody := func() *testworld.World {
		w := testworld.New()
		w.Pods = nil
		return w
	}
	onNode := "CSI driver ebs.csi.aws.com on n1"
	for name, row := range map[string]struct {
		world   *testworld.World
		failure controllerlog.KubeletFailure
		want    string
		actor   string
		runs    float64 // for how many minutes the kubelet has run; 0: 60, -1: its metrics are missing
	}{
		"ended, nothing":           {ended(), logged(0.5, another, "uid-app", tear), open, onNode, 0},
		"ended, unmount":           {ended(), logged(0.5, testworld.Volume, "uid-app", tear), "unmounted", onNode, 0},
		"ended, by the kubelet":    {ended(), logged(0.5, testworld.Volume, "uid-app", `UnmountVolume.TearDown failed for volume "pv-data" : strange words`), "unmounted", "the kubelet of n1", 0},
		"ended, files left":        {ended(), logged(0.5, testworld.Volume, "uid-app", itself), "unmounted", "the node admin", 0},
		"ended, unstage":           {ended(), logged(0.5, testworld.Volume, "", device), "unstaged", onNode, 0},
		"ended, tried again since": {ended(), logged(1.5, testworld.Volume, "uid-app", tear), open, onNode, 0},
		"ended, started since":     {ended(), logged(0.5, testworld.Volume, "uid-app", tear), open, onNode, 0.4},
		"ended, as it started":     {ended(), logged(0.5, testworld.Volume, "uid-app", tear), open, onNode, 0.51},
		"ended, by the log alone":  {ended(), logged(0.5, testworld.Volume, "uid-app", tear), "unmounted", onNode, -1},
		"ended, log of before":     {ended(), before(logged(0.5, testworld.Volume, "uid-app", tear)), open, onNode, -1},
		"ended, too long ago":      {ended(), logged(1.5, testworld.Volume, "uid-app", tear), open, onNode, -1},
		"ended, log of before it":  {ended(), before(logged(0.5, testworld.Volume, "uid-app", tear)), open, onNode, 0},
		"ended, another pod":       {ended(), logged(0.5, testworld.Volume, "uid-other", tear), open, onNode, 0},
		"ended, a mount":           {ended(), logged(0.5, testworld.Volume, "uid-app", `MountVolume.SetUp failed for volume "pv-data" : busy`), open, onNode, 0},
		"nobody's, unmount":        {nobody(), logged(0.5, testworld.Volume, "uid-gone", tear), "unmounted", onNode, 0},
		"nobody's, unstage":        {nobody(), logged(0.5, testworld.Volume, "", device), "unstaged", onNode, 0},
		"nobody's, references":     {nobody(), logged(0.5, testworld.Volume, "", refs), "unstaged", "whoever mounted it at /y on n1", 0},
		"nobody's, another":        {nobody(), logged(0.5, another, "", device), open, "the kubelet of n1 or " + onNode, 0},
	} {
		t.Run(name, func(t *testing.T) {
			view := &trace.KubeletView{Failures: []controllerlog.KubeletFailure{row.failure}}
			if row.runs >= 0 {
				view.Samples = []metrics.Sample{started(cmp.Or(row.runs, 60))}
			}
			rows := testworld.Rows(row.world, view).Volumes
			if len(rows) != 1 {
				t.Fatalf("%d rows, want one", len(rows))
			}
			if got := stagesOf(rows[0].Stage, rows[0].Stages); got != row.want || rows[0].Actor != row.actor {
				t.Errorf("it waits in %s for %s, want %s for %s: %s", got, rows[0].Actor, row.want, row.actor, rows[0].Detail)
			}
			if said := rows[0].Said; (said == row.failure.Message) != (row.want != open) {
				t.Errorf("in %s was said %q", row.want, said)
			}
		})
	}
}

// TestLoggedHolder: where the log names what holds the volume, nobody is told to restart the node plugin or
// the machine for it; an error of the driver leaves that as it is.
func TestLoggedHolder(t *testing.T) {
	const tear = `UnmountVolume.TearDown failed for volume "kubernetes.io/csi/ebs.csi.aws.com^vol-1" : `
	for said, told := range map[string]bool{
		"": true,
		tear + "kubernetes.io/csi: Unmounter.TearDownAt failed: rpc error: code = Internal desc = busy":       true,
		tear + "driver name ebs.csi.aws.com not found in the list of registered CSI drivers":                  true,
		tear + "remove /var/lib/kubelet/pods: directory not empty":                                            false,
		`GetDeviceMountRefs check failed for volume "pv-data" : it is still mounted by other references [/y]`: false,
	} {
		w := testworld.New().Stopped(180)
		view := &trace.KubeletView{Samples: []metrics.Sample{started(600)}}
		if said != "" {
			view.Failures = []controllerlog.KubeletFailure{logged(0.5, testworld.Volume, w.Pod.UID, said)}
		}
		doc := diagnose.TracePod(w.Snapshot(), w.Pod, diagnose.Options{Kubelet: view})
		if got := slices.ContainsFunc(doc.Findings, func(f finding.Brief) bool { return f.Code == finding.UnmountFails }); got != told {
			t.Errorf("%q: VD104 is told: %t; %+v", said, got, doc.Findings)
		}
	}
}

// withSecond adds a volume "more" like the first one.
func withSecond(w *testworld.World) *testworld.World {
	const volume = corev1.UniqueVolumeName("kubernetes.io/csi/ebs.csi.aws.com^vol-2")
	pv, claim := w.Volumes[0].DeepCopy(), w.Claims[0].DeepCopy()
	pv.Name, pv.UID, pv.Spec.CSI.VolumeHandle, pv.Spec.ClaimRef.Name, pv.Spec.ClaimRef.UID = "pv-more", "uid-pv-more", "vol-2", "more", "uid-more"
	claim.Name, claim.UID, claim.Spec.VolumeName = "more", "uid-more", "pv-more"
	w.Volumes, w.Claims = append(w.Volumes, pv), append(w.Claims, claim)
	va := w.VolumeAttachments[0].DeepCopy()
	va.Name, va.UID, va.Spec.Source.PersistentVolumeName = reconcile.VolumeAttachmentName("vol-2", testworld.Driver, "n1"), "uid-va-more", &pv.Name
	w.VolumeAttachments = append(w.VolumeAttachments, va)
	w.Node.Status.VolumesInUse = append(w.Node.Status.VolumesInUse, volume)
	w.Node.Status.VolumesAttached = append(w.Node.Status.VolumesAttached, corev1.AttachedVolume{Name: volume})
	more := w.Pod.Spec.Volumes[0].DeepCopy()
	more.Name, more.PersistentVolumeClaim.ClaimName = "more", "more"
	w.Pod.Spec.Volumes = append(w.Pod.Spec.Volumes, *more)
	c := &w.Pod.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "more", MountPath: "/more"})
	return w
}

// TestLoggedUnmountOfOneOfTwo: the log shows which of its volumes keeps a pod from ending.
func TestLoggedUnmountOfOneOfTwo(t *testing.T) {
	two := func() *testworld.World { return withSecond(testworld.New().Stopped(9)) }
	doc := diagnose.TracePod(two().Snapshot(), two().Pod, diagnose.Options{})
	if len(doc.Verdict.Volumes) != 2 {
		t.Fatalf("without the log it waits for %v: %s", doc.Verdict.Volumes, doc.Verdict.Message)
	}
	w := two()
	volume := w.Node.Status.VolumesInUse[1]
	doc = diagnose.TracePod(w.Snapshot(), w.Pod, diagnose.Options{Kubelet: &trace.KubeletView{Samples: []metrics.Sample{started(60)}, Failures: []controllerlog.KubeletFailure{
		logged(0.5, volume, w.Pod.UID, `UnmountVolume.TearDown failed for volume "`+string(volume)+`" : rpc error: code = Internal desc = busy`)}}})
	if v := doc.Verdict; v.Volume != "more" || len(v.Volumes) > 0 || v.Stage != trace.StageUnmounted || !strings.Contains(v.Message, "has ended but cannot go") {
		t.Errorf("with the log it waits for %q %v in %s: %s", v.Volume, v.Volumes, v.Stage, v.Message)
	}
}

// TestLoggedWithoutDriver: what the log says of a volume that the kubelet makes itself names the
// volume and the cause, and takes nothing from the wait that the objects show.
func TestLoggedWithoutDriver(t *testing.T) {
	const busy, cleaning = "UnmountVolume.TearDown failed", "error cleaning subPath mounts"
	for name, row := range map[string]struct {
		source corev1.VolumeSource
		path   string
		step   string
	}{
		"secret":            {corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}, "", busy},
		"projected":         {corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}, "", busy},
		"downwardAPI":       {corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{}}, "", busy},
		"configMap":         {corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}, "a", cleaning},
		"emptyDir":          {corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, "", busy},
		"emptyDir, memory":  {corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}, "", busy},
		"hostPath, subPath": {corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}}, "a", cleaning},
		"nfs":               {corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "nas", Path: "/x"}}, "", busy},
	} {
		for minutes, want := range map[float64]finding.WaitState{180: finding.Stuck, 1: finding.InFlight} {
			world := func() *testworld.World {
				w := testworld.New().Stopped(minutes)
				w.Pod.Spec.Volumes[0].VolumeSource = row.source
				w.Pod.Spec.Containers[0].VolumeMounts[0].SubPath = row.path
				return w
			}
			f := logged(0.5, "kubernetes.io/x/uid-app-data", "uid-app", row.step+` for volume "kubernetes.io/x/uid-app-data" : unmount failed: exit status 32: target is busy`)
			before := diagnose.TracePod(world().Snapshot(), world().Pod, diagnose.Options{})
			doc := diagnose.TracePod(world().Snapshot(), world().Pod, diagnose.Options{Kubelet: &trace.KubeletView{Samples: []metrics.Sample{started(600)}, Failures: []controllerlog.KubeletFailure{f}}})
			v, without := doc.Verdict, before.Verdict
			if v.State != want || v.Said != f.Message || v.Actor != kubeletwords.NodeAdmin || len(doc.Findings) != len(before.Findings) {
				t.Errorf("%s, %v minutes: it is %s by %s, want %s: %s; %d findings", name, minutes, v.State, v.Actor, want, v.Message, len(doc.Findings))
			}
			if doc.Outdated(finding.Finding{Code: finding.UnmountFails, Volume: testworld.Volume}) { // of another volume
				t.Errorf("%s, %v minutes: what keeps it outdates a finding about a volume of a driver", name, minutes)
			}
			if without.State != v.State || v.UsualBound != without.UsualBound || !v.Since.Equal(without.Since) {
				t.Errorf("%s, %v minutes: %s since %v, and %s since %v without the log", name, minutes, v.State, v.Since, without.State, without.Since)
			}
		}
	}
}

// TestLoggedWait: the kubelet's failed wait for its unmounts names the volumes that keep a pod, by the
// pod's names for them up to 1.34 and by its own since. A volume whose unmount has failed may keep it
// as well, unnamed.
func TestLoggedWait(t *testing.T) {
	const first, more = testworld.Volume, corev1.UniqueVolumeName("kubernetes.io/csi/ebs.csi.aws.com^vol-2")
	waited := func(minutes float64, name corev1.UniqueVolumeName, pod types.UID) controllerlog.KubeletFailure {
		f := logged(minutes, name, pod, controllerlog.StillMounted+string(name)+"]: context deadline exceeded")
		f.Pause = 138 * time.Second
		return f
	}
	torn := func(minutes float64, of corev1.UniqueVolumeName) controllerlog.KubeletFailure {
		return logged(minutes, of, "uid-app", `UnmountVolume.TearDown failed for volume "x" : rpc error: code = Internal desc = busy`)
	}
	for name, row := range map[string]struct {
		failures []controllerlog.KubeletFailure
		want     string // the volumes that it may wait for
		said     bool
	}{
		"nothing":                     {nil, "data more", false},
		"by its unique name":          {[]controllerlog.KubeletFailure{waited(1, more, "uid-app")}, "more", true},
		"by the pod's name":           {[]controllerlog.KubeletFailure{waited(1, "more", "uid-app")}, "more", true},
		"the last wait":               {[]controllerlog.KubeletFailure{waited(3, first, "uid-app"), waited(1, more, "uid-app")}, "more", true},
		"both in it":                  {[]controllerlog.KubeletFailure{waited(1, first, "uid-app"), waited(1, more, "uid-app")}, "data", true},
		"too long ago":                {[]controllerlog.KubeletFailure{waited(3, more, "uid-app")}, "data more", false},
		"before it started":           {[]controllerlog.KubeletFailure{before(waited(1, more, "uid-app"))}, "data more", false},
		"of another pod":              {[]controllerlog.KubeletFailure{waited(1, more, "uid-other")}, "data more", false},
		"the other's unmount failed":  {[]controllerlog.KubeletFailure{torn(30, first), waited(1, more, "uid-app")}, "more", true},
		"its own unmount fails":       {[]controllerlog.KubeletFailure{torn(0.5, more), waited(0.2, more, "uid-app")}, "more", true},
		"the other's unmount failing": {[]controllerlog.KubeletFailure{waited(1, more, "uid-app"), torn(0.5, first)}, "data", true},
	} {
		w := withSecond(testworld.New().Stopped(9))
		doc := diagnose.TracePod(w.Snapshot(), w.Pod, diagnose.Options{Kubelet: &trace.KubeletView{Failures: row.failures}})
		got := strings.Join(doc.Verdict.Volumes, " ")
		if got == "" {
			got = doc.Verdict.Volume
		}
		if got != row.want || (doc.Verdict.Said != "") != row.said || doc.Verdict.State != finding.Stuck {
			t.Errorf("%s: it waits for %q, which is %s, want %q: %s (said: %q)", name, got, doc.Verdict.State, row.want, doc.Verdict.Message, doc.Verdict.Said)
		}
		for _, v := range doc.Volumes {
			for _, s := range v.Stages {
				if name == "the other's unmount failed" && v.Name == "data" && s.Stage == trace.StageUnmounted && s.State == trace.StageDone {
					t.Errorf("%s: the log proves that it is unmounted: %s", name, s.Detail)
				}
			}
		}
	}
}

// TestLoggedNoMore: the words of a mount that failed no longer count where the log goes on for so long
// that the kubelet has tried again, and a call to the driver has ended, without another failure. Where
// all calls of a mount have, the pod hardly waits for the volume, and nobody is named.
func TestLoggedNoMore(t *testing.T) {
	const refused = `MountVolume.MountDevice failed for volume "pv-data" : rpc error: code = Internal desc = no device`
	for name, row := range map[string]struct {
		ago, ends float64
		pod       types.UID
		event     float64 // when an event was written, in minutes before now; 0: none
		later     []controllerlog.KubeletFailure
		staged    trace.StageState
		mounted   trace.StageState // "" for one that waits
	}{
		"the log goes on":          {16, 0.3, "uid-app", 0, nil, trace.StageDone, trace.StageUnknown},
		"its event is left, too":   {16, 0.3, "uid-app", 16, nil, trace.StageDone, trace.StageUnknown},
		"an event came later":      {16, 0.3, "uid-app", 9, nil, trace.StageBlocked, ""},
		"the log ends soon after":  {16, 15, "uid-app", 0, nil, trace.StageBlocked, ""},
		"a later call may run":     {9, 0.3, "uid-app", 0, nil, trace.StageDone, trace.StageWaiting},
		"a call may still run":     {4, 0.3, "uid-app", 0, nil, trace.StageBlocked, ""},
		"it fails for another pod": {16, 0.3, "uid-app", 0, []controllerlog.KubeletFailure{logged(1, testworld.Volume, "uid-other", refused)}, trace.StageBlocked, ""},
		"it fails again":           {16, 0.3, "uid-app", 0, []controllerlog.KubeletFailure{logged(1, testworld.Volume, "uid-app", refused)}, trace.StageBlocked, ""},
		"another volume does":      {16, 0.3, "uid-app", 0, []controllerlog.KubeletFailure{logged(1, "kubernetes.io/csi/ebs.csi.aws.com^vol-2", "uid-app", strings.Replace(refused, "pv-data", "pv-other", 1))}, trace.StageDone, trace.StageUnknown},
	} {
		w := testworld.New().Pending(30)
		if row.event > 0 {
			w.Event("FailedMount", refused, row.event)
		}
		view := &trace.KubeletView{Failures: append([]controllerlog.KubeletFailure{logged(row.ago, testworld.Volume, row.pod, refused)}, row.later...)}
		for i := range view.Failures {
			view.Failures[i].LogEnds = testworld.MinutesAgo(row.ends).Time
		}
		doc := diagnose.TracePod(w.Snapshot(), w.Pod, diagnose.Options{Kubelet: view})
		for _, s := range doc.Volumes[0].Stages {
			if s.Stage == trace.StageStaged && s.State != row.staged {
				t.Errorf("%s: staged is %s, want %s: %s", name, s.State, row.staged, s.Detail)
			}
			if s.Stage == trace.StageMounted && row.mounted != "" && s.State != row.mounted {
				t.Errorf("%s: mounted is %s, want %s: %s", name, s.State, row.mounted, s.Detail)
			}
		}
		if v := doc.Verdict; (v.State == finding.Unsure && v.Actor == "") != (row.mounted == trace.StageUnknown) {
			t.Errorf("%s: it is %s, and %q is to act: %s", name, v.State, v.Actor, v.Message)
		}
		if said := doc.Verdict.Said != ""; said != (row.staged == trace.StageBlocked) {
			t.Errorf("%s: said: %q", name, doc.Verdict.Said)
		}
	}
}

// TestLoggedNoMoreBeside: beside a volume whose mount no longer fails, the pod waits for another one
// with a driver. What the kubelet makes itself explains nothing.
func TestLoggedNoMoreBeside(t *testing.T) {
	token := func(w *testworld.World) *testworld.World {
		w.Pod.Spec.Volumes = append(w.Pod.Spec.Volumes, corev1.Volume{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}})
		w.Pod.Spec.Containers[0].VolumeMounts = append(w.Pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "token", MountPath: "/token"})
		return w
	}
	for name, row := range map[string]struct {
		world *testworld.World
		want  finding.WaitState
		on    string
	}{
		"a token":        {token(testworld.New().Pending(30)), finding.Unsure, "data"},
		"another volume": {withSecond(testworld.New().Pending(30)), finding.Stuck, "more"},
	} {
		f := logged(16, testworld.Volume, "uid-app", `MountVolume.SetUp failed for volume "pv-data" : rpc error: code = Internal desc = no device`)
		f.LogEnds = testworld.MinutesAgo(0.3).Time
		v := diagnose.TracePod(row.world.Snapshot(), row.world.Pod, diagnose.Options{Kubelet: &trace.KubeletView{Failures: []controllerlog.KubeletFailure{f}}}).Verdict
		if v.State != row.want || v.Volume != row.on || (v.Actor == "") != (row.want == finding.Unsure) {
			t.Errorf("%s: it is %s for %q by %q: %s", name, v.State, v.Volume, v.Actor, v.Message)
		}
	}
}

// TestLoggedDeletion: a kubelet that tries to delete the pod object has unmounted all volumes; who
// denies the deletion has to act.
func TestLoggedDeletion(t *testing.T) {
	const (
		webhook = `admission webhook "guard.example.com" denied the request: pods may not be deleted`
		policy  = `pods "app" is forbidden: ValidatingAdmissionPolicy 'keep' with binding 'keep' denied request: no`
		right   = `pods "app" is forbidden: User "system:node:n1" cannot delete resource "pods" in API group "" in the namespace "default"`
		silent  = `Internal error occurred: failed calling webhook "guard.example.com": failed to call webhook: context deadline exceeded`
		other   = `Delete "https://10.0.0.1:6443/api/v1/namespaces/default/pods/app": dial tcp 10.0.0.1:6443: i/o timeout`
		denied  = "waits for its object to be deleted"
		stays   = "and its object stays"
		volume  = "cannot go before volume data"
		busy    = `UnmountVolume.TearDown failed for volume "x" : rpc error: code = Internal desc = busy`
	)
	ago := func(minutes float64, pod, err string) controllerlog.KubeletFailure {
		return controllerlog.KubeletFailure{At: testworld.MinutesAgo(minutes).Time, Pause: 40 * time.Second, Undeleted: pod, Message: err, LogEnds: testworld.MinutesAgo(0.1).Time}
	}
	ofKubelet, ofDriver := "the kubelet of n1", "CSI driver ebs.csi.aws.com on n1"
	for name, row := range map[string]struct {
		failures []controllerlog.KubeletFailure
		want     string
		actor    string
		do       string
	}{
		"a webhook":               {[]controllerlog.KubeletFailure{ago(0.2, "default/app", webhook)}, denied, kubeletwords.ClusterAdmin, "admission webhook guard.example.com lets"},
		"a policy":                {[]controllerlog.KubeletFailure{ago(0.2, "default/app", policy)}, denied, kubeletwords.ClusterAdmin, "admission policy keep lets"},
		"a right":                 {[]controllerlog.KubeletFailure{ago(0.2, "default/app", right)}, denied, kubeletwords.ClusterAdmin, "the cluster admin lets"},
		"a webhook that is down":  {[]controllerlog.KubeletFailure{ago(0.2, "default/app", silent)}, denied, kubeletwords.ClusterAdmin, "admission webhook guard.example.com lets"},
		"something else":          {[]controllerlog.KubeletFailure{ago(0.2, "default/app", other)}, denied, ofKubelet, "the message names the error"},
		"after a failed unmount":  {[]controllerlog.KubeletFailure{logged(30, testworld.Volume, "uid-app", busy), ago(0.2, "default/app", webhook)}, denied, kubeletwords.ClusterAdmin, "lets the kubelet"},
		"no more":                 {[]controllerlog.KubeletFailure{ago(5, "default/app", webhook)}, stays, ofKubelet, "an API server that denies the deletion"},
		"the kubelet has started": {[]controllerlog.KubeletFailure{before(ago(0.2, "default/app", webhook))}, stays, ofKubelet, "an API server that denies the deletion"},
		"of another pod":          {[]controllerlog.KubeletFailure{ago(0.2, "default/app2", webhook)}, volume, ofDriver, ""},
		"of one before it":        {[]controllerlog.KubeletFailure{ago(190, "default/app", webhook)}, volume, ofDriver, ""},
		"nothing":                 {nil, volume, ofDriver, ""},
	} {
		w := testworld.New().Stopped(180)
		w.Pod.Status.Phase = corev1.PodFailed
		view := &trace.KubeletView{Failures: row.failures}
		doc := diagnose.TracePod(w.Snapshot(), w.Pod, diagnose.Options{Kubelet: view})
		if v := doc.Verdict; !strings.Contains(v.Message, row.want) || v.Actor != row.actor || !strings.Contains(doc.Stage().Do(), row.do) {
			t.Errorf("%s: %q is to act, want %q: %s (%s)", name, v.Actor, row.actor, v.Message, doc.Stage().Do())
		}
		for _, s := range doc.Volumes[0].Stages {
			if s.Stage == trace.StageUnmounted && (s.State == trace.StageDone) != (row.want != volume) {
				t.Errorf("%s: unmounted is %s: %s", name, s.State, s.Detail)
			}
		}
	}
}

// TestLoggedLocal: the log names a local volume by its PersistentVolume, and by its directory
// alone where the kubelet cleaned it up as it started, which it does once.
func TestLoggedLocal(t *testing.T) {
	const ofKubelet = "the kubelet of n1"
	for _, row := range []struct {
		name    corev1.UniqueVolumeName
		minutes float64
		actor   string
		again   string
	}{
		{"kubernetes.io/local-volume/pv-data", 0.5, kubeletwords.NodeAdmin, "nothing on the node uses the mount any more"},
		{"kubernetes.io/local-volume/pv-data", 1.05, kubeletwords.NodeAdmin, ""}, // its next try may not have failed yet
		{"kubernetes.io/local-volume/pv-data", 30, ofKubelet, ""},
		{"kubernetes.io/local-volume/pv-data2", 0.5, ofKubelet, ""},
		{"pv-data", 30, kubeletwords.NodeAdmin, "nothing on the node uses the mount any more, and then the kubelet is restarted"},
		{"pv-data2", 30, ofKubelet, ""},
	} {
		w := testworld.New().Stopped(1)
		w.VolumeAttachments, w.Node.Status.VolumesInUse, w.Node.Status.VolumesAttached = nil, nil, nil
		w.Volumes[0].Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/disks/1"}}
		doc := diagnose.TracePod(w.Snapshot(), w.Pod, diagnose.Options{Kubelet: &trace.KubeletView{Samples: []metrics.Sample{started(60)},
			Failures: []controllerlog.KubeletFailure{logged(row.minutes, row.name, "uid-app", `error cleaning subPath mounts for volume "data" : unmount failed: exit status 32: target is busy`)}}})
		var ends string
		for _, s := range doc.Volumes[0].Stages {
			if s.Stage == doc.Verdict.Stage {
				ends = s.Ends
			}
		}
		if v := doc.Verdict; v.Volume != "data" || v.Stage != trace.StageUnmounted || v.Actor != row.actor || !strings.Contains(ends, row.again) {
			t.Errorf("%s, %v minutes ago: it waits for %q in %s for %s, want %s: %s; %s, want %q", row.name, row.minutes, v.Volume, v.Stage, v.Actor, row.actor, v.Message, ends, row.again)
		}
	}
}

// TestLoggedDataLost: without the file that it needs to unmount a volume, a kubelet does not
// call the driver, whether the volume is attached, only staged, or defined in the pod.
func TestLoggedDataLost(t *testing.T) {
	const lost = `UnmountVolume.NewUnmounter failed for volume "pv-data" : kubernetes.io/csi: unmounter failed to load volume data file [/var/lib/kubelet/pods/uid-app]`
	notAttached := func(w *testworld.World) *testworld.World {
		w.VolumeAttachments, w.Node.Status.VolumesInUse, w.Node.Status.VolumesAttached = nil, nil, nil
		w.CSIDrivers[0].Spec.AttachRequired = ptr.To(false)
		return w
	}
	inline := func(w *testworld.World) *testworld.World {
		w.CSIDrivers[0].Spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral}
		w.Pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: testworld.Driver}}
		return w
	}
	for name, row := range map[string]struct {
		world  *testworld.World
		volume corev1.UniqueVolumeName
		state  finding.WaitState
	}{
		"attached":         {testworld.New().Stopped(1), testworld.Volume, finding.Stuck},
		"staged":           {notAttached(testworld.New().Stopped(1)), testworld.Volume, finding.Stuck},
		"of the pod":       {inline(notAttached(testworld.New().Stopped(1))), "kubernetes.io/csi/uid-app-data", finding.Stuck},
		"of another pod's": {inline(notAttached(testworld.New().Stopped(1))), "kubernetes.io/csi/uid-other-data", finding.InFlight},
		"another volume":   {notAttached(testworld.New().Stopped(1)), "kubernetes.io/csi/ebs.csi.aws.com^vol-2", finding.InFlight},
	} {
		t.Run(name, func(t *testing.T) {
			f := logged(0, row.volume, "uid-app", lost)
			f.Pause = 100 * time.Millisecond
			v := diagnose.TracePod(row.world.Snapshot(), row.world.Pod, diagnose.Options{Kubelet: &trace.KubeletView{
				Failures: []controllerlog.KubeletFailure{f}, Samples: []metrics.Sample{started(60)}}}).Verdict
			if v.State != row.state || v.Stage != trace.StageUnmounted || (v.Said == lost) != (row.state == finding.Stuck) {
				t.Errorf("it is %s in %s: %s (said: %q)", v.State, v.Stage, v.Message, v.Said)
			}
			if byKubelet := v.Actor == "the kubelet of n1"; byKubelet != (row.state == finding.Stuck) {
				t.Errorf("%q is to act", v.Actor)
			}
		})
	}
}
