package gphash

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/hash"
	"github.com/weftgo/weft/internal/pm"
	"github.com/weftgo/weft/internal/pm/pmtest"
	"github.com/weftgo/weft/internal/pool"
)

// persistent opens an index in an image as persistent memory.
func (im *image) persistent(t testing.TB, by pm.Persist) *Index {
	t.Helper()
	p, err := pool.OpenMemory(pm.NewPersistent(im.bytes, by))
	must(t, err)
	table, e, _, err := openTable(ctx, p, im.dev.(device.Host), OpenOptions{}, core.Types{})
	must(t, err)
	return &Index{table, e}
}

// withCaches returns an image of small pairs, and the caches that record what a crash would leave.
func withCaches(t testing.TB, units int64) (*image, *pmtest.Caches) {
	t.Helper()
	im, err := formatted(t, openCPU(t), Options{KeySize: 12, ValueSize: 20, Capacity: 1, Size: pool.DataStart + units*pool.Page}, nil)
	must(t, err)
	return im, pmtest.NewCaches(im.bytes)
}

// After a power failure a pool has the effects of all returned calls, while it grows and shrinks.
// When an insertion returns, all stores are durable.
func TestPowerFailure(t *testing.T) {
	smallParts(t)
	im, caches := withCaches(t, 1200)
	x := im.persistent(t, caches)
	rng := rand.New(rand.NewPCG(3, 3))
	want := model{}
	check := func() {
		t.Helper()
		left := &image{dev: im.dev, bytes: caches.Durable()}
		y := left.mustOpen(t, OpenOptions{Verify: true})
		want.equal(t, y)
		must(t, y.Close())
	}
	version := uint64(0)
	for range 60 {
		version++
		n := 1 + rng.IntN(60)
		var keys, values []byte
		for range n {
			key := denseKey(12, rng.IntN(2000))
			keys, values = append(keys, key...), append(values, valueOf(20, key, version)...)
		}
		switch rng.IntN(8) {
		case 0, 1:
			_, err := x.Delete(ctx, keys, nil)
			must(t, err)
			for i := range n {
				delete(want, string(row(keys, i, 12)))
			}
		case 2:
			must(t, x.Compact(ctx))
		default:
			_, err := x.Put(ctx, keys, values)
			must(t, err)
			for i := range n {
				want[string(row(keys, i, 12))] = string(row(values, i, 20))
			}
			must(t, caches.CheckDurable())
		}
		check()
	}
	if s, err := x.Stats(ctx); err != nil || s.Resizes == 0 {
		t.Errorf("%d resizes, %v", s.Resizes, err)
	}
	must(t, x.Clear(ctx))
	clear(want)
	check()
	must(t, x.Close())
	check()
	must(t, caches.CheckDurable())
}

// skipping omits one write-back.
type skipping struct {
	*pmtest.Caches
	left int
}

func (s *skipping) WriteBack(words []uint64) {
	if s.left--; s.left != 0 {
		s.Caches.WriteBack(words)
	}
}

// The tests detect a missing write-back, except when a slot is claimed, since that word is written
// again.
func TestSkippedWriteBack(t *testing.T) {
	count := func(skip int) (total int, lost error) {
		im, caches := withCaches(t, 40)
		s := &skipping{caches, -1}
		x := im.persistent(t, s)
		s.left = skip
		key := denseKey(12, 1)
		_, err := x.Put(ctx, key, valueOf(20, key, 1))
		must(t, err)
		return skip - s.left, caches.CheckDurable()
	}
	total, err := count(0)
	must(t, err)
	unnoticed := 0
	for skip := range total {
		if _, err := count(skip + 1); err == nil {
			unnoticed++
		}
	}
	if total < 6 || unnoticed != 1 {
		t.Errorf("of %d write-backs %d can be left out", total, unnoticed)
	}
}

