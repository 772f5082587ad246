package lab

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// authority signs the certificates of one cluster. Its key is never written down, so
// that nothing outside the lab can join or impersonate it later.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// keyPair is a certificate and its key, in PEM.
type keyPair struct{ cert, key []byte }

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("key of the lab's certificate authority: %w", err)
	}
	template := certificate(pkix.Name{CommonName: "sluice-lab"})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("certificate of the lab's authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("certificate of the lab's authority: %w", err)
	}
	return &authority{cert: cert, key: key, pem: encode("CERTIFICATE", der)}, nil
}

// server makes a certificate for loopback and the names of the API service. etcd uses
// it as a client too, for the gateway inside it.
func (a *authority) server() (keyPair, error) {
	template := certificate(pkix.Name{CommonName: "sluice-lab-server"})
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	template.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	return a.sign(template)
}

// client makes a certificate that the API server knows as this user.
func (a *authority) client(user string, groups ...string) (keyPair, error) {
	template := certificate(pkix.Name{CommonName: user, Organization: groups})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.sign(template)
}

func (a *authority) sign(template *x509.Certificate) (keyPair, error) {
	name := template.Subject.CommonName
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, fmt.Errorf("key of %s: %w", name, err)
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return keyPair{}, fmt.Errorf("serial number for %s: %w", name, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return keyPair{}, fmt.Errorf("certificate of %s: %w", name, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return keyPair{}, err
	}
	return keyPair{cert: encode("CERTIFICATE", der), key: keyPEM}, nil
}

// certificate starts an hour ago, for clocks that were set back in between.
func certificate(subject pkix.Name) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      subject,
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(limits.LabCertificate),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return encode("EC PRIVATE KEY", der), nil
}

// files of the control plane, by path.
type files struct{ ca, serverCert, serverKey, clientCert, clientKey, accountKey string }

// writeFiles writes what etcd and kube-apiserver read from disk into folder.
func writeFiles(folder string, ca *authority) (files, error) {
	server, err := ca.server()
	if err != nil {
		return files{}, err
	}
	client, err := ca.client("kube-apiserver-etcd-client")
	if err != nil {
		return files{}, err
	}
	account, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return files{}, fmt.Errorf("key of the service accounts: %w", err)
	}
	accountPEM, err := encodeKey(account)
	if err != nil {
		return files{}, err
	}
	f := files{}
	for _, file := range []struct {
		path    *string
		name    string
		content []byte
	}{
		{&f.ca, "ca.crt", ca.pem},
		{&f.serverCert, "server.crt", server.cert}, {&f.serverKey, "server.key", server.key},
		{&f.clientCert, "etcd-client.crt", client.cert}, {&f.clientKey, "etcd-client.key", client.key},
		{&f.accountKey, "service-accounts.key", accountPEM},
	} {
		*file.path = filepath.Join(folder, file.name)
		if err := os.WriteFile(*file.path, file.content, 0o600); err != nil {
			return files{}, fmt.Errorf("certificates of the lab: %w", err)
		}
	}
	return f, nil
}
