// Package trim removes from an API object the fields that are not read, shown or written to a
// file: those that say nothing about volumes, and those that may hold a secret.
package trim

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeIDs is the annotation of a Node with each driver's name for it, as JSON.
const NodeIDs = "csi.volume.kubernetes.io/nodeid"

// KeptAnnotations are the keys that say something about volumes: those that the controllers'
// and the kubelet's storage code read. All others are removed, among them kubectl's
// last-applied-configuration, which repeats everything that is removed here, and
// volume.beta.kubernetes.io/mount-options, in which CIFS takes its password.
var KeptAnnotations = []string{
	"csi.alpha.kubernetes.io/node-id",
	NodeIDs,
	"pv.kubernetes.io/bind-completed",
	"pv.kubernetes.io/bound-by-controller",
	"pv.kubernetes.io/migrated-to",
	"pv.kubernetes.io/provisioned-by",
	"storage.alpha.kubernetes.io/migrated-plugins",
	"volume.beta.kubernetes.io/storage-class",
	"volume.beta.kubernetes.io/storage-provisioner",
	"volume.kubernetes.io/node-expansion-not-required",
	"volume.kubernetes.io/provisioner-deletion-secret-name",
	"volume.kubernetes.io/provisioner-deletion-secret-namespace",
	"volume.kubernetes.io/selected-node",
	"volume.kubernetes.io/storage-provisioner",
	"volume.kubernetes.io/storage-resizer",
	"volumes.kubernetes.io/controller-managed-attach-detach",
	"volumes.kubernetes.io/keep-terminated-pod-volumes",
	"storageclass.kubernetes.io/is-default-class",
	"storageclass.beta.kubernetes.io/is-default-class",
	"kubernetes.io/azure-file-resource-group", // part of the translated volume handle
	"kubernetes.io/config.mirror",             // a static pod
	"volume-doctor/last-repair",               // what a repair leaves
}

// keptParameters is the prefix of the parameters of a StorageClass that are kept: they name
// secrets and the file system. Others may hold a password (glusterfs has one).
const keptParameters = "csi.storage.k8s.io/"

// Object removes from an object the fields that nothing here reads, and with them every place
// that is known to hold secrets. Objects are trimmed alike when they are collected, read and
// written, so that a snapshot gives the same answer as its cluster. The object must not be
// shared: it is changed in place.
func Object(object metav1.Object) {
	object.SetAnnotations(trimAnnotations(object.GetAnnotations()))
	object.SetManagedFields(trimManagedFields(object))
	object.SetSelfLink("")
	switch o := object.(type) {
	case *corev1.Pod:
		trimPodSpec(&o.Spec)
		trimPodStatus(&o.Status, servesKubelet(&o.Spec))
	case *appsv1.Deployment:
		o.Spec.Template.Annotations = trimAnnotations(o.Spec.Template.Annotations)
		o.Spec.Template.ManagedFields, o.Spec.Template.SelfLink = nil, "" //nolint:staticcheck // a file may hold it, whatever API servers do
		trimPodSpec(&o.Spec.Template.Spec)
	case *corev1.Node:
		o.Status.Images = nil
		o.Spec.PodPreemptionPolicy = nil
		o.Spec.ConfigSource, o.Status.Config = nil, nil //nolint:staticcheck // old kubelets write an error into it, and nothing reads it
	case *corev1.PersistentVolume:
		trimPersistentVolume(&o.Spec)
	case *storagev1.VolumeAttachment:
		if o.Spec.Source.InlineVolumeSpec != nil {
			trimPersistentVolume(o.Spec.Source.InlineVolumeSpec)
		}
		o.Status.AttachmentMetadata = nil // a driver's own words, which nothing reads
	case *storagev1.StorageClass:
		o.MountOptions = nil
		maps.DeleteFunc(o.Parameters, func(key, _ string) bool { return !strings.HasPrefix(key, keptParameters) })
		if len(o.Parameters) == 0 {
			o.Parameters = nil // as it is when read back from a file
		}
	case *corev1.Event:
		if !KeepsEvent(o) || o.Reason == PullingReason {
			o.Message = ""
		}
	}
	redactMessages(object)
}

