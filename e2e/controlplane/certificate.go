package controlplane

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// clientAuthority is the file of the authority for client certificates.
const clientAuthority = "clients.crt"

// authority signs client certificates.
type authority struct {
	key         crypto.Signer
	certificate *x509.Certificate
}

// newAuthority makes one and writes its certificate.
func newAuthority(path string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &authority{key: key, certificate: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "clients"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	der, err := x509.CreateCertificate(rand.Reader, a.certificate, a.certificate, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return a, os.WriteFile(path, encode("CERTIFICATE", der), 0o600)
}

// certify signs a certificate for the subject, and returns it and its key in PEM.
func (a *authority) certify(subject pkix.Name) (certificate, key []byte, err error) {
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: subject,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a.certificate, signer.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(signer)
	if err != nil {
		return nil, nil, err
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", secret), nil
}

// kubeletClient are the files of the certificate and the key with which the API server
// shows a kubelet who it is.
const kubeletClient = "kubelet-client"

// certifyServer writes them. The group is what kubeadm gives it the rights with.
func (a *authority) certifyServer(dir string) error {
	certificate, key, err := a.certify(pkix.Name{CommonName: "kube-apiserver-kubelet-client", Organization: []string{"system:masters"}})
	if err != nil {
		return err
	}
	path := filepath.Join(dir, kubeletClient)
	if err := os.WriteFile(path+".crt", certificate, 0o600); err != nil {
		return err
	}
	return os.WriteFile(path+".key", key, 0o600)
}

// ClientAuthority is the path of the certificate of the authority for clients, which a
// kubelet needs to know the API server.
func (c *Cluster) ClientAuthority() string { return filepath.Join(c.dir, clientAuthority) }

// KubeconfigWithCertificate writes a kubeconfig for a person who proves with a client
// certificate, as kubeadm's admin does, who they are. They have no rights but those
// that a test binds to the name.
func (c *Cluster) KubeconfigWithCertificate(user string) (string, error) {
	certificate, key, err := c.clients.certify(pkix.Name{CommonName: user})
	if err != nil {
		return "", fmt.Errorf("certify %s: %w", user, err)
	}
	config, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err != nil {
		return "", fmt.Errorf("certify %s: %w", user, err)
	}
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{user: {ClientCertificateData: certificate, ClientKeyData: key}}
	config.Contexts[config.CurrentContext].AuthInfo = user
	path := filepath.Join(c.dir, user+".certified.kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
