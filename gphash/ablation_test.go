package gphash

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/ablation"
	"github.com/weftgo/weft/internal/gpu"
)

// leavesOut is a test whose indexes are opened without something.
type leavesOut struct {
	testing.TB
	what ablation.Without
}

func (t leavesOut) Context() context.Context { return ablation.Context(t.TB.Context(), t.what) }

// Without fences a crash loses what was acknowledged: they are gone from all kernels.
func TestWithoutFences(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	images, failed := exploreKernels(leavesOut{t, ablation.Without{Fences: true}}, 0, 100_000, nil)
	if failed == "" {
		t.Fatalf("no crash in %d images loses anything", images)
	}
	t.Logf("found after %d images: %.100s", images, failed)
}

// Single threads lose nothing in a crash.
func TestCrashesWithoutWarps(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	images, failed := exploreKernels(leavesOut{t, ablation.Without{Warps: true}}, 0, *crashStates/100, nil)
	if failed != "" {
		t.Fatal(failed)
	}
	t.Logf("%d images of crashes", images)
}

// Nothing is left out unless the context says so.
func TestNothingIsLeftOut(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev := devicetest.OpenSim(t, nil)
	for _, without := range []ablation.Without{{}, {Fences: true}, {Rounds: true}, {Warps: true}, {States: true}} {
		tr := leavesOut{t, without}
		path := filepath.Join(memoryDir(t), "pool")
		x, err := Create(path, dev, Options{KeySize: 8, ValueSize: 8})
		must(t, err)
		must(t, x.Close())
		x, _, err = Open(tr.Context(), path, dev, OpenOptions{})
		must(t, err)
		k := &x.engine.far.(*gpuEngine).k
		if got := k.table.Load().ref.unfenced != 0; got != without.Fences {
			t.Errorf("%+v: unfenced %v", without, got)
		}
		if got := k.round(1 << 22); (got == 1) != without.Rounds {
			t.Errorf("%+v: rounds of %d", without, got)
		}
		if got := k.inRounds(1<<10, 1); (got == gpu.Grid(1<<10)) != without.Warps {
			t.Errorf("%+v: launches of %v", without, got)
		}
		if k.stateless != without.States {
			t.Errorf("%+v: stateless %v", without, k.stateless)
		}
		must(t, x.Close())
	}
}
