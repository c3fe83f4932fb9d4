package gphash

import (
	"errors"
	"math"
	"path/filepath"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
)

// Create and Open refuse invalid options, on every device.
func TestOpenRefusesOptions(t *testing.T) {
	for _, dev := range []device.Device{openCPU(t), devicetest.OpenSim(t, nil)} {
		path := filepath.Join(memoryDir(t), "pool")
		x, err := Create(path, dev, Options{KeySize: 8, ValueSize: 8})
		must(t, err)
		must(t, x.Close())
		for name, o := range map[string]OpenOptions{
			"no cache": {Cache: math.NaN()}, "less": {Cache: -.1}, "more than all": {Cache: 1.1}, "no policy": {CachePolicy: 9}, "nobody resizes": {Resize: 9},
		} {
			if x, _, err := Open(ctx, path, dev, o); !errors.Is(err, weft.ErrOptions) {
				t.Errorf("%s, %s: open: %v, %v", dev.Properties().Kind, name, x, err)
			}
			other := filepath.Join(memoryDir(t), "pool")
			x, err := Create(other, dev, Options{KeySize: 8, ValueSize: 8, Cache: o.Cache, CachePolicy: o.CachePolicy, Resize: o.Resize})
			if !errors.Is(err, weft.ErrOptions) {
				t.Errorf("%s, %s: create: %v, %v", dev.Properties().Kind, name, x, err)
			}
		}
		// the refused opening has not changed the pool
		x, _, err = Open(ctx, path, dev, OpenOptions{})
		must(t, err)
		must(t, x.Close())
	}
}

// The slots lag by at most the capacity of the log, even if AtomicTail is greater.
func TestTailFitsTheLog(t *testing.T) {
	dev := devicetest.OpenSim(t, nil)
	for _, atomic := range []int{0, 64} {
		path := filepath.Join(memoryDir(t), "pool")
		x, err := Create(path, dev, Options{KeySize: 8, ValueSize: 8, AtomicBatch: atomic})
		must(t, err)
		must(t, x.Close())
		x, _, err = Open(ctx, path, dev, OpenOptions{AtomicTail: maxTail})
		must(t, err)
		want := 0
		if atomic > 0 {
			want = x.engine.redo.capacity()
		}
		if got := x.engine.accel.(*gpuEngine).k.tail.maxOps; got != want {
			t.Errorf("batches of %d: %d operations, want %d", atomic, got, want)
		}
		must(t, x.Close())
	}
}

// The log takes whole units, and a batch may have as many operations as fit in it.
func TestAtomicBatchFillsTheLog(t *testing.T) {
	for asked, want := range map[int]int{1: 43_685, 43_685: 43_685, 43_686: 87_376} {
		x, err := Create(filepath.Join(memoryDir(t), "pool"), openCPU(t), Options{KeySize: 8, ValueSize: 8, AtomicBatch: asked})
		must(t, err)
		if got := x.engine.redo.capacity(); got != want {
			t.Errorf("%d operations asked for, the log has room for %d, want %d", asked, got, want)
		}
		must(t, x.Close())
	}
}

// A copy on a GPU keeps the options Mirror, Cache and AtomicTail.
func TestCopiesKeepOptions(t *testing.T) {
	dev := devicetest.OpenSim(t, nil)
	for _, o := range []Options{
		{Mirror: true, Cache: .5, CachePolicy: LRU}, {Cache: .25, CachePolicy: Random}, {}, {AtomicBatch: 64, AtomicTail: 200},
	} {
		path := filepath.Join(memoryDir(t), "pool")
		m, err := CreateMap[uint64, uint64](path, dev, o)
		must(t, err)
		_, err = m.Put(ctx, []uint64{1, 2, 3}, []uint64{4, 5, 6})
		must(t, err)
		if o.AtomicBatch == 0 { // AtomicTail is ignored in a pool without a log
			must(t, m.Close())
			m, _, err = OpenMap[uint64, uint64](ctx, path, dev, OpenOptions{Mirror: o.Mirror, Cache: o.Cache, CachePolicy: o.CachePolicy, AtomicTail: 10})
			must(t, err)
		}
		to, err := m.core.CopyTo(ctx, nil, dev)
		must(t, err)
		was, is := &m.engine.accel.(*gpuEngine).k, &to.Engine.(*gpuEngine).k
		if was.mirror != is.mirror || was.cache.share != is.cache.share || was.cache.policy != is.cache.policy || was.tail.maxOps != is.tail.maxOps {
			t.Errorf("%+v: a mirror %v, a cache of %g by %d, a tail of %d", o, is.mirror, is.cache.share, is.cache.policy, is.tail.maxOps)
		}
		must(t, errors.Join(to.Close(), m.Close()))
	}
}
