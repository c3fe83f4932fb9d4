package gphash

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/pool"
)

// damagedPools are pools of all layouts.
var damagedPools = map[string]Options{
	"keys of 8 bytes":  {KeySize: 8, ValueSize: 8},
	"keys of 32 bytes": {KeySize: 32, ValueSize: 20},
	"large values":     {KeySize: 8, ValueSize: 200},
	"records":          {},
	"keys in records":  {ValueSize: 8},
	"atomic":           {KeySize: 8, ValueSize: 20, AtomicBatch: 20},
	"atomic records":   {AtomicBatch: 20},
}

// twoStates returns an image of a closed pool, and its bytes in an older closed state. In that
// state all keys had other values, and some keys were different.
func twoStates(t *testing.T, dev device.Device, o Options) (im *image, before []byte) {
	t.Helper()
	o.Capacity, o.Size = 120, pool.DataStart+120*pool.Page
	im, err := formatted(t, dev, o, nil)
	must(t, err)
	for version := range uint64(2) {
		x := im.mustOpen(t, OpenOptions{})
		// a value may reuse the memory of an earlier value of the same key
		for round := range uint64(3) {
			im.replace(t, x, &o, int(version)*10, 100, 3*version+round)
		}
		if version == 1 {
			keys := Bytes{}
			for i := range 10 {
				keys.Append(denseKey(o.KeySize, i))
				delete(im.want, string(keys.Row(i)))
			}
			_, err := deleteRows(x, keys)
			must(t, err)
			// frees memory that the previous batch has deleted
			_, err = deleteRows(x, BytesOf(denseKey(o.KeySize, 1000)))
			must(t, err)
		}
		must(t, x.Close())
		if version == 0 {
			before = bytes.Clone(im.bytes)
		}
	}
	im.save()
	return im, before
}

// replace stores values of a version for keys lo to hi-1, a few per batch.
func (im *image) replace(t *testing.T, x *Index, o *Options, lo, hi int, version uint64) {
	t.Helper()
	for at := lo; at < hi; at += 15 {
		var keys, values Bytes
		for i := at; i < min(at+15, hi); i++ {
			key := denseKey(o.KeySize, i)
			keys.Append(key)
			values.Append(valueOf(o.ValueSize, key, version))
			im.want[string(key)] = string(values.Row(i - at))
		}
		_, err := putRows(x, keys, values)
		must(t, err)
	}
}

// pageDamage are ways to damage a page of an image. before is the page in an older state.
var pageDamage = map[string]func(rng *rand.Rand, im *image, before []byte, page []byte){
	"zeroed": func(_ *rand.Rand, _ *image, _ []byte, page []byte) { clear(page) },
	"ones":   func(_ *rand.Rand, _ *image, _ []byte, page []byte) { copy(page, bytes.Repeat([]byte{255}, len(page))) },
	"noise": func(rng *rand.Rand, _ *image, _ []byte, page []byte) {
		for i := range page {
			page[i] = byte(rng.Uint32())
		}
	},
	"a sector zeroed": func(rng *rand.Rand, _ *image, _ []byte, page []byte) { clear(page[rng.IntN(8)*512:][:512]) },
	"swapped": func(rng *rand.Rand, im *image, _ []byte, page []byte) {
		other := im.bytes[pool.DataStart+rng.IntN((len(im.bytes)-pool.DataStart)/pool.Page)*pool.Page:][:pool.Page]
		was := bytes.Clone(page)
		copy(page, other)
		copy(other, was)
	},
	"of another place": func(rng *rand.Rand, im *image, _ []byte, page []byte) {
		copy(page, im.bytes[pool.DataStart+rng.IntN((len(im.bytes)-pool.DataStart)/pool.Page)*pool.Page:][:pool.Page])
	},
	"of an older state": func(_ *rand.Rand, _ *image, before []byte, page []byte) { copy(page, before) },
	"a bit turned":      func(rng *rand.Rand, _ *image, _ []byte, page []byte) { page[rng.IntN(len(page))] ^= 1 << rng.IntN(8) },
}

// isReadable reports whether an index has exactly the pairs of the image.
func (im *image) isReadable(t *testing.T, x *Index) bool {
	t.Helper()
	return x.Len() == len(im.want) && maps.Equal(im.read(t, x), im.want)
}