// The reasons of events that say that a step has begun.
const (
	// PullingReason is the kubelet's, of an image; the message, which names the image, is not kept.
	PullingReason = "Pulling"
	// ProvisioningReason is the provisioner's, of a claim's volume.
	ProvisioningReason = "Provisioning"
)

// keptReasons are the reasons of the events about volumes, and about why a pod or a claim
// does not get its volume. Other events may repeat a container's commands, or its output.
var keptReasons = []string{
	// attach/detach controller and kubelet
	"FailedAttachVolume", "SuccessfulAttachVolume", "FailedMount", "FailedMapVolume", "FailedUnMount", "FailedUnmapDevice",
	"SuccessfulMountVolume", "AlreadyMountedVolume", "VolumePermissionChangeInProgress", "VolumeConditionAbnormal",
	"VolumeAttachmentLimitExceeded", "VolumeResizeFailed", "FileSystemResizeFailed",
	// scheduler, autoscalers and node lifecycle
	"FailedScheduling", "TriggeredScaleUp", "NotTriggerScaleUp", "Nominated", "NodeNotReady", "TaintManagerEviction", "Evicted", "RemovingNode", "DeletingNode",
	// what holds a pod up that has its volumes, or keeps it from ending and letting them go
	PullingReason, "FailedCreatePodSandBox", "FailedCreatePodContainer", "NetworkNotReady", "FailedPrepareDynamicResources", "FailedKillPod",
	// volume binding, provisioning, expansion and modification
	"ExternalExpanding", "VolumeModifyFailed",
	"FailedBinding", "WaitForFirstConsumer", "WaitForPodScheduled", "ExternalProvisioning", ProvisioningReason, "ProvisioningFailed",
	"ClaimLost", "ClaimMisbound", "VolumeMismatch", "VolumeFailedDelete", "VolumeFailedRecycle", "VolumeDelete",
}

// KeepsEvent reports whether a check or a trace can use the event.
func KeepsEvent(e *corev1.Event) bool { return slices.Contains(keptReasons, e.Reason) }

// KeepsAnnotation reports whether Object keeps annotations with the key.
func KeepsAnnotation(key string) bool { return slices.Contains(KeptAnnotations, key) }

func trimAnnotations(annotations map[string]string) map[string]string {
	maps.DeleteFunc(annotations, func(key, _ string) bool { return !KeepsAnnotation(key) })
	if len(annotations) == 0 {
		return nil
	}
	return annotations
}

// ownsHeartbeat reports whether these fields include the heartbeat of a node's Ready
// condition, so that their manager wrote it last.
func ownsHeartbeat(conditions json.RawMessage) bool {
	var owned map[string]map[string]json.RawMessage
	return conditions != nil && json.Unmarshal(conditions, &owned) == nil && owned[`k:{"type":"Ready"}`]["f:lastHeartbeatTime"] != nil
}

// trimManagedFields keeps who wrote a node's two lists of volumes and its heartbeat, and
// when: that distinguishes a third party's write from the controller's.
func trimManagedFields(object metav1.Object) []metav1.ManagedFieldsEntry {
	if _, ok := object.(*corev1.Node); !ok {
		return nil
	}
	var kept []metav1.ManagedFieldsEntry
	for _, entry := range object.GetManagedFields() {
		if entry.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Status map[string]json.RawMessage `json:"f:status"`
		}
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		var owned []string
		for _, field := range []string{"f:volumesAttached", "f:volumesInUse"} {
			if _, ok := fields.Status[field]; ok {
				owned = append(owned, `"`+field+`":{}`)
			}
		}
		if ownsHeartbeat(fields.Status["f:conditions"]) {
			owned = append(owned, `"f:conditions":{"k:{\"type\":\"Ready\"}":{"f:lastHeartbeatTime":{}}}`)
		}
		if len(owned) == 0 {
			continue
		}
		kept = append(kept, metav1.ManagedFieldsEntry{
			Manager:     entry.Manager,
			Operation:   entry.Operation,
			Subresource: entry.Subresource,
			Time:        entry.Time,
			FieldsType:  entry.FieldsType,
			FieldsV1:    metav1.NewFieldsV1(`{"f:status":{` + strings.Join(owned, ",") + `}}`),
		})
	}
	return kept
}

