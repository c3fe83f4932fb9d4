package pairs_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/gpu/pairs"
)

// load loads the kernels of a simulated GPU, or of the device of the environment.
func load(t *testing.T) (*pairs.Kernels, *device.Stream) {
	t.Helper()
	return on(t, devicetest.OpenGPU(t))
}

func on(t *testing.T, dev device.Device) (*pairs.Kernels, *device.Stream) {
	t.Helper()
	k, err := pairs.Load(dev)
	if err != nil {
		t.Fatal(err)
	}
	return k, devicetest.NewStream(t, dev)
}

// Kernels are correct under random schedules of lanes, warps and blocks, with weak memory. A data
// race is an error.
func TestSchedules(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for _, scheduler := range []sim.Scheduler{sim.Random, sim.PCT} {
		for seed := range uint64(2) {
			t.Run(fmt.Sprintf("%s/%d", scheduler, seed), func(t *testing.T) {
				k, s := on(t, devicetest.OpenSim(t, &sim.Options{Scheduler: scheduler, Seed: seed, Races: true}))
				checkBuild(t, k, s, 700)
				checkWrite(t, k, s, 700, true)
			})
		}
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// Given one row per key, as a map would return it, spans refer to all rows of the key.
func TestSmokeBuild(t *testing.T) {
	k, s := load(t)
	for _, n := range []int{1, 2, 300, 3000} {
		checkBuild(t, k, s, n)
	}
}

func checkBuild(t *testing.T, k *pairs.Kernels, s *device.Stream, n int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	b, err := k.NewBuild(n)
	must(t, err, b.Number(s))
	for i, v := range devicetest.Download(t, s, b.Vals) {
		if v != uint64(i) {
			t.Fatalf("row %d is numbered %d", i, v)
		}
	}
	stands, of := make([]uint64, n), make(map[uint64][]uint32)
	for i := range stands {
		if stands[i] = uint64(i); rng.IntN(3) > 0 {
			stands[i] = stands[rng.IntN(i+1)]
		}
		of[stands[i]] = append(of[stands[i]], uint32(i))
	}
	must(t, b.Vals.CopyFrom(s, stands), b.Sort(s))
	rows := devicetest.Download(t, s, b.Rows)
	for i, span := range devicetest.Download(t, s, b.Vals) {
		want, at, n := of[stands[i]], uint32(span), uint32(span>>32)
		if n == 1 && (len(want) != 1 || at != uint32(i)) || n != 1 && !slices.Equal(rows[at:at+n], want) {
			t.Fatalf("row %d has span %d of %d, want rows %v", i, at, n, want)
		}
	}
	must(t, b.Free(), b.Rows.Free())
}

// Write writes the pairs of spans of all sizes, in pieces of all sizes. Some rows have no pairs.
func TestSmokeWrite(t *testing.T) {
	k, s := load(t)
	for _, n := range []int{0, 1, 2000} {
		for _, all := range []bool{false, true} {
			checkWrite(t, k, s, n, all)
		}
	}
}

func checkWrite(t *testing.T, k *pairs.Kernels, s *device.Stream, n int, all bool) {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, uint64(n)))
	rows := make([]uint32, 5000)
	for i := range rows {
		rows[i] = rng.Uint32()
	}
	there := devicetest.Upload(t, s, rows)
	f, err := k.NewMatches(n)
	must(t, err)
	spans, want := spansOf(rng, rows, n, all)
	counter := devicetest.Upload(t, s, []uint64{7})
	must(t, f.Spans.CopyFrom(s, spans), f.Count(s, n, all), f.AddTotal(s, n, counter))
	if total := devicetest.Download(t, s, counter)[0]; total != 7+uint64(len(want)) {
		t.Fatalf("7 and %d pairs, want %d", total-7, len(want))
	}
	for _, piece := range []int{len(want) + 1, 1000, 0} {
		left, right := devicetest.Upload(t, s, make([]uint32, piece)), devicetest.Upload(t, s, make([]uint32, piece))
		for first := 0; first <= len(want); first += max(piece, 1+len(want)/3) {
			must(t, f.Write(s, n, there, uint64(first), left, right))
			l, r := devicetest.Download(t, s, left), devicetest.Download(t, s, right)
			for i, pair := range want[first:min(first+piece, len(want))] {
				if l[i] != pair[0] || r[i] != pair[1] {
					t.Fatalf("pair %d is %d and %d, want %v", first+i, l[i], r[i], pair)
				}
			}
		}
	}
	must(t, s.Sync(t.Context()), f.Free())
}

// spansOf returns spans of n rows, many of them empty and one of a thousand, and their pairs.
func spansOf(rng *rand.Rand, rows []uint32, n int, all bool) (spans []uint64, want [][2]uint32) {
	const noRow = 1<<32 - 1
	for i := range n {
		many, at := uint64(max(0, rng.IntN(6)-2)), uint64(rng.IntN(4000))
		if i == n/2 {
			many = 1000
		}
		spans = append(spans, many<<32|at)
		switch {
		case many == 0 && all:
			want = append(want, [2]uint32{uint32(i), noRow})
		case many == 1:
			want = append(want, [2]uint32{uint32(i), uint32(at)})
		default:
			for _, row := range rows[at : at+many] {
				want = append(want, [2]uint32{uint32(i), row})
			}
		}
	}
	return spans, want
}

func TestNoKernels(t *testing.T) {
	if _, err := pairs.Load(devicetest.OpenCPU(t, 1)); !errors.Is(err, device.ErrNoKernels) {
		t.Errorf("on a CPU: %v", err)
	}
}
