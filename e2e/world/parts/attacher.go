package parts

import (
	"context"
	"regexp"
	"sync"
	"time"

	"github.com/kubernetes-csi/external-attacher/v4/pkg/attacher"
	"github.com/kubernetes-csi/external-attacher/v4/pkg/controller"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	translation "k8s.io/csi-translation-lib"
	"k8s.io/klog/v2"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/driver"
)

// AttacherAgent names csi-attacher's client.
const AttacherAgent = "csi-attacher"

// csi-attacher's defaults.
const (
	attacherTimeout  = 15 * time.Second
	attacherRetry    = time.Second
	attacherRetryMax = 5 * time.Minute
	attacherWorkers  = 10
)

// Attacher runs a csi-attacher beside the driver until the context ends, with leader
// election.
func Attacher(ctx context.Context, client kubernetes.Interface, d *driver.Driver, identity string) error {
	var attaches attacher.Attacher = d
	return elect(ctx, client, AttacherLease(d.Name), identity, 15*time.Second, 10*time.Second, 5*time.Second, func(ctx context.Context) error {
		factory := informers.NewSharedInformerFactory(client, 10*time.Minute)
		volumes, attachments := factory.Core().V1().PersistentVolumes(), factory.Storage().V1().VolumeAttachments()
		timeout := attacherTimeout
		handler := controller.NewCSIHandler(client, d.Name, attaches, d, volumes.Lister(), factory.Storage().V1().CSINodes().Lister(), attachments.Lister(),
			&timeout, true, true, translation.New(), "")
		backoff := func() workqueue.TypedRateLimiter[string] {
			return workqueue.NewTypedItemExponentialFailureRateLimiter[string](attacherRetry, attacherRetryMax)
		}
		c := controller.NewCSIAttachController(klog.FromContext(ctx), client, d.Name, handler, attachments, volumes, backoff(), backoff(), false, time.Minute)
		factory.Start(ctx.Done())
		var workers sync.WaitGroup
		c.Run(ctx, attacherWorkers, &workers)
		factory.Shutdown()
		return nil
	})
}

// AttacherLease is the name of the lease of the driver's csi-attacher, which has a dash for
// each character that is neither a letter nor a digit.
func AttacherLease(driverName string) string {
	return notInLease.ReplaceAllString("external-attacher-leader-"+driverName, "-")
}

var notInLease = regexp.MustCompile("[^a-zA-Z0-9-]")