// A page of a closed pool is damaged. If it is opened with Verify, for changing or for reading,
// Open returns an error or the index returns right answers. If it is opened without Verify, the
// keys are right and none is from an older state. Values are not checked then.
func TestDamagedPages(t *testing.T) {
	dev := openCPU(t)
	for name, o := range damagedPools {
		t.Run(name, func(t *testing.T) {
			im, before := twoStates(t, dev, o)
			found := map[string]int{}
			for kind, spoil := range pageDamage {
				// one generator per kind, since the order of kinds is random
				rng := rand.New(rand.NewPCG(5, 6))
				for at := 0; at < len(im.bytes); at += pool.Page {
					if at == pool.Page {
						at = pool.DataStart / 2
					} else if at == pool.DataStart/2+pool.Page {
						at = pool.DataStart
					}
					spoil(rng, im, before[at:][:pool.Page], im.bytes[at:][:pool.Page])
					for _, o := range []OpenOptions{{Verify: true}, {Verify: true, ReadOnly: true}} {
						x, report, err := im.open(o)
						switch {
						case errors.Is(err, weft.ErrCorrupt):
							found[kind]++
						case err != nil:
							t.Fatalf("%s, page at %d: %v", kind, at, err)
						case !im.isReadable(t, x) || x.Check(ctx) != nil:
							t.Fatalf("%s, page at %d, %+v: wrong answers, Check %v; report %+v", kind, at, o, x.Check(ctx), report)
						}
					}
					if x, _, err := im.open(OpenOptions{}); err == nil {
						if got := im.read(t, x); len(got) != len(im.want) || x.Len() != len(im.want) {
							t.Fatalf("%s, page at %d: opened without Verify, it has %d of %d keys", kind, at, len(got), len(im.want))
						}
					}
					im.restore()
				}
			}
			for kind := range pageDamage {
				if found[kind] == 0 {
					t.Errorf("%s: never found", kind)
				}
			}
			t.Log(found)
		})
	}
}

// A GPU that opens a pool finds the same damage as the CPU.
func TestDamagedPagesOnGPU(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	gpu := devicetest.OpenSim(t, nil)
	for _, name := range []string{"keys of 32 bytes", "atomic", "records"} {
		o := damagedPools[name]
		im, before := twoStates(t, openCPU(t), o)
		far := im.copyFor(gpu)
		tb := far.table(t)
		rng := rand.New(rand.NewPCG(5, 6))
		for _, kind := range []string{"zeroed", "of an older state"} {
			for _, at := range []uint64{tb.live[0].base * 8, tb.live[1].base * 8} {
				pageDamage[kind](rng, far, before[at:][:pool.Page], far.bytes[at:][:pool.Page])
				for _, open := range []OpenOptions{{}, {Verify: true}, {Mirror: true}} {
					if kind != "zeroed" && !open.Verify && name != "records" {
						continue // the device does not check values without Verify
					}
					if _, _, err := far.open(open); !errors.Is(err, weft.ErrCorrupt) {
						t.Errorf("%s: %s, %+v: %v", name, kind, open, err)
					}
				}
				far.restore()
			}
		}
		x := far.mustOpen(t, OpenOptions{Verify: true})
		far.replace(t, x, &o, 10, 30, 9)
		must(t, x.Check(ctx))
		must(t, x.Close())
		near := far.copyFor(openCPU(t))
		x, report, err := near.open(OpenOptions{Verify: true})
		must(t, err)
		if !report.Compared || !near.isReadable(t, x) {
			t.Errorf("%s: what a GPU has closed: %+v", name, report)
		}
	}
}

// A repair opens a pool that has lost keys and counts them. The remaining contents are consistent.
func TestRepairOfLostKeys(t *testing.T) {
	im, _ := twoStates(t, openCPU(t), damagedPools["keys of 8 bytes"])
	tb := im.table(t)
	nLost := uint64(0)
	for slot := range 16 {
		c := control(tb.mem.Load(tb.live[0].base + uint64(slot)))
		if slot < 8 && c.state() == full {
			nLost++
		}
	}
	clear(im.bytes[tb.live[0].base*8:][:8*8])
	if nLost == 0 {
		t.Fatal("the first bucket is empty")
	}
	x, report, err := im.open(OpenOptions{Repair: true})
	must(t, err)
	if report.Damaged != nLost || !report.Compared || len(report.Damage) != 1 || !strings.Contains(report.Damage[0], "when it was closed") {
		t.Errorf("%d keys are lost: %+v", nLost, report)
	}
	must(t, x.Check(ctx))
	must(t, x.Close())
	_, report, err = im.open(OpenOptions{Verify: true})
	if err != nil || !report.Compared || report.Keys != uint64(len(im.want))-nLost {
		t.Errorf("%v, %+v", err, report)
	}
}

