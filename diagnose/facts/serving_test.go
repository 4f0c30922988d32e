package facts

import "testing"

func TestNodePluginServesMounts(t *testing.T) {
	nbd, fuse := map[string]string{"mounter": "rbd-nbd"}, map[string]string{"mounter": "fuse"}
	for _, c := range []struct {
		driver string
		mount  Mount
		want   Serving
	}{
		{"ebs.csi.aws.com", Mount{}, ServesNone},
		{"rbd.csi.ceph.com", Mount{HostNetwork: true}, ServesNone},
		{"rbd.csi.ceph.com", Mount{}, mayServe},
		{"rook-ceph.rbd.csi.ceph.com", Mount{Attributes: nbd, HostNetwork: true}, serves},
		{"rbd.csi.ceph.com", Mount{Attributes: map[string]string{"tryOtherMounters": "true"}, HostNetwork: true}, mayServe},
		{"rook-ceph.cephfs.csi.ceph.com", Mount{HostNetwork: true}, mayServe},
		{"cephfs.csi.ceph.com", Mount{Attributes: fuse, HostNetwork: true}, serves},
		{"cephfs.csi.ceph.com", Mount{Attributes: map[string]string{"mounter": "kernel"}, HostNetwork: true}, ServesNone},
		{"nfs.csi.k8s.io", Mount{HostNetwork: true}, ServesNone},
		{"nfs.csi.k8s.io", Mount{}, mayServe},
		{"blob.csi.azure.com", Mount{HostNetwork: true}, mayServe},
		{"blob.csi.azure.com", Mount{Attributes: map[string]string{"protocol": "nfs"}, HostNetwork: true}, ServesNone},
		{"s3.csi.aws.com", Mount{}, ServesNone},
		{"efs.csi.aws.com", Mount{HostNetwork: true}, serves},
		{"driver.longhorn.io", Mount{}, ServesNone},
		{"driver.longhorn.io", Mount{Shared: true, HostNetwork: true}, mayServe},
		{"org.democratic-csi.nfs", Mount{HostNetwork: true}, ServesNone},
		{"disk.csi.example.com", Mount{HostNetwork: true}, mayServe},
		{"", Mount{}, mayServe},
		{"rbd.csi.ceph.com", Mount{HostNetwork: true, Unknown: true}, mayServe},
		{"driver.longhorn.io", Mount{Unknown: true}, mayServe},
		{"nfs.csi.k8s.io", Mount{HostNetwork: true, Unknown: true}, ServesNone},
		{"ebs.csi.aws.com", Mount{Unknown: true}, ServesNone},
		{"efs.csi.aws.com", Mount{Unknown: true}, serves},
	} {
		if got := NodePluginServesMounts(c.driver, c.mount); got != c.want {
			t.Errorf("%s %+v: %s, not %s", c.driver, c.mount, got, c.want)
		}
	}
}
