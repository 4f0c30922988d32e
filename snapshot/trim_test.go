package snapshot

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/trim"
)

// loaded holds "SECRET" wherever a secret has been seen, "KEPT" in all that
// must be left, once each.
const loaded = `
apiVersion: v1
kind: Pod
metadata:
  name: web-0
  namespace: default
  uid: KEPT-uid
  labels: {app: KEPT-label}
  finalizers: [KEPT/finalizer]
  ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: KEPT-owner, uid: KEPT-owner-uid}]
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: SECRET
    storage.kubernetes.iox/a: SECRET
    csi.alpha.kubernetes.io/a: SECRET
    csi.volume.kubernetes.io/a: SECRET
    pv.kubernetes.io/a: SECRET
    storage.kubernetes.io/a: SECRET
    volume.beta.kubernetes.io/mount-options: "username=joe,password=SECRET"
    volume.kubernetes.io/a: SECRET
    volumes.kubernetes.io/a: SECRET
    csi.alpha.kubernetes.io/node-id: KEPT-1
    csi.volume.kubernetes.io/nodeid: KEPT-2
    kubernetes.io/config.mirror: KEPT-3
    pv.kubernetes.io/migrated-to: KEPT-4
    storage.alpha.kubernetes.io/migrated-plugins: KEPT-5
    volume.beta.kubernetes.io/storage-provisioner: KEPT-7
    volume.kubernetes.io/selected-node: KEPT-8
    volumes.kubernetes.io/keep-terminated-pod-volumes: KEPT-9
  managedFields: [{manager: SECRET, operation: Update, fieldsV1: {"f:status": {"f:volumesInUse": {}}}}]
spec:
  nodeName: kept-node
  securityContext: {fsGroup: 2000, fsGroupChangePolicy: KEPT-fsgroup, windowsOptions: {gmsaCredentialSpec: SECRET}}
  tolerations: [{key: KEPT-toleration}]
  nodeSelector: {a: KEPT-selector}
  imagePullSecrets: [{name: KEPT-pull-name}]
  initContainers:
  - {name: KEPT-init, restartPolicy: Always, args: [SECRET], workingDir: SECRET}
  ephemeralContainers:
  - {name: KEPT-debug, targetContainerName: KEPT-target, command: [SECRET], env: [{name: A, value: SECRET}], volumeMounts: [{name: KEPT-debug-mount, mountPath: /a}]}
  containers:
  - name: KEPT-web
    image: KEPT-image
    command: [SECRET]
    args: [--password=SECRET]
    env: [{name: A, value: SECRET}]
    envFrom: [{prefix: SECRET, secretRef: {name: a}}]
    lifecycle: {postStart: {exec: {command: [SECRET]}}}
    livenessProbe: {exec: {command: [SECRET]}}
    readinessProbe: {httpGet: {port: 80, httpHeaders: [{name: Authorization, value: SECRET}]}}
    startupProbe: {exec: {command: [SECRET]}}
    resources: {limits: {cpu: 1, example.com/SECRET: 1}}
    securityContext: {privileged: true, seLinuxOptions: {level: KEPT-level}, windowsOptions: {gmsaCredentialSpec: SECRET}}
    volumeMounts: [{name: KEPT-mount, mountPath: /data, subPath: KEPT-subpath}]
    volumeDevices: [{name: KEPT-device, devicePath: /dev/a}]
  volumes:
  - {name: KEPT-a, persistentVolumeClaim: {claimName: KEPT-claim}}
  - {name: b, secret: {secretName: KEPT-secret-name}}
  - {name: c, csi: {driver: KEPT-driver, nodePublishSecretRef: {name: KEPT-ref}, volumeAttributes: {a: SECRET}}}
  - {name: d, flexVolume: {driver: KEPT-flex, options: {a: SECRET}}}
  - {name: e, gitRepo: {repository: "https://me:SECRET@example.com/a"}}
  - name: f
    ephemeral: {volumeClaimTemplate: {metadata: {annotations: {a: SECRET}, labels: {a: KEPT-template}}, spec: {storageClassName: KEPT-class}}}
  - {name: g, awsElasticBlockStore: {volumeID: KEPT-ebs}}
status:
  phase: Running
  reason: KEPT-reason
  conditions: [{type: Ready, status: "False", message: KEPT-condition, lastTransitionTime: "2026-11-20T09:00:00Z"}]
  initContainerStatuses: [{name: i, state: {terminated: {exitCode: 1, reason: KEPT-exit, message: SECRET}}}]
  ephemeralContainerStatuses: [{name: d, state: {waiting: {reason: KEPT-waiting, message: KEPT-message}}}]
  containerStatuses:
  - name: KEPT-status
    ready: true
    containerID: KEPT-id
    state: {waiting: {reason: RunContainerError, message: "exec: SECRET: not found"}}
    lastState: {terminated: {exitCode: 1, message: SECRET}}
    resources: {limits: {example.com/SECRET: 1}}
  - {name: registrar, lastState: {terminated: {exitCode: 1, message: "I1 log SECRET\nE1 RegisterPlugin error -- plugin registration failed with err: KEPT-refused \nSECRET"}}}
  - {name: reserved, state: {waiting: {reason: CreateContainerError, message: 'SECRET failed to reserve container name "SECRET": name "SECRET" is reserved for "SECRET"'}}}
  - {name: crio, state: {waiting: {reason: CreateContainerError, message: "container create failed: executable file /bin/sh -c SECRET not found in $PATH"}}}
  - {name: mount, state: {waiting: {reason: CreateContainerError, message: 'exec SECRET: failed to stat "/var/lib/kubelet/pods/u/volumes/kubernetes.io~csi/KEPT-volume/mount": SECRET: Transport endpoint is not connected'}}}
  - {name: windows, state: {waiting: {reason: CreateContainerError, message: 'exec SECRET: failed to stat "c:\var\lib\kubelet\pods\u\volumes\kubernetes.io~csi\KEPT-share\mount": SECRET: Access is denied.'}}}
---
apiVersion: v1
kind: Pod
metadata: {name: plugin, namespace: default}
spec:
  containers: [{name: driver, args: [SECRET]}]
  volumes: [{name: KEPT-plugin-dir, hostPath: {path: /var/lib/kubelet/plugins/KEPT-dir/}}]
status:
  containerStatuses:
  - {name: driver, lastState: {terminated: {exitCode: 1, message: "SECRET\nKEPT-last-line of the driver, token=SECRET\n"}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, namespace: default, annotations: {a: SECRET}}
spec:
  replicas: 2
  selector: {matchLabels: {a: KEPT-select}}
  template:
    metadata: {annotations: {a: SECRET}, labels: {a: KEPT-pod-label}}
    spec: {containers: [{name: KEPT-deployed, env: [{name: A, value: SECRET}]}]}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv1, annotations: {pv.kubernetes.io/migrated-to: KEPT-migrated, a: SECRET}}
spec:
  mountOptions: [password=SECRET]
  claimRef: {name: KEPT-claimref, uid: KEPT-claim-uid}
  csi: {driver: KEPT-pv-driver, volumeHandle: KEPT-handle, volumeAttributes: {a: SECRET}, controllerPublishSecretRef: {name: KEPT-publish-name}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv2}
spec: {flexVolume: {driver: KEPT-pv-flex, options: {a: SECRET}, secretRef: {name: KEPT-flex-ref}}}
---
apiVersion: storage.k8s.io/v1
kind: VolumeAttachment
metadata: {name: csi-1}
spec: {attacher: KEPT-attacher, nodeName: n1, source: {inlineVolumeSpec: {csi: {driver: KEPT-inline, volumeHandle: h, volumeAttributes: {a: SECRET}}}}}
status: {attached: true, attachmentMetadata: {SECRET: SECRET}, attachError: {message: "rpc error: KEPT-error Post https://joe:SECRET@host/x?sig=SECRET: refused, token=SECRET", time: "2026-11-20T09:00:00Z"}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: sc, annotations: {storageclass.kubernetes.io/is-default-class: KEPT-default}}
provisioner: KEPT-provisioner
mountOptions: [password=SECRET]
parameters: {restuserkey: SECRET, csi.storage.k8s.io/fstype: KEPT-fstype}
---
apiVersion: v1
kind: Event
metadata: {name: e, namespace: default}
reason: FailedMount
message: KEPT-event
source: {component: KEPT-component}
involvedObject: {name: KEPT-involved}
---
apiVersion: v1
kind: Event
metadata: {name: e2, namespace: default}
reason: FailedPostStartHook
message: "Exec lifecycle hook ([curl -u SECRET])"
---
apiVersion: v1
kind: Event
metadata: {name: e3, namespace: default}
reason: Failed
message: "Error: container create failed: /bin/app SECRET: no such file"
---
apiVersion: v1
kind: Event
metadata: {name: e4, namespace: default}
reason: FailedMount
message: |
  MountVolume.SetUp failed for volume "KEPT-mounted" : mount failed: exit status 32
  Mounting arguments: -t cifs -o username=joe,password=SECRET //host/share /KEPT-target
  Output: KEPT-output
---
apiVersion: v1
kind: Node
metadata:
  name: n1
  annotations: {node.alpha.kubernetes.io/ttl: SECRET}
  managedFields:
  - {manager: KEPT-kubelet, operation: Update, apiVersion: v1, subresource: status, time: "2026-11-20T09:00:00Z", fieldsType: FieldsV1, fieldsV1: {"f:metadata": {"f:SECRET": {}}, "f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {"f:lastHeartbeatTime": {}, "f:SECRET": {}}, "f:SECRET": {}}, "f:volumesInUse": {"f:SECRET": {}}, "f:volumesAttached": {}}}}
  - {manager: SECRET, operation: Apply, fieldsV1: {"f:status": {"f:capacity": {}}}}
  - {manager: SECRET, operation: Apply, fieldsV1: []}
  - {manager: SECRET, operation: Apply}
spec: {providerID: KEPT-provider, taints: [{key: KEPT-taint, effect: NoExecute}]}
status:
  images: [{names: [SECRET]}]
  volumesAttached: [{name: KEPT-attached, devicePath: ""}]
  volumesInUse: [KEPT-inuse]
`

