//go:build linux && !upto_v1_33

package main

import (
	"k8s.io/mount-utils"
)

func (h *host) GetMounter() mount.Interface { return h.mounter }
