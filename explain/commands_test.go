package explain

import (
	"bytes"
	"strings"
	"testing"
)

// TestHarmfulCommandsAreWarnedOf: a pasted command that does harm leads to its page, and what a
// program says of such a command does not.
func TestHarmfulCommandsAreWarnedOf(t *testing.T) {
	for text, page := range map[string]string{
		"kubectl delete volumeattachment csi-1":                                           "delete-volumeattachment",
		"kubectl delete --wait=false volumeattachments.storage.k8s.io/csi-1":              "delete-volumeattachment",
		`kubectl patch pvc x -p '{"metadata":{"finalizers":null}}'`:                       "null-finalizers",
		`kubectl patch pv x -p "{\"metadata\":{\"finalizers\":[]}}" --type=merge`:         "null-finalizers",
		"kubectl delete pod web-0 -n shop --grace-period=0 --force":                       "force-delete-pod",
		"kubectl taint nodes n1 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute": "taint-a-live-node",
		"kubectl delete node n1":                                                  "delete-node",
		"aws ec2 detach-volume --volume-id vol-1 --force":                         "cloud-detach",
		"umount -lf /var/lib/kubelet/pods/1/volumes/kubernetes.io~csi/pv-1/mount": "lazy-unmount",
		"sudo rm -rf /var/lib/kubelet/pods/7a3e":                                  "remove-kubelet-directories",
		"mkfs.ext4 /dev/sdb":                                                      "overwrite-file-system",
		"xfs_repair -L /dev/sdb":                                                  "overwrite-file-system",
		"fsck -y /dev/sdb":                                                        "overwrite-file-system",
		"kubectl delete pvc data-db-0":                                            "delete-claim",
		"kubectl -n shop delete pod/db-0 pvc/data-db-0":                           "delete-claim",
		"kubectl delete persistentvolumes pvc-1":                                  "delete-claim",
		"kubectl delete ns shop":                                                  "delete-claim",
		"helm uninstall db -n shop":                                               "delete-claim",
		"kubectl replace --force -f pvc.yaml":                                     "delete-claim",
		"rbd rm replicapool/csi-vol-1":                                            "delete-disk",
		"sudo lvremove -f vg0/pvc-1":                                              "delete-disk",
		"zfs destroy -r tank/k8s/pvc-1":                                           "delete-disk",
		"aws ec2 delete-volume --volume-id vol-1":                                 "delete-disk",
		"openstack volume delete 4f1a":                                            "delete-disk",
		"rbd lock remove pool/img id client.4123":                                 "break-lock",
		"ceph osd blocklist add 10.0.0.5:0/123":                                   "break-lock",
		"rbd unmap -o force /dev/rbd0":                                            "break-lock",
		"cinder reset-state --state available 4f1a":                               "break-lock",
		"sg_persist --out --clear --param-rk=0x1 /dev/sdb":                        "break-lock",
		"iscsiadm -m node -u":                                                     "cut-device",
		"nvme disconnect -n nqn.2014":                                             "cut-device",
		"dmsetup remove -f mpatha":                                                "cut-device",
		"echo 1 > /sys/block/sdb/device/delete":                                   "cut-device",
		"etcdctl del /registry/volumeattachments/csi-1":                           "edit-etcd",
		"sgdisk --zap-all /dev/sdb":                                               "overwrite-file-system",
		"dd if=/dev/zero of=/dev/sdb bs=1M count=100":                             "overwrite-file-system",
		"cryptsetup luksFormat /dev/sdb":                                          "overwrite-file-system",
		"cinder force-detach 4f1a":                                                "cloud-detach",
		"kubectl get pvc data-db-0":                                               "",
		"kubectl delete pod pvc-tester":                                           "",
		"helm upgrade db ./db":                                                    "",
		"helm list":                                                               "",
		"kubectl replace -f pvc.yaml":                                             "",
		"rbd status replicapool/csi-vol-1":                                        "",
		"rbd lock ls pool/img":                                                    "",
		"ceph osd blocklist ls":                                                   "",
		"iscsiadm -m session":                                                     "",
		"iscsiadm -m node --login":                                                "",
		"dmsetup ls --tree":                                                       "",
		"etcdctl get /registry/volumeattachments --prefix":                        "",
		"openstack volume show 4f1a":                                              "",
		"dd if=/dev/sdb of=/srv/sdb.img":                                          "",
		"rbd: unmap failed: (16) Device or resource busy":                         "",
		"VolumeFailedDelete: rpc error: code = Internal desc = delete pvc pvc-1: busy": "",
		"kubectl delete pod web-0":      "",
		"kubectl get volumeattachments": "",
		"xfs_repair -n /dev/sdb":        "",
		"rm -rf /srv/pods/old":          "",
		"kubectl taint nodes n1 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute-": "",
		"umount /mnt": "",
		"rpc error: code = Internal desc = mkfs.ext4 /dev/sdb: exit status 1":               "",
		"UnmountVolume failed: umount -f /var/lib/kubelet/pods/1/volumes/x: target is busy": "",
		"rm: cannot remove '/var/lib/kubelet/pods/1/volumes': Device or resource busy":      "",
	} {
		var out bytes.Buffer
		if err := Words(&out, text); err != nil && page != "" {
			t.Errorf("%s: %v", text, err)
		}
		first, _, _ := strings.Cut(out.String(), "\n\n")
		switch warned := strings.Contains(first, "can destroy data"); {
		case page == "" && warned:
			t.Errorf("%s is warned of:\n%s", text, first)
		case page != "" && (!warned || !strings.HasSuffix(first, "explain "+page)):
			t.Errorf("%s is not warned of by %s:\n%s", text, page, out.String())
		}
		if hits := library().find(text, hintsOf(text)); page != "" && hits[0].Name != page {
			t.Errorf("%s finds %s first, want %s", text, hits[0].Name, page)
		}
	}
}
