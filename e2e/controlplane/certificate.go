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

// KubeconfigWithCertificate writes a kubeconfig for a person who proves with a client
// certificate, as kubeadm's admin does, who they are. They have no rights but those
// that a test binds to the name.
func (c *Cluster) KubeconfigWithCertificate(user string) (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: user},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, c.clients.certificate, key.Public(), c.clients.key)
	if err != nil {
		return "", fmt.Errorf("certify %s: %w", user, err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", err
	}
	config, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err != nil {
		return "", fmt.Errorf("certify %s: %w", user, err)
	}
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{user: {ClientCertificateData: encode("CERTIFICATE", der), ClientKeyData: encode("PRIVATE KEY", secret)}}
	config.Contexts[config.CurrentContext].AuthInfo = user
	path := filepath.Join(c.dir, user+".certified.kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
