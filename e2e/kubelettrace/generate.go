package kubelettrace

import (
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"google.golang.org/grpc/codes"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
)

// drawnPod is a pod that was drawn, with what is to be made before it.
type drawnPod struct {
	pod     *corev1.Pod
	volumes []Volume
	claims  []drawnClaim
	faults  []drawnFault
	// attachFails are the handles that the driver refuses to attach.
	attachFails []string
	// endFaults are those that are set before the pod is deleted.
	endFaults []drawnFault
	// kinds are what was drawn, for the page.
	kinds []string
	ran   bool // its containers have run
}

type drawnClaim struct {
	name, driver string
	state        claimState
	change       func(*corev1.PersistentVolume)
}

type claimState int

const (
	claimBound claimState = iota
	claimPending
	claimOfAnother // its volume is bound to an earlier claim of the name
)

type drawnFault struct {
	driver string
	fault  wire.Fault
}

// kind is a kind of volume, with what may be wrong with it, and how often it is drawn.
type kind struct {
	name   string
	weight int
	add    func(d *drawnPod, name string, r *rand.Rand)
}

// The codes with which drivers refuse: those that leave a mount uncertain, and others.
var refusals = []codes.Code{codes.Internal, codes.Aborted, codes.NotFound, codes.InvalidArgument, codes.Unavailable, codes.FailedPrecondition, codes.DeadlineExceeded}

func refusal(r *rand.Rand, rpc wire.RPC, handle string) wire.Fault {
	return wire.Fault{RPC: rpc, Handle: handle, Code: uint32(refusals[r.IntN(len(refusals))]), Message: "the device is not there"}
}

func (d *drawnPod) source(v Volume, source corev1.VolumeSource) {
	d.pod.Spec.Volumes = append(d.pod.Spec.Volumes, corev1.Volume{Name: v.Name, VolumeSource: source})
	if !v.Unused {
		c := &d.pod.Spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: v.Name, MountPath: "/" + v.Name})
	}
	d.volumes = append(d.volumes, v)
}

// claim adds a volume with a claim; bound says how the claim is.
func (d *drawnPod) claim(v Volume, state claimState, change func(*corev1.PersistentVolume)) {
	d.claims = append(d.claims, drawnClaim{v.Name, v.Driver, state, change})
	d.source(v, corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: v.Name}})
}

func (d *drawnPod) csi(driver, name string) Volume {
	handle := "vol-" + d.pod.Namespace + "-" + name
	return Volume{Name: name, Driver: driver, Handle: handle, Unique: csidriver.UniqueName(driver, handle), Attachable: driver == Disk, Stages: driver == Disk}
}

func (d *drawnPod) fails(driver string, f wire.Fault) {
	d.faults = append(d.faults, drawnFault{driver, f})
}

func westOnly(pv *corev1.PersistentVolume) {
	pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"west"}}},
	}}}}
}

func blockMode(pv *corev1.PersistentVolume) {
	block := corev1.PersistentVolumeBlock
	pv.Spec.VolumeMode = &block
}

// disk is a kind of a volume of Disk with a claim that is bound.
func disk(name string, weight int, more func(d *drawnPod, v *Volume, r *rand.Rand) func(*corev1.PersistentVolume)) kind {
	return kind{"disk: " + name, weight, func(d *drawnPod, volume string, r *rand.Rand) {
		v := d.csi(Disk, volume)
		var change func(*corev1.PersistentVolume)
		if more != nil {
			change = more(d, &v, r)
		}
		d.claim(v, claimBound, change)
		switch r.IntN(4) {
		case 0:
			d.endFaults = append(d.endFaults, drawnFault{Disk, refusal(r, wire.Unpublish, v.Handle)})
		case 1:
			d.endFaults = append(d.endFaults, drawnFault{Disk, wire.Fault{RPC: wire.Unpublish, Handle: v.Handle, Hang: true}})
		}
	}}
}

// plain is a kind of a volume without a claim.
func plain(name string, weight int, v Volume, source corev1.VolumeSource) kind {
	return kind{name, weight, func(d *drawnPod, volume string, _ *rand.Rand) {
		v.Name = volume
		d.source(v, source)
	}}
}

func secretOf(name string) corev1.VolumeSource {
	return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}
}

func configMapOf(name string) corev1.VolumeSource {
	return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}
}

var socketType = corev1.HostPathSocket

