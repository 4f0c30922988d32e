//go:build linux

package main

import (
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/kubernetes/cmd/kubelet/app/options"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
)

// statusPeriod is 10 s by default; volumesInUse is written that often, and tests need
// not wait that long.
const statusPeriod = time.Second

// settings are the defaults, but for the node's status and for what would touch the
// machine in more than its mounts.
func settings(m wire.Machine) (*options.KubeletServer, error) {
	s, err := options.NewKubeletServer()
	if err != nil {
		return nil, fmt.Errorf("make its settings: %w", err)
	}
	s.RootDirectory, s.CertDirectory = m.Root, filepath.Join(m.Root, "pki")
	s.PodLogsDir = filepath.Join(m.Root, "logs")
	s.HostnameOverride, s.NodeIP, s.NodeLabels = m.Node, m.Hollow.Address, m.Labels
	s.NodeStatusUpdateFrequency.Duration = statusPeriod

	s.Address, s.Port, s.ReadOnlyPort = m.Hollow.Address, m.Hollow.Port, 0
	s.Authentication.X509.ClientCAFile = m.Hollow.ClientCA
	s.EnableSystemLogQuery = true

	s.ContainerRuntimeEndpoint = m.Hollow.Runtime
	s.CgroupsPerQOS, s.EnforceNodeAllocatable, s.EvictionHard = false, nil, nil
	s.MakeIPTablesUtilChains, s.ResolverConfig = false, ""
	return s, nil
}
