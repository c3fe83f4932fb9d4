package ondevice_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/column/ondevice"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/op"
)

// devices returns streams of the host and of a GPU.
func devices(t *testing.T) map[string]*device.Stream {
	all := map[string]device.Device{"cpu": devicetest.OpenCPU(t, 2)}
	if !testing.Short() {
		all["gpu"] = devicetest.OpenGPU(t)
	}
	streams := make(map[string]*device.Stream)
	for name, dev := range all {
		streams[name] = devicetest.NewStream(t, dev)
	}
	return streams
}

// pair is a host column and its copy on a device.
type pair struct {
	host column.Column
	on   column.On
}

// drawPair draws n values of any type of fixed size. On the device they are a slice of a longer
// column, with a bitmap at any offset.
func drawPair(t *rapid.T, s *device.Stream, free *[]func() error, n int) pair {
	before := rapid.IntRange(0, 5).Draw(t, "before")
	bits := rapid.SliceOfN(rapid.Uint64(), n+before, n+before).Draw(t, "values")
	host := drawColumn(t, bits)
	on, err := column.Upload(s, host)
	if err != nil {
		t.Fatal(err)
	}
	*free = append(*free, on.Free)
	p := pair{host.Slice(before, n+before), on.Slice(before, n+before)}
	if rapid.Bool().Draw(t, "nulls") {
		offset := rapid.IntRange(0, 40).Draw(t, "offset")
		raw := rapid.SliceOfN(rapid.Byte(), (offset+n+7)/8, (offset+n+7)/8).Draw(t, "bits")
		memory, err := device.Upload(s, raw)
		if err != nil {
			t.Fatal(err)
		}
		*free = append(*free, memory.Free)
		p.host = p.host.WithValid(column.OfBits(raw, offset, n))
		p.on = p.on.WithValid(memory, offset)
	}
	return p
}

// drawColumn makes a column of a random type from bits. Half of the floats are edge cases.
func drawColumn(t *rapid.T, bits []uint64) column.Column {
	special := []float64{
		0, math.Copysign(0,
			-1), math.NaN(), math.Float64frombits(0xfff123 << 40), 5, math.Inf(-1), 1e-40,
	}
	floats := make([]float64, len(bits))
	for i, b := range bits {
		if floats[i] = math.Float64frombits(b); b%2 == 0 {
			floats[i] = special[b/2%uint64(len(special))]
		}
	}
	bools := make([]byte, len(bits))
	for i, b := range bits {
		bools[i] = byte(b) & 3 // foreign memory has 2 and 3, too
	}
	return rapid.SampledFrom([]column.Column{
		as[int8](bits), as[int16](bits), as[int32](bits), as[int64](bits), as[uint8](bits),
		as[uint16](bits), as[uint32](bits), as[uint64](bits), as[float32](floats), as[float64](floats),
		column.Of(unsafe.Slice((*bool)(unsafe.Pointer(unsafe.SliceData(bools))), len(bools))),
	}).Draw(t, "column")
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

// Hashes, partitions and taken rows are the same as in package column, for all types and nulls.
func TestSmokeSameAsHost(t *testing.T) {
	host := devicetest.OpenCPU(t, 1)
	for name, s := range devices(t) {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { sameAsHost(t, host, s) })
		})
	}
}

