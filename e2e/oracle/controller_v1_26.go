//go:build upto_v1_26

package main

import (
	"context"

	"k8s.io/kubernetes/pkg/controller/volume/attachdetach"
	"k8s.io/kubernetes/pkg/controller/volume/attachdetach/reconciler"
	"k8s.io/kubernetes/pkg/volume"
)

const nodesByEvent = true

// newController passes no logger: the release logs through package functions.
func (o *oracle) newController(_ context.Context, timers attachdetach.TimerConfig) (attachdetach.AttachDetachController, error) {
	core, storage := o.factory.Core().V1(), o.factory.Storage().V1()
	return attachdetach.NewAttachDetachController(o.client,
		core.Pods(), o.nodes, core.PersistentVolumeClaims(), core.PersistentVolumes(),
		storage.CSINodes(), storage.CSIDrivers(), storage.VolumeAttachments(), nil,
		o.gate.plugins(), &flexProber{gate: o.gate},
		o.noSync(), o.syncPeriod(), timers, nil)
}

func run(ctx context.Context, adc attachdetach.AttachDetachController) { adc.Run(ctx.Done()) }

// reconcileAgain runs another pass.
func reconcileAgain(ctx context.Context, adc attachdetach.AttachDetachController) {
	field[reconciler.Reconciler](adc, "reconciler").Run(ctx.Done())
}

func legacyPlugins() []volume.VolumePlugin {
	return []volume.VolumePlugin{rbd, vsphere, awsEBS, gcePD, azureDisk}
}
