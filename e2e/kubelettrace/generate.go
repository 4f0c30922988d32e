package kubelettrace

import (
	"cmp"
	"crypto/md5"
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"google.golang.org/grpc/codes"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
)

// drawnPod is a drawn pod, with the objects that must be made before it.
type drawnPod struct {
	pod     *corev1.Pod
	volumes []Volume
	claims  []drawnClaim
	faults  []drawnFault
	// attachFails are the volumes that their driver refuses to attach.
	attachFails []Volume
	// endFaults are the faults that are set before the pod is deleted, and holds are the uses
	// that then keep volumes busy on the node.
	endFaults []drawnFault
	holds     []hold
	// kinds are the drawn kinds, for the page.
	kinds []string
	ran   bool // its containers have run
	// remade reports whether it has the name of a pod that was force-deleted.
	remade bool
	// retried are the volumes whose fault has ended, and which the kubelet has not tried
	// again.
	retried []string
}

type drawnClaim struct {
	name, driver string
	state        claimState
	change       func(*corev1.PersistentVolume)
	// own reports whether the claim is the pod's own, of a generic ephemeral volume.
	own bool
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

// kind is a kind of volume, with its possible faults, and how often it is drawn.
type kind struct {
	name   string
	weight int
	add    func(d *drawnPod, name string, r *rand.Rand)
}

// The codes with which drivers refuse: some leave a mount uncertain, others do not.
var refusals = []codes.Code{codes.Internal, codes.Aborted, codes.NotFound, codes.InvalidArgument, codes.Unavailable, codes.FailedPrecondition, codes.DeadlineExceeded}

func refusal(r *rand.Rand, rpc wire.RPC, handle string) wire.Fault {
	return wire.Fault{RPC: rpc, Handle: handle, Code: uint32(refusals[r.IntN(len(refusals))]), Message: "the device is not there"}
}

func (d *drawnPod) source(v Volume, source corev1.VolumeSource) {
	d.pod.Spec.Volumes = append(d.pod.Spec.Volumes, corev1.Volume{Name: v.Name, VolumeSource: source})
	v.Spec = cmp.Or(v.Spec, v.Name)
	c := &d.pod.Spec.Containers[0]
	switch {
	case v.Unused:
	case v.Device:
		c.VolumeDevices = append(c.VolumeDevices, corev1.VolumeDevice{Name: v.Name, DevicePath: "/dev/" + v.Name})
	default:
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: v.Name, MountPath: "/" + v.Name})
	}
	d.volumes = append(d.volumes, v)
}

// claim adds a volume with a claim in the state.
func (d *drawnPod) claim(v Volume, state claimState, change func(*corev1.PersistentVolume)) {
	d.claims = append(d.claims, drawnClaim{name: v.Name, driver: v.Driver, state: state, change: change})
	v.Spec = volumeName(d.pod.Namespace, v.Name)
	d.source(v, corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: v.Name}})
}

func (d *drawnPod) csi(driver, name string) Volume {
	handle := "vol-" + d.pod.Namespace + "-" + name
	return Volume{Name: name, Driver: driver, Handle: handle, Unique: csidriver.UniqueName(driver, handle), Attachable: attached(driver), Stages: attached(driver)}
}

func (d *drawnPod) fails(driver string, f wire.Fault) {
	d.faults = append(d.faults, drawnFault{driver, f})
}

// inZone restricts the volume to the nodes of one zone; those of the tests are in the east.
func inZone(zone string) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) {
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
		}}}}
	}
}

func blockMode(pv *corev1.PersistentVolume) {
	block := corev1.PersistentVolumeBlock
	pv.Spec.VolumeMode = &block
}

// device makes the volume a block device that the container uses as one.
func device(_ *drawnPod, v *Volume, _ *rand.Rand) func(*corev1.PersistentVolume) {
	v.Device = true
	return blockMode
}

// variant adds the drawn variation to a volume with a claim.
type variant func(d *drawnPod, v *Volume, r *rand.Rand) func(*corev1.PersistentVolume)

// disk is a kind of a volume of Disk with a claim that is bound.
func disk(name string, weight int, more variant) kind {
	return kind{"disk: " + name, weight, func(d *drawnPod, volume string, r *rand.Rand) { d.bound(Disk, volume, r, more) }}
}

