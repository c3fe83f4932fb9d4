package parts_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"unsafe"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/column/ondevice"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/dst"
	"github.com/weftgo/weft/internal/gpu/parts"
	"github.com/weftgo/weft/internal/mutate"
)

// TestSchedules runs kernelTests on the shipped kernels, and other tests run them on broken ones.
var kernelTests = []mutate.KernelTest{
	{Name: "types", Run: tryTypes},
	{Name: "nulls", Run: tryNulls},
	{Name: "slots", Run: trySlots},
}

// Kernels are correct under random schedules of lanes, warps and blocks, with weak memory. A data
// race is an error.
func TestSchedules(t *testing.T) { mutate.RunOnSim(t, kernelTests, 2, 90) }

// mutants are broken variants of the kernels. Each replaces one pattern in the PTX of the kernels
// with a given name.
var mutants = []mutate.Fault{
	{"null has another word", "hash", `-3335678366873096957`, "-3335678366873096958"},
	{"NaN has another word", "hash", `9221120237041090560`, "9221120237041090561"},
	{"small integers have no sign", "hash", `ld\.global\.s8`, "ld.global.u8"},
	{"short integers have no sign", "hash", `ld\.global\.s16`, "ld.global.u16"},
	{"integers have no sign", "hash", `ld\.global\.s32`, "ld.global.u32"},
	{"-0 is not 0", "hash", `setp\.eq\.f64`, "setp.ne.f64"},
	{"another shift", "hash", `(shr\.u64 %rd\d+, %rd\d+), 27;`, "$1, 28;"},
	{"another shift", "part", `(shr\.u64 %rd\d+, %rd\d+), 27;`, "$1, 28;"},
	{"the lower half of the product", "part", `mul\.hi\.u64`, "mul.lo.u64"},
	{"rows with nulls go to one partition", "part", `rem\.u32 (%r\d+), (%r\d+), %r\d+;`, "mov.u32 $1, 0;"},
	{"a bound is after its first row", "bound", `setp\.gt\.u64`, "setp.ge.u64"},
	{"other bits of bitmaps", "hash", `(and\.b32 %r\d+, %r\d+), 7;`, "$1, 3;"},
	{"other bits of bitmaps", "null", `(and\.b32 %r\d+, %r\d+), 7;`, "$1, 3;"},
	{"other bits of bitmaps", "take", `(and\.b32 %r\d+, %r\d+), 7;`, "$1, 3;"},
	{"all bits of the hash count", "part", `and\.b64 (%rd\d+), (%rd\d+), %rd\d+;`, "mov.b64 $1, $2;"},
	{"values stay where they are", "put", `(ld\.global(?:\.nc)?\.u32 (%r\d+), \[%rd\d+\];)`, "$1 mov.u32 $2, 1;"},
	{"every other word of a bitmap is written", "take", `(and\.b64 %rd\d+, %rd\d+), 31;`, "$1, 63;"},
}

// The tests of the kernels detect every mutant.
func TestMutantsFailKernelTests(t *testing.T) { mutate.RequireAllDetected(t, kernelTests, mutants) }

// The kernels of both architectures are the same, so one of them is interpreted.
func TestSameKernels(t *testing.T) { conformance.SameKernels(t, "parts") }

// If any call that makes the host wait for a stream is omitted, memory in use is freed.
func TestOmissionsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	var tries []dst.Try
	for seed := range uint64(2) {
		tries = append(tries,
			dst.SimTry(t, seed, func(t testing.TB, dev device.Device, _ uint64) {
				tryNulls(t,
					dev)
			}),
			dst.SimTry(t, seed, func(t testing.TB, dev device.Device, _ uint64) {
				tryEnded(t,
					dev)
			}))
	}
	dst.Omit(t, ".", nil, tries...)
}