// keptAttributes are the attributes of a volume that show with which program its driver
// mounts it, with the values that drivers document. A driver may put anything into the
// others.
var keptAttributes = map[string][]string{
	"mounter":          {"rbd", "rbd-nbd", "kernel", "fuse"},
	"tryOtherMounters": {"true", "false"},
	"protocol":         {"nfs", "nfsv3", "nfs3", "fuse", "fuse2", "smb"},
}

func trimAttributes(attributes map[string]string) map[string]string {
	var kept map[string]string
	for key, values := range keptAttributes {
		if value, ok := attributes[key]; ok && slices.Contains(values, value) {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[key] = value
		}
	}
	return kept
}

func trimPersistentVolume(spec *corev1.PersistentVolumeSpec) {
	spec.MountOptions = nil // CIFS takes its password there
	if spec.CSI != nil {
		spec.CSI.VolumeAttributes = trimAttributes(spec.CSI.VolumeAttributes)
	}
	if spec.FlexVolume != nil {
		spec.FlexVolume.Options = nil
	}
}

func trimPodSpec(spec *corev1.PodSpec) {
	for i := range spec.Volumes {
		trimPodVolume(&spec.Volumes[i].VolumeSource)
	}
	for i, c := range spec.InitContainers {
		spec.InitContainers[i] = trimContainer(c)
	}
	for i, c := range spec.Containers {
		spec.Containers[i] = trimContainer(c)
	}
	for i, c := range spec.EphemeralContainers {
		spec.EphemeralContainers[i] = corev1.EphemeralContainer{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon(trimContainer(corev1.Container(c.EphemeralContainerCommon))),
			TargetContainerName:      c.TargetContainerName,
		}
	}
	if spec.SecurityContext != nil {
		spec.SecurityContext.WindowsOptions = nil // may hold a credential spec
		spec.SecurityContext.Sysctls = nil
	}
	spec.DNSConfig, spec.HostAliases = nil, nil
	spec.Resources, spec.EvictionResponders = nil, nil
}

func trimPodVolume(source *corev1.VolumeSource) {
	if source.CSI != nil {
		source.CSI.VolumeAttributes = trimAttributes(source.CSI.VolumeAttributes)
	}
	if source.FlexVolume != nil {
		source.FlexVolume.Options = nil
	}
	if source.GitRepo != nil {
		source.GitRepo.Repository = "" // a URL, with a password where one is needed
	}
	if source.Ephemeral != nil && source.Ephemeral.VolumeClaimTemplate != nil {
		template := source.Ephemeral.VolumeClaimTemplate
		template.Annotations = trimAnnotations(template.Annotations)
		template.ManagedFields, template.SelfLink = nil, "" //nolint:staticcheck // a file may hold it, whatever API servers do
	}
}

// trimContainer lists the fields that are kept, not those that are removed: a new field of
// the next release may well hold a command.
func trimContainer(c corev1.Container) corev1.Container {
	kept := corev1.Container{
		Name:          c.Name,
		Image:         c.Image, // tells a CSI driver's parts
		RestartPolicy: c.RestartPolicy,
		VolumeMounts:  c.VolumeMounts,
		VolumeDevices: c.VolumeDevices,
	}
	for i := range kept.VolumeMounts {
		kept.VolumeMounts[i].BindMountOptions = nil
	}
	if s := c.SecurityContext; s != nil && (s.SELinuxOptions != nil || s.Privileged != nil) {
		// These fields decide how a volume is labelled, and so who may share it.
		kept.SecurityContext = &corev1.SecurityContext{SELinuxOptions: s.SELinuxOptions, Privileged: s.Privileged}
	}
	return kept
}

