package gphash

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftgo/weft/internal/pool"
)

// Levels and values that lie behind 2^33 bytes, and behind 2^32 words: there offsets of
// 32 bits ran over. The pool has 40 GiB of addresses and memory for the few pages that
// are touched.
func TestLargeOffsets(t *testing.T) {
	const size = 40 << 30
	mapped, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		t.Skipf("the system has no %d bytes of addresses: %v", size, err)
	}
	defer unix.Munmap(mapped)
	dev := openCPU(t)
	o := Options{KeySize: 24, ValueSize: 128, Capacity: 100, Slots: 8, Hashes: 2, Levels: 2, Hash: SipHash, Size: size}
	first, err := o.plan(unit)
	must(t, err)
	for i := first.Bottom; i <= first.Top; i++ { // to where words have numbers of 33 bits
		first.Levels[i].Offset += 33 << 30
	}
	im := &image{dev: dev, bytes: mapped, want: model{}}
	_, err = pool.Format(im.memory(), first)
	must(t, err)
	x := im.mustOpen(t, OpenOptions{})
	if low := x.engine.live[0].base; low < 1<<32 {
		t.Errorf("a level at word %#x", low)
	}
	for i := range 20 {
		im.put(t, x, i*100, i*100+110, uint64(i))
	}
	im.whole(t, x)
	it := x.engine.item(denseKey(24, 5))
	if _, c, ok := x.engine.find(&it); !ok || c.block() < 1<<32 || x.engine.resizes == 0 {
		t.Errorf("a value at word %#x, %d resizes", c.block(), x.engine.resizes)
	}
	im.whole(t, im.mustOpen(t, OpenOptions{Verify: true}))
}
