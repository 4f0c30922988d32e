//go:build upto_v1_22

// Command oldcontroller runs the attach/detach controller of a release that
// kube-controller-manager is no longer built of, against a real API server: what
// it decides is the release's own code, and nothing else of that program runs.
package main

import (
	"context"
	"flag"
	"log"
	"net/http"
	"os"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/volume/attachdetach"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/csi"
)

// program is what the API server writes down for who writes: the name of the binary
// as it is in a cluster.
const program = "kube-controller-manager"

func main() {
	klog.InitFlags(nil)
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	health := flag.String("health", "", "the address that answers once the controller runs")
	period := flag.Duration("reconcile-sync-period", time.Minute, "how often attachments are compared")
	flag.Parse()
	if err := run(*kubeconfig, *health, *period); err != nil {
		log.Fatal(err)
	}
}

func run(kubeconfig, health string, period time.Duration) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.UserAgent, config.QPS, config.Burst = program+"/"+os.Args[0], 200, 400
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	core, storage := factory.Core().V1(), factory.Storage().V1()
	controller, err := attachdetach.NewAttachDetachController(client,
		core.Pods(), core.Nodes(), core.PersistentVolumeClaims(), core.PersistentVolumes(),
		storage.CSINodes(), storage.CSIDrivers(), storage.VolumeAttachments(), nil,
		csi.ProbeVolumePlugins(), noProber{}, false, period, attachdetach.DefaultTimerConfig, nil)
	if err != nil {
		return err
	}
	ctx := context.Background()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	go controller.Run(ctx.Done())
	return http.ListenAndServe(health, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }))
}

// noProber finds no plugins beside those that are compiled in.
type noProber struct{}

func (noProber) Init() error                         { return nil }
func (noProber) Probe() ([]volume.ProbeEvent, error) { return nil, nil }