// Check and the next Open detect damage that occurs while the pool is open and unchanged. Close
// then does not accept the damage. If keys are lost while the pool is changed, Close detects that.
func TestDamageWhileOpen(t *testing.T) {
	for _, change := range []bool{false, true} {
		o := damagedPools["keys of 8 bytes"]
		im, _ := twoStates(t, openCPU(t), o)
		x := im.mustOpen(t, OpenOptions{})
		if change {
			im.replace(t, x, &o, 10, 11, 9)
		}
		clear(im.bytes[x.engine.live[0].base*8:][:pool.Page])
		if err := x.Check(ctx); !errors.Is(err, weft.ErrCorrupt) {
			t.Errorf("changed %v: Check: %v", change, err)
		}
		if err := x.Close(); errors.Is(err, weft.ErrCorrupt) != change {
			t.Errorf("changed %v: Close: %v", change, err)
		}
		if _, _, err := im.open(OpenOptions{}); !errors.Is(err, weft.ErrCorrupt) {
			t.Errorf("changed %v: Open: %v", change, err)
		}
	}
}

// A pool that was not closed has no sums. Its report says that nothing was compared.
func TestComparedAfterACrash(t *testing.T) {
	dev, path := openCPU(t), filepath.Join(t.TempDir(), "pool")
	x, err := Create(path, dev, Options{KeySize: 8, ValueSize: 8, Capacity: 10})
	must(t, err)
	_, err = x.Put(ctx, denseKey(8, 1), denseKey(8, 1))
	must(t, err)
	for _, closed := range []bool{false, true} {
		content, err := os.ReadFile(path)
		must(t, err)
		must(t, x.Close())
		if !closed {
			must(t, os.WriteFile(path, content, 0o600))
		}
		var report *Report
		x, report, err = Open(ctx, path, dev, OpenOptions{Verify: true})
		must(t, err)
		if report.Compared != closed || report.Keys != 1 {
			t.Errorf("closed %v: %+v", closed, report)
		}
	}
	must(t, x.Close())
}