// tryTypes compares hashes, partitions and rows of each type with the host.
func tryTypes(t testing.TB, dev device.Device) {
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 300
	floats, bits, bools := make([]float64, n), make([]uint64, n), make([]bool, n)
	for i := range bits {
		bits[i], bools[i] = rng.Uint64(), rng.IntN(2) > 0
		floats[i] = []float64{0, math.Copysign(0, -1), math.NaN(), rng.NormFloat64()}[rng.IntN(4)]
	}
	for _, c := range []column.Column{
		as[int8](bits), as[int16](bits), as[int32](bits), as[int64](bits), as[uint8](bits),
		as[uint16](bits), as[uint32](bits), as[uint64](bits), as[float32](floats), as[float64](floats),
		column.Of(bools),
	} {
		try(t, dev, []column.Column{c}, column.PartitionOptions{Parts: 10, Seed: 3})
	}
}

// tryNulls compares keys of several columns with nulls, and all ways to treat these.
func tryNulls(t testing.TB, dev device.Device) {
	rng := rand.New(rand.NewPCG(3, 4))
	const n = 300
	keys := []column.Column{
		column.Of(make([]int16, n)), column.Of(make([]float32, n)), column.Of(make([]int64, n)),
	}
	for i := range keys {
		valid := make([]bool, n+3)
		for j := range valid {
			valid[j] = rng.IntN(4) > 0
		}
		if i == 0 {
			continue // no bitmap
		}
		keys[i] = keys[i].WithValid(column.OfBools(valid).Slice(3, n+3))
	}
	for nulls := range column.DealNulls + 1 {
		for _, parts := range []int{7, 300} {
			try(t, dev, keys, column.PartitionOptions{Parts: parts, Nulls: nulls, First: 5})
		}
	}
}

