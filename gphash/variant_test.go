package gphash

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/variant"
)

// varied is a test that opens its indexes with a variant.
type varied struct {
	testing.TB
	as variant.GPHash
}

func (t varied) Context() context.Context { return variant.Context(t.TB.Context(), t.as) }

// If a variant removes the fences from all kernels, a crash loses acknowledged operations.
func TestWithoutFences(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	images, failed := exploreKernels(varied{t, variant.GPHash{Unfenced: true}}, 0, 100_000, nil)
	if failed == "" {
		t.Fatalf("no crash in %d images loses anything", images)
	}
	t.Logf("found after %d images: %.100s", images, failed)
}

// Launches have the shape that the context gives, or otherwise the default shape.
func TestShapes(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev := devicetest.OpenSim(t, nil)
	for _, as := range []variant.GPHash{{}, {Unfenced: true}, {MaxRound: 1}, {Lanes: 1}} {
		path := filepath.Join(memoryDir(t), "pool")
		x, err := Create(path, dev, Options{KeySize: 8, ValueSize: 8})
		must(t, err)
		must(t, x.Close())
		x, _, err = Open(varied{t, as}.Context(), path, dev, OpenOptions{})
		must(t, err)
		k := &x.engine.accel.(*gpuEngine).k
		if got := k.table.Load().ref.unfenced != 0; got != as.Unfenced {
			t.Errorf("%+v: unfenced %v", as, got)
		}
		if got := k.opsPerWarp(1 << 22); (got == 1) != (as.MaxRound == 1) {
			t.Errorf("%+v: rounds of %d", as, got)
		}
		if got := k.roundGrid(1<<10, 1); (got == gpu.Grid(1<<10)) != (as.Lanes == 1) {
			t.Errorf("%+v: launches of %v", as, got)
		}
		must(t, x.Close())
	}
}
