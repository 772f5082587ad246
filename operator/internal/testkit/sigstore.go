package testkit

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strings"
	"time"

	ct "github.com/google/certificate-transparency-go"
	cttls "github.com/google/certificate-transparency-go/tls"
	"github.com/google/certificate-transparency-go/x509util"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	prototrustroot "github.com/sigstore/protobuf-specs/gen/pb-go/trustroot/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Sigstore is an instance of its own, with real keys and no network: a certificate
// authority, a certificate log, a transparency log of either version, and a timestamp
// authority. It is safe for concurrent use.
type Sigstore struct {
	ca, tsa       chain
	rekor, tiles  *ecdsa.PrivateKey
	certificateLG *ecdsa.PrivateKey
	started       time.Time
}

// chain is a root, and what signs below it.
type chain struct {
	root, below *x509.Certificate
	key         *ecdsa.PrivateKey
}

// Part of what a keyless signature comes with, or of what a trusted root lists.
type Part string

// The parts.
const (
	PartLog            Part = "transparency log"
	PartCertificateLog Part = "certificate log"
	PartTimestamp      Part = "timestamp"
)

// Identity is who signs, and with what.
type Identity struct {
	// Subject is an email address or a URI.
	Subject string
	// Issuer of the token that proves it.
	Issuer string
	// Without leaves parts out.
	Without []Part
	// Tiles logs in version 2 of the transparency log, which gives no time: such a
	// signature needs a timestamp.
	Tiles bool
	// Logged is the content that the log entry is about, nil for what was signed; version 1
	// of the log would refuse another.
	Logged []byte
	// Stamped is the time that the timestamp authority says; zero is now.
	Stamped time.Time
	// Change is applied to the certificate before it is issued; nil changes nothing.
	Change func(*x509.Certificate)
}

func (i Identity) has(p Part) bool { return !slices.Contains(i.Without, p) }

const (
	rekorHost = "rekor.testkit.invalid"
	tilesHost = "log.testkit.invalid"
	// leafLife is how long a signer's certificate is valid, as Fulcio's are.
	leafLife = 10 * time.Minute
	caLife   = 10 * 365 * 24 * time.Hour
)

var (
	oidIssuer   = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 1}
	oidIssuerV2 = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 8}
	oidSCTs     = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 2}
	oidUsage    = asn1.ObjectIdentifier{2, 5, 29, 37}
	oidStamping = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 8}
)

// NewSigstore makes an instance with new keys.
func NewSigstore() (*Sigstore, error) {
	s := &Sigstore{started: time.Now().Add(-time.Hour)}
	for _, key := range []**ecdsa.PrivateKey{&s.rekor, &s.tiles, &s.certificateLG} {
		var err error
		if *key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return nil, fmt.Errorf("making a log's key: %w", err)
		}
	}
	var err error
	if s.ca, err = s.newChain("certificates", func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid = true, true
		c.KeyUsage, c.ExtKeyUsage = x509.KeyUsageCertSign, []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}
	}); err != nil {
		return nil, err
	}
	usage, err := asn1.Marshal([]asn1.ObjectIdentifier{oidStamping})
	if err != nil {
		return nil, fmt.Errorf("making the timestamp authority: %w", err)
	}
	s.tsa, err = s.newChain("timestamps", func(c *x509.Certificate) {
		c.KeyUsage = x509.KeyUsageDigitalSignature
		c.ExtraExtensions = []pkix.Extension{{Id: oidUsage, Critical: true, Value: usage}}
	})
	return s, err
}

func (s *Sigstore) newChain(name string, below func(*x509.Certificate)) (chain, error) {
	template := func(part string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name + " " + part, Organization: []string{"testkit"}},
			NotBefore: s.started, NotAfter: s.started.Add(caLife),
		}
	}
	rootTemplate := template("root")
	rootTemplate.IsCA, rootTemplate.BasicConstraintsValid, rootTemplate.KeyUsage = true, true, x509.KeyUsageCertSign
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return chain{}, fmt.Errorf("making the root for %s: %w", name, err)
	}
	var c chain
	if c.root, err = issue(rootTemplate, rootTemplate, rootKey.Public(), rootKey); err != nil {
		return chain{}, err
	}
	if c.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return chain{}, fmt.Errorf("making the authority for %s: %w", name, err)
	}
	belowTemplate := template("authority")
	belowTemplate.SerialNumber = big.NewInt(2)
	below(belowTemplate)
	c.below, err = issue(belowTemplate, c.root, c.key.Public(), rootKey)
	return c, err
}

func issue(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, fmt.Errorf("issuing a certificate: %w", err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("issuing a certificate: %w", err)
	}
	return c, nil
}

// certify issues a certificate for a key that signs now, with the certificate log's
// promise in it.
func (s *Sigstore) certify(by Identity, public crypto.PublicKey) (*x509.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(3), NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(leafLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	}
	issuer, err := asn1.MarshalWithParams(by.Issuer, "utf8")
	if err != nil {
		return nil, fmt.Errorf("issuing a certificate: %w", err)
	}
	template.ExtraExtensions = []pkix.Extension{{Id: oidIssuer, Value: []byte(by.Issuer)}, {Id: oidIssuerV2, Value: issuer}}
	if strings.Contains(by.Subject, "://") {
		uri, err := url.Parse(by.Subject)
		if err != nil {
			return nil, fmt.Errorf("issuing a certificate: %w", err)
		}
		template.URIs = []*url.URL{uri}
	} else {
		template.EmailAddresses = []string{by.Subject}
	}
	if by.Change != nil {
		by.Change(template)
	}
	c, err := issue(template, s.ca.below, public, s.ca.key)
	if err != nil || !by.has(PartCertificateLog) {
		return c, err
	}
	promise, err := s.promise(c)
	if err != nil {
		return nil, fmt.Errorf("logging a certificate: %w", err)
	}
	template.ExtraExtensions = append(template.ExtraExtensions, promise)
	return issue(template, s.ca.below, public, s.ca.key)
}

