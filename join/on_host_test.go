package join_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/join"
)

// lock copies keys to page-locked memory of a device.
func lock[K weft.Key](t testing.TB, dev device.Device, keys []K) []K {
	t.Helper()
	if len(keys) == 0 {
		return nil
	}
	memory, err := dev.AllocHost(len(device.Bytes(keys)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.FreeHost(memory); err != nil {
			t.Error(err)
		}
	})
	copy(memory, device.Bytes(keys))
	return unsafe.Slice((*K)(unsafe.Pointer(unsafe.SliceData(memory))), len(keys))
}

// randomKeys are few different ones, and some with many bits.
func randomKeys[K weft.Key](rng *rand.Rand, n int) []K {
	keys := make([]K, n)
	for i := range keys {
		if keys[i] = K(rng.IntN(150)); i%5 == 0 {
			keys[i] = K(rng.Uint64())
		}
	}
	return keys
}

// Host keys have the pairs of an Index, in its order, whatever the sizes of pieces.
func TestHostKeys(t *testing.T) {
	onDevices(t, func(t *testing.T, dev device.Device) {
		testHostKeys[int32](t, dev)
		testHostKeys[uint64](t, dev)
	})
}

func testHostKeys[K weft.Key](t *testing.T, dev device.Device) {
	s := devicetest.NewStream(t, dev)
	rng := rand.New(rand.NewPCG(2, 7))
	for _, rows := range []int{0, 1, 400} {
		right := randomKeys[K](rng, rows)
		ix, err := join.NewOn(t.Context(), s, devicetest.Upload(t, s, right))
		if err != nil {
			t.Fatal(err)
		}
		m := modelOf([]column.Column{column.Of(right)}, false)
		for i, n := range []int{0, 1, 640, 500} {
			ix.Cut([]int{0, 1, 2000, 900}[i], []int{0, 1, 100, 333}[i])
			left := randomKeys[K](rng, n)
			want := m.answers([]column.Column{column.Of(left)}, false)
			if i%2 == 0 {
				left = lock(t, dev, left)
			}
			if got := collect(t, ix.Inner(t.Context(), left)); !slices.Equal(got, want.inner) {
				t.Errorf("%d rows and %d: %d inner pairs, want %d", n, rows, len(got), len(want.inner))
			}
			if got := collect(t, ix.Left(t.Context(), left)); !slices.Equal(got, want.left) {
				t.Errorf("%d rows and %d: %d left pairs, want %d", n, rows, len(got), len(want.left))
			}
		}
		if err := errors.Join(s.Sync(t.Context()), ix.Close()); err != nil {
			t.Fatal(err)
		}
		for _, err := range ix.Inner(t.Context(), right) {
			if !errors.Is(err, weft.ErrClosed) {
				t.Errorf("Inner after Close: %v", err)
			}
		}
	}
}

// Whoever stops, or whose context ends, leaves no memory behind, and whatever fails ends the pairs.
func TestHostKeysEnd(t *testing.T) {
	onDevices(t, func(t *testing.T, dev device.Device) {
		s := devicetest.NewStream(t, dev)
		rng := rand.New(rand.NewPCG(2, 7))
		ix, err := join.NewOn(t.Context(), s, devicetest.Upload(t, s, randomKeys[int64](rng, 200)))
		if err != nil {
			t.Fatal(err)
		}
		defer ix.Close()
		ix.Cut(2000, 100)
		left := randomKeys[int64](rng, 500)
		want := len(collect(t, ix.Inner(t.Context(), left)))
		before := devicetest.Live(dev)
		for p, err := range ix.Left(t.Context(), left) {
			if err != nil || p.Len() == 0 {
				t.Fatalf("%d pairs, %v", p.Len(), err)
			}
			break
		}
		for looks, ended := int64(0), true; ended; looks += 1 + looks/3 {
			ctx := &endsAfter{Context: t.Context()}
			ctx.left.Store(looks)
			ended = false
			for _, err := range ix.Inner(ctx, left) {
				if ended = err != nil; ended && !errors.Is(err, context.Canceled) {
					t.Fatalf("a context that ends after %d looks: %v", looks, err)
				}
			}
		}
		if live := devicetest.Live(dev); live != before {
			t.Fatalf("%+v are left of %+v", live, before)
		}
		if _, ok := dev.(device.Host); ok {
			return
		}
		devicetest.FailEach(t, dev, "Inner", func() (err error) {
			n := 0
			for p, failed := range ix.Inner(t.Context(), left) {
				n += p.Len()
				err = failed
			}
			if err == nil && n != want {
				t.Errorf("%d pairs, want %d", n, want)
			}
			return err
		})
	})
}
