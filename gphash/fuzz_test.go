package gphash

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pm"
	"github.com/weftgo/weft/internal/pool"
)

// FuzzPool overwrites words of a valid pool: two bytes of data give the index, eight give the word.
// The pool must open, possibly with a repair, and work. Untouched keys keep their values.
func FuzzPool(f *testing.F) {
	dev := openCPU(f)
	var images []*image
	for _, o := range smallPools {
		o.Capacity = 20
		images = append(images, filled(f, dev, o, 20))
	}
	patch := func(words ...uint64) (b []byte) {
		for i := 0; i < len(words); i += 2 {
			b = binary.LittleEndian.AppendUint64(append(b, byte(words[i]), byte(words[i]>>8)), words[i+1])
		}
		return b
	}
	f.Add(patch(0, 1<<63), byte(0))
	f.Add(patch(0, 1<<62|600, 1, 3<<62, 8, 5), byte(1))
	f.Add(patch(0, 0, 1, ^uint64(0), 300, 7, 520, 9), byte(3))
	f.Add(patch(0, 1<<62|600, 1, 3<<62, 8, 5), byte(2))
	f.Fuzz(func(t *testing.T, patches []byte, which byte) {
		im := images[int(which)%len(images)]
		defer im.restore()
		tb := im.table(t)
		owner := im.claims(tb)
		damaged := map[string]bool{}
		for ; len(patches) >= 10; patches = patches[10:] {
			w := pool.DataStart/pm.Word + uint64(binary.LittleEndian.Uint16(patches))%(tb.mem.Words()-pool.DataStart/pm.Word)
			tb.mem.Store(w, binary.LittleEndian.Uint64(patches[2:]))
			damaged[owner[w].key] = true
		}
		x, _ := im.openOrRepair(t)
		must(t, x.Close())
		x, _, err := im.open(OpenOptions{Verify: true, Resize: Stop})
		must(t, err)
		got := make([]byte, tb.valueSize)
		for k, v := range im.want {
			it := tb.item([]byte(k))
			if is, ok := x.engine.get(&it, got); !damaged[k] && (!ok || string(is) != v) {
				t.Fatalf("key %x is %x, not %x", k, got, v)
			}
		}
		im.put(t, x, 100, 110, 0)
		for i := range 10 {
			key := string(denseKey(int(tb.keySize), 100+i))
			it := tb.item([]byte(key))
			if is, ok := x.engine.get(&it, got); !ok || string(is) != im.want[key] {
				t.Fatalf("a key that was put is %x, not %x", got, im.want[key])
			}
			delete(im.want, key)
		}
		must(t, x.Check(ctx))
	})
}

// FuzzGeometry opens a pool of any geometry that package pool accepts.
func FuzzGeometry(f *testing.F) {
	dev := openCPU(f)
	f.Add(uint32(8), uint32(20), uint32(8), uint32(2), uint32(2), uint32(512), uint16(0), uint16(1), []byte{0, 0xff})
	f.Add(uint32(9), uint32(4096), uint32(32), uint32(32), uint32(31), uint32(1), uint16(3), uint16(9), []byte{1})
	f.Add(uint32(128), uint32(1), uint32(1), uint32(4), uint32(1), uint32(1<<28), uint16(0), uint16(0), []byte(nil))
	f.Fuzz(func(t *testing.T, keySize, valueSize, slots, hashes, levels, unit uint32, at, pages uint16, content []byte) {
		im, err := formatted(t, dev, Options{KeySize: 8, ValueSize: 8, Capacity: 20}, func(s *pool.Superblock) {
			if keySize == 0 || valueSize == 0 {
				s.Features.Incompat = pool.Records
			}
			s.Geometry = pool.Geometry{KeySize: keySize, ValueSize: valueSize, Slots: slots, Hashes: hashes, Levels: levels, HashID: 1, Unit: unit}
			s.Levels[s.Top].Offset += uint64(at) * pool.Page
			s.Levels[s.Top].Length += uint64(pages) * pool.Page
		})
		if err != nil {
			return
		}
		copy(im.bytes[pool.DataStart:], content)
		for _, o := range []OpenOptions{{}, {Verify: true, Repair: true, Resize: Stop}} {
			x, _, err := im.open(o)
			if err != nil {
				if !errors.Is(err, op.ErrCorrupt) {
					t.Fatal(err)
				}
				continue
			}
			key, value := bytes.Repeat([]byte{1, 2, 3}, int(max(keySize, 1))), make([]byte, 3*valueSize)
			ks, vs := max(keySize, 1), valueSize
			// fails if no slot is free
			_, _ = putRows(x, BytesOf(key[:ks], key[ks:2*ks], key[2*ks:]), BytesOf(value[:vs], value[vs:2*vs], value[2*vs:]))
			must(t, x.Check(ctx))
		}
	})
}