// A pool provides PMem if the operator asserts that its memory is persistent, and otherwise not.
func TestAssertPMem(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("pools are files of Linux")
	}
	path, dev := filepath.Join(memoryDir(t), "pool"), openCPU(t)
	vouched := PMemConditions{Persistent: true}
	o := Options{KeySize: 8, ValueSize: 8, Durability: PMem}
	if _, err := Create(path, dev, o); !errors.Is(err, ErrNotDurable) {
		t.Errorf("nobody vouches: %v", err)
	}
	o.AssertPMem = vouched
	x, err := Create(path, dev, o)
	must(t, err)
	if _, err := x.Put(ctx, denseKey(8, 1), valueOf(8, denseKey(8, 1), 1)); err != nil || x.Durability() != PMem {
		t.Errorf("%v, %v", x.Durability(), err)
	}
	must(t, x.Close())
	if _, _, err := Open(ctx, path, dev, OpenOptions{Durability: PMem}); !errors.Is(err, ErrNotDurable) {
		t.Errorf("opened, and nobody vouches: %v", err)
	}
	x, _, err = Open(ctx, path, dev, OpenOptions{Durability: PMem, AssertPMem: vouched})
	must(t, err)
	if x.Durability() != PMem || x.Len() != 1 {
		t.Errorf("%v, %d keys", x.Durability(), x.Len())
	}
	must(t, x.Check(ctx))
	must(t, x.Close())
	x, _, err = Open(ctx, path, dev, OpenOptions{AssertPMem: vouched})
	must(t, err)
	if x.Durability() != Process {
		t.Errorf("nobody asks for PMem: %v", x.Durability())
	}
	must(t, x.Close())
}

// The conditions for PMem do not depend on the requested durability. A pool on devdax always
// provides PMem, so stores of a GPU must reach the persistence domain.
func TestTerms(t *testing.T) {
	asserted := PMemConditions{DDIOOff: true}
	for _, asked := range []Durability{0, Process, PMem} {
		o := &OpenOptions{Durability: asked, AssertPMem: asserted}
		gpu, host := poolOptions(devicetest.OpenSim(t, nil), o), poolOptions(openCPU(t), o)
		if !gpu.GPU || host.GPU || !gpu.Asserted.DDIOOff || gpu.PMem != (asked == PMem) {
			t.Errorf("asked for %v: %+v for a GPU, %+v for a CPU", asked, gpu, host)
		}
	}
}

// BenchmarkDurability measures the cost of write-backs per key on one core, with 8-byte keys and
// 128-byte values. Batches are short, and only the fastest tenth of them counts, since a shared
// machine interrupts most batches.
func BenchmarkDurability(b *testing.B) {
	const n, part = 1 << 19, 1 << 12
	keys, values := make([]byte, n*8), make([]byte, n*128)
	for i := range uint64(n) {
		binary.LittleEndian.PutUint64(keys[i*8:], hash.Uint64(i, 1))
		binary.LittleEndian.PutUint64(values[i*128:], i)
	}
	for _, d := range []Durability{Process, PMem} {
		path := filepath.Join(memoryDir(b), "pool")
		x, err := Create(path, devicetest.OpenCPU(b, 1), Options{KeySize: 8, ValueSize: 128, Capacity: n, Size: 250 << 20,
			Durability: d, AssertPMem: PMemConditions{Persistent: true}})
		must(b, err)
		must(b, os.Remove(path))
		run := func(name string, before func() error, f func(lo, hi int) error) {
			b.Run(fmt.Sprintf("%s/%v", name, d), func(b *testing.B) {
				var took []time.Duration
				for b.Loop() {
					must(b, before())
					for lo := 0; lo < n; lo += part {
						start := time.Now()
						must(b, f(lo, lo+part))
						took = append(took, time.Since(start))
					}
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/10].Nanoseconds())/part, "ns/key")
			})
		}
		put := func(lo, hi int) error {
			_, err := x.Put(ctx, keys[lo*8:hi*8], values[lo*128:hi*128])
			return err
		}
		fill := func() error { return put(0, n) }
		run("Insert", func() error { return x.Clear(ctx) }, put)
		run("Update", fill, put)
		run("Delete", fill, func(lo, hi int) error {
			_, err := x.Delete(ctx, keys[lo*8:hi*8], nil)
			return err
		})
		must(b, x.Close())
	}
}