// bound adds a volume of a driver that attaches, with a bound claim.
func (d *drawnPod) bound(driver, volume string, r *rand.Rand, more variant) {
	v := d.csi(driver, volume)
	var change func(*corev1.PersistentVolume)
	if more != nil {
		change = more(d, &v, r)
	}
	d.claim(v, claimBound, change)
	d.ends(v, r)
}

// ends draws the faults in unmounting and unstaging the volume.
func (d *drawnPod) ends(v Volume, r *rand.Rand) {
	fails := func(kind string, f wire.Fault) {
		d.kinds = append(d.kinds, kind)
		d.endFaults = append(d.endFaults, drawnFault{v.Driver, f})
	}
	way := r.IntN(8)
	if !v.Stages && way > 1 {
		return // it is not unstaged
	}
	switch way {
	case 0:
		fails("ends: unpublish refused", refusal(r, wire.Unpublish, v.Handle))
	case 1:
		fails("ends: unpublish hangs", wire.Fault{RPC: wire.Unpublish, Handle: v.Handle, Hang: true})
	case 2:
		fails("ends: unstage refused", refusal(r, wire.Unstage, v.Handle))
	case 3:
		fails("ends: unstage hangs", wire.Fault{RPC: wire.Unstage, Handle: v.Handle, Hang: true})
	case 4:
		if !v.Device { // for a device, a bind mount elsewhere does not matter to the kubelet
			d.holds = append(d.holds, hold{of: v, how: mountedElsewhere})
		}
	}
}

// The variants for volumes of more than one driver.

func stageRefused(d *drawnPod, v *Volume, r *rand.Rand) func(*corev1.PersistentVolume) {
	d.fails(v.Driver, refusal(r, wire.Stage, v.Handle))
	return nil
}

func publishRefused(d *drawnPod, v *Volume, r *rand.Rand) func(*corev1.PersistentVolume) {
	d.fails(v.Driver, refusal(r, wire.Publish, v.Handle))
	return nil
}

func attachRefused(d *drawnPod, v *Volume, _ *rand.Rand) func(*corev1.PersistentVolume) {
	d.attachFails = append(d.attachFails, *v)
	return nil
}

func elsewhere(_ *drawnPod, v *Volume, _ *rand.Rand) func(*corev1.PersistentVolume) {
	v.Local, v.Never = Nobody, true
	return inZone("west")
}

// plain is a kind of a volume without a claim.
func plain(name string, weight int, v Volume, source corev1.VolumeSource) kind {
	return kind{name, weight, func(d *drawnPod, volume string, _ *rand.Rand) {
		v.Name = volume
		d.source(v, source)
	}}
}

// localAt makes the volume a directory of the node.
func localAt(path string) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) {
		inZone("east")(pv)
		pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}}
	}
}

// token adds a volume with a token of the pod's ServiceAccount, which is the given one unless
// the pod has one.
func (d *drawnPod) token(name, account string) {
	d.pod.Spec.ServiceAccountName = cmp.Or(d.pod.Spec.ServiceAccountName, account)
	v := Volume{Name: name}
	if d.pod.Spec.ServiceAccountName == "gone" {
		v.Local, v.Heals = Creator, true
	}
	d.source(v, tokenOf())
}

// ephemeral is a volume whose claim is the pod's own.
func ephemeral() corev1.VolumeSource {
	class := fixture.StorageClass
	return corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}}}
}

func tokenOf() corev1.VolumeSource {
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: podName}},
	}}}
}

func secretOf(name string) corev1.VolumeSource {
	return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}
}

func configMapOf(name string) corev1.VolumeSource {
	return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}
}

