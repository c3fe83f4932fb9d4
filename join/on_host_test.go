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

// randomKeys returns keys with a small number of distinct values. Some have many bits.
func randomKeys[K weft.Key](rng *rand.Rand, n int) []K {
	keys := make([]K, n)
	for i := range keys {
		if keys[i] = K(rng.IntN(150)); i%5 == 0 {
			keys[i] = K(rng.Uint64())
		}
	}
	return keys
}

// Host keys have the same pairs as in an Index, in the same order, for all sizes of pieces.
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
			ix.SetPieceSize([]int{0, 1, 2000, 900}[i], []int{0, 1, 100, 333}[i])
			left := randomKeys[K](rng, n)
			want := m.answers([]column.Column{column.Of(left)}, false)
			if i%2 == 0 {
				left = lock(t, dev, left)
			}
			if got := collect(t, ix.Inner(t.Context(), left)); !slices.Equal(got, want.inner) {
				t.Errorf("%d rows and %d: %d inner pairs, want %d", n, rows, len(got),
					len(want.inner))
			}
			if got := collect(t, ix.Left(t.Context(), left)); !slices.Equal(got, want.left) {
				t.Errorf("%d rows and %d: %d left pairs, want %d", n, rows, len(got),
					len(want.left))
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

// Host keys have the same pairs if memory is too small for one index.
func TestInnerOn(t *testing.T) {
	onDevices(t, func(t *testing.T, dev device.Device) {
		rng := rand.New(rand.NewPCG(5, 5))
		for _, n := range [][2]int{{0, 10}, {10, 0}, {300, 500}} {
			left, right := randomKeys[int64](rng, n[0]), lock(t, dev, randomKeys[int64](rng, n[1]))
			m := modelOf([]column.Column{column.Of(right)}, false)
			want := m.answers([]column.Column{column.Of(left)}, false).inner
			for _, o := range []*join.Options{nil, {Piece: 7}} {
				got := collect(t, join.InnerOn(t.Context(), dev, left, right, o))
				if !slices.Equal(got, want) {
					t.Errorf("%d pairs with options %v, want %d", len(got), o, len(want))
				}
			}
			if _, ok := dev.(device.Host); !ok {
				innerInParts(t, dev, left, right, want)
			}
		}
	})
}

// innerInParts raises memory from too little to enough for one index.
func innerInParts(t *testing.T, dev device.Device, left, right []int64, want [][2]uint32) {
	t.Helper()
	before, most := devicetest.Live(dev), 0
	slices.SortFunc(want, comparePairs)
	for memory := int64(1 << 12); ; memory = memory * 5 / 4 {
		var got [][2]uint32
		parts, err := join.InnerInPieces(t.Context(), dev, left, right, memory, func(p join.Pairs) bool {
			for i := range p.Len() {
				got = append(got, [2]uint32{p.Left[i], p.Right[i]})
			}
			return true
		})
		if live := devicetest.Live(dev); live != before {
			t.Fatalf("%d bytes: %+v are left of %+v", memory, live, before)
		}
		if err != nil {
			if !errors.Is(err, device.ErrMemory) || memory > 1<<24 || len(got) > 0 {
				t.Fatalf("%d bytes: %v after %d pairs", memory, err, len(got))
			}
			continue
		}
		slices.SortFunc(got, comparePairs)
		if !slices.Equal(got, want) {
			t.Fatalf("%d bytes: %d pairs, want %d", memory, len(got), len(want))
		}
		if most = max(most, parts); parts <= 1 {
			break
		}
	}
	if t.Logf("%d indexes at most", most); len(right) > 100 && most < 2 {
		t.Errorf("never more than %d indexes", most)
	}
}

func comparePairs(a, b [2]uint32) int { return slices.Compare(a[:], b[:]) }

// Invalid options are errors. If any operation fails, InnerOn returns an error.
func TestInnerOnFails(t *testing.T) {
	onDevices(t, func(t *testing.T, dev device.Device) {
		for _, o := range []join.Options{{Piece: -1}, {TempDir: "/"}, {Memory: 1}} {
			for _, err := range join.InnerOn(t.Context(), dev, []int64{1}, []int64{1}, &o) {
				if !errors.Is(err, weft.ErrOptions) {
					t.Errorf("%+v: %v", o, err)
				}
			}
		}
		if _, ok := dev.(device.Host); ok {
			return
		}
		rng := rand.New(rand.NewPCG(5, 5))
		left, right := randomKeys[int64](rng, 200), randomKeys[int64](rng, 100)
		before, want := devicetest.Live(dev), 0
		for n := 0; ; n++ {
			fired, got := devicetest.FailAfter(dev, n), 0
			_, err := join.InnerInPieces(t.Context(), dev, left, right, 0, func(p join.Pairs) bool {
				got += p.Len()
				return true
			})
			devicetest.ClearFailures(dev)
			live := devicetest.Live(dev)
			if err != nil && (!fired() || !errors.Is(err, device.ErrMemory)) || live != before {
				t.Fatalf("operation %d failed: %v, %+v are left of %+v", n, err, live, before)
			}
			if err == nil && want > 0 && got != want {
				t.Fatalf("operation %d failed: %d pairs, want %d", n, got, want)
			}
			if err == nil {
				want = got
			}
			if !fired() {
				break
			}
		}
		for range join.InnerOn(t.Context(), dev, left, right, nil) {
			break
		}
		if live := devicetest.Live(dev); live != before {
			t.Errorf("%+v are left of %+v", live, before)
		}
	})
}

// A stopped loop and a canceled context leave no memory in use. Any failure ends the iteration.
func TestHostKeysEnd(t *testing.T) {
	onDevices(t, func(t *testing.T, dev device.Device) {
		s := devicetest.NewStream(t, dev)
		rng := rand.New(rand.NewPCG(2, 7))
		ix, err := join.NewOn(t.Context(), s, devicetest.Upload(t, s, randomKeys[int64](rng, 200)))
		if err != nil {
			t.Fatal(err)
		}
		defer ix.Close()
		ix.SetPieceSize(2000, 100)
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
			ctx := &cancelAfter{Context: t.Context()}
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
