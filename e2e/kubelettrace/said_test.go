package kubelettrace

import "testing"

// TestWithoutNames: the parts of a kubelet's texts that differ from run to run are removed.
func TestWithoutNames(t *testing.T) {
	known := []string{"uid-1", "UID", "shop", "NAMESPACE", "n1", "NODE", "/tmp/kl-1", ""}
	for text, want := range map[string]string{
		`unmounted volumes=[v0 v1 v2], unattached volumes=[], failed to process volumes=[v1]: error processing PVC shop/v1: PVC is not bound`: `unmounted volumes=[VOLUME], unattached volumes=[], failed to process volumes=[VOLUME]: error processing PVC NAMESPACE/VOLUME: PVC is not bound`,
		`Get "https://127.0.0.1:4444/apis/storage.k8s.io/v1/volumeattachments/x"`:                                                             `Get "https://ADDRESS/apis/storage.k8s.io/v1/volumeattachments/x"`,
		`MountVolume.SetUp failed for volume "v3" : mkdir /tmp/kl-1/pods/uid-1: no such file or directory`:                                    `MountVolume.SetUp failed for volume "VOLUME" : mkdir /pods/UID: no such file or directory`,
		`open /tmp/kl-1/pods/uid-1/volumes/kubernetes.io~csi/v1/vol_data.json: no such file or directory`:                                     `open /pods/UID/volumes/kubernetes.io~csi/VOLUME/vol_data.json: no such file or directory`,
		`error processing /tmp/kl-1/pods/uid-1/volume-subpaths/v0/main: busy`:                                                                 `error processing /pods/UID/volume-subpaths/VOLUME/main: busy`,
		`for volume "pv-shop-v2" : rpc error: code = Internal`:                                                                                `for volume "pv-NAMESPACE-VOLUME" : rpc error: code = Internal`,
	} {
		if got := withoutNames(text, known); got != want {
			t.Errorf("%s\nis  %s\nwant %s", text, got, want)
		}
	}
}