// Pools of format 1.0 can be opened. Closing them stores the current version.
func TestOlderVersion(t *testing.T) {
	dev := openCPU(t)
	for name, sizes := range map[string][2]int{"fixed": {8, 20}, "killed": {24, 8}, "strings": {0, 0}, "atomic": {8, 8}} {
		f, err := os.Open(filepath.Join("testdata", "pool_1_0_"+name+".gz"))
		must(t, err)
		z, err := gzip.NewReader(f)
		must(t, err)
		content, err := io.ReadAll(z)
		must(t, errors.Join(err, f.Close()))
		// without a boot id, a pool in memory belongs to the current boot
		path := filepath.Join(memoryDir(t), "pool")
		must(t, os.WriteFile(path, content, 0o600))
		p := &killPlan{Path: path, KeySize: sizes[0], ValueSize: sizes[1]}
		im := &image{dev: dev, want: model{}}
		for i := range 100 {
			if key := denseKey(sizes[0], i); i%5 != 0 {
				im.want[string(key)] = string(valueOf(sizes[1], key, map[bool]uint64{true: 1}[i%3 == 0]))
			}
		}
		for opened := range 3 {
			x, report, err := p.tryRecover(dev, OpenOptions{Verify: true, ReadOnly: opened == 0 && name != "killed"})
			must(t, err)
			if !im.isReadable(t, x) || report.Compared != (opened == 2) && !(name == "killed" && opened == 1) {
				t.Errorf("%s, opened %d times: %+v", name, opened, report)
			}
			must(t, x.Close())
		}
		info, err := pool.Inspect(path)
		must(t, err)
		if c := info.Copies[info.Current].Superblock.Contents; c.Keys != 80 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// A power failure leaves each page of a file in a state from some point in time. Such a pool can
// only be opened with Repair; otherwise Open returns [ErrPowerLost]. After a repair the pool has
// keys that it once had, each with a value that the key once had, and works like any pool.
func TestPowerLost(t *testing.T) {
	boot := pool.Boot
	defer func() { pool.Boot = boot }()
	dev := openCPU(t)
	seen := map[string]int{}
	for name, o := range damagedPools {
		dir := t.TempDir()
		live := filepath.Join(dir, "live")
		o.Capacity, o.Size, o.Seed = 200, pool.DataStart+200*pool.Page, [2]uint64{1, 2}
		pool.Boot = func() pool.BootID { return pool.BootID{1} }
		p := &killPlan{Path: live, KeySize: o.KeySize, ValueSize: o.ValueSize}
		was := unit
		unit = imageUnit
		x, err := createAny(live, dev, o)
		unit = was
		must(t, err)
		states, had := [][]byte{}, map[string][]string{}
		for version := range uint64(6) {
			im := &image{dev: dev, want: model{}}
			im.replace(t, x, &o, int(version)*20, int(version)*20+120, version)
			for k, v := range im.want {
				had[k] = append(had[k], v)
			}
			keys := BytesOf(denseKey(o.KeySize, int(version)*20+3), denseKey(o.KeySize, int(version)*20+50))
			_, err := deleteRows(x, keys)
			must(t, err)
			content, err := os.ReadFile(live)
			must(t, err)
			states = append(states, content)
		}
		must(t, x.Close())
		pool.Boot = func() pool.BootID { return pool.BootID{2} }
		p.Path = filepath.Join(dir, "left")
		rng := rand.New(rand.NewPCG(7, uint64(len(name))))
		for range 5 {
			left := bytes.Clone(states[len(states)-1])
			for at := 0; at < len(left); at += pool.Page {
				if from := states[rng.IntN(len(states))]; rng.IntN(3) > 0 {
					copy(left[at:at+pool.Page], from[at:])
				}
			}
			must(t, os.WriteFile(p.Path, left, 0o600))
			for _, open := range []OpenOptions{{}, {Verify: true}, {ReadOnly: true}, {ReadOnly: true, Verify: true}} {
				if _, _, err := p.tryRecover(dev, open); !errors.Is(err, ErrPowerLost) || !strings.Contains(err.Error(), "Repair") {
					t.Fatalf("%s, %+v: %v", name, open, err)
				}
			}
			x, report, err := p.tryRecover(dev, OpenOptions{Repair: true})
			if errors.Is(err, weft.ErrCorrupt) {
				seen["corrupt"]++ // the log of batches or a superblock is damaged
				continue
			}
			must(t, err)
			if !report.PowerLost {
				t.Errorf("%s: %+v", name, report)
			}
			var keys Bytes
			for k := range had {
				keys.Append([]byte(k))
			}
			values, found := make([][]byte, keys.Len()), make([]bool, keys.Len())
			_, err = getRows(x, keys, values, found)
			must(t, err)
			for i := range values {
				switch allowed := had[string(keys.Row(i))]; {
				case !found[i]:
					seen["absent"]++
				case !slices.Contains(allowed, string(values[i])):
					t.Fatalf("%s: key %x is %x, which it never was", name, keys.Row(i), values[i])
				default:
					seen["found"]++
				}
			}
			must(t, x.Check(ctx))
			must(t, x.Close())
			x, report, err = p.tryRecover(dev, OpenOptions{Verify: true})
			if err != nil || report.PowerLost || !report.Compared {
				t.Fatalf("%s, behind a repair: %v, %+v", name, err, report)
			}
			must(t, x.Close())
		}
	}
	t.Log(seen)
	if seen["found"] == 0 || seen["absent"] == 0 {
		t.Error("nothing has been salvaged, or nothing lost")
	}
}

// createAny creates an index with keys and values of fixed or variable length.
func createAny(path string, dev device.Device, o Options) (*Index, error) {
	if o.KeySize > 0 && o.ValueSize > 0 {
		return Create(path, dev, o)
	}
	s, err := CreateStrings(path, dev, o)
	if err != nil {
		return nil, fmt.Errorf("strings: %w", err)
	}
	return &Index{s.core, s.engine}, nil
}