// kinds are all that is drawn from.
var kinds = []kind{
	disk("well", 6, nil),
	disk("stage refused", 2, func(d *drawnPod, v *Volume, r *rand.Rand) func(*corev1.PersistentVolume) {
		d.fails(Disk, refusal(r, wire.Stage, v.Handle))
		return nil
	}),
	disk("stage hangs", 2, func(d *drawnPod, v *Volume, _ *rand.Rand) func(*corev1.PersistentVolume) {
		d.fails(Disk, wire.Fault{RPC: wire.Stage, Handle: v.Handle, Hang: true})
		return nil
	}),
	disk("publish refused", 2, func(d *drawnPod, v *Volume, r *rand.Rand) func(*corev1.PersistentVolume) {
		d.fails(Disk, refusal(r, wire.Publish, v.Handle))
		return nil
	}),
	disk("publish hangs", 2, func(d *drawnPod, v *Volume, _ *rand.Rand) func(*corev1.PersistentVolume) {
		d.fails(Disk, wire.Fault{RPC: wire.Publish, Handle: v.Handle, Hang: true})
		return nil
	}),
	disk("attach refused", 2, func(d *drawnPod, v *Volume, _ *rand.Rand) func(*corev1.PersistentVolume) {
		d.attachFails = append(d.attachFails, v.Handle)
		return nil
	}),
	disk("stage secret missing", 1, func(d *drawnPod, v *Volume, _ *rand.Rand) func(*corev1.PersistentVolume) {
		v.Local = Creator
		return func(pv *corev1.PersistentVolume) {
			pv.Spec.CSI.NodeStageSecretRef = &corev1.SecretReference{Namespace: d.pod.Namespace, Name: "gone"}
		}
	}),
	disk("publish secret missing", 1, func(d *drawnPod, v *Volume, _ *rand.Rand) func(*corev1.PersistentVolume) {
		v.Local = Creator
		return func(pv *corev1.PersistentVolume) {
			pv.Spec.CSI.NodePublishSecretRef = &corev1.SecretReference{Namespace: d.pod.Namespace, Name: "gone"}
		}
	}),
	disk("elsewhere", 1, func(_ *drawnPod, v *Volume, _ *rand.Rand) func(*corev1.PersistentVolume) {
		v.Local, v.Never = Nobody, true
		return westOnly
	}),
	disk("block, mounted", 1, func(_ *drawnPod, v *Volume, _ *rand.Rand) func(*corev1.PersistentVolume) {
		v.Local, v.Never = Nobody, true
		return blockMode
	}),
	disk("nobody mounts it", 1, func(_ *drawnPod, v *Volume, _ *rand.Rand) func(*corev1.PersistentVolume) {
		v.Unused = true
		return nil
	}),
	{"files: well", 3, func(d *drawnPod, name string, _ *rand.Rand) { d.claim(d.csi(Files, name), claimBound, nil) }},
	{"files: publish refused", 2, func(d *drawnPod, name string, r *rand.Rand) {
		v := d.csi(Files, name)
		d.fails(Files, refusal(r, wire.Publish, v.Handle))
		d.claim(v, claimBound, nil)
	}},
	{"files: elsewhere", 1, func(d *drawnPod, name string, _ *rand.Rand) {
		v := d.csi(Files, name)
		v.Local, v.Never = Nobody, true
		d.claim(v, claimBound, westOnly)
	}},
	{"files: block, mounted", 1, func(d *drawnPod, name string, _ *rand.Rand) {
		v := d.csi(Files, name)
		v.Local, v.Never = Nobody, true
		d.claim(v, claimBound, blockMode)
	}},
	{"driver not there", 1, func(d *drawnPod, name string, _ *rand.Rand) { d.claim(d.csi(Away, name), claimBound, nil) }},
	{"claim missing", 1, func(d *drawnPod, name string, _ *rand.Rand) {
		d.source(Volume{Name: name, Unclaimed: true, Local: Creator}, corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "gone"}})
	}},
	{"claim not bound", 1, func(d *drawnPod, name string, _ *rand.Rand) {
		d.claim(Volume{Name: name, Unclaimed: true, Local: Binder}, claimPending, nil)
	}},
	{"volume of an earlier claim", 1, func(d *drawnPod, name string, _ *rand.Rand) {
		v := d.csi(Disk, name)
		v.Unclaimed, v.Local = true, Nobody
		d.claim(v, claimOfAnother, nil)
	}},
	plain("inline", 2, Volume{Driver: Files}, corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: Files}}),
	plain("inline, not supported", 1, Volume{Driver: Disk, Local: Nobody, Never: true}, corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: Disk}}),
	plain("emptyDir", 2, Volume{}, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
	plain("hostPath", 1, Volume{}, corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}),
	plain("hostPath missing", 1, Volume{Local: Creator}, corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/no/socket", Type: &socketType}}),
	plain("secret", 1, Volume{}, secretOf("there")),
	plain("secret missing", 1, Volume{Local: Creator}, secretOf("gone")),
	plain("config map", 1, Volume{}, configMapOf("there")),
	plain("config map missing", 1, Volume{Local: Creator}, configMapOf("gone")),
	plain("projected, missing", 1, Volume{Local: Creator}, corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "gone"}}},
	}}}),
	plain("plugin removed", 1, Volume{Local: Nobody, Never: true}, corev1.VolumeSource{Glusterfs: &corev1.GlusterfsVolumeSource{EndpointsName: "e", Path: "/"}}),
}

func drawKind(r *rand.Rand) kind {
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	at := r.IntN(total)
	for _, k := range kinds {
		if at -= k.weight; at < 0 {
			return k
		}
	}
	return kinds[0]
}

// draw makes the pods of one batch, one to a namespace but for those that share the
// volumes of another.
func draw(r *rand.Rand, batch string, node string, pods int) []*drawnPod {
	var list []*drawnPod
	for i := range pods {
		if i > 0 && r.IntN(8) == 0 {
			first := list[r.IntN(len(list))]
			other := *first
			other.pod = first.pod.DeepCopy()
			other.pod.Name = fmt.Sprintf("web-%d", i)
			other.volumes = slices.Clone(first.volumes)
			other.claims, other.faults, other.attachFails, other.endFaults = nil, nil, nil, nil
			other.kinds = []string{"shares the volumes of another pod"}
			list = append(list, &other)
			continue
		}
		d := &drawnPod{pod: fixture.Pod(fmt.Sprintf("%s-%d", batch, i), "web-0", node)}
		d.pod.UID = types.UID("")
		for j := range 1 + r.IntN(3) {
			k := drawKind(r)
			k.add(d, fmt.Sprintf("v%d", j), r)
			d.kinds = append(d.kinds, k.name)
		}
		list = append(list, d)
	}
	return list
}