var (
	socketType = corev1.HostPathSocket
	yes        = true
	podName    = []corev1.DownwardAPIVolumeFile{{Path: "name", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}
)

// kinds are all kinds that can be drawn.
var kinds = []kind{
	disk("well", 6, nil),
	disk("stage refused", 2, stageRefused),
	disk("stage hangs", 2, func(d *drawnPod, v *Volume, _ *rand.Rand) func(*corev1.PersistentVolume) {
		d.fails(Disk, wire.Fault{RPC: wire.Stage, Handle: v.Handle, Hang: true})
		return nil
	}),
	disk("publish refused", 2, publishRefused),
	disk("publish hangs", 2, func(d *drawnPod, v *Volume, _ *rand.Rand) func(*corev1.PersistentVolume) {
		d.fails(Disk, wire.Fault{RPC: wire.Publish, Handle: v.Handle, Hang: true})
		return nil
	}),
	disk("attach refused", 2, attachRefused),
	disk("stage secret missing", 1, func(d *drawnPod, v *Volume, _ *rand.Rand) func(*corev1.PersistentVolume) {
		v.Local, v.Heals = Creator, true
		return func(pv *corev1.PersistentVolume) {
			pv.Spec.CSI.NodeStageSecretRef = &corev1.SecretReference{Namespace: d.pod.Namespace, Name: "gone"}
		}
	}),
	disk("publish secret missing", 1, func(d *drawnPod, v *Volume, _ *rand.Rand) func(*corev1.PersistentVolume) {
		v.Local, v.Heals = Creator, true
		return func(pv *corev1.PersistentVolume) {
			pv.Spec.CSI.NodePublishSecretRef = &corev1.SecretReference{Namespace: d.pod.Namespace, Name: "gone"}
		}
	}),
	disk("elsewhere", 1, elsewhere),
	disk("block, mounted", 1, func(_ *drawnPod, v *Volume, _ *rand.Rand) func(*corev1.PersistentVolume) {
		v.Local, v.Never = Nobody, true
		return blockMode
	}),
	disk("block", 2, device),
	disk("block, stage refused", 1, func(d *drawnPod, v *Volume, r *rand.Rand) func(*corev1.PersistentVolume) {
		stageRefused(d, v, r)
		return device(d, v, r)
	}),
	disk("block, publish refused", 1, func(d *drawnPod, v *Volume, r *rand.Rand) func(*corev1.PersistentVolume) {
		publishRefused(d, v, r)
		return device(d, v, r)
	}),
	disk("block, answered without a device", 1, func(d *drawnPod, v *Volume, r *rand.Rand) func(*corev1.PersistentVolume) {
		d.fails(v.Driver, wire.Fault{RPC: wire.Publish, Handle: v.Handle, Nothing: true})
		return device(d, v, r)
	}),
	disk("answered without a device", 1, func(d *drawnPod, v *Volume, _ *rand.Rand) func(*corev1.PersistentVolume) {
		d.fails(v.Driver, wire.Fault{RPC: wire.Stage, Handle: v.Handle, Nothing: true})
		return nil
	}),
	disk("files, used as a device", 1, func(_ *drawnPod, v *Volume, _ *rand.Rand) func(*corev1.PersistentVolume) {
		v.Device, v.Local, v.Never = true, Nobody, true
		return nil
	}),
	disk("nobody mounts it", 1, func(_ *drawnPod, v *Volume, _ *rand.Rand) func(*corev1.PersistentVolume) {
		v.Unused = true
		return nil
	}),
	{"files: well", 3, func(d *drawnPod, name string, r *rand.Rand) { d.bound(Files, name, r, nil) }},
	{"files: publish refused", 2, func(d *drawnPod, name string, r *rand.Rand) {
		v := d.csi(Files, name)
		d.fails(Files, refusal(r, wire.Publish, v.Handle))
		d.claim(v, claimBound, nil)
	}},
	{"files: elsewhere", 1, func(d *drawnPod, name string, _ *rand.Rand) {
		v := d.csi(Files, name)
		v.Local, v.Never = Nobody, true
		d.claim(v, claimBound, inZone("west"))
	}},
	{"files: block, mounted", 1, func(d *drawnPod, name string, _ *rand.Rand) {
		v := d.csi(Files, name)
		v.Local, v.Never = Nobody, true
		d.claim(v, claimBound, blockMode)
	}},
	migrated("well", 3, nil),
	migrated("stage refused", 1, stageRefused),
	migrated("publish refused", 1, publishRefused),
	migrated("attach refused", 1, attachRefused),
	migrated("in its zone", 1, func(*drawnPod, *Volume, *rand.Rand) func(*corev1.PersistentVolume) { return inZone("east") }),
	migrated("elsewhere", 1, elsewhere),
	{"migrated, without a claim", 2, func(d *drawnPod, name string, r *rand.Rand) {
		v := d.csi(EBS, name)
		v.Spec = EBS + "-" + v.Handle
		d.source(v, corev1.VolumeSource{AWSElasticBlockStore: ebs(v.Handle)})
		d.ends(v, r)
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
	{"ephemeral", 2, func(d *drawnPod, name string, r *rand.Rand) {
		claim := d.pod.Name + "-" + name
		v := d.csi(Disk, claim)
		v.Name, v.Spec = name, volumeName(d.pod.Namespace, claim)
		d.ends(v, r)
		d.claims = append(d.claims, drawnClaim{name: claim, driver: Disk, own: true})
		d.source(v, ephemeral())
	}},
	{"ephemeral, claim missing", 1, func(d *drawnPod, name string, _ *rand.Rand) {
		d.source(Volume{Name: name, Unclaimed: true, Local: Creator}, ephemeral())
	}},
	plain("inline", 2, Volume{Driver: Files}, corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: Files}}),
	plain("inline, not supported", 1, Volume{Driver: Disk, Local: Nobody, Never: true}, corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: Disk}}),
	{"local", 1, func(d *drawnPod, name string, _ *rand.Rand) {
		d.claim(Volume{Name: name}, claimBound, localAt("/var/tmp"))
	}},
	{"local, path missing", 1, func(d *drawnPod, name string, _ *rand.Rand) {
		d.claim(Volume{Name: name, Local: NodeAdmin}, claimBound, localAt("/no/disk"))
	}},
	plain("nfs, no tool for it on the node", 1, Volume{Local: NodeAdmin}, corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "192.0.2.1", Path: "/"}}),
	{"token", 1, func(d *drawnPod, name string, _ *rand.Rand) { d.token(name, "there") }},
	{"token, account missing", 1, func(d *drawnPod, name string, _ *rand.Rand) { d.token(name, "gone") }},
	plain("emptyDir in memory", 2, Volume{}, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}),
	plain("emptyDir", 2, Volume{}, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
	plain("hostPath", 1, Volume{}, corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}),
	plain("hostPath missing", 1, Volume{Local: Creator}, corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/no/socket", Type: &socketType}}),
	plain("secret", 1, Volume{}, secretOf("there")),
	plain("secret missing", 1, Volume{Local: Creator, Heals: true}, secretOf("gone")),
	plain("config map", 1, Volume{}, configMapOf("there")),
	plain("config map missing", 1, Volume{Local: Creator, Heals: true}, configMapOf("gone")),
	plain("projected, missing", 1, Volume{Local: Creator, Heals: true}, corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "gone"}}},
	}}}),
	plain("secret missing, optional", 1, Volume{}, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "never", Optional: &yes}}),
	plain("projected", 1, Volume{}, corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "there"}}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: podName}},
	}}}),
	plain("downwardAPI", 1, Volume{}, corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: podName}}),
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

