package admission

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

const (
	// authorityLife and servingLife are renewed after two thirds. A serving certificate is
	// short-lived since it costs nothing to make; the authority outlives several.
	authorityLife = 365 * 24 * time.Hour
	servingLife   = 90 * 24 * time.Hour
	// clockSkew between the operator and the API server that is tolerated.
	clockSkew = time.Hour
)

// pair is a certificate with its key, both in PEM.
type pair struct{ cert, key []byte }

// renewAt is when two thirds of a certificate's life are over.
func renewAt(c *x509.Certificate) time.Time {
	return c.NotBefore.Add(c.NotAfter.Sub(c.NotBefore) * 2 / 3)
}

func newAuthority(now time.Time) (pair, error) {
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "sluice webhook authority"},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(authorityLife),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IsCA:     true, BasicConstraintsValid: true,
	}
	return sign(template, nil)
}

func newServing(now time.Time, hosts []string, authority pair) (pair, error) {
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: hosts[0]},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(servingLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	return sign(template, &authority)
}

// sign makes a key and a certificate for it, by the authority or by itself.
func sign(template *x509.Certificate, authority *pair) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("make key: %w", err)
	}
	// 127 bits keep the serial positive and within the 20 bytes that RFC 5280 allows.
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return pair{}, fmt.Errorf("make serial: %w", err)
	}
	parent, signer := template, key
	if authority != nil {
		if parent, err = parseCertificate(authority.cert); err != nil {
			return pair{}, err
		}
		if signer, err = parseKey(authority.key); err != nil {
			return pair{}, err
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return pair{}, fmt.Errorf("make certificate: %w", err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return pair{}, fmt.Errorf("encode key: %w", err)
	}
	return pair{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
	}, nil
}

// parseCertificate parses the first certificate of a PEM bundle.
func parseCertificate(raw []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(raw)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("no certificate in PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}

func parseKey(raw []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, errors.New("no key in PEM")
	}
	return x509.ParseECPrivateKey(block.Bytes)
}

// authorityDue says when an authority has to be renewed; a zero time means that it cannot
// be used.
func authorityDue(p pair) time.Time {
	cert, err := usable(p)
	if err != nil || !cert.IsCA {
		return time.Time{}
	}
	return renewAt(cert)
}

// servingDue says when a serving pair has to be renewed; a zero time means that it cannot
// be used for all hosts under the authorities of the bundle.
func servingDue(p pair, bundle []byte, hosts []string, now time.Time) time.Time {
	cert, err := usable(p)
	if err != nil {
		return time.Time{}
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return time.Time{}
	}
	for _, h := range hosts {
		if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: h, CurrentTime: now}); err != nil {
			return time.Time{}
		}
	}
	return renewAt(cert)
}

// usable parses a pair whose key belongs to its certificate.
func usable(p pair) (*x509.Certificate, error) {
	if _, err := tls.X509KeyPair(p.cert, p.key); err != nil {
		return nil, err
	}
	if _, err := parseKey(p.key); err != nil {
		return nil, err
	}
	return parseCertificate(p.cert)
}
