package btree_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weftgo/weft/btree"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
)

// TestSmoke runs every operation once for every pair of widths.
func TestSmoke(t *testing.T) { smokeAll(t, devicetest.Open(t)) }

func smokeAll(t *testing.T, dev device.Device) {
	for _, v := range []btree.Versions{btree.Whole, btree.OutOfPlace} {
		t.Run(fmt.Sprint("versions=", v), func(t *testing.T) { smokeWidths(t, dev, v) })
	}
}

func smokeWidths(t *testing.T, dev device.Device, v btree.Versions) {
	t.Run("32_32", func(t *testing.T) { smoke[uint32, uint32](t, dev, v) })
	t.Run("32_64", func(t *testing.T) { smoke[uint32, uint64](t, dev, v) })
	t.Run("64_32", func(t *testing.T) { smoke[uint64, uint32](t, dev, v) })
	t.Run("64_64", func(t *testing.T) { smoke[uint64, uint64](t, dev, v) })
}

func smoke[K, V ~uint32 | ~uint64](t *testing.T, dev device.Device, v btree.Versions) {
	m, err := btree.New[K, V](dev, &btree.Options{Versions: v})
	must(t, err)
	t.Cleanup(func() { must(t, m.Close()) })
	conformance.SmokeOrderedMap(t, dev, m)
	keys, vals := conformance.Sequence[K](0, 300), make([]V, 300)
	for _, batch := range [][]K{keys[:1], keys} { // not bulk loaded, so that nodes split and merge
		_, err := m.Put(t.Context(), batch, vals[:len(batch)])
		must(t, err)
	}
	snap, err := m.Snapshot(t.Context())
	must(t, err)
	_, err = m.Delete(t.Context(), keys, nil)
	must(t, err)
	if hits, err := snap.Get(t.Context(), keys, vals, nil); hits != len(keys) || err != nil {
		t.Errorf("%d of %d keys in a snapshot, %v", hits, len(keys), err)
	}
	must(t, snap.Close())
	must(t, m.Reclaim(t.Context()))
	must(t, m.Check(t.Context()))
	s := devicetest.NewStream(t, dev)
	if err := m.Update(t.Context(), s, 1, func(btree.Ref) error { return nil }); err != nil && !errors.Is(err, device.ErrNoKernels) {
		t.Error(err)
	}
	must(t, m.Sync(t.Context()))
	if s, err := m.Stats(t.Context()); err != nil || s.Dead != 0 {
		t.Errorf("%v, %v behind Reclaim", s, err)
	}
}

// TestSmokeLaunchesEveryKernel checks that TestSmoke covers every kernel.
func TestSmokeLaunchesEveryKernel(t *testing.T) {
	conformance.LaunchesAll(t, smokeAll, btree.Images)
}
