package refs

import (
	"context"
	"errors"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/slab"
)

// changed is a map that is iterated over while it changes.
type changed[R any] interface {
	View(context.Context, *device.Stream, func(R) error) error
	Put(ctx context.Context, keys, vals []uint64) (int, error)
	PutOn(s *device.Stream, keys, vals device.Slice[uint64], inserted ...device.Slice[uint64]) error
	Sync(context.Context) error
	Check(context.Context) error
	Close() error
}

// eachDuringChanges iterates over a map while other streams change values and insert new keys. Each
// key that was present must be visited once, with one of its values.
func eachDuringChanges[R, P any](t *testing.T, dev device.Device, m changed[R], k device.Kernel, params func(R, pairs) P) {
	t.Helper()
	const there, fresh = 120, 60
	ctx := t.Context()
	keys, vals := make([]uint64, there+fresh), make([]uint64, there+fresh)
	for i := range keys {
		keys[i], vals[i] = uint64(i)-3, uint64(i)
	}
	must[int](t)(m.Put(ctx, keys[:there], vals[:there]))
	for i := range vals {
		vals[i] += 1000
	}
	reads, changes := must[*device.Stream](t)(dev.NewStream()), must[*device.Stream](t)(dev.NewStream())
	newKeys, newVals := must[device.Slice[uint64]](t)(device.Upload(changes, keys)), must[device.Slice[uint64]](t)(device.Upload(changes, vals))
	outKeys, outVals := must[device.Slice[uint64]](t)(device.Make[uint64](dev, len(keys))), must[device.Slice[uint64]](t)(device.Make[uint64](dev, len(keys)))
	count := must[device.Slice[uint32]](t)(device.Upload(reads, []uint32{0}))
	to := pairs{keys: outKeys.Ptr(), vals: outVals.Ptr(), count: count.Ptr(), room: uint32(len(keys))}
	check(t, m.View(ctx, reads, func(r R) error {
		p := params(r, to)
		return device.Launch(reads, k, device.Dim{X: 1}, device.Dim{X: 32}, &p)
	}))
	check(t, m.PutOn(changes, newKeys, newVals))
	n := make([]uint32, 1)
	check(t, errors.Join(outKeys.CopyTo(ctx, reads, keys), outVals.CopyTo(ctx, reads, vals), count.CopyTo(ctx, reads, n), m.Sync(ctx)))
	seen := map[uint64]uint64{}
	for i := range min(int(n[0]), len(keys)) {
		if _, twice := seen[keys[i]]; twice {
			t.Errorf("key %d comes twice", keys[i])
		}
		seen[keys[i]] = vals[i]
	}
	for i := range uint64(there + fresh) {
		if v, ok := seen[i-3]; ok && v != i+1000 && (v != i || i >= there) || !ok && i < there {
			t.Errorf("key %d has value %d, %v", i-3, v, ok)
		}
	}
	check(t, errors.Join(m.Check(ctx), m.Close(), reads.Close(), changes.Close()))
	check(t, errors.Join(newKeys.Free(), newVals.Free(), outKeys.Free(), outVals.Free(), count.Free()))
}

func TestForEachBesideChanges(t *testing.T) {
	onGPUs(t, 4, func(t *testing.T, dev device.Device) {
		w := batch.MapWidths[uint64, uint64]()
		l := must[*linear.Map[uint64, uint64]](t)(linear.New[uint64, uint64](dev, &linear.Options{Capacity: 200, Fixed: true, Unordered: true}))
		eachDuringChanges(t, dev, l, kernel(t, dev, refsEachImages, w, "linear"), linearEach)
		s := must[*slab.Map[uint64, uint64]](t)(slab.New[uint64, uint64](dev, &slab.Options{Buckets: 5, Unordered: true}))
		eachDuringChanges(t, dev, s, kernel(t, dev, refsEachImages, w, "slab"), slabEach)
	})
}
