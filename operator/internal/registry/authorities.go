package registry

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
)

// WithAuthorities returns a transport that also trusts the certificate authorities in
// PEM files, for registries with a private CA. Without files it trusts those of the
// system.
func WithAuthorities(files []string) (*http.Transport, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if len(files) == 0 {
		return transport, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("system certificates: %w", err)
	}
	for _, file := range files {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: no certificate in PEM", file)
		}
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return transport, nil
}
