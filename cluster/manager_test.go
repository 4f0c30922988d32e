package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/volume-doctor/kubectl-volume-doctor/evidence/metrics"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

const managerMetricsText = `# HELP attachdetach_controller_total_volumes [ALPHA] Number of volumes in A/D Controller
# TYPE attachdetach_controller_total_volumes gauge
attachdetach_controller_total_volumes{plugin_name="kubernetes.io/csi:d",state="actual_state_of_world"} 4811
attachdetach_controller_total_volumes{plugin_name="kubernetes.io/csi:d",state="desired_state_of_world"} 4810
attachdetach_controller_total_volumes{plugin_name="kubernetes.io/fc",state="actual_state_of_world"} 2
# HELP kubernetes_build_info [ALPHA] A metric with a constant '1' value
# TYPE kubernetes_build_info gauge
kubernetes_build_info{build_date="",git_version="v1.35.4",major="1",minor="35"} 1
# TYPE workqueue_depth gauge
workqueue_depth{name="x"} 7
`

const (
	managerLease = `{"kind":"LeaseList","apiVersion":"coordination.k8s.io/v1","items":[{"metadata":{"namespace":"kube-system","name":"kube-controller-manager"},"spec":{"holderIdentity":%q}}]}`
	managerPod   = `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"namespace":"kube-system","name":"kube-controller-manager-cp1"},
"spec":{"nodeName":"cp1","containers":[{"name":"c","image":"registry.k8s.io/kube-controller-manager:v1.35.3","command":["kube-controller-manager","--disable_force_detach_on_timeout","--root-ca-file=/secret"],"args":["sh -c --secure-port=4711"]}]},"status":{"phase":"Running"}}]}`
)

// controlPlane is an API server with a kubelet behind it that forwards ports, and the
// kube-controller-manager at the port.
type controlPlane struct {
	lease, pod string
	// forward answers for the kubelet in place of a connection.
	forward http.HandlerFunc
	// manager answers at the port.
	manager http.HandlerFunc
	// asked are the authorizations and certificates that came to the port.
	authorization string
	certificates  int
	port          string
}

func (p *controlPlane) start(t *testing.T, edit func(*rest.Config)) *Cluster {
	t.Helper()
	manager := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.authorization, p.certificates = r.Header.Get("Authorization"), len(r.TLS.PeerCertificates)
		p.manager(w, r)
	}))
	manager.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	manager.StartTLS()
	t.Cleanup(manager.Close)
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases":
			_, _ = io.WriteString(w, p.lease)
		case r.URL.Path == "/api/v1/namespaces/kube-system/pods":
			_, _ = io.WriteString(w, p.pod)
		case r.URL.Path == "/api/v1/namespaces/kube-system/pods/kube-controller-manager-cp1/portforward" && r.Method == http.MethodPost:
			if p.forward != nil {
				p.forward(w, r)
				return
			}
			p.connect(w, r, manager.Listener.Addr().String())
		default:
			t.Errorf("nobody serves %s %s", r.Method, r.URL)
		}
	}))
	t.Cleanup(api.Close)
	config := &rest.Config{Host: api.URL, BearerToken: "hunter2", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	config.CertData, config.KeyData = certificate(t)
	if edit != nil {
		edit(config)
	}
	c, err := New(config, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (p *controlPlane) connect(w http.ResponseWriter, r *http.Request, target string) {
	if _, err := httpstream.Handshake(r, w, []string{portForwardV1}); err != nil {
		return
	}
	streams := make(chan httpstream.Stream, 2)
	connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	})
	if connection == nil {
		return
	}
	var failures httpstream.Stream
	for s := range streams {
		p.port = s.Headers().Get(corev1.PortHeader)
		if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
			failures = s
			continue
		}
		conn, err := net.Dial("tcp", target)
		if err != nil || p.manager == nil {
			_, _ = io.WriteString(failures, "dial tcp4 127.0.0.1:4711: connect: connection refused")
			_ = failures.Close()
			_ = s.Reset()
			break
		}
		go func() { _, _ = io.Copy(conn, s) }()
		_, _ = io.Copy(s, conn)
		_ = s.Reset()
		break
	}
	<-connection.CloseChan()
}

// certificate is a client certificate and its key.
func certificate(t *testing.T) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "jane"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

func working() *controlPlane {
	return &controlPlane{lease: fmt.Sprintf(managerLease, "CP1_4d0d"), pod: managerPod, manager: says(managerMetricsText)}
}

// TestAskManager: the one that the lease names is asked, at the port that it has, with a
// certificate and without the token.
func TestAskManager(t *testing.T) {
	p := working()
	m := p.start(t, nil).askManager(t.Context(), new(clock))
	if m.Gap != "" || m.Pod != "kube-controller-manager-cp1" || m.Identity != "CP1_4d0d" || m.Release != "v1.35.4" || p.port != "4711" {
		t.Errorf("port %s, %+v", p.port, m.ControllerManager)
	}
	if len(m.Flags) != 1 || m.Flags["disable-force-detach-on-timeout"] != "true" {
		t.Errorf("flags %v", m.Flags)
	}
	if p.authorization != "" || p.certificates != 1 {
		t.Errorf("authorization %q, %d certificates", p.authorization, p.certificates)
	}
	held := m.first.Same(m.first)
	if len(held) != 2 || *held[0].Actual != 4811 || *held[0].Desired != 4810 || *held[1].Actual != 2 || held[1].Desired != nil {
		t.Errorf("%+v", held)
	}
	later := &metrics.Manager{Volumes: map[[2]string]int{{metrics.ActualState, "kubernetes.io/csi:d"}: 4812, {metrics.DesiredState, "kubernetes.io/csi:d"}: 4810}}
	if held := m.first.Same(later); len(held) != 1 || held[0].Actual != nil || *held[0].Desired != 4810 {
		t.Errorf("a number that changed, and one that went: %+v", held)
	}
}