func as[T, F int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64](
	from []F,
) column.Column {
	to := make([]T, len(from))
	for i, v := range from {
		to[i] = T(v)
	}
	return column.Of(to)
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func try(t testing.TB, dev device.Device, keys []column.Column, opts column.PartitionOptions) {
	t.Helper()
	host := devicetest.OpenCPU(t, 1)
	s := devicetest.NewStream(t, dev)
	on := make([]column.On, len(keys))
	for i, c := range keys {
		var err error
		on[i], err = column.Upload(s, c)
		must(t, err)
		defer func() { must(t, on[i].Free()) }()
	}
	hashes := make([]uint64, keys[0].Len())
	column.Hash(host, keys, opts.Seed, hashes)
	memory := devicetest.Upload(t, s, make([]uint64, len(hashes)))
	must(t, ondevice.Hash(s, on, opts.Seed, memory))
	if got := devicetest.Download(t, s, memory); !slices.Equal(got, hashes) {
		t.Fatalf("hashes %x, want %x", got, hashes)
	}
	want, err := column.Partition(host, keys, opts)
	must(t, err)
	got, err := ondevice.Partition(t.Context(), s, on, opts)
	must(t, err)
	rows, offsets := devicetest.Download(t, s, got.Rows), devicetest.Download(t, s, got.Offsets)
	local := column.Parts{Rows: rows, Offsets: offsets, Next: got.Next}
	if !reflect.DeepEqual(local, want) {
		t.Fatalf("%+v: %+v, want %+v", opts, local, want)
	}
	for i, c := range on {
		taken, err := ondevice.Take(s, c, got.Rows)
		must(t, err)
		back, err := taken.Download(t.Context(), s)
		must(t, err)
		local := column.Take(host, keys[i], want.Rows)
		if back.HasNulls() != local.HasNulls() {
			t.Fatalf("%v: bitmap: %v", c.Type(), back.HasNulls())
		}
		for j := range local.Len() {
			if g, w := back.Any(j), local.Any(j); g != w && (g == g || w == w) {
				t.Fatalf("%v: row %d is %v, want %v", c.Type(), j, g, w)
			}
		}
		must(t, taken.Free())
	}
	must(t, got.Free())
}

// trySlots partitions by the top bits of hashes, in memory of the caller, and puts values of each
// width back to their rows.
func trySlots(t testing.TB, dev device.Device) {
	const n, slotBits, seed = 300, 14, 9
	rng := rand.New(rand.NewPCG(5, 6))
	keys := make([]int32, n)
	for i := range keys {
		keys[i] = int32(rng.Uint32())
	}
	host := devicetest.OpenCPU(t, 1)
	s := devicetest.NewStream(t, dev)
	hashes := make([]uint64, n)
	column.Hash(host, []column.Column{column.Of(keys)}, seed, hashes)
	on := devicetest.Upload(t, s, keys)
	for _, count := range []int{1, 3, 64, 300} {
		want := make([][]uint32, count)
		for row, h := range hashes {
			to := int(h >> (64 - slotBits) * uint64(count) >> slotBits)
			want[to] = append(want[to], uint32(row))
		}
		p := parts.Partition{Parts: count, Mask: (1<<slotBits - 1) << (64 - slotBits), Keys: parts.Keys{N: n, Seed: seed,
			Columns: []parts.Column{{Type: uint8(column.Int32), Values: on.Ptr()}}}}
		scratch := devicetest.Upload(t, s, make([]uint64, p.ScratchBytes()/8+1))
		rows, offsets := devicetest.Upload(t, s, make([]uint32, n)), devicetest.Upload(t, s, make([]uint32, count+1))
		small := device.Buffer{Ptr: scratch.Ptr(), Size: p.ScratchBytes() - 1}
		if err := p.Submit(s, rows.Ptr(), offsets.Ptr(), small); !errors.Is(err, device.ErrInvalid) {
			t.Fatalf("too little scratch memory: %v", err)
		}
		must(t, p.Submit(s, rows.Ptr(), offsets.Ptr(), device.Buffer{Ptr: scratch.Ptr(), Size: 8 * scratch.Len()}))
		got, at := devicetest.Download(t, s, rows), devicetest.Download(t, s, offsets)
		for part, w := range want {
			if g := got[at[part]:at[part+1]]; !slices.Equal(g, w) {
				t.Fatalf("partition %d of %d: rows %v, want %v", part, count, g, w)
			}
		}
		tryPut[uint8](t, s, rows)
		tryPut[uint32](t, s, rows)
		tryPut[uint64](t, s, rows)
	}
}

// tryPut stores its number at each row.
func tryPut[T uint8 | uint32 | uint64](t testing.TB, s *device.Stream, rows device.Slice[uint32]) {
	values := make([]T, rows.Len())
	for i, row := range devicetest.Download(t, s, rows) {
		values[i] = T(row)
	}
	from, to := devicetest.Upload(t, s, values), devicetest.Upload(t, s, make([]T, len(values)))
	must(t, parts.Put(s, from.Ptr(), int(unsafe.Sizeof(values[0])), rows.Ptr(), len(values), to.Ptr()))
	for row, v := range devicetest.Download(t, s, to) {
		if v != T(row) {
			t.Fatalf("row %d has %d", row, v)
		}
	}
}

// tryEnded ends the context while work that uses memory is running.
func tryEnded(t testing.TB, dev device.Device) {
	s := devicetest.NewStream(t, dev)
	on, err := column.Upload(s, column.Of(make([]int64, 2000)))
	must(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	keys := parts.Column{Type: uint8(column.Int64), Values: on.Buffer().Ptr}
	p := parts.Partition{Keys: parts.Keys{N: 2000, Columns: []parts.Column{keys, keys}}, Parts: 300}
	if _, err := p.Run(ended, s); !errors.Is(err, context.Canceled) {
		t.Fatalf("a context that ended: %v", err)
	}
	must(t, s.Sync(t.Context()), on.Free())
}

func TestTooManyRows(t *testing.T) {
	p := parts.Partition{Keys: parts.Keys{N: parts.MaxRows + 1}, Parts: 1}
	if _, err := p.Run(t.Context(), nil); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("partition: %v", err)
	}
	if err := parts.Hash(nil, &p.Keys, 0); !errors.Is(err, device.ErrInvalid) {
		t.Errorf("hash: %v", err)
	}
}