// draws is the pod whose volumes the next one shares; nil where it has its own.
func draws(r *rand.Rand, list []*drawnPod) *drawnPod {
	if len(list) == 0 || r.IntN(8) > 0 {
		return nil
	}
	first := list[r.IntN(len(list))]
	if first.ownsClaim() || first.static() {
		return nil
	}
	return first
}

// ownsClaim reports whether a volume of the pod has a claim of its own.
func (d *drawnPod) ownsClaim() bool {
	return slices.ContainsFunc(d.pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Ephemeral != nil })
}

// inStatic are the kinds of volumes that a static pod may have, because they name no other
// object.
var inStatic = []string{"inline", "inline, not supported", "emptyDir", "emptyDir in memory", "hostPath", "hostPath missing", "downwardAPI", "plugin removed", "nfs, no tool for it on the node"}

// static reports whether the pod is the mirror of a static one.
func (d *drawnPod) static() bool { return d.pod.Annotations[corev1.MirrorPodAnnotationKey] != "" }

// volume is the volume of that name.
func (d *drawnPod) volume(name string) Volume {
	return d.volumes[slices.IndexFunc(d.volumes, func(v Volume) bool { return v.Name == name })]
}

// curable reports whether the volume waits only for a fault that can be ended without ending
// the wait of another volume.
func (d *drawnPod) curable(name string) bool {
	i := slices.IndexFunc(d.volumes, func(v Volume) bool { return v.Name == name })
	if i < 0 || d.volumes[i].Never || d.volumes[i].Unused || d.volumes[i].Unclaimed {
		return false
	}
	v := d.volumes[i]
	lacks := 0
	for _, o := range d.volumes {
		if o.Heals && o.Local != "" {
			lacks++
		}
	}
	switch {
	case v.Local != "":
		return v.Heals && lacks == 1
	default:
		return slices.ContainsFunc(d.faults, func(f drawnFault) bool { return v.Handle != "" && f.fault.Handle == v.Handle && !f.fault.Nothing }) ||
			slices.ContainsFunc(d.attachFails, func(o Volume) bool { return o.Name == name })
	}
}

