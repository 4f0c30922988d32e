package facts

import (
	"testing"
)

// TestMisspelt: a typo is told from another driver of the same vendor.
func TestMisspelt(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"ch.ctrox.csi-s3-driver", "ch.ctrox.csi.s3-driver", true},
		{"Disk.csi.azure.com", "disk.csi.azure.com", true},
		{"disk.csi.azrue.com", "disk.csi.azure.com", true},
		{"disk.csi.azur.com", "disk.csi.azure.com", true},
		{"ebs.csi.aws.comm", "ebs.csi.aws.com", true},
		{"ebs.csi.aws.com", "efs.csi.aws.com", false},
		{"nfs.csi.k8s.io", "fs.csi.k8s.io", false},
		{"rook-ceph.rbd.csi.ceph.com", "rook-ceph2.rbd.csi.ceph.com", false},
		{"rbd.csi.ceph.com", "cephfs.csi.ceph.com", false},
		{"disk.csi.azure.com", "disk.csi.azure.com", false},
		{"", "a", false},
		{"ab", "ba", true},
	} {
		if got := misspelt(c.a, c.b); got != c.want {
			t.Errorf("%s for %s: %v", c.a, c.b, got)
		}
		if got := misspelt(c.b, c.a); got != c.want {
			t.Errorf("%s for %s: %v", c.b, c.a, got)
		}
	}
}

// TestRenamedTo: a prefix is joined by a dot or a hyphen.
func TestRenamedTo(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"rook-ceph.rbd.csi.ceph.com", "rbd.csi.ceph.com", true},
		{"secrets-store.csi.k8s.io", "hcep-secrets-store.csi.k8s.io", true},
		{"fs.csi.k8s.io", "nfs.csi.k8s.io", false},
		{"rbd.csi.ceph.com", "cephfs.csi.ceph.com", false},
	} {
		if got := renamedTo(c.a, c.b); got != c.want {
			t.Errorf("%s, now %s: %v", c.a, c.b, got)
		}
	}
}
