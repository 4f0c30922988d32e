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
		"kubectl delete pod web-0":                                                "",
		"kubectl get volumeattachments":                                           "",
		"xfs_repair -n /dev/sdb":                                                  "",
		"rm -rf /srv/pods/old":                                                    "",
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
