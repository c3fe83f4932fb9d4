package join_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/join"
)

// onDevices runs a test on the CPU, and on a simulated GPU or the device of the environment.
func onDevices(t *testing.T, run func(t *testing.T, dev device.Device)) {
	t.Run("cpu", func(t *testing.T) { run(t, devicetest.OpenCPU(t, 2)) })
	t.Run("gpu", func(t *testing.T) { run(t, openGPU(t)) })
}

func openGPU(t *testing.T) device.Device {
	t.Helper()
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	if dev := devicetest.Open(t); dev.Properties().Kind != device.CPU {
		return dev
	}
	return devicetest.OpenSim(t, &sim.Options{})
}

// A GPU looks up columns of the host.
func TestHostColumnsOnGPU(t *testing.T) {
	dev := openGPU(t)
	rng := rand.New(rand.NewPCG(7, 8))
	side := func(n int) []column.Column {
		wide, ids, flags, valid := make([]int64, n), make([]int32, n), make([]bool, n), make([]bool, n)
		for i := range n {
			ids[i], flags[i], valid[i] = rng.Int32N(40)-20, rng.IntN(2) == 0, rng.IntN(8) > 0
			wide[i] = int64(ids[i]) << 40
		}
		bits := column.OfBools(valid)
		return []column.Column{column.Of(wide).WithValid(bits), column.Of(ids).WithValid(bits), column.Of(flags)}
	}
	// keys of 64 and 32 bits, packed keys, and keys too wide for packing
	for _, columns := range [][2]int{{0, 1}, {1, 2}, {1, 3}, {0, 3}} {
		for _, match := range []bool{false, true} {
			right, left := side(300)[columns[0]:columns[1]], side(200)[columns[0]:columns[1]]
			ix := open(t, dev, &join.Options{NullsMatch: match, Piece: 100}, right...)
			m := modelOf(right, match)
			compare(t, ix, m.answers(left, match), left)
			if ix.Distinct() != len(m) || ix.Bytes() == 0 {
				t.Errorf("%d keys in %d bytes, want %d", ix.Distinct(), ix.Bytes(), len(m))
			}
		}
	}
	words := []column.Column{column.OfStrings([]string{"b", "", "b"}).WithValid(column.OfBools([]bool{true, true, false}))}
	compare(t, open(t, dev, nil, words...), modelOf(words, false).answers(words, false), words)
	none := []column.Column{column.Of([]int32{})}
	some := []column.Column{column.Of([]int32{1})}
	compare(t, open(t, dev, nil, none...), model{}.answers(some, false), some)
}

func TestOn(t *testing.T) {
	onDevices(t, func(t *testing.T, dev device.Device) {
		testOn[int32](t, dev)
		testOn[int64](t, dev)
		testOn[uint32](t, dev)
	})
}

// testOn looks up batches in device memory, and reads pairs in pieces.
func testOn[K weft.Key](t *testing.T, dev device.Device) {
	s := devicetest.NewStream(t, dev)
	rng := rand.New(rand.NewPCG(9, 1))
	few := []K{0, ^K(0), ^K(1), ^K(2), 1, 2, 3}
	side := func(n int) []K {
		keys := make([]K, n)
		for i := range keys {
			if keys[i] = K(rng.Uint64()); i%3 > 0 {
				keys[i] = few[rng.IntN(len(few)-1)]
			} else if i%2 > 0 {
				keys[i] = K(rng.IntN(100))
			}
		}
		return keys
	}
	for _, rows := range []int{0, 1, 700} {
		right := side(rows)
		ix, err := join.NewOn(t.Context(), s, devicetest.Upload(t, s, right))
		if err != nil {
			t.Fatal(err)
		}
		m := modelOf([]column.Column{column.Of(right)}, false)
		if ix.Len() != rows || ix.Distinct() != len(m) {
			t.Errorf("%d rows of %d keys, want %d of %d", ix.Len(), ix.Distinct(), rows, len(m))
		}
		matches, err := ix.Matches(300)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{300, 0, 77} {
			left := side(n)
			want := m.answers([]column.Column{column.Of(left)}, false)
			keys := devicetest.Upload(t, s, left)
			checkOn(t, s, matches.FindOn, matches, keys, want.inner, want.counts)
			for i, n := range want.counts {
				want.counts[i] = max(n, 1)
			}
			checkOn(t, s, matches.FindLeftOn, matches, keys, want.left, want.counts)
		}
		if err := errors.Join(s.Sync(t.Context()), matches.Close(), ix.Close()); err != nil {
			t.Error(err)
		}
	}
}

func checkOn[K weft.Key](t testing.TB, s *device.Stream, find func(*device.Stream, device.Slice[K], ...device.Slice[uint64]) error, m *join.MatchesOn[K], keys device.Slice[K], want [][2]uint32, counts []uint32) {
	t.Helper()
	total := devicetest.Upload(t, s, []uint64{99})
	if err := find(s, keys, total); err != nil {
		t.Fatal(err)
	}
	if got := devicetest.Download(t, s, total)[0]; got != uint64(99+len(want)) {
		t.Fatalf("99 and %d pairs, want %d", got-99, len(want))
	}
	of := devicetest.Upload(t, s, make([]uint32, keys.Len()))
	if err := m.CountOn(s, of); err != nil {
		t.Fatal(err)
	}
	if got := devicetest.Download(t, s, of); !slices.Equal(got, counts) && len(counts) > 0 {
		t.Fatalf("counts %v, want %v", got, counts)
	}
	// Pieces of any size, and one past the end.
	for _, piece := range []int{len(want) + 5, 1500, 1} {
		left, right := devicetest.Upload(t, s, make([]uint32, piece)), devicetest.Upload(t, s, make([]uint32, piece))
		for first := 0; first <= len(want); first += max(piece, len(want)/3) {
			if err := m.PairsOn(s, uint64(first), left, right); err != nil {
				t.Fatal(err)
			}
			l, r := devicetest.Download(t, s, left), devicetest.Download(t, s, right)
			for i, pair := range want[first:min(first+piece, len(want))] {
				if l[i] != pair[0] || r[i] != pair[1] {
					t.Fatalf("pair %d of pieces of %d is %d and %d, want %v", first+i, piece, l[i], r[i], pair)
				}
			}
		}
	}
}

