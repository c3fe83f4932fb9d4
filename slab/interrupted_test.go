package slab

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/conformance"
)

// patience is a context that ends when it has been looked at a number of
// times.
type patience struct {
	context.Context
	looks atomic.Int64
}

func (p *patience) Err() error {
	if p.looks.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

func (p *patience) Done() <-chan struct{} { return nil }

// devices are those whose engines a test runs on.
func devices(t *testing.T) map[string]device.Device {
	return map[string]device.Device{"cpu": devicetest.OpenCPU(t, 2), "sim": devicetest.OpenSim(t, nil)}
}

// numbers are n keys from a first one on.
func numbers(first, n int) []uint32 {
	keys := make([]uint32, n)
	for i := range keys {
		keys[i] = uint32(first + i)
	}
	return keys
}

// Whenever a context ends, what a call has begun is finished: the structure is
// whole, and holds all or nothing of what it held.
func TestCancelledAtAnyLook(t *testing.T) {
	const n = 300
	calls := map[string]func(m *Map[uint32, uint32], ctx context.Context) error{
		"Clear":   func(m *Map[uint32, uint32], ctx context.Context) error { return m.Clear(ctx) },
		"Compact": func(m *Map[uint32, uint32], ctx context.Context) error { return m.Compact(ctx) },
	}
	for on, dev := range devices(t) {
		for name, call := range calls {
			for looks := range 9 {
				t.Run(fmt.Sprintf("%s/%s/%d", on, name, looks), func(t *testing.T) {
					m := conformance.Open(t, New[uint32, uint32], dev, &Options{Buckets: 2, Seed: 1, MaxTombstones: -1})
					keys := numbers(1, n)
					_, err := m.Put(t.Context(), keys, keys)
					_, derr := m.Delete(t.Context(), keys[:n/2], nil)
					if err := errors.Join(err, derr); err != nil {
						t.Fatal(err)
					}
					p := &patience{Context: t.Context()}
					p.looks.Store(int64(looks))
					err = call(m, p)
					left := n / 2
					if name == "Clear" && err == nil {
						left = 0
					}
					if m.Len() != left {
						t.Errorf("%v: %d keys", err, m.Len())
					}
					others := numbers(1000, n)
					if got, err := m.Put(t.Context(), others, others); got != n || err != nil {
						t.Errorf("Put behind it: %d, %v", got, err)
					}
					if hits, err := m.Contains(t.Context(), append(keys, others...), nil); hits != left+n || err != nil {
						t.Errorf("Contains: %d, %v", hits, err)
					}
					if err := m.CheckInvariants(); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

// A batch on the device for which the pool has just enough units finds them,
// wherever they are.
func TestPoolAlmostFull(t *testing.T) {
	const buckets, free = 200, 210
	ctx := t.Context()
	for on, dev := range devices(t) {
		t.Run(on, func(t *testing.T) {
			m := conformance.Open(t, New[uint32, uint32], dev, &Options{Buckets: buckets, Seed: 1})
			// Every bucket is full, and gets one key more.
			count := make([]int, buckets)
			var full, more []uint32
			for k := uint32(1); len(more) < buckets; k++ {
				b := bucketOf(m.policy.engine.geometry(), k)
				switch count[b]++; {
				case count[b] <= 15:
					full = append(full, k)
				case count[b] == 16:
					more = append(more, k)
				}
			}
			if _, err := m.Put(ctx, full, full); err != nil {
				t.Fatal(err)
			}
			pool := m.policy.engine.units()
			s, err := m.policy.countPool(ctx)
			if err != nil {
				t.Fatal(err)
			}
			taken := make([]uint32, s.Units-s.Used-free)
			if _, err := pool.Allocate(ctx, taken); err != nil {
				t.Fatal(err)
			}
			if _, err := m.policy.countPool(ctx); err != nil {
				t.Fatal(err)
			}
			stream, err := dev.NewStream()
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			keys, err := device.Upload(stream, more)
			if err != nil {
				t.Fatal(err)
			}
			defer keys.Free()
			if err := errors.Join(m.PutOn(stream, keys, keys), m.Sync(ctx)); err != nil {
				t.Error(err)
			}
			if m.Len() != len(full)+len(more) {
				t.Errorf("%d keys of %d", m.Len(), len(full)+len(more))
			}
			if _, err := pool.Free(ctx, taken); err != nil {
				t.Error(err)
			}
		})
	}
}

// Looking keys up in a mixed batch, or deleting them, makes nothing grow.
func TestLookupsMakeNothingGrow(t *testing.T) {
	for on, dev := range devices(t) {
		for _, kind := range []weft.OpKind{weft.OpGet, weft.OpDelete} {
			m := conformance.Open(t, New[uint32, uint32], dev, nil)
			if _, err := m.Put(t.Context(), []uint32{1}, []uint32{1}); err != nil {
				t.Fatal(err)
			}
			const n = 1 << 10
			ops, kinds := make([]weft.Op[uint32, uint32], n), make([]weft.OpKind, n)
			for i := range ops {
				ops[i], kinds[i] = weft.Op[uint32, uint32]{Kind: kind, Key: uint32(i + 10)}, kind
			}
			s, err := dev.NewStream()
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			keys, kerr := device.Upload(s, numbers(10, n))
			on1, oerr := device.Upload(s, kinds)
			if err := errors.Join(kerr, oerr, m.Apply(t.Context(), ops, nil),
				m.ApplyOn(s, on1, keys, keys, device.Slice[bool]{}), m.Sync(t.Context()), keys.Free(), on1.Free()); err != nil {
				t.Fatal(err)
			}
			if got := m.policy.engine.geometry().buckets; got != 1 {
				t.Errorf("%s: %v: %d buckets", on, kind, got)
			}
		}
	}
}

// A failure while duplicates are resolved leaves nothing behind that a later,
// smaller batch would stumble over.
func TestFailureWhileResolving(t *testing.T) {
	keys, vals := make([]uint32, 256), make([]uint32, 256)
	for i := range keys {
		keys[i], vals[i] = uint32(i%128)*7919, uint32(i)
	}
	for n, fired := 0, true; fired; n++ {
		simulated, err := sim.Open(nil)
		if err != nil {
			t.Fatal(err)
		}
		dev := devicetest.Checked(t, simulated)
		m, err := New[uint32, uint32](dev, &Options{Capacity: 4000, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		s, err := dev.NewStream()
		if err != nil {
			t.Fatal(err)
		}
		few, err := device.Upload(s, keys[120:136])
		if _, perr := m.Put(t.Context(), numbers(5000, 256), vals); err != nil || perr != nil {
			t.Fatal(err, perr)
		}
		hit := devicetest.FailAfter(dev, n)
		_, _ = m.Put(t.Context(), keys, vals) // may fail anywhere
		fired = hit()
		devicetest.Heal(dev)
		if err := errors.Join(m.PutOn(s, few, few), m.Sync(t.Context()), few.Free(), s.Close(), m.Close()); err != nil {
			t.Errorf("failure %d: %v", n, err)
		}
		simulated.Close()
	}
}