// TestAskManagerGaps: whatever is missing or wrong is said in a line, and nothing is
// made of it.
func TestAskManagerGaps(t *testing.T) {
	for name, test := range map[string]struct {
		edit   func(*controlPlane)
		config func(*rest.Config)
		want   string
	}{
		"no lease":              {edit: func(p *controlPlane) { p.lease = `{"items":[]}` }, want: "no lease shows"},
		"a lease nobody holds":  {edit: func(p *controlPlane) { p.lease = fmt.Sprintf(managerLease, "") }, want: "no lease shows"},
		"a holder of no host":   {edit: func(p *controlPlane) { p.lease = fmt.Sprintf(managerLease, "x,metadata.name=y_1") }, want: "is not named as"},
		"no pod":                {edit: func(p *controlPlane) { p.pod = `{"items":[]}` }, want: "no pod kube-system/kube-controller-manager-cp1 runs"},
		"the pod has ended":     {edit: func(p *controlPlane) { p.pod = strings.Replace(p.pod, "Running", "Failed", 1) }, want: "runs"},
		"not JSON":              {edit: func(p *controlPlane) { p.pod = "<html>" }, want: "not what such a server answers"},
		"no port":               {edit: func(p *controlPlane) { p.pod = strings.Replace(p.pod, "4711", "0", 1) }, want: "no secure port"},
		"a port that is none":   {edit: func(p *controlPlane) { p.pod = strings.Replace(p.pod, "4711", "99999", 1) }, want: "no secure port"},
		"no right to forward":   {edit: func(p *controlPlane) { p.forward = refuses(403, "Forbidden", "no") }, want: "create pods/portforward"},
		"no kubelet":            {edit: func(p *controlPlane) { p.forward = refuses(500, "InternalError", "dial tcp: no route to host") }, want: "no route to host"},
		"no such protocol":      {edit: func(p *controlPlane) { p.forward = says("hello") }, want: "OK when asked for port-forward"},
		"nobody at the port":    {edit: func(p *controlPlane) { p.manager = nil }, want: "connection refused"},
		"no right to metrics":   {edit: func(p *controlPlane) { p.manager = refuses(403, "Forbidden", "no") }, want: "the right to get /metrics"},
		"no metrics":            {edit: func(p *controlPlane) { p.manager = http.NotFound }, want: "answers Not Found"},
		"no numbers":            {edit: func(p *controlPlane) { p.manager = says("attachdetach_controller_total_volumes{} x\n") }, want: "not what such a server answers"},
		"half a volume":         {edit: func(p *controlPlane) { p.manager = says(`attachdetach_controller_total_volumes{state="s"} 1.5` + "\n") }, want: "is 1.5"},
		"a line without an end": {edit: func(p *controlPlane) { p.manager = says(strings.Repeat("x", metrics.MostLine+1)) }, want: "not what such a server answers"},
		"metrics without an end": {edit: func(p *controlPlane) {
			p.manager = func(w http.ResponseWriter, _ *http.Request) {
				for range managerSays/1024 + 2 {
					_, _ = io.WriteString(w, strings.Repeat("x", 1023)+"\n")
				}
			}
		}, want: "larger than 32 MiB"},
		"no certificate": {config: func(c *rest.Config) { c.CertData, c.KeyData = nil, nil }, want: "a token is not sent"},
		"somebody else":  {config: func(c *rest.Config) { c.Impersonate.UserName = "joe" }, want: "--as"},
	} {
		t.Run(name, func(t *testing.T) {
			p := working()
			if test.edit != nil {
				test.edit(p)
			}
			m := p.start(t, test.config).askManager(t.Context(), new(clock))
			if !strings.Contains(m.Gap, test.want) || strings.Contains(m.Gap, "\n") || m.first != nil || m.First != nil {
				t.Errorf("%+v", m.ControllerManager)
			}
			if p.authorization != "" {
				t.Error("the token was sent")
			}
		})
	}
}

// TestAskManagerInTime: neither an API server nor a port that never answers holds up
// the command.
func TestAskManagerInTime(t *testing.T) {
	for name, edit := range map[string]func(p *controlPlane, silent http.HandlerFunc){
		"the API server": func(p *controlPlane, silent http.HandlerFunc) { p.forward = silent },
		"the port":       func(p *controlPlane, silent http.HandlerFunc) { p.manager = silent },
	} {
		t.Run(name, func(t *testing.T) {
			p, over := working(), make(chan struct{})
			edit(p, func(http.ResponseWriter, *http.Request) { <-over })
			c := p.start(t, nil)
			t.Cleanup(func() { close(over) })
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if _, err := c.managerMetrics(ctx, "kube-controller-manager-cp1", 10257); err == nil {
				t.Error("it answered")
			}
		})
	}
}

// TestFinishManager: the numbers count for the leader alone, and only those that stand.
func TestFinishManager(t *testing.T) {
	c := working().start(t, nil)
	m := c.askManager(t.Context(), new(clock))
	s := snapshot.New(time.Now(), snapshot.Source{}, snapshot.Objects{}, nil)
	if err := m.finish(t.Context(), s, new(clock)); err != nil || s.Manager.Gap == "" || s.Manager.Held != nil || s.Manager.Pod != "" {
		t.Errorf("%v: without its lease: %+v", err, s.Manager)
	}
}