func TestOnRefuses(t *testing.T) {
	onDevices(t, func(t *testing.T, dev device.Device) {
		s := devicetest.NewStream(t, dev)
		ix, err := join.NewOn(t.Context(), s, devicetest.Upload(t, s, []int64{1}))
		if err != nil {
			t.Fatal(err)
		}
		defer ix.Close()
		m, err := ix.Matches(1)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if err := m.FindOn(s, devicetest.Upload(t, s, []int64{1, 2})); !errors.Is(err, device.ErrInvalid) || !strings.Contains(err.Error(), "join: FindOn: ") {
			t.Errorf("more keys than room: %v", err)
		}
		if _, err := ix.Matches(-1); !errors.Is(err, device.ErrInvalid) {
			t.Errorf("room for -1 rows: %v", err)
		}
		other := devicetest.NewStream(t, devicetest.OpenCPU(t, 1))
		foreign := devicetest.Upload(t, other, []int64{1})
		if err := m.FindOn(s, foreign); !errors.Is(err, device.ErrInvalid) || !strings.Contains(err.Error(), "another device") {
			t.Errorf("keys of another device: %v", err)
		}
		if _, err := join.NewOn(t.Context(), s, foreign); !errors.Is(err, device.ErrInvalid) {
			t.Errorf("an index of another device: %v", err)
		}
		numbers, totals := devicetest.Upload(t, other, []uint32{9}), devicetest.Upload(t, other, []uint64{9})
		mine, sums := devicetest.Upload(t, s, []uint32{9}), devicetest.Upload(t, s, []uint64{9})
		single := devicetest.Upload(t, s, []int64{1})
		if err := m.FindOn(s, single); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			err  error
			want string
		}{
			{m.FindOn(nil, single), "the stream is nil"},
			{m.CountOn(nil, mine), "the stream is nil"},
			{m.FindLeftOn(other, single), "the stream belongs to another device"},
			{m.FindOn(s, single, sums.Sub(0, 0)), "total is empty"},
			{m.FindOn(s, single, totals), "total lies on another device"},
			{errors.Join(m.FindOn(s, single), m.CountOn(s, numbers)), "counts lie on another device"},
			{m.PairsOn(s, 0, numbers, mine), "left rows lie on another device"},
			{m.PairsOn(s, 0, mine, numbers), "right rows lie on another device"},
			{m.PairsOn(other, 0, mine, mine), "the stream belongs to another device"},
			{m.CountOn(other, mine), "the stream belongs to another device"},
		} {
			if !errors.Is(c.err, device.ErrInvalid) || !strings.Contains(c.err.Error(), c.want) {
				t.Errorf("%v, want %s", c.err, c.want)
			}
		}
		if _, err := join.NewOn(t.Context(), nil, single); !errors.Is(err, device.ErrInvalid) {
			t.Errorf("an index on no stream: %v", err)
		}
		// Before a batch is found, and after a failed one, no pairs are available.
		left, right := devicetest.Upload(t, s, []uint32{9}), devicetest.Upload(t, s, []uint32{9})
		none, err := ix.Matches(1)
		if err != nil {
			t.Fatal(err)
		}
		defer none.Close()
		if err := none.PairsOn(s, 0, left, right); err != nil || devicetest.Download(t, s, left)[0] != 9 {
			t.Errorf("pairs of no batch: %v", err)
		}
		one := devicetest.Upload(t, s, []int64{1})
		if err := errors.Join(m.FindOn(s, one), m.CountOn(s, right)); err != nil || devicetest.Download(t, s, right)[0] != 1 {
			t.Errorf("one pair: %v", err)
		}
		if err := m.FindOn(s, foreign); err == nil {
			t.Error("keys of another device are found")
		}
		if err := errors.Join(m.CountOn(s, left.Sub(0, 0)), m.PairsOn(s, 0, left, left)); err != nil || devicetest.Download(t, s, left)[0] != 9 {
			t.Errorf("pairs of a batch that could not be found: %v", err)
		}
		for name, f := range map[string]func(){
			"join: CountOn: ": func() { m.CountOn(s, left) },
			"join: PairsOn: ": func() { m.PairsOn(s, 0, left, right.Sub(0, 0)) },
		} {
			func() {
				defer func() {
					if s, ok := recover().(string); !ok || !strings.HasPrefix(s, name) {
						t.Errorf("%slengths that differ: %v", name, s)
					}
				}()
				f()
			}()
		}
		if err := errors.Join(ix.Close(), ix.Close()); err != nil {
			t.Error(err)
		}
		if err := m.FindOn(s, one); !errors.Is(err, weft.ErrClosed) {
			t.Errorf("a closed index: %v", err)
		}
		if _, err := ix.Matches(1); !errors.Is(err, weft.ErrClosed) {
			t.Errorf("matches of a closed index: %v", err)
		}
	})
}
