package gphash

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/op"
)

// opened is the result of opening an image.
type opened struct {
	err    error // returned by Open or Check
	report Report
	pairs  model
}

// outcome opens a damaged image and reads its contents.
func (im *image) outcome(t testing.TB, o OpenOptions) opened {
	t.Helper()
	x, report, err := im.open(o)
	if err != nil && (!errors.Is(err, op.ErrCorrupt) || report == nil) {
		t.Fatalf("%v; %+v", err, report)
	}
	report.Times = Times{}
	slices.Sort(report.Damage)
	found := opened{err: err, report: *report}
	if err != nil {
		return found
	}
	found.pairs, found.err = im.read(t, x), x.Check(ctx)
	must(t, x.Close())
	return found
}

// compareOpenings opens the same damaged pool on the host and on a GPU, with all options. Both must
// agree on the damage and on the remaining contents.
func compareOpenings(t *testing.T, host, gpu *image, name string) (damaged int) {
	t.Helper()
	for i, o := range []OpenOptions{{}, {Mirror: true}, {Cache: .4}, {Verify: true, Mirror: true}, {Repair: true}} {
		gpu.copyFrom(host)
		spoilt := host.outcome(t, o)
		host.copyFrom(gpu) // unchanged
		got := gpu.outcome(t, o)
		if d := spoilt.report.Damage; !o.Verify && !o.Repair && len(d) == 1 && d[0] == slotsDiffer && got.report.Damaged == 0 {
			if !errors.Is(got.err, op.ErrCorrupt) {
				t.Fatalf("%s, opened in way %d: Check by a GPU: %v", name, i, got.err)
			}
			damaged++
			continue
		}
		if (spoilt.err == nil) != (got.err == nil) || fmt.Sprint(spoilt.report) != fmt.Sprint(got.report) || !maps.Equal(spoilt.pairs, got.pairs) {
			t.Fatalf("%s, opened in way %d: the host finds %+v, a GPU %+v", name, i, spoilt, got)
		}
		if spoilt.report.Damaged > 0 {
			damaged++
		}
	}
	return damaged
}

// forBoth runs a test with an image for a host and a copy for a GPU.
func forBoth(t *testing.T, damage func(t *testing.T, host, gpu *image)) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev, gpu := openCPU(t), devicetest.OpenSim(t, &sim.Options{Arch: 80})
	for _, size := range smallPools {
		t.Run(fmt.Sprintf("%d,%d", size.KeySize, size.ValueSize), func(t *testing.T) {
			size.Capacity = 20
			im := filled(t, dev, size, 20)
			damage(t, im, im.copyFor(gpu))
		})
	}
}

// A GPU also checks the contents of control words. Kernels that inspect slots leave the pool and
// their tables unchanged, and find the same damage as the host.
func TestHostileControlsOnGPU(t *testing.T) {
	forBoth(t, func(t *testing.T, host, gpu *image) {
		tb := host.table(t)
		keys := slices.Sorted(maps.Keys(host.want))
		for _, d := range hostileControls {
			if tb.records() && d.name == "block of checksums" {
				continue // records contain their checksums
			}
			spoil := func(k string) {
				it := tb.item([]byte(k))
				at, c, ok := tb.find(&it)
				if !ok {
					t.Fatal("a key is not there")
				}
				tb.mem.Store(tb.control(at), uint64(d.spoil(tb, at, c)))
			}
			for i := 0; i < len(keys); i += 3 {
				spoil(keys[i])
				if compareOpenings(t, host, gpu, d.name) == 0 {
					t.Errorf("%s: not found", d.name)
				}
				host.restore()
			}
			for _, k := range keys {
				spoil(k)
			}
			compareOpenings(t, host, gpu, d.name+", everywhere")
			host.restore()
		}
	})
}

// Levels contain random words, and slots contain keys or values of other slots.
func TestGarbageOnGPU(t *testing.T) {
	forBoth(t, func(t *testing.T, host, gpu *image) {
		tb := host.table(t)
		for seed := range uint64(40) {
			rng := rand.New(rand.NewPCG(seed, 3))
			l := tb.live[seed%2]
			for w := range tb.bucketWords << l.bits {
				v := rng.Uint64()
				if rng.IntN(2) == 0 { // a word that may refer to a value
					v = uint64(control(v).next(full, tb.values.first+rng.Uint64N(tb.mem.Words()-tb.values.first)))
				}
				tb.mem.Store(l.base+w, v)
			}
			if compareOpenings(t, host, gpu, fmt.Sprint("seed ", seed)) == 0 {
				t.Fatal("a level of garbage was opened")
			}
			host.restore()
		}
		keys := slices.Sorted(maps.Keys(host.want))
		for i := range 6 {
			k, other := tb.item([]byte(keys[i])), tb.item([]byte(keys[i+3]))
			at, c, _ := tb.find(&k)
			to, was, _ := tb.find(&other)
			tb.mem.Store(tb.control(at), uint64(c.next(full, was.block())))
			if compareOpenings(t, host, gpu, "a value of two keys") == 0 {
				t.Fatal("not found")
			}
			host.restore()
			tb.mem.Store(tb.tag(to), k.tag)
			if tb.keyWords > 0 {
				tb.mem.Write(tb.key(to), k.key)
			}
			if compareOpenings(t, host, gpu, "a key in two slots") == 0 {
				t.Fatal("not found")
			}
			host.restore()
		}
	})
}

// Bits of slots, values and checksums are flipped, one at a time, in a random sample.
func TestFlipsOnGPU(t *testing.T) {
	forBoth(t, func(t *testing.T, host, gpu *image) {
		tb := host.table(t)
		words := slices.Sorted(maps.Keys(host.claims(tb)))
		for _, l := range tb.live {
			for w := range tb.bucketWords << l.bits {
				words = append(words, l.base+w)
			}
		}
		rng, found := rand.New(rand.NewPCG(1, 4)), 0
		for range 120 / *flips {
			w, bit := words[rng.IntN(len(words))], rng.IntN(64)
			tb.mem.Store(w, tb.mem.Load(w)^1<<bit)
			if compareOpenings(t, host, gpu, fmt.Sprintf("bit %d of word %#x", bit, w)) > 0 {
				found++
			}
			host.restore()
		}
		if n := 120 / *flips; found < n/5 {
			t.Errorf("%d bits are damage, of %d", found, n)
		}
	})
}

// A superblock that does not describe an index is refused before a GPU maps the pool.
func TestHostileSuperblocksOnGPU(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	gpu := devicetest.OpenSim(t, &sim.Options{Arch: 80})
	before := devicetest.Live(gpu)
	for _, h := range hostileSuperblocks {
		im, err := formatted(t, gpu, Options{KeySize: 8, ValueSize: 8, Capacity: 20}, h.change)
		must(t, err)
		for _, o := range []OpenOptions{{}, {Mirror: true}, {Repair: true}} {
			if _, _, err := im.open(o); !errors.Is(err, op.ErrCorrupt) {
				t.Errorf("%s: %v", h.name, err)
			}
		}
	}
	if now := devicetest.Live(gpu); now != before {
		t.Errorf("%+v is left, %+v was there", now, before)
	}
}