func TestTrim(t *testing.T) {
	const header = "apiVersion: volume-doctor/v1\nkind: Snapshot\ncomplete: []\n---\n"
	s, _, err := Read("f", strings.NewReader(header+loaded), ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Write(&out, s); err != nil {
		t.Fatal(err)
	}
	if i := strings.Index(out.String(), "SECRET"); i >= 0 {
		t.Errorf("a secret is written: %s", out.String()[max(0, i-200):i+6])
	}
	for _, word := range strings.FieldsFunc(loaded, func(r rune) bool { return strings.ContainsRune(" \n:,[]{}\"", r) }) {
		if strings.HasPrefix(strings.ToUpper(word), "KEPT") && !strings.Contains(out.String(), word) {
			t.Errorf("%s is not written", word)
		}
	}
	want := `{"f:status":{"f:volumesAttached":{},"f:volumesInUse":{},"f:conditions":{"k:{\"type\":\"Ready\"}":{"f:lastHeartbeatTime":{}}}}}`
	if fields := s.Nodes[0].ManagedFields; len(fields) != 1 || fields[0].FieldsV1.GetRawString() != want || fields[0].Time == nil || fields[0].Subresource != "status" {
		t.Errorf("managed fields %+v", fields)
	}
}

// TestWriteTrims: a snapshot need not be trimmed to be written without secrets,
// and is not changed by it.
func TestWriteTrims(t *testing.T) {
	privileged := true
	container := corev1.Container{Name: "c", Env: []corev1.EnvVar{{Name: "A", Value: "SECRET"}}, Args: []string{"SECRET"}, SecurityContext: &corev1.SecurityContext{Privileged: &privileged}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container}}}
	pod.Name, pod.Namespace, pod.Annotations = "a", "default", map[string]string{"a": "SECRET"}
	deployment := &appsv1.Deployment{}
	deployment.Name, deployment.Spec.Template.Spec = "d", *pod.Spec.DeepCopy()
	s := New(noon, Source{}, Objects{Pods: []*corev1.Pod{pod}, Deployments: []*appsv1.Deployment{deployment}}, nil)
	before := pod.DeepCopy()
	var out bytes.Buffer
	if err := Write(&out, s); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "SECRET") {
		t.Errorf("a secret is written:\n%s", &out)
	}
	if diff := cmp.Diff(before, pod); diff != "" {
		t.Errorf("the snapshot was changed: %s", diff)
	}
}

// TestTrimTwice: what is trimmed stays as it is.
func TestTrimTwice(t *testing.T) {
	s, _, err := Read("f", strings.NewReader(loaded), ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resources {
		for object := range r.all(&s.Objects) {
			before, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			trim.Object(object)
			after, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(before), string(after)); diff != "" {
				t.Error(diff)
			}
		}
	}
}
