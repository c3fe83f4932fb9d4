package bench

import (
	"context"
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/lab/internal/roofline"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/slab"
)

// viewable is a map with a View that provides a Ref of type R.
type viewable[K uint32 | uint64, R any] interface {
	PutOn(s *device.Stream, keys, vals device.Slice[K], inserted ...device.Slice[uint64]) error
	GetOn(s *device.Stream, keys, vals device.Slice[K], found device.Slice[bool], hits ...device.Slice[uint64]) error
	View(ctx context.Context, s *device.Stream, submit func(R) error) error
	Close() error
}

// BenchmarkFind compares lookups in a user kernel with GetOn, for present keys, as many as the
// table has, by the clock of the device of WEFT_DEVICE.
func BenchmarkFind(b *testing.B) {
	dev := devicetest.Open(b)
	n := 100_000_000
	switch dev.Properties().Kind {
	case device.CPU:
		b.Skip("a CPU runs no kernels")
	case device.Sim:
		n = 1000
	}
	for _, load := range []float64{.5, .8} {
		benchLinear[uint32](b, dev, n, load)
		benchLinear[uint64](b, dev, n, load)
	}
	benchSlab[uint32](b, dev, n)
	benchSlab[uint64](b, dev, n)
}

func benchLinear[K uint32 | uint64](b *testing.B, dev device.Device, n int, load float64) {
	m := value[*linear.Map[K, K]](b)(linear.New[K, K](dev, &linear.Options{Capacity: n, MaxLoad: load, Fixed: true, Unordered: true}))
	benchFind(b, dev, n, fmt.Sprintf("linear,%T,load=%g", K(0), load), "linear", m,
		func(r linear.Ref, c lookups) findLinearParams { return findLinearParams{ref: r, lookups: c} })
}

func benchSlab[K uint32 | uint64](b *testing.B, dev device.Device, n int) {
	m := value[*slab.Map[K, K]](b)(slab.New[K, K](dev, &slab.Options{Capacity: n, Fixed: true, Unordered: true}))
	benchFind(b, dev, n, fmt.Sprintf("slab,%T", K(0)), "slab", m,
		func(r slab.Ref, c lookups) findSlabParams { return findSlabParams{ref: r, lookups: c} })
}

func benchFind[K uint32 | uint64, R, P any](b *testing.B, dev device.Device, n int, name, entry string, m viewable[K, R], params func(R, lookups) P) {
	ctx := b.Context()
	s := devicetest.NewStream(b, dev)
	watch := value[*roofline.Stopwatch](b)(roofline.NewStopwatch(s))
	var k device.Kernel
	must(b, gpu.Load(dev, refsFindImages[gpu.Variant(batch.MapWidths[K, K]())], []gpu.Entry{{Name: entry, To: &k}}))
	host := make([]K, n)
	workload.Unique(host, 1, 0)
	keys := devicetest.Upload(b, s, host)
	must(b, m.PutOn(s, keys, keys))
	workload.Lookups(host, 1, uint64(n), 1, 2)
	wanted, vals := devicetest.Upload(b, s, host), devicetest.Upload(b, s, make([]K, n))
	for _, way := range []struct {
		name string
		run  func() error
	}{
		{"GetOn", func() error { return m.GetOn(s, wanted, vals, device.Slice[bool]{}) }},
		{"kernel", func() error {
			return m.View(ctx, s, func(r R) error {
				p := params(r, lookups{keys: wanted.Ptr(), vals: vals.Ptr(), n: uint64(n)})
				return device.Launch(s, k, device.Dim{X: (n + 255) / 256}, device.Dim{X: 256}, &p)
			})
		}},
	} {
		b.Run(name+"/"+way.name, func(b *testing.B) {
			var elapsed time.Duration
			for b.Loop() {
				t, err := watch.Time(ctx, way.run)
				must(b, err)
				elapsed += t
			}
			b.ReportMetric(roofline.Rate(n*b.N, elapsed)/1e9, "G/s")
			out := make([]K, n)
			must(b, vals.CopyTo(ctx, s, out))
			for i := range out {
				if out[i] != host[i] {
					b.Fatalf("key %d has value %d", host[i], out[i])
				}
			}
			must(b, s.Fill(vals.Ptr(), 0, n*int(unsafe.Sizeof(K(0)))/4))
		})
	}
	must(b, s.Sync(ctx))
	must(b, watch.Close())
	must(b, m.Close())
}

// value returns a value, or ends the benchmark on an error.
func value[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		must(t, err)
		return v
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
