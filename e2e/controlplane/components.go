package controlplane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// controllerName is the attach/detach controller among those of
// kube-controller-manager.
const controllerName = "persistentvolume-attach-detach-controller"

// Controllers for [Options], by the names that kube-controller-manager gives them.
const (
	NodeLifecycle    = "node-lifecycle-controller"
	TaintEviction    = "taint-eviction-controller"
	PodCollector     = "pod-garbage-collector-controller"
	GarbageCollector = "garbage-collector-controller"
	VolumeBinder     = "persistentvolume-binder-controller"
	VolumeProtection = "persistentvolume-protection-controller"
	ClaimProtection  = "persistentvolumeclaim-protection-controller"
	Deployments      = "deployment-controller"
	ReplicaSets      = "replicaset-controller"
	StatefulSets     = "statefulset-controller"
	Namespaces       = "namespace-controller"
)

// startAPIServer starts kube-apiserver and makes the clients, once it is ready
// and has made the namespaces that everybody expects.
func (c *Cluster) startAPIServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	p, err := c.run(apiServer, c.apiServerFlags())
	if err != nil {
		return err
	}
	if err := p.await(ctx, func(ctx context.Context) error { return get(ctx, c.apiURL()+"/readyz", "") }); err != nil {
		return err
	}
	if err := c.writeKubeconfigs(); err != nil {
		return err
	}
	if c.Kubeconfig, err = c.KubeconfigFor(UserAdmin); err != nil {
		return err
	}
	if c.config, err = c.configFor(UserHarness); err != nil {
		return err
	}
	if c.client, err = kubernetes.NewForConfig(c.config); err != nil {
		return err
	}
	return p.await(ctx, func(ctx context.Context) error {
		var errs []error
		for _, namespace := range []string{metav1.NamespaceDefault, "kube-node-lease"} {
			_, err := c.client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
}

// StopAPIServer kills kube-apiserver, as a crash does. What it stored stays.
func (c *Cluster) StopAPIServer() { c.kill(apiServer) }

// ResumeAPIServer starts kube-apiserver again, with the same address,
// certificate and data, and returns when it is ready.
func (c *Cluster) ResumeAPIServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	p, err := c.run(apiServer, c.apiServerFlags())
	if err != nil {
		return err
	}
	return p.await(ctx, func(ctx context.Context) error { return get(ctx, c.apiURL()+"/readyz", "") })
}

// StartController starts the attach/detach controller and returns when it is
// running. It then rebuilds its worlds, which takes it a moment longer.
func (c *Cluster) StartController(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	kubeconfig, err := c.KubeconfigFor(UserController)
	if err != nil {
		return err
	}
	p, err := c.run(controllerManager, c.controllerManagerFlags(kubeconfig))
	if err != nil {
		return err
	}
	// The controller adds its name to the health checks when it starts.
	health := "https://" + address(c.ports.controllerManager) + "/healthz?verbose"
	return p.await(ctx, func(ctx context.Context) error { return get(ctx, health, controllerName) })
}

// StopController kills the attach/detach controller, as a crash does.
func (c *Cluster) StopController() { c.kill(controllerManager) }

// RestartController kills the attach/detach controller and starts it again, so
// that it forgets what only its memory held.
func (c *Cluster) RestartController(ctx context.Context) error {
	c.StopController()
	return c.StartController(ctx)
}

// StartAttacher starts csi-attacher and returns when it is connected to the
// driver.
func (c *Cluster) StartAttacher(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	kubeconfig, err := c.KubeconfigFor(UserAttacher)
	if err != nil {
		return err
	}
	p, err := c.run(attacher, c.attacherFlags(kubeconfig))
	if err != nil {
		return err
	}
	// It opens this port after its first answer from the driver.
	metrics := "http://" + address(c.ports.attacher) + "/metrics"
	return p.await(ctx, func(ctx context.Context) error { return get(ctx, metrics, "") })
}

// KillAttacher kills csi-attacher, as a crash does.
func (c *Cluster) KillAttacher() { c.kill(attacher) }

// healthClient trusts any certificate: it asks nothing but whether somebody
// answers, on a port of this machine.
var healthClient = &http.Client{
	Timeout:   10 * time.Second,
	Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
}

// get succeeds if url answers with OK and a body that contains a text.
func get(ctx context.Context, url, contains string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token(UserHarness))
	response, err := healthClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK || !strings.Contains(string(body), contains) {
		return fmt.Errorf("%s: %s: %s", url, response.Status, body)
	}
	return nil
}