// promise is the extension with the certificate log's promise over the certificate as it
// is without it.
func (s *Sigstore) promise(c *x509.Certificate) (pkix.Extension, error) {
	id, err := keyID(s.certificateLG)
	if err != nil {
		return pkix.Extension{}, err
	}
	sct := ct.SignedCertificateTimestamp{SCTVersion: ct.V1, LogID: ct.LogID{KeyID: id}, Timestamp: uint64(time.Now().UnixMilli())}
	entry := ct.LogEntry{Leaf: ct.MerkleTreeLeaf{
		Version: ct.V1, LeafType: ct.TimestampedEntryLeafType,
		TimestampedEntry: &ct.TimestampedEntry{
			Timestamp: sct.Timestamp, EntryType: ct.PrecertLogEntryType,
			PrecertEntry: &ct.PreCert{IssuerKeyHash: sha256.Sum256(s.ca.below.RawSubjectPublicKeyInfo), TBSCertificate: c.RawTBSCertificate},
		},
	}}
	input, err := ct.SerializeSCTSignatureInput(sct, entry)
	if err != nil {
		return pkix.Extension{}, err
	}
	signed, err := cttls.CreateSignature(*s.certificateLG, cttls.SHA256, input)
	if err != nil {
		return pkix.Extension{}, err
	}
	sct.Signature = ct.DigitallySigned(signed)
	list, err := x509util.MarshalSCTsIntoSCTList([]*ct.SignedCertificateTimestamp{&sct})
	if err != nil {
		return pkix.Extension{}, err
	}
	raw, err := cttls.Marshal(*list)
	if err != nil {
		return pkix.Extension{}, err
	}
	value, err := asn1.Marshal(raw)
	return pkix.Extension{Id: oidSCTs, Value: value}, err
}

func keyID(key *ecdsa.PrivateKey) ([sha256.Size]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("reading a key: %w", err)
	}
	return sha256.Sum256(der), nil
}

// TrustedRootJSON is trusted_root.json of the instance, without some of its parts.
func (s *Sigstore) TrustedRootJSON(without ...Part) ([]byte, error) {
	r, err := s.TrustedRoot(without...)
	if err != nil {
		return nil, err
	}
	raw, err := protojson.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("writing the trusted root: %w", err)
	}
	return raw, nil
}

// TrustedRoot is TrustedRootJSON for who wants to change it.
func (s *Sigstore) TrustedRoot(without ...Part) (*prototrustroot.TrustedRoot, error) {
	r := &prototrustroot.TrustedRoot{
		MediaType:              "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
		CertificateAuthorities: []*prototrustroot.CertificateAuthority{s.authority("https://ca.testkit.invalid", s.ca)},
	}
	if !slices.Contains(without, PartTimestamp) {
		r.TimestampAuthorities = []*prototrustroot.CertificateAuthority{s.authority("https://tsa.testkit.invalid", s.tsa)}
	}
	logs := []struct {
		part Part
		key  *ecdsa.PrivateKey
		host string
		list *[]*prototrustroot.TransparencyLogInstance
	}{
		{PartLog, s.rekor, rekorHost, &r.Tlogs}, {PartLog, s.tiles, tilesHost, &r.Tlogs}, {PartCertificateLog, s.certificateLG, "ctlog.testkit.invalid", &r.Ctlogs},
	}
	for _, l := range logs {
		if slices.Contains(without, l.part) {
			continue
		}
		log, err := s.log(l.key, l.host)
		if err != nil {
			return nil, err
		}
		*l.list = append(*l.list, log)
	}
	return r, nil
}

func (s *Sigstore) authority(uri string, c chain) *prototrustroot.CertificateAuthority {
	return &prototrustroot.CertificateAuthority{
		Uri: uri, Subject: &protocommon.DistinguishedName{Organization: "testkit", CommonName: c.root.Subject.CommonName},
		ValidFor: &protocommon.TimeRange{Start: timestamppb.New(s.started)},
		CertChain: &protocommon.X509CertificateChain{Certificates: []*protocommon.X509Certificate{
			{RawBytes: c.below.Raw}, {RawBytes: c.root.Raw},
		}},
	}
}

func (s *Sigstore) log(key *ecdsa.PrivateKey, host string) (*prototrustroot.TransparencyLogInstance, error) {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, fmt.Errorf("writing a log's key: %w", err)
	}
	id := sha256.Sum256(der)
	return &prototrustroot.TransparencyLogInstance{
		BaseUrl: "https://" + host, HashAlgorithm: protocommon.HashAlgorithm_SHA2_256,
		PublicKey: &protocommon.PublicKey{
			RawBytes: der, KeyDetails: protocommon.PublicKeyDetails_PKIX_ECDSA_P256_SHA_256,
			ValidFor: &protocommon.TimeRange{Start: timestamppb.New(s.started)},
		},
		LogId: &protocommon.LogId{KeyId: id[:]},
	}, nil
}

func certificatesPEM(certificates ...*x509.Certificate) []byte {
	var out []byte
	for _, c := range certificates {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return out
}
