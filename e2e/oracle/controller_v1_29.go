//go:build upto_v1_29 && !upto_v1_26

package main

import (
	"context"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/volume/attachdetach"
	"k8s.io/kubernetes/pkg/controller/volume/attachdetach/reconciler"
	"k8s.io/kubernetes/pkg/volume"
)

const nodesByEvent = true

// newController leaves the switch for forced detaches out: the release has none.
func (o *oracle) newController(ctx context.Context, timers attachdetach.TimerConfig) (attachdetach.AttachDetachController, error) {
	core, storage := o.factory.Core().V1(), o.factory.Storage().V1()
	return attachdetach.NewAttachDetachController(klog.FromContext(ctx), o.client,
		core.Pods(), o.nodes, core.PersistentVolumeClaims(), core.PersistentVolumes(),
		storage.CSINodes(), storage.CSIDrivers(), storage.VolumeAttachments(), nil,
		o.gate.plugins(), &flexProber{gate: o.gate},
		o.noSync(), o.syncPeriod(), timers)
}

func run(ctx context.Context, adc attachdetach.AttachDetachController) { adc.Run(ctx) }

// reconcileAgain runs another pass.
func reconcileAgain(ctx context.Context, adc attachdetach.AttachDetachController) {
	field[reconciler.Reconciler](adc, "reconciler").Run(ctx)
}

func legacyPlugins() []volume.VolumePlugin { return []volume.VolumePlugin{rbd, vsphere} }
