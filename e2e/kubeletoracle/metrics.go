//go:build linux

package main

import (
	"fmt"
	"slices"

	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
)

// samples are what the kubelet's own metrics have of the families.
func samples(families []string) ([]wire.Sample, error) {
	if len(families) == 0 {
		return nil, nil
	}
	all, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return nil, fmt.Errorf("gather the kubelet's metrics: %w", err)
	}
	var list []wire.Sample
	for _, family := range all {
		if !slices.Contains(families, family.GetName()) {
			continue
		}
		for _, m := range family.GetMetric() {
			s := wire.Sample{Family: family.GetName(), Labels: map[string]string{}}
			for _, l := range m.GetLabel() {
				s.Labels[l.GetName()] = l.GetValue()
			}
			switch {
			case m.GetHistogram() != nil:
				s.Value = float64(m.GetHistogram().GetSampleCount())
			case m.GetCounter() != nil:
				s.Value = m.GetCounter().GetValue()
			default:
				s.Value = m.GetGauge().GetValue()
			}
			list = append(list, s)
		}
	}
	return list, nil
}
