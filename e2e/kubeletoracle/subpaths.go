//go:build linux

package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/volume/util/subpath"
)

// prepareSubPaths mounts the subPaths of the pod's containers (makeMounts,
// pkg/kubelet/kubelet_pods.go).
func (k *kubelet) prepareSubPaths(pod *corev1.Pod) error {
	mounted := k.volumes.GetMountedVolumesForPod(uniquePodName(pod.UID))
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for i, m := range c.VolumeMounts {
			v, ok := mounted[m.Name]
			if m.SubPath == "" || !ok || v.Mounter == nil {
				continue
			}
			volume := v.Mounter.GetPath()
			if err := k.host.subpather.SafeMakeDir(m.SubPath, volume, 0o750); err != nil && !errors.Is(err, os.ErrExist) {
				return err
			}
			_, started, err := k.host.subpather.PrepareSafeSubpath(subpath.Subpath{
				VolumeMountIndex: i, Path: filepath.Join(volume, m.SubPath), VolumeName: v.InnerVolumeSpecName, VolumePath: volume,
				PodDir: filepath.Join(k.host.GetPodsDir(), string(pod.UID)), ContainerName: c.Name,
			})
			if err != nil {
				return err
			}
			if started != nil {
				started()
			}
		}
	}
	return nil
}
