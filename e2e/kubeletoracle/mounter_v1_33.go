//go:build linux && upto_v1_33

package main

import (
	"net"

	"k8s.io/mount-utils"
	"k8s.io/utils/exec"
)

func (h *host) GetMounter(string) mount.Interface { return h.mounter }

func (h *host) GetExec(string) exec.Interface { return exec.New() }

func (h *host) GetHostIP() (net.IP, error) { return nil, errNotHere }