// uid is the kubelet's UID of the pod.
func (d *drawnPod) uid() types.UID {
	return cmp.Or(types.UID(d.pod.Annotations[corev1.MirrorPodAnnotationKey]), d.pod.UID)
}

// vary varies how the pod uses its volumes, and what is busy on the node when it ends.
func (d *drawnPod) vary(r *rand.Rand) {
	spec := &d.pod.Spec
	if r.IntN(6) == 0 {
		group := int64(1000)
		spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &group}
		d.kinds = append(d.kinds, "fsGroup")
	}
	for i := range spec.Containers[0].VolumeMounts {
		m := &spec.Containers[0].VolumeMounts[i]
		v := d.volume(m.Name)
		source := spec.Volumes[slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })]
		if source.HostPath == nil && r.IntN(8) == 0 {
			m.SubPath = "some/where"
			d.kinds = append(d.kinds, "subPath")
			if r.IntN(3) == 0 {
				d.holds = append(d.holds, hold{of: v, how: subPathOpen})
			}
		}
		if inMemory(source) && r.IntN(4) == 0 {
			d.holds = append(d.holds, hold{of: v, how: open})
		}
	}
	switch main := &spec.Containers[0]; r.IntN(8) {
	case 0:
		d.moveMounts(corev1.Container{Name: "init", Image: main.Image})
	case 1:
		always := corev1.ContainerRestartPolicyAlways
		d.moveMounts(corev1.Container{Name: "sidecar", Image: main.Image, RestartPolicy: &always})
	}
	for _, h := range d.holds {
		d.kinds = append(d.kinds, "ends: "+string(h.how))
	}
}

// moveMounts moves the mounts of the first container to another one, which starts before it.
func (d *drawnPod) moveMounts(c corev1.Container) {
	main := &d.pod.Spec.Containers[0]
	c.VolumeMounts, c.VolumeDevices = main.VolumeMounts, main.VolumeDevices
	main.VolumeMounts, main.VolumeDevices = nil, nil
	d.pod.Spec.InitContainers = []corev1.Container{c}
	d.kinds = append(d.kinds, c.Name+" container mounts the volumes")
}

// inMemory reports whether the kubelet mounts a tmpfs for the volume.
func inMemory(v corev1.Volume) bool {
	return v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil || v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumMemory
}

// draw draws the pods of one batch, each in a namespace of its own except those that share
// the volumes of another.
func draw(r *rand.Rand, batch string, node string, pods int) []*drawnPod {
	var list []*drawnPod
	for i := range pods {
		if first := draws(r, list); first != nil {
			other := *first
			other.pod = first.pod.DeepCopy()
			other.pod.Name = fmt.Sprintf("web-%d", i)
			other.volumes = slices.Clone(first.volumes)
			other.claims, other.faults, other.attachFails, other.endFaults, other.holds = nil, nil, nil, nil, nil
			other.kinds = []string{"shares the volumes of another pod"}
			for j := range other.volumes {
				first.volumes[j].Alone, other.volumes[j].Alone = false, false
			}
			list = append(list, &other)
			continue
		}
		d := &drawnPod{pod: fixture.Pod(fmt.Sprintf("%s-%d", batch, i), "web-0", node)}
		d.pod.UID = types.UID("")
		if r.IntN(12) == 0 {
			hash := fmt.Sprintf("%x", md5.Sum([]byte(d.pod.Namespace)))
			d.pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: hash, "kubernetes.io/config.hash": hash, "kubernetes.io/config.source": "file"}
			d.kinds = append(d.kinds, "static pod")
		}
		for j := range 1 + r.IntN(3) {
			k := drawKind(r)
			for d.static() && !slices.Contains(inStatic, k.name) {
				k = drawKind(r)
			}
			k.add(d, fmt.Sprintf("v%d", j), r)
			d.kinds = append(d.kinds, k.name)
		}
		for j := range d.volumes {
			d.volumes[j].Alone = true
		}
		d.vary(r)
		list = append(list, d)
	}
	return list
}
