//go:build !linux

// Package footprint keeps a short-lived program small.
package footprint

// Forget gives back memory where it is known how.
func Forget() {}