// servesKubelet reports whether the pod mounts the kubelet's directory of plugins, as the node
// plugin of a CSI driver does.
func servesKubelet(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool {
		return v.HostPath != nil && kubeletPlugins.MatchString(v.HostPath.Path)
	})
}

// kubeletPlugins matches the directories in which the kubelet looks for plugins.
var kubeletPlugins = regexp.MustCompile(`[/\\]plugins(_registry)?([/\\]|$)`)

// trimPodStatus keeps the last words of the containers of a node plugin: a driver's own error.
func trimPodStatus(status *corev1.PodStatus, plugin bool) {
	for _, list := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		for i, c := range list {
			trimState(&c.State, plugin)
			trimState(&c.LastTerminationState, plugin)
			list[i] = corev1.ContainerStatus{
				Name:                 c.Name,
				State:                c.State,
				LastTerminationState: c.LastTerminationState,
				Ready:                c.Ready,
				RestartCount:         c.RestartCount,
				Image:                c.Image,
				ContainerID:          c.ContainerID,
				Started:              c.Started,
			}
		}
	}
	status.AllocatedResources = nil
	status.Resources, status.NodeAllocatableResourceClaimStatuses = nil, nil
}

// trimState removes texts that hold a command or its output. A container runtime's message
// about a container that it could not make or start (reasons such as CreateContainerError)
// repeats the command; the reason why it was not asked to does not. Of a message that is
// removed, the path of a volume is kept, with the kernel's error; of a container's last output a
// kubelet's refusal of a driver's registration, or else the last line of a node plugin.
func trimState(state *corev1.ContainerState, plugin bool) {
	if t := state.Terminated; t != nil && NotStarted(t) {
		t.Message = aboutMount(t.Message)
	} else if t != nil {
		kept := refusedWith(t.Message)
		if kept == "" && plugin {
			kept = lastLine.FindString(strings.TrimSpace(t.Message))
		}
		t.Message = safetext.Redact(kept)
	}
	if w := state.Waiting; w != nil && w.Reason != "CreateContainerConfigError" && (strings.HasSuffix(w.Reason, "Error") || w.Reason == "ContainerCannotRun") {
		w.Message = cmp.Or(aboutMount(w.Message), nameReserved.FindString(w.Message))
	}
}

// NotStarted reports whether the container runtime made the container and could not start it:
// the message is then the runtime's, and not the program's output. A container's mounts are
// made as it starts.
func NotStarted(t *corev1.ContainerStateTerminated) bool {
	return t.Reason == "StartError" || t.Reason == "ContainerCannotRun"
}

// refusal matches the kubelet's answer to a driver's registration, as its registrar logs it
// (GenerateRegisterPluginFunc, pluginmanager/operationexecutor).
var refusal = regexp.MustCompile(`RegisterPlugin error -- [^\n]{1,1000}`)

// refusedWith is the kubelet's refusal in a registrar's log, without the registrar's own words. From
// v2.11 on a registrar logs it quoted (csi-node-driver-registrar, main.go).
func refusedWith(log string) string {
	found := refusal.FindStringIndex(log)
	if found == nil {
		return ""
	}
	if start := found[0] - 1; start >= 0 && log[start] == '"' {
		if quoted, err := strconv.QuotedPrefix(log[start:]); err == nil {
			text, _ := strconv.Unquote(quoted)
			return refusal.FindString(text)
		}
	}
	text, _, _ := strings.Cut(log[found[0]:found[1]], ", restarting registration container")
	return text
}

// RefusesRegistration reports whether the words are the kubelet's refusal.
func RefusesRegistration(words string) bool { return refusal.MatchString(words) }

