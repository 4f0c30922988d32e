//go:build v1_26 || v1_28 || v1_30 || v1_33 || v1_34 || v1_35

package main

import (
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/flexvolume"
	"k8s.io/utils/exec"
)

func newFlexProber(dir string, runner exec.Interface) volume.DynamicPluginProber {
	return flexvolume.GetDynamicPluginProber(dir, runner)
}