func sameAsHost(t *rapid.T, host device.Host, s *device.Stream) {
	var free []func() error
	defer func() {
		errs := []error{s.Sync(t.Context())}
		for _, f := range free {
			errs = append(errs, f())
		}
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}()
	n := rapid.SampledFrom([]int{0, 1, 31, 32, 70, 400}).Draw(t, "n")
	keys, on := make([]column.Column, rapid.IntRange(1, 3).Draw(t, "columns")), []column.On(nil)
	for i := range keys {
		p := drawPair(t, s, &free, n)
		keys[i], on = p.host, append(on, p.on)
	}
	opts := column.PartitionOptions{
		Parts: rapid.SampledFrom([]int{1, 2, 7, 255, 256, 300}).Draw(t, "parts"),
		Seed:  rapid.Uint64().Draw(t, "seed"),
		Nulls: column.Nulls(rapid.IntRange(0, 2).Draw(t, "nulls")),
	}
	opts.First = rapid.IntRange(0, opts.Parts-1).Draw(t, "first")

	want := make([]uint64, n)
	column.Hash(host, keys, opts.Seed, want)
	memory, err := device.Make[uint64](s.Device(), n)
	if err != nil {
		t.Fatal(err)
	}
	free = append(free, memory.Free)
	if err := ondevice.Hash(s, on, opts.Seed, memory); err != nil {
		t.Fatal(err)
	}
	if got := download(t, s, memory); !slices.Equal(got, want) {
		t.Fatalf("hashes %x, want %x", got, want)
	}

	parts, err := column.Partition(host, keys, opts)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ondevice.Partition(t.Context(), s, on, opts)
	if err != nil {
		t.Fatal(err)
	}
	free = append(free, got.Free, got.Free)
	rows := download(t, s, got.Rows)
	offsets := download(t, s, got.Offsets)
	if !slices.Equal(offsets, parts.Offsets) || got.Next != parts.Next {
		t.Fatalf("offsets %d, next %d; want %d, next %d", offsets, got.Next, parts.Offsets,
			parts.Next)
	}
	if !slices.Equal(rows, parts.Rows) {
		t.Fatalf("rows %d, want %d", rows, parts.Rows)
	}
	for i, c := range on {
		taken, err := ondevice.Take(s, c, got.Rows)
		if err != nil {
			t.Fatal(err)
		}
		free = append(free, taken.Free)
		back, err := taken.Download(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := all(back), all(column.Take(host, keys[i], rows)); got != want {
			t.Fatalf("%v: %v, want %v", c.Type(), got, want)
		}
	}
}

func all(c column.Column) string {
	var b strings.Builder
	for i := range c.Len() {
		fmt.Fprint(&b, c.Any(i), " ")
	}
	return b.String()
}

func download[T device.Elem](t *rapid.T, s *device.Stream, from device.Slice[T]) []T {
	to := make([]T, from.Len())
	if err := from.CopyTo(t.Context(), s, to); err != nil {
		t.Fatal(err)
	}
	return to
}

// A row without columns has the hash of the seed alone.
func TestNoColumns(t *testing.T) {
	host := devicetest.OpenCPU(t, 1)
	want := make([]uint64, 40)
	column.Hash(host, nil, 6, want)
	for name, s := range devices(t) {
		memory := devicetest.Upload(t, s, make([]uint64, len(want)))
		if err := ondevice.Hash(s, nil, 6, memory); err != nil {
			t.Fatal(err)
		}
		if got := devicetest.Download(t, s, memory); !slices.Equal(got, want) {
			t.Errorf("%s: %x, want %x", name, got, want)
		}
	}
}

// The maximum number of partitions, with several blocks of rows.
func TestManyParts(t *testing.T) {
	host := devicetest.OpenCPU(t, 1)
	const n = 20_000
	keys, valid := make([]int64, n), make([]bool, n)
	for i := range keys {
		keys[i], valid[i] = int64(i/2), i%5 != 0
	}
	c := column.Of(keys).WithValid(column.OfBools(valid))
	for name, s := range devices(t) {
		on, err := column.Upload(s, c)
		if err != nil {
			t.Fatal(err)
		}
		for nulls := range column.DealNulls + 1 {
			opts := column.PartitionOptions{Parts: column.MaxParts, Nulls: nulls,
				First: column.MaxParts - 2}
			want, err := column.Partition(host, []column.Column{c}, opts)
			if err != nil {
				t.Fatal(err)
			}
			got, err := ondevice.Partition(t.Context(), s, []column.On{on}, opts)
			if err != nil {
				t.Fatal(err)
			}
			local := column.Parts{
				Rows:    devicetest.Download(t, s, got.Rows),
				Offsets: devicetest.Download(t, s, got.Offsets), Next: got.Next,
			}
			if !reflect.DeepEqual(local, want) {
				t.Errorf("%s: %v: other partitions", name, nulls)
			}
			if err := got.Free(); err != nil {
				t.Error(err)
			}
		}
		if err := on.Free(); err != nil {
			t.Error(err)
		}
	}
}

// If memory runs out, or any other call fails, no memory stays in use.
func TestFailures(t *testing.T) {
	c := column.Of([]int32{1, 2, 3}).WithValid(column.OfBools([]bool{true, false, true}))
	opts := column.PartitionOptions{Parts: 300, Nulls: column.DealNulls}
	for _, gpu := range []bool{false, true} {
		if gpu && testing.Short() {
			continue
		}
		for n := 0; ; n++ {
			var dev device.Device = devicetest.OpenCPU(t, 1)
			if gpu {
				dev = devicetest.OpenSim(t, nil)
			}
			s := devicetest.NewStream(t, dev)
			on, err := column.Upload(s, c)
			if err != nil {
				t.Fatal(err)
			}
			before := devicetest.Live(dev).Bytes
			fired := devicetest.FailAfter(dev, n)
			parts, err := ondevice.Partition(t.Context(), s, []column.On{on, on}, opts)
			if err == nil {
				var taken column.On
				taken, err = ondevice.Take(s, on, parts.Rows)
				err = errors.Join(err, s.Sync(context.Background()), taken.Free(), parts.Free())
			}
			devicetest.ClearFailures(dev)
			if err := s.Sync(context.Background()); err != nil {
				t.Fatal(err)
			}
			if live := devicetest.Live(dev).Bytes; live != before || fired() != (err != nil) {
				t.Errorf("operation %d failed: %d bytes are live, %d were; %v", n, live, before,
					err)
			}
			if err := on.Free(); err != nil {
				t.Error(err)
			}
			if !fired() {
				break
			}
		}
	}
}

func TestErrors(t *testing.T) {
	for name, s := range devices(t) {
		other := devicetest.OpenSim(t, nil)
		foreign := column.OfSlice(devicetest.Upload(t, devicetest.NewStream(t, other), []int64{1}))
		c := column.OfSlice(devicetest.Upload(t, s, []int64{1}))
		two := column.OfSlice(devicetest.Upload(t, s, []int64{1, 2}))
		bits := devicetest.Upload(t, devicetest.NewStream(t, other), []uint8{1})
		rows := devicetest.Upload(t, devicetest.NewStream(t, other), []uint32{0})
		hashes := devicetest.Upload(t, devicetest.NewStream(t, other), []uint64{0})
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		opts := column.PartitionOptions{Parts: 2}
		partition := func(ctx context.Context, opts column.PartitionOptions,
			keys ...column.On) error {
			_, err := ondevice.Partition(ctx, s, keys, opts)
			return err
		}
		_, taken := ondevice.Take(s, foreign, device.Slice[uint32]{})
		_, taken2 := ondevice.Take(s, c, rows)
		_, taken3 := ondevice.Take(s, column.On{}, device.Slice[uint32]{})
		for i, e := range []struct{ err, want error }{
			{partition(t.Context(), column.PartitionOptions{}, c), op.ErrOptions},
			{partition(t.Context(), opts), op.ErrOptions},
			{partition(t.Context(), opts, column.On{}), op.ErrOptions},
			{partition(t.Context(), opts, foreign), device.ErrInvalid},
			{partition(t.Context(), opts, c.WithValid(bits, 0)), device.ErrInvalid},
			{partition(ended, opts, c), context.Canceled},
			{ondevice.Hash(s, []column.On{c}, 0, hashes), device.ErrInvalid},
			{taken, device.ErrInvalid}, {taken2, device.ErrInvalid}, {taken3, device.ErrInvalid},
		} {
			if !errors.Is(e.err, e.want) {
				t.Errorf("%s: error %d is %v, want %v", name, i, e.err, e.want)
			}
		}
		for want, call := range map[string]func(){
			"key column 1 has 2 rows and column 0 has 1": func() {
				partition(t.Context(), opts, c, two)
			},
			"key column 0 has 2 rows, but there are 1 hash": func() {
				ondevice.Hash(s, []column.On{two}, 0, hashes)
			},
		} {
			func() {
				defer func() {
					if msg := fmt.Sprint(recover()); !strings.Contains(msg, want) {
						t.Errorf("%s: %s, want %s", name, msg, want)
					}
				}()
				call()
			}()
		}
	}
}

// Rows on a device are distributed to two others.
func ExamplePartition() {
	ctx := context.Background()
	dev, _, err := auto.Open("auto")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	s, err := dev.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	users, err := device.Upload(s, []int64{1, 2, 3, 1, 5, 2})
	if err != nil {
		log.Fatal(err)
	}
	defer users.Free()

	c := column.OfSlice(users)
	parts, err := ondevice.Partition(ctx, s, []column.On{c}, column.PartitionOptions{Parts: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer parts.Free()
	taken, err := ondevice.Take(s, c, parts.Rows)
	if err != nil {
		log.Fatal(err)
	}
	local, err := taken.Download(ctx, s)
	if err != nil {
		log.Fatal(err)
	}
	defer taken.Free()
	offsets := make([]uint32, parts.Offsets.Len())
	if err := parts.Offsets.CopyTo(ctx, s, offsets); err != nil {
		log.Fatal(err)
	}
	fmt.Println(column.Values[int64](local), offsets)
	// Output: [2 3 2 1 1 5] [0 3 6]
}
