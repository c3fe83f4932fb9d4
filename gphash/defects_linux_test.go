package gphash

import (
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"

	"golang.org/x/sys/unix"

	"github.com/weftgo/weft/internal/pool"
)

// Levels and values lie beyond 2^33 bytes and beyond 2^32 words, where 32-bit offsets in the
// published code overflowed. The pool has 40 GiB of addresses, 5 GiB for a GPU, and memory only for
// the few pages in use.
func TestLargeOffsets(t *testing.T) {
	t.Run("CPU", func(t *testing.T) { largeOffsets(t, openCPU(t), 40<<30, 33<<30, 20) })
	// The simulator allocates a byte per word of the pool, so this pool takes it 45 s.
	if !testing.Short() {
		t.Run("GPU", func(t *testing.T) {
			largeOffsets(t, devicetest.OpenSim(t, &sim.Options{Arch: 80}), 4<<30+256<<20, 4<<30, 6)
		})
	}
}

// largeOffsets runs batches on a pool of the given size, in which all levels lie offset bytes
// higher than usual.
func largeOffsets(t *testing.T, dev device.Device, size int64, offset uint64, batches int) {
	mapped, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		t.Skipf("the system has no %d bytes of addresses: %v", size, err)
	}
	defer unix.Munmap(mapped)
	o := Options{KeySize: 24, ValueSize: 128, Capacity: 100, Slots: 8, Hashes: 2, Levels: 2, Hash: SipHash, Size: size}
	first, err := o.plan(unit)
	must(t, err)
	for i := first.Bottom; i <= first.Top; i++ { // to where word numbers have 33 bits
		first.Levels[i].Offset += offset
	}
	im := &image{dev: dev, bytes: mapped, want: model{}}
	_, err = pool.Format(im.memory(), first)
	must(t, err)
	x := im.mustOpen(t, OpenOptions{})
	if low := x.engine.live[0].base; low < offset/8 {
		t.Errorf("a level at word %#x", low)
	}
	for i := range batches {
		im.put(t, x, i*100, i*100+110, uint64(i))
	}
	im.checkWhole(t, x)
	it := x.engine.item(denseKey(24, 5))
	if _, c, ok := x.engine.find(&it); !ok || c.block() < offset/8 || x.engine.nResizes == 0 {
		t.Errorf("a value at word %#x, %d resizes", c.block(), x.engine.nResizes)
	}
	must(t, x.Close())
	x = im.mustOpen(t, OpenOptions{Verify: !im.gpu()})
	im.checkWhole(t, x)
	must(t, x.Close())
}
