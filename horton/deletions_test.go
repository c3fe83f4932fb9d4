package horton_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/horton"
	"github.com/weftgo/weft/internal/conformance"
)

// Lazy counts deleted keys. Deletes that find no key cause no reclaim, however many they are.
func TestReclaimCountsKeys(t *testing.T) {
	for name, dev := range map[string]device.Device{"CPU": devicetest.OpenCPU(t, 2), "GPU": devicetest.OpenSim(t, &sim.Options{Arch: 90})} {
		t.Run(name, func(t *testing.T) {
			if name == "GPU" && testing.Short() {
				t.Skip("interprets kernels")
			}
			reclaimsForKeys(t, dev)
		})
	}
}

func reclaimsForKeys(t *testing.T, dev device.Device) {
	const n = 400
	var log strings.Builder
	m := conformance.Open(t, horton.New[uint32, uint32], dev, &horton.Options{
		Capacity: 4 * n, Fixed: true, Seed: 3, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	keys, none := conformance.Sequence[uint32](1, n), conformance.Sequence[uint32](n+1, n)
	s := devicetest.NewStream(t, dev)
	on, absent, one := devicetest.Upload(t, s, keys), devicetest.Upload(t, s, none), devicetest.Upload(t, s, keys[:1])
	flags := device.Slice[bool]{}
	mixed := make([]weft.Op[uint32, uint32], 0, 2*n)
	for i := range keys {
		mixed = append(mixed, weft.Op[uint32, uint32]{Kind: weft.OpGet, Key: keys[i]}, weft.Op[uint32, uint32]{Kind: weft.OpDelete, Key: none[i]})
	}
	host := func(keys []uint32) error { _, err := m.Delete(t.Context(), keys, nil); return err }
	deleteAbsent := func() error { return errors.Join(m.DeleteOn(s, absent, flags), m.PutOn(s, one, one)) }
	// The table reclaims after batches on streams before this insertion.
	put := func() error { return errors.Join(m.PutOn(s, one, one), m.Sync(t.Context())) }
	for _, c := range []struct {
		what     string
		run      func() error
		reclaims int
	}{
		{"keys", func() error { return errors.Join(m.PutOn(s, on, on), m.Sync(t.Context())) }, 0},
		{"deletes of absent keys", func() error { return host(none) }, 0},
		{"mixed operations", func() error { return m.Apply(t.Context(), mixed, make([]weft.Result[uint32], len(mixed))) }, 0},
		{"deletes of absent keys on a stream", func() error { return errors.Join(m.DeleteOn(s, absent, flags), put(), put()) }, 0},
		{"few deletes", func() error { return host(keys[n-n/10:]) }, 0},
		{"deletes on a stream", func() error { return errors.Join(m.DeleteOn(s, on.Sub(n/2, n-n/10), flags), put()) }, 1},
		{"other deletes", func() error { return host(keys[1 : n/4]) }, 1},
		{"deletes of keys, then of absent ones, on a stream", func() error {
			return errors.Join(m.PutOn(s, on, on), m.DeleteOn(s, on.Sub(n/2, n), flags), deleteAbsent(), deleteAbsent(), deleteAbsent(), put())
		}, 1},
		{"deletes of absent keys behind a rehash", func() error { return errors.Join(m.Compact(t.Context()), deleteAbsent(), deleteAbsent(), put()) }, 0},
		{"deletes of absent keys of an empty table", func() error { return errors.Join(m.Clear(t.Context()), deleteAbsent(), deleteAbsent(), put()) }, 0},
	} {
		log.Reset()
		if err := errors.Join(c.run(), m.CheckInvariants()); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if n := strings.Count(log.String(), "horton: reclaim"); n != c.reclaims {
			t.Errorf("%s: tables are reclaimed %d times, want %d", c.what, n, c.reclaims)
		}
	}
}
