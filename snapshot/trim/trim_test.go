package trim_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/trim"
)

// TestStates: of a container's last words those are kept that are about a volume, or are a node
// plugin's.
func TestStates(t *testing.T) {
	plugins := corev1.Volume{VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/kubelet/plugins/disk"}}}
	near := corev1.Volume{VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/opt/plugins-of-mine"}}}
	ended := func(reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, Message: message}}
	}
	waits := func(reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
	const path = "/var/lib/kubelet/pods/u-1/volumes/kubernetes.io~csi/pv1/mount"
	for what, test := range map[string]struct {
		volume corev1.Volume
		state  corev1.ContainerState
		want   string
	}{
		"the output of a program":               {near, ended("Error", "key=abc\nI give up"), ""},
		"of a node plugin, its last line":       {plugins, ended("Error", "key=abc\nno device vol-1\n"), "no device vol-1"},
		"a refused registration, of whomever":   {near, ended("Error", "key=abc\nRegisterPlugin error -- already registered\nbye"), "RegisterPlugin error -- already registered"},
		"of a registrar since v2.11":            {near, ended("Error", `E1 main.go:1] "Registration process failed with error, restarting registration container" err="RegisterPlugin error -- admission webhook \"w\" denied the request: no" key="abc"`), `RegisterPlugin error -- admission webhook "w" denied the request: no`},
		"of a registrar before":                 {near, ended("Error", `E1 main.go:1] Registration process failed with error: RegisterPlugin error -- admission webhook "w" denied the request: no, restarting registration container.`), `RegisterPlugin error -- admission webhook "w" denied the request: no`},
		"a quoted one that is cut off":          {near, ended("Error", `err="RegisterPlugin error -- webhook \"w\" denied`), `RegisterPlugin error -- webhook \"w\" denied`},
		"a runtime's word about a volume":       {near, ended("StartError", `exec "key=abc": stat "`+path+`": Transport endpoint is not connected: unknown`), path + ": transport endpoint is not connected"},
		"one about another path":                {near, ended("StartError", `exec "key=abc": stat "/bin/sh": permission denied`), ""},
		"another reason with the same path":     {near, ended("Error", `stat "`+path+`": permission denied`), ""},
		"a command that cannot run":             {near, waits("CreateContainerError", "exec: key=abc: not found"), ""},
		"a configuration that is not there":     {near, waits("CreateContainerConfigError", `secret "db" not found`), `secret "db" not found`},
		"an image":                              {near, waits("ImagePullBackOff", "no such image"), "no such image"},
		"an earlier call that has not ended":    {near, waits("CreateContainerError", "failed to reserve container name key=abc"), "failed to reserve container name"},
		"a volume on a Windows node":            {near, waits("CreateContainerError", `stat "c:\var\lib\kubelet\pods\u-1\volumes\kubernetes.io~csi\pv1\mount": Access is denied.`), path + ": access is denied"},
		"an error that is none of the kernel's": {near, waits("RunContainerError", path+": key=abc"), path},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{test.volume}}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: test.state}}
		trim.Object(pod)
		got := pod.Status.ContainerStatuses[0].State
		message := ""
		switch {
		case got.Terminated != nil:
			message = got.Terminated.Message
		case got.Waiting != nil:
			message = got.Waiting.Message
		}
		if message != test.want {
			t.Errorf("%s: %q", what, message)
		}
	}
}

func TestAnnotations(t *testing.T) {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		"pv.kubernetes.io/migrated-to": "disk", "pv.kubernetes.io/migrated-to-me": "abc", "volume.beta.kubernetes.io/mount-options": "password=abc"}}}
	trim.Object(pv)
	if diff := cmp.Diff(map[string]string{"pv.kubernetes.io/migrated-to": "disk"}, pv.Annotations); diff != "" {
		t.Error(diff)
	}
	for _, key := range trim.KeptAnnotations {
		if !trim.KeepsAnnotation(key) {
			t.Errorf("%s is not kept", key)
		}
	}
	deployment := &appsv1.Deployment{}
	deployment.Spec.Template.Annotations = map[string]string{"checksum/secret": "abc"}
	if trim.Object(deployment); deployment.Spec.Template.Annotations != nil {
		t.Errorf("%v", deployment.Spec.Template.Annotations)
	}
}

