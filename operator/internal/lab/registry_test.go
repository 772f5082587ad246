package lab

import (
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func TestStartRegistry_ServesImagesAndReferrersUntilStopped(t *testing.T) {
	addr, stop, err := StartRegistry()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	image, err := random.Image(64, 1)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.NewTag(addr + "/shop/web:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, image); err != nil {
		t.Fatal(err)
	}
	want, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	got, err := remote.Head(ref)
	if err != nil || got.Digest != want {
		t.Fatalf("got %v (%v), want the digest that was pushed, %s", got, err, want)
	}
	if _, err := remote.Referrers(ref.Context().Digest(want.String())); err != nil {
		t.Errorf("referrers: %v", err)
	}
	stop()
	stop()
	if _, err := remote.Head(ref); err == nil {
		t.Error("a stopped registry answers")
	}
}
