package controlplane

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// The users of the API server. Each part of the test has its own, so that the
// audit log tells who wrote what. All may do everything but the viewer and the
// limited attacher.
const (
	// UserAdmin is the person at the keyboard: the kubeconfig of the command
	// under test.
	UserAdmin = "admin"
	// UserViewer has no rights but those that a test binds to it.
	UserViewer = "viewer"
	// UserHarness is the test itself, building and breaking worlds.
	UserHarness = "harness"
	// UserKubelet is every kubelet stand-in.
	UserKubelet = "kubelet"
	// UserController is the kube-controller-manager.
	UserController = "system:kube-controller-manager"
	// UserAttacher is the csi-attacher.
	UserAttacher = "csi-attacher"
	// UserLimited is a csi-attacher that has no rights but those that a test binds
	// to it.
	UserLimited = "limited-attacher"
)

var users = []string{UserAdmin, UserViewer, UserHarness, UserKubelet, UserController, UserAttacher, UserLimited}

// token is the bearer token of a user. The server listens on loopback only and
// lives as long as a test, so it need not be a secret.
func token(user string) string {
	return "token-of-" + strings.ReplaceAll(user, ":", "-")
}

// writeTokens writes the file for --token-auth-file.
func writeTokens(path string) error {
	var b strings.Builder
	for _, user := range users {
		groups := "system:masters"
		if user == UserViewer || user == UserLimited {
			groups = ""
		}
		fmt.Fprintf(&b, "%s,%s,%s,%q\n", token(user), user, user, groups)
	}
	return os.WriteFile(path, []byte(b.String()), 0o600)
}

// KubeconfigFor returns the path of a kubeconfig for one of the users named
// above. It holds everything needed and may be copied.
func (c *Cluster) KubeconfigFor(user string) (string, error) {
	if !slices.Contains(users, user) {
		return "", fmt.Errorf("find kubeconfig: no user %q, only %v", user, users)
	}
	return filepath.Join(c.dir, strings.ReplaceAll(user, ":", "-")+".kubeconfig"), nil
}

// writeKubeconfigs writes the kubeconfigs of all users, once the server has
// made its certificate.
func (c *Cluster) writeKubeconfigs() error {
	ca, err := os.ReadFile(filepath.Join(c.dir, "certs", "apiserver.crt"))
	if err != nil {
		return fmt.Errorf("write kubeconfigs: %w", err)
	}
	const name = "volume-doctor-e2e"
	for _, user := range users {
		path, err := c.KubeconfigFor(user)
		if err != nil {
			return err
		}
		config := clientcmdapi.NewConfig()
		config.Clusters[name] = &clientcmdapi.Cluster{Server: c.apiURL(), CertificateAuthorityData: ca}
		config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token(user)}
		config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
		config.CurrentContext = name
		if err := clientcmd.WriteToFile(*config, path); err != nil {
			return fmt.Errorf("write kubeconfigs: %w", err)
		}
	}
	return nil
}