// TestVolumes: of a driver's attributes those stay whose values its documents name.
func TestVolumes(t *testing.T) {
	spec := corev1.PersistentVolumeSpec{MountOptions: []string{"password=abc"}, PersistentVolumeSource: corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{Driver: "disk", VolumeAttributes: map[string]string{"mounter": "rbd-nbd", "protocol": "abc", "user": "me"}}}}
	va := &storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{Source: storagev1.VolumeAttachmentSource{InlineVolumeSpec: spec.DeepCopy()}},
		Status: storagev1.VolumeAttachmentStatus{AttachmentMetadata: map[string]string{"a": "abc"}, DetachError: &storagev1.VolumeError{Message: "refused, token=abc"}}}
	trim.Object(va)
	pv := &corev1.PersistentVolume{Spec: spec}
	trim.Object(pv)
	want := corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{Driver: "disk", VolumeAttributes: map[string]string{"mounter": "rbd-nbd"}}}}
	if diff := cmp.Diff(want, pv.Spec) + cmp.Diff(&want, va.Spec.Source.InlineVolumeSpec); diff != "" {
		t.Error(diff)
	}
	if va.Status.AttachmentMetadata != nil || va.Status.DetachError.Message == "refused, token=abc" {
		t.Errorf("%+v", va.Status)
	}
	class := &storagev1.StorageClass{Parameters: map[string]string{"csi.storage.k8s.io/fstype": "ext4", "restuserkey": "abc"}, MountOptions: []string{"password=abc"}}
	trim.Object(class)
	if diff := cmp.Diff(&storagev1.StorageClass{Parameters: map[string]string{"csi.storage.k8s.io/fstype": "ext4"}}, class); diff != "" {
		t.Error(diff)
	}
}

func TestEvents(t *testing.T) {
	for reason, want := range map[string]string{"FailedMount": "words", "FailedPostStartHook": "", "Failed": "", trim.PullingReason: "", trim.ProvisioningReason: "words"} {
		event := &corev1.Event{Reason: reason, Message: "words"}
		if trim.Object(event); event.Message != want || trim.KeepsEvent(event) != (want != "" || reason == trim.PullingReason) {
			t.Errorf("%s: %q, kept %v", reason, event.Message, trim.KeepsEvent(event))
		}
	}
}

// TestManagedFields: who wrote a node's lists of volumes, and its heartbeat.
func TestManagedFields(t *testing.T) {
	fields := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	entries := []metav1.ManagedFieldsEntry{
		fields("controller", `{"f:status":{"f:volumesAttached":{"f:a":{}}},"f:metadata":{}}`),
		fields("kubelet", `{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{"f:lastHeartbeatTime":{},"f:reason":{}}}}}`),
		fields("another condition's", `{"f:status":{"f:conditions":{"k:{\"type\":\"DiskPressure\"}":{"f:lastHeartbeatTime":{}}}}}`),
		fields("no object", `[]`), {Manager: "nothing"},
	}
	want := []metav1.ManagedFieldsEntry{
		fields("controller", `{"f:status":{"f:volumesAttached":{}}}`),
		fields("kubelet", `{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{"f:lastHeartbeatTime":{}}}}}`),
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{ManagedFields: entries}}
	trim.Object(node)
	if diff := cmp.Diff(want, node.ManagedFields); diff != "" {
		t.Error(diff)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ManagedFields: entries}}
	if trim.Object(pod); pod.ManagedFields != nil {
		t.Errorf("%v", pod.ManagedFields)
	}
}

func TestWords(t *testing.T) {
	for _, test := range []struct {
		of    func(string) bool
		words string
		want  bool
	}{
		{trim.RefusesRegistration, "E1 RegisterPlugin error -- no such driver", true}, {trim.RefusesRegistration, "RegisterPlugin error -- ", false},
		{trim.StillCreates, `error reserving ctr name "a"`, true}, {trim.StillCreates, "failed to reserve an address", false},
	} {
		if got := test.of(test.words); got != test.want {
			t.Errorf("%q: %v", test.words, got)
		}
	}
}
