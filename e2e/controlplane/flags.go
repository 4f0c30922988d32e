package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// auditPolicy records who wrote what, without the bodies. Leases and events are
// left out: they are many, and no part of any story told here. Of those who have
// no rights but those that a test binds to them it records all that they ask for.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  users: [` + UserViewer + `]
- level: Metadata
  userGroups: ["system:serviceaccounts"]
- level: None
  verbs: [get, list, watch]
- level: None
  resources:
  - group: coordination.k8s.io
    resources: [leases]
  - group: ""
    resources: [events]
  - group: events.k8s.io
    resources: [events]
`

// auditBodies is what Options.AuditBodies adds to it.
const auditBodies = `- level: RequestResponse
  users: [` + UserAdmin + `]
- level: Request
  verbs: [create]
  resources:
  - group: ""
    resources: [pods, persistentvolumeclaims, persistentvolumes]
`

const auditRest = `- level: Metadata
`

func (c *Cluster) auditPolicy() string {
	if c.options.AuditBodies {
		return auditPolicy + auditBodies + auditRest
	}
	return auditPolicy + auditRest
}

// ports are the TCP ports of one control plane, all on loopback.
type ports struct {
	etcdClient, etcdPeer, apiServer, controllerManager, attacher int

	lock *os.File // while it is open they are nobody else's
}

func (c *Cluster) etcdFlags() []string {
	client := "http://" + address(c.ports.etcdClient)
	peer := "http://" + address(c.ports.etcdPeer)
	return []string{
		"--data-dir=" + filepath.Join(c.dir, "etcd"),
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		"--unsafe-no-fsync", // the data need not survive the machine
		"--log-level=warn",
	}
}

func (c *Cluster) apiServerFlags() []string {
	return []string{
		"--etcd-servers=http://" + address(c.ports.etcdClient),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(c.ports.apiServer),
		"--cert-dir=" + filepath.Join(c.dir, "certs"),
		"--service-account-issuer=https://volume-doctor.test",
		"--service-account-key-file=" + filepath.Join(c.dir, "sa.key"),
		"--service-account-signing-key-file=" + filepath.Join(c.dir, "sa.key"),
		"--service-cluster-ip-range=10.0.0.0/24",
		"--token-auth-file=" + filepath.Join(c.dir, "tokens.csv"),
		"--client-ca-file=" + c.ClientAuthority(),
		"--kubelet-client-certificate=" + filepath.Join(c.dir, kubeletClient+".crt"),
		"--kubelet-client-key=" + filepath.Join(c.dir, kubeletClient+".key"),
		"--kubelet-preferred-address-types=InternalIP", // nobody resolves the nodes' names
		"--authorization-mode=RBAC",
		"--disable-admission-plugins=" + strings.Join(c.disabledPlugins(), ","),
		"--endpoint-reconciler-type=none",      // loopback is no legal endpoint
		"--feature-gates=CSIVolumeHealth=true", // else it drops the fields
		"--audit-log-path=" + c.AuditLog,
		"--audit-policy-file=" + filepath.Join(c.dir, "audit-policy.yaml"),
	}
}

// disabledPlugins are the admission plugins that want a controller which does
// not run: one that makes service accounts, those that take finalizers off.
func (c *Cluster) disabledPlugins() []string {
	disabled := []string{"ServiceAccount"}
	if !slices.Contains(c.options.Controllers, VolumeProtection) || !slices.Contains(c.options.Controllers, ClaimProtection) {
		disabled = append(disabled, "StorageObjectInUseProtection")
	}
	return disabled
}

func (c *Cluster) controllerManagerFlags(kubeconfig string) []string {
	return []string{
		"--controllers=" + strings.Join(append([]string{controllerName}, c.options.Controllers...), ","),
		"--leader-elect=false",
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(c.ports.controllerManager),
		"--attach-detach-reconcile-sync-period=" + c.options.ReconcileSyncPeriod.String(),
		"--kube-api-qps=200", "--kube-api-burst=400",
		"--v=4", // its decisions, for whoever reads the log after a failure
	}
}

func (c *Cluster) attacherFlags(kubeconfig string) []string {
	return []string{
		"--csi-address=" + c.Driver.Socket(),
		"--kubeconfig=" + kubeconfig,
		"--timeout=5s", "--retry-interval-start=500ms", "--retry-interval-max=5s",
		"--kube-api-qps=200", "--kube-api-burst=400",
		"--http-endpoint=" + address(c.ports.attacher),
		"--v=4",
	}
}

// writeInputs writes the files that the flags name.
func (c *Cluster) writeInputs() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	if err := os.WriteFile(filepath.Join(c.dir, "sa.key"), block, 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(c.dir, "audit-policy.yaml"), []byte(c.auditPolicy()), 0o600); err != nil {
		return err
	}
	if c.clients, err = newAuthority(c.ClientAuthority()); err != nil {
		return err
	}
	if err := c.clients.certifyServer(c.dir); err != nil {
		return err
	}
	return writeTokens(filepath.Join(c.dir, "tokens.csv"))
}

func (c *Cluster) apiURL() string { return "https://" + address(c.ports.apiServer) }

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// choosePorts finds free ports below the range from which systems take the ports of
// outgoing connections, so that none of those gets in between. Nor does another control
// plane of this machine: each keeps a lock on its ports, which ends with its process.
// Where one is wanted, the ports are those from there on.
func choosePorts(wanted int) (ports, error) {
	const lowest, highest, tries = 20000, 32000, 100
	var p ports
	all := []*int{&p.etcdClient, &p.etcdPeer, &p.apiServer, &p.controllerManager, &p.attacher}
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("volume-doctor-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return ports{}, fmt.Errorf("choose ports: %w", err)
	}
	for range tries {
		first := lowest + mathrand.IntN((highest-lowest)/len(all))*len(all)
		if wanted != 0 {
			first = wanted
		}
		lock, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(first)), os.O_CREATE|os.O_RDONLY, 0o600)
		if err != nil {
			return ports{}, fmt.Errorf("choose ports: %w", err)
		}
		usable := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
		for i, port := range all {
			*port = first + i
			usable = usable && free(*port)
		}
		if usable {
			p.lock = lock
			return p, nil
		}
		_ = lock.Close() // which is another's, or of no use
		if wanted != 0 {
			return ports{}, fmt.Errorf("choose ports: one of %d to %d is in use", wanted, wanted+len(all)-1)
		}
	}
	return ports{}, fmt.Errorf("choose ports: none free between %d and %d", lowest, highest)
}

func free(port int) bool {
	listener, err := net.Listen("tcp", address(port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

// maxSocketPath is what a unix socket's path may have on every system.
const maxSocketPath = 100

func socketPath(dir string) (string, error) {
	path := filepath.Join(dir, "csi.sock")
	if len(path) > maxSocketPath {
		return "", fmt.Errorf("the path of the CSI socket is too long, use a shorter directory than %s", dir)
	}
	return path, nil
}
