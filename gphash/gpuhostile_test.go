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

// opened is what somebody finds who opens an image.
type opened struct {
	err    error // of Open, or of Check
	report Report
	pairs  model
}

// outcome opens an image of some damage and reads what is there.
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

// both opens the same damage on the host and on a GPU, in every way, and wants them to agree on what is
// wrong and on what is left.
func both(t *testing.T, host, gpu *image, what string) (damaged int) {
	t.Helper()
	for i, o := range []OpenOptions{{}, {Mirror: true}, {Cache: .4}, {Verify: true, Mirror: true}, {Repair: true}} {
		gpu.copyFrom(host)
		spoilt := host.outcome(t, o)
		host.copyFrom(gpu) // as it was
		got := gpu.outcome(t, o)
		if d := spoilt.report.Damage; !o.Verify && !o.Repair && len(d) == 1 && d[0] == slotsDiffer && got.report.Damaged == 0 {
			if !errors.Is(got.err, op.ErrCorrupt) {
				t.Fatalf("%s, opened in way %d: Check by a GPU: %v", what, i, got.err)
			}
			damaged++
			continue
		}
		if (spoilt.err == nil) != (got.err == nil) || fmt.Sprint(spoilt.report) != fmt.Sprint(got.report) || !maps.Equal(spoilt.pairs, got.pairs) {
			t.Fatalf("%s, opened in way %d: the host finds %+v, a GPU %+v", what, i, spoilt, got)
		}
		if spoilt.report.Damaged > 0 {
			damaged++
		}
	}
	return damaged
}

// onBoth damages an image of a host, and has the same image for a GPU.
func onBoth(t *testing.T, damage func(t *testing.T, host, gpu *image)) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	dev, gpu := openCPU(t), devicetest.OpenSim(t, &sim.Options{Arch: 80})
	for _, size := range smallPools {
		t.Run(fmt.Sprintf("%d,%d", size.KeySize, size.ValueSize), func(t *testing.T) {
			size.Capacity = 20
			im := filled(t, dev, size, 20)
			damage(t, im, im.on(gpu))
		})
	}
}

// What a control word says is not believed by a GPU either: kernels that look at slots leave the pool
// and their tables alone, and what is wrong is found as the host finds it.
func TestHostileControlsOnGPU(t *testing.T) {
	onBoth(t, func(t *testing.T, host, gpu *image) {
		tb := host.table(t)
		keys := slices.Sorted(maps.Keys(host.want))
		for _, d := range hostileControls {
			if tb.records() && d.name == "block of checksums" {
				continue // records have theirs with them
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
				if both(t, host, gpu, d.name) == 0 {
					t.Errorf("%s: not found", d.name)
				}
				host.restore()
			}
			for _, k := range keys {
				spoil(k)
			}
			both(t, host, gpu, d.name+", everywhere")
			host.restore()
		}
	})
}

// Levels full of anything at all, and slots with the key or the value of others.
func TestGarbageOnGPU(t *testing.T) {
	onBoth(t, func(t *testing.T, host, gpu *image) {
		tb := host.table(t)
		for seed := range uint64(40) {
			rng := rand.New(rand.NewPCG(seed, 3))
			l := tb.live[seed%2]
			for w := range tb.bucketWords << l.bits {
				v := rng.Uint64()
				if rng.IntN(2) == 0 { // of a value, as far as the slot knows
					v = uint64(control(v).next(full, tb.values.first+rng.Uint64N(tb.mem.Words()-tb.values.first)))
				}
				tb.mem.Store(l.base+w, v)
			}
			if both(t, host, gpu, fmt.Sprint("seed ", seed)) == 0 {
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
			if both(t, host, gpu, "a value of two keys") == 0 {
				t.Fatal("not found")
			}
			host.restore()
			tb.mem.Store(tb.tag(to), k.tag)
			if tb.keyWords > 0 {
				tb.mem.Write(tb.key(to), k.key)
			}
			if both(t, host, gpu, "a key in two slots") == 0 {
				t.Fatal("not found")
			}
			host.restore()
		}
	})
}

// Bits of slots, of values and of checksums that turn, some of all.
func TestFlipsOnGPU(t *testing.T) {
	onBoth(t, func(t *testing.T, host, gpu *image) {
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
			if both(t, host, gpu, fmt.Sprintf("bit %d of word %#x", bit, w)) > 0 {
				found++
			}
			host.restore()
		}
		if n := 120 / *flips; found < n/5 {
			t.Errorf("%d bits are damage, of %d", found, n)
		}
	})
}

// A superblock that describes no index is refused before a GPU maps anything.
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
