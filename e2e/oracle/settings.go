package main

import (
	"time"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
)

// noSync reports whether the controller does not verify what is attached: one pass is no
// time for it.
func (o *oracle) noSync() bool { return len(o.request.History) == 0 || o.request.SyncPeriod < 0 }

func (o *oracle) syncPeriod() time.Duration {
	if o.request.SyncPeriod == 0 {
		return time.Minute
	}
	return o.request.SyncPeriod
}

// setGates sets the feature gates of the request, which are the process's, until reset
// is called.
func setGates(request *wire.Request) (reset func(), err error) {
	before := map[string]bool{}
	for name := range request.FeatureGates {
		before[name] = utilfeature.DefaultFeatureGate.Enabled(featuregate.Feature(name))
	}
	return func() { _ = utilfeature.DefaultMutableFeatureGate.SetFromMap(before) },
		utilfeature.DefaultMutableFeatureGate.SetFromMap(request.FeatureGates)
}
