package gphashkernels

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/gphash"
	"github.com/weftgo/weft/internal/dst"
	"github.com/weftgo/weft/internal/variant"
)

// scheduled is a map with a memory check between batches.
type scheduled[K weft.Key, V weft.Value] struct{ *gphash.Map[K, V] }

// CheckInvariants checks the whole pool.
func (m scheduled[K, V]) CheckInvariants() error { return m.Check(ctx) }

// programs returns the programs for an index that begins with few buckets, or with many.
func programs[K weft.Key, V weft.Value](t *testing.T, as variant.GPHash, m dst.Mode[gphash.Options]) dst.Config[K, V] {
	dir := memoryDir(t)
	cfg := dst.Maps(func(dev device.Device, s dst.Shape) (scheduled[K, V], error) {
		o, none := m.Options, scheduled[K, V]{}
		o.Capacity, o.Hash, o.Seed, o.Size = max(s.Capacity, 1), gphash.SipHash, [2]uint64{1, 2}, smallPool
		path := filepath.Join(dir, "pool")
		x, err := gphash.CreateMap[K, V](path, dev, o)
		if err != nil {
			return none, err
		}
		if err := x.Close(); err != nil {
			return none, err
		}
		defer os.Remove(path)
		x, _, err = gphash.OpenMap[K, V](variant.Context(ctx, as), path, dev, gphash.OpenOptions{Mirror: o.Mirror, Resize: o.Resize})
		return scheduled[K, V]{x}, err
	}, func(s gphash.Stats) bool { return s.Keys > s.Slots || s.Levels < 2 })
	cfg.Arch, cfg.Seeds = m.Arch, 3
	return cfg
}

// keysMakeWay has lookups alongside changes, in an index that needs every slot.
var keysMakeWay = dst.Shape{Name: "keys make way", Capacity: 10, Keys: 60, Hot: 40, Batches: 14, Streams: 3,
	Kinds: []weft.OpKind{weft.OpPutNew, weft.OpGet, weft.OpPutNew, weft.OpGet, weft.OpGet, weft.OpDelete, weft.OpGet, weft.OpPut, weft.OpGet, weft.OpGet}}

// largeShape is keysMakeWay with slots for all keys.
var largeShape = dst.Shape{Name: "lookups beside changes", Capacity: 40, Keys: 12, Hot: 40, Batches: 14, Streams: 3, Kinds: keysMakeWay.Kinds}

var twoSlots = gphash.Options{Slots: 2, Hashes: 2, Levels: 2}

// Kernels of single threads are correct under every schedule.
func TestSchedulesOfThreads(t *testing.T) {
	for _, m := range []dst.Mode[gphash.Options]{
		{Arch: 80, Name: "2 slots", Options: twoSlots},
		{Arch: 80, Name: "4 slots,mirror", Options: gphash.Options{Slots: 4, Hashes: 2, Levels: 2, Resize: gphash.Stop, Mirror: true}},
	} {
		cfg := programs[uint64, uint64](t, Threads, m)
		cfg.Shapes = append(append(cfg.Shapes, dst.Shapes...), keysMakeWay)
		dst.Explore(t, m, cfg.Updating())
	}
}

// Kernels with slot states in keys are correct under every schedule, in an index that has slots for
// all keys.
func TestSchedulesOfReservedKeys(t *testing.T) {
	m := dst.Mode[gphash.Options]{Arch: 80, Name: "2 slots", Options: twoSlots}
	cfg := programs[uint64, uint64](t, Reserved, m).Updating()
	cfg.Shapes = []dst.Shape{largeShape, {Name: "few keys", Capacity: 130, Keys: 3, Hot: 20, Cold: 40, Batches: 2}}
	dst.Explore(t, m, cfg)
}
