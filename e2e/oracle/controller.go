//go:build !upto_v1_30

package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/controller/volume/attachdetach"
	"k8s.io/kubernetes/pkg/controller/volume/attachdetach/reconciler"
	"k8s.io/kubernetes/pkg/volume"
)

// nodesByEvent reports whether populateActualStateOfWorld leaves nodes out.
const nodesByEvent = false

func (o *oracle) newController(ctx context.Context, timers attachdetach.TimerConfig) (attachdetach.AttachDetachController, error) {
	core, storage := o.factory.Core().V1(), o.factory.Storage().V1()
	return attachdetach.NewAttachDetachController(ctx, o.client,
		core.Pods(), o.nodes, core.PersistentVolumeClaims(), core.PersistentVolumes(),
		storage.CSINodes(), storage.CSIDrivers(), storage.VolumeAttachments(),
		o.gate.plugins(), &flexProber{gate: o.gate},
		o.noSync(), o.syncPeriod(), o.request.DisableForceDetachOnTimeout, timers)
}

func run(ctx context.Context, adc attachdetach.AttachDetachController) { adc.Run(ctx) }

// reconcileAgain runs another pass.
func reconcileAgain(ctx context.Context, adc attachdetach.AttachDetachController) {
	field[reconciler.Reconciler](adc, "reconciler").Run(ctx)
}

// legacyPlugins are the in-tree plugins that the release registers: none.
func legacyPlugins() []volume.VolumePlugin { return nil }

func isImage(v *corev1.Volume) bool { return v.Image != nil }
