// Package digests says what a digest is for Sluice: SHA-256, in the one form that an image,
// its layers, policies and evidence go by. It is pure.
package digests

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Prefix is what a digest begins with: 64 hexadecimal digits in lower case follow.
const Prefix = "sha256:"

const length = len(Prefix) + 2*sha256.Size

// Valid says whether s is a digest. SHA-512 is none: what is compared by its digest must
// not be known by two.
func Valid(s string) bool {
	if len(s) != length || !strings.HasPrefix(s, Prefix) { // much else is asked about, and an error is dear
		return false
	}
	_, err := v1.NewHash(s)
	return err == nil
}

// Validate says why a text is not a digest.
func Validate(s string) error {
	if !Valid(s) {
		return fmt.Errorf("%.100q is no digest: it is sha256: and 64 hexadecimal digits in lower case", s)
	}
	return nil
}

// Hex is a digest without Prefix, as in-toto writes it behind the name of its algorithm.
func Hex(digest string) string { return strings.TrimPrefix(digest, Prefix) }

// Of is the digest of content.
func Of(content []byte) string {
	sum := sha256.Sum256(content)
	return Prefix + hex.EncodeToString(sum[:])
}