// lastLine matches the beginning of the last line of a text.
var lastLine = regexp.MustCompile(`[^\n]{1,500}[^\n]*$`)

// nameReserved matches a runtime's words where an earlier call to create the same container has
// not ended (containerd, internal/cri/server/container_create.go; CRI-O, server/container_create.go).
var nameReserved = regexp.MustCompile(`failed to reserve container name|error reserving ctr name`)

// StillCreates reports whether the message of a waiting container says that the runtime has not
// ended an earlier call to create it.
func StillCreates(message string) bool { return nameReserved.MatchString(message) }

// volumePath matches the path of a pod's volume in the kubelet's directory.
var volumePath = regexp.MustCompile(`/[\w./-]*/pods/[\w-]+/(volumes/[\w.~-]+/[\w.-]+|volume-subpaths/[\w.-]+)[\w./-]*`)

// mountErrors are the kernel's errors for a broken mount.
var mountErrors = []string{"transport endpoint is not connected", "socket not connected", "stale file handle", "stale nfs file handle", "input/output error",
	"no such device", "host is down", "permission denied", "read-only file system", "no such file or directory", "not a directory", "connection timed out", "access is denied"}

// aboutMount is the part of a message that names the path of a volume, with the kernel's
// error at the message's end; "" where it names none.
func aboutMount(message string) string {
	message = strings.NewReplacer(`\\`, "/", `\`, "/").Replace(message) // of a Windows node
	path := volumePath.FindString(message)
	if path == "" {
		return ""
	}
	end := strings.TrimSuffix(strings.ToLower(strings.TrimRight(message, ". ")), ": unknown") // the suffix is containerd's
	for _, e := range mountErrors {
		if strings.HasSuffix(end, ": "+e) {
			return path + ": " + e
		}
	}
	return path
}

// redactMessages removes secrets from the programs' messages in the object.
func redactMessages(object metav1.Object) {
	redact := func(messages ...*string) {
		for _, m := range messages {
			*m = safetext.Redact(*m)
		}
	}
	switch o := object.(type) {
	case *corev1.Pod:
		redact(&o.Status.Message)
		for i := range o.Status.Conditions {
			redact(&o.Status.Conditions[i].Message)
		}
		for _, list := range [][]corev1.ContainerStatus{o.Status.InitContainerStatuses, o.Status.ContainerStatuses, o.Status.EphemeralContainerStatuses} {
			for i := range list {
				for _, state := range []*corev1.ContainerState{&list[i].State, &list[i].LastTerminationState} {
					if state.Waiting != nil {
						redact(&state.Waiting.Message)
					}
				}
			}
		}
		for _, health := range o.Status.VolumeHealth {
			for i := range health.HealthConditions {
				redact(&health.HealthConditions[i].Message)
			}
		}
	case *appsv1.Deployment:
		for i := range o.Status.Conditions {
			redact(&o.Status.Conditions[i].Message)
		}
	case *corev1.Node:
		for i := range o.Status.Conditions {
			redact(&o.Status.Conditions[i].Message)
		}
	case *corev1.PersistentVolume:
		redact(&o.Status.Message)
	case *corev1.PersistentVolumeClaim:
		for i := range o.Status.Conditions {
			redact(&o.Status.Conditions[i].Message)
		}
		if health := o.Status.HealthStatus; health != nil {
			for i := range health.HealthConditions {
				redact(&health.HealthConditions[i].Message)
			}
		}
	case *storagev1.CSINode:
		for _, health := range o.Status.StorageHealth {
			for i := range health.HealthConditions {
				redact(&health.HealthConditions[i].Message)
			}
		}
	case *storagev1.VolumeAttachment:
		for _, e := range []*storagev1.VolumeError{o.Status.AttachError, o.Status.DetachError} {
			if e != nil {
				redact(&e.Message)
			}
		}
	case *corev1.Event:
		redact(&o.Message)
	}
}
