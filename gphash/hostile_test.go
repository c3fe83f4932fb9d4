package gphash

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/conformance"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pm"
	"github.com/weftgo/weft/internal/pool"
)

// image is a small pool in memory without a file. Tests damage, open and restore it many times.
type image struct {
	dev    device.Device
	bytes  []byte
	intact []byte // superblocks and contents before damage
	want   model
	opened []*Index
}

// oneCore is the reason to skip tests with images under the race detector.
const oneCore = "no batch is large enough to be shared out among cores"

// imageUnit is the allocation unit of images, in words. It is the minimum.
const imageUnit = pool.Page / pm.Word

// saved returns the parts of an image that hold data.
func (im *image) saved() [][]byte {
	return [][]byte{im.bytes[:pool.Page], im.bytes[pool.DataStart/2:][:pool.Page], im.bytes[pool.DataStart:]}
}

func (im *image) save() { im.intact = slices.Concat(im.saved()...) }

// markUnclean makes the image look like the pool of a killed process.
func (im *image) markUnclean(t testing.TB) {
	markUnclean(t, im.memory())
	im.save()
}

func markUnclean(t testing.TB, m *pm.Memory) {
	p, err := pool.OpenMemory(m)
	must(t, err)
	must(t, p.Commit(func(s *pool.Superblock) { s.Clean = false }))
}

func (im *image) restore() {
	from := im.intact
	for _, part := range im.saved() {
		from = from[copy(part, from):]
	}
}

func (im *image) copyFrom(src *image) {
	from := src.saved()
	for i, part := range im.saved() {
		copy(part, from[i])
	}
}

// formatted returns an image of an empty pool. change may edit the first superblock.
func formatted(t testing.TB, dev device.Device, o Options, change func(*pool.Superblock)) (*image, error) {
	t.Helper()
	conformance.SkipRaced(t, oneCore)
	o.Seed = [2]uint64{1, 2}
	if o.Size == 0 {
		o.Size = pool.DataStart + 24*pool.Page
	}
	for _, field := range []struct{ value, def *int }{{&o.Slots, ptr(8)}, {&o.Hashes, ptr(2)}, {&o.Levels, ptr(2)}} {
		if *field.value == 0 {
			*field.value = *field.def
		}
	}
	o.Hash = SipHash
	first, err := o.plan(imageUnit)
	must(t, err)
	if change != nil {
		change(first)
	}
	im := &image{dev: dev, bytes: mappable(o.Size), want: model{}}
	_, err = pool.Format(im.memory(), first)
	return im, err
}

// mappable returns heap memory that devices can map.
func mappable(size int64) []byte {
	memory := make([]uint64, (size+device.MapAlign)/pm.Word)
	for uintptr(unsafe.Pointer(&memory[0]))%device.MapAlign != 0 {
		memory = memory[1:]
	}
	return device.Bytes(memory)[:size]
}

// copyFor returns a copy of the image for another device.
func (im *image) copyFor(dev device.Device) *image {
	clone := &image{dev: dev, bytes: mappable(int64(len(im.bytes))), want: im.want}
	copy(clone.bytes, im.bytes)
	clone.save()
	return clone
}

func (im *image) memory() *pm.Memory { return pm.New(im.bytes, nil) }

// open opens the index in the image. It returns the results of Open.
func (im *image) open(o OpenOptions) (*Index, *Report, error) {
	p, err := pool.OpenMemory(im.memory())
	if err != nil {
		return nil, nil, err
	}
	t, e, report, err := openTable(ctx, p, im.dev, o, core.Types{})
	if err != nil {
		return nil, report, err
	}
	x := &Index{t, e}
	if im.gpu() {
		im.opened = append(im.opened, x)
	}
	return x, report, nil
}

func (im *image) mustOpen(t testing.TB, o OpenOptions) *Index {
	t.Helper()
	x, report, err := im.open(o)
	must(t, err)
	if report.Damaged > 0 {
		t.Fatalf("damaged: %q", report.Damage)
	}
	return x
}

// table returns the table of the index, so that tests can damage specific words.
func (im *image) table(t testing.TB) *table {
	t.Helper()
	p, err := pool.OpenMemory(im.memory())
	must(t, err)
	table, err := tableOf(p)
	must(t, err)
	return table
}

// denseKey returns key i. Keys differ in few bits, so damage to a key may produce another key. With
// size 0 the length varies.
func denseKey(size, i int) []byte {
	if size == 0 {
		size = 12 + i%5*3
	}
	key := make([]byte, size)
	copy(key[max(size-12, 0):], binary.LittleEndian.AppendUint32(nil, uint32(i)))
	return key
}

// valueOf returns a value that is unique to the key and the version.
func valueOf(size int, key []byte, version uint64) []byte {
	rng := rand.New(rand.NewPCG(binary.LittleEndian.Uint64(append(slices.Clone(key), make([]byte, 8)...)[max(len(key)-12, 0):]), version))
	if size == 0 {
		size = rng.IntN(50)
	}
	value := make([]byte, size)
	for i := range value {
		value[i] = byte(rng.Uint32())
	}
	return value
}

// filled returns an image of a pool with keys 0 to n-1. Several have been replaced or deleted.
func filled(t testing.TB, dev device.Device, o Options, n int) *image {
	t.Helper()
	im, err := formatted(t, dev, o, nil)
	must(t, err)
	x := im.mustOpen(t, OpenOptions{})
	put := func(i int, version uint64) {
		key := denseKey(o.KeySize, i)
		value := valueOf(o.ValueSize, key, version)
		_, err := putRows(x, BytesOf(key), BytesOf(value))
		must(t, err)
		im.want[string(key)] = string(value)
	}
	for i := range n {
		put(i, 0)
	}
	for i := 0; i < n; i += 3 {
		put(i, 1)
	}
	for i := 0; i < n; i += 5 {
		key := denseKey(o.KeySize, i)
		_, err := deleteRows(x, BytesOf(key))
		must(t, err)
		delete(im.want, string(key))
	}
	if x.engine.closed > 0 {
		must(t, x.Compact(ctx))
	}
	must(t, x.Check(ctx))
	must(t, x.Close())
	im.save()
	return im
}

// claim is a word that belongs to the slot, the value or the checksum of a key.
type claim struct {
	key     string
	matters uint64 // bits that must be right; versions and padding after a value do not matter
}

// claims returns the words of the keys in the model.
func (im *image) claims(tb *table) map[uint64]claim {
	owner := map[uint64]claim{}
	for k := range im.want {
		it := tb.item([]byte(k))
		at, c, _ := tb.find(&it)
		all := claim{k, ^uint64(0)}
		owner[tb.control(at)] = claim{k, ^uint64((1<<versionBits - 1) << blockBits)}
		owner[tb.tag(at)] = all
		for i := range tb.keyWords {
			owner[tb.key(at)+i] = all
		}
		if tb.records() {
			h, _ := tb.values.record(c.block())
			owner[c.block()] = all
			ownBytes(owner, k, c.block()+1, h.keyLen())
			ownBytes(owner, k, c.block()+h.valueOffset(), h.valueLen())
			continue
		}
		unit, i, _ := tb.values.locate(c.block())
		owner[tb.values.first+unit*tb.values.unit+i] = all
		ownBytes(owner, k, c.block(), int(tb.valueSize))
	}
	return owner
}

// ownBytes assigns the words of n bytes to a key.
func ownBytes(owner map[uint64]claim, key string, at uint64, n int) {
	for ; n > 0; n -= pm.Word {
		owner[at] = claim{key, ^uint64(0) >> (64 - 8*min(pm.Word, n))}
		at++
	}
}

// openOrRepair opens an image, or repairs it if damage is found. It counts the damaged slots.
func (im *image) openOrRepair(t testing.TB) (x *Index, found uint64) {
	t.Helper()
	x, report, err := im.open(OpenOptions{Verify: true})
	if err == nil {
		return x, 0
	}
	if !errors.Is(err, op.ErrCorrupt) || report == nil || report.Damaged == 0 || !strings.Contains(err.Error(), " of bucket ") && !strings.Contains(err.Error(), "when it was closed") {
		t.Fatalf("%v; %+v", err, report)
	}
	found = report.Damaged
	if x, report, err = im.open(OpenOptions{Repair: true}); err != nil || report.Damaged == 0 || report.Damaged > found {
		t.Fatalf("%d slots are damaged; repair: %v; %+v", found, err, report)
	}
	return x, found
}

// allowsDamage opens a damaged image. It fails if a key that was not damaged is lost, or if a key
// has a value that it never had. It reports whether damage was found, in at most as many slots as
// were damaged.
func (im *image) allowsDamage(t testing.TB, damaged map[string]bool) bool {
	t.Helper()
	x, found := im.openOrRepair(t)
	if found > uint64(max(len(damaged), 1)) {
		t.Fatalf("%d slots are said to be damaged, of %d keys", found, len(damaged))
	}
	im.compare(t, x, func(key string) bool { return found > 0 && damaged[key] })
	if err := x.Check(ctx); err != nil {
		t.Fatalf("Check of what has been opened: %v", err)
	}
	if !im.gpu() {
		must(t, x.Close())
	}
	return found > 0
}

// read looks up all keys, one by one, or in one batch on a GPU.
func (im *image) read(t testing.TB, x *Index) model {
	t.Helper()
	got := model{}
	if _, host := im.dev.(device.Host); host {
		for k := range im.want {
			it := x.engine.item([]byte(k))
			if value, ok := x.engine.get(&it, make([]byte, x.engine.valueSize)); ok {
				got[k] = string(value)
			}
		}
		return got
	}
	var keys Bytes
	for k := range im.want {
		keys.Append([]byte(k))
	}
	values, found := make([][]byte, keys.Len()), make([]bool, keys.Len())
	_, err := getRows(x, keys, values, found)
	must(t, err)
	for i, ok := range found {
		if ok {
			got[string(keys.Row(i))] = string(values[i])
		}
	}
	return got
}

// compare fails unless the keys have their values and no other keys exist. Keys for which
// mayBeAbsent returns true may be absent.
func (im *image) compare(t testing.TB, x *Index, mayBeAbsent func(string) bool) {
	t.Helper()
	nAbsent, read := 0, im.read(t, x)
	for k, v := range im.want {
		value, ok := read[k]
		if !ok && mayBeAbsent(k) {
			nAbsent++
		} else if !ok || value != v {
			t.Fatalf("key %x: found %v, %x; it is %x", k, ok, value, v)
		}
	}
	if x.Len() != len(im.want)-nAbsent {
		t.Fatalf("%d keys, %d of them are gone, and Len says %d", len(im.want), nAbsent, x.Len())
	}
}

var smallPools = []Options{
	{KeySize: 8, ValueSize: 20},
	{KeySize: 24, ValueSize: 8},
	{},
	{KeySize: 13},
}

// flips is a divisor for the number of bits to flip. Each bit position is still tested.
var flips = flag.Int("flips", 3, "tests of damage turn one bit in so many of a pool; 1: each")

// If any bit of a slot, a value or a checksum flips, Open detects it, or it is harmless. No lookup
// returns a wrong value, and a repair loses no other key.
func TestFlips(t *testing.T) {
	dev := openCPU(t)
	for _, o := range smallPools {
		t.Run(fmt.Sprintf("%d,%d", o.KeySize, o.ValueSize), func(t *testing.T) {
			o.Capacity = 20
			im := filled(t, dev, o, 20)
			tb := im.table(t)
			owner := im.claims(tb)
			if len(tb.live) != 2 {
				t.Fatalf("%d levels", len(tb.live))
			}
			var words []uint64
			for _, l := range tb.live {
				for w := range tb.bucketWords << l.bits {
					words = append(words, l.base+w)
				}
			}
			for w := range owner {
				if !slices.Contains(words, w) {
					words = append(words, w)
				}
			}
			slices.Sort(words)
			turned, found := 0, 0
			for _, w := range words {
				for bit := int(w) % *flips; bit < 64; bit += *flips {
					im.bytes[w*pm.Word+uint64(bit/8)] ^= 1 << (bit % 8)
					c, owned := owner[w]
					wrong := im.allowsDamage(t, map[string]bool{c.key: owned})
					if !wrong && c.matters>>bit&1 != 0 {
						t.Fatalf("bit %d of word %#x, of key %x, is not missed", bit, w, c.key)
					}
					if turned++; wrong {
						found++
					}
					im.restore()
				}
			}
			t.Logf("%d bits turned, %d of them damage", turned, found)
			if found == 0 || found == turned {
				t.Errorf("%d of %d turned bits are damage", found, turned)
			}
		})
	}
}

// damage is possible damage to a control word.
type damage struct {
	name  string
	spoil func(tb *table, at slotRef, c control) control
}

var hostileControls = []damage{
	{"block beyond the pool", func(tb *table, _ slotRef, c control) control { return c.next(full, tb.mem.Words()+64) }},
	{"block at the last word", func(tb *table, _ slotRef, c control) control { return c.next(full, tb.mem.Words()-1) }},
	{"block of all ones", func(_ *table, _ slotRef, c control) control { return c.next(full, 1<<blockBits-1) }},
	{"block zero", func(_ *table, _ slotRef, c control) control { return c.next(full, 0) }},
	{"block in the superblock", func(_ *table, _ slotRef, c control) control { return c.next(full, 8) }},
	{"block in a level", func(tb *table, _ slotRef, c control) control {
		return c.next(full, tb.live[0].base+tb.values.offset)
	}},
	{"block between two values", func(_ *table, _ slotRef, c control) control { return c.next(full, c.block()+1) }},
	{"block of checksums", func(tb *table, _ slotRef, c control) control {
		return c.next(full, (c.block()-tb.values.first)/tb.values.unit*tb.values.unit+tb.values.first)
	}},
	{"block of nobody", func(tb *table, _ slotRef, c control) control {
		return c.next(full, c.block()+100*max(tb.values.words, 1))
	}},
	{"state empty", func(_ *table, _ slotRef, c control) control { return c & (1<<(blockBits+versionBits) - 1) }},
	{"state writing", func(_ *table, _ slotRef, c control) control {
		return c&(1<<(blockBits+versionBits)-1) | control(writing)<<(blockBits+versionBits)
	}},
	{"state tomb", func(_ *table, _ slotRef, c control) control { return c | 3<<(blockBits+versionBits) }},
	{"all ones", func(*table, slotRef, control) control { return ^control(0) }},
}

// Open checks the contents of control words, with one damaged word and with all of them damaged.
func TestHostileControls(t *testing.T) {
	dev := openCPU(t)
	for _, o := range smallPools {
		o.Capacity = 20
		im := filled(t, dev, o, 20)
		tb := im.table(t)
		for _, d := range hostileControls {
			all := map[string]bool{}
			spoil := func(k string) {
				it := tb.item([]byte(k))
				at, c, ok := tb.find(&it)
				if !ok {
					t.Fatal("a key is not there")
				}
				tb.mem.Store(tb.control(at), uint64(d.spoil(tb, at, c)))
			}
			if tb.records() && d.name == "block of checksums" {
				continue // records contain their checksums
			}
			for k := range im.want {
				spoil(k)
				if !im.allowsDamage(t, map[string]bool{k: true}) {
					t.Errorf("%s: not found", d.name)
				}
				im.restore()
				all[k] = true
			}
			for k := range im.want {
				spoil(k)
			}
			im.allowsDamage(t, all)
			im.restore()
		}
	}
}

// If two slots have one value or one key, one slot is damaged, and the checksums show which.
func TestSharedValues(t *testing.T) {
	dev := openCPU(t)
	for _, o := range smallPools {
		o.Capacity = 20
		im := filled(t, dev, o, 20)
		tb := im.table(t)
		for k := range im.want {
			for other := range im.want {
				if k == other {
					continue
				}
				it, theirs := tb.item([]byte(k)), tb.item([]byte(other))
				at, c, _ := tb.find(&it)
				to, was, _ := tb.find(&theirs)
				tb.mem.Store(tb.control(at), uint64(c.next(full, was.block())))
				if !im.allowsDamage(t, map[string]bool{k: true}) {
					t.Fatal("a value of two keys is not found")
				}
				im.restore()
				tb.mem.Store(tb.tag(to), it.tag)
				if tb.keyWords > 0 {
					tb.mem.Write(tb.key(to), it.key)
				}
				if !im.allowsDamage(t, map[string]bool{other: true}) {
					t.Fatal("a key in two slots is not found")
				}
				im.restore()
			}
		}
	}
}

// After a crash during a move, two slots have one key and one value. One slot stays, and no damage
// is reported.
func TestSameKeyTwice(t *testing.T) {
	dev := openCPU(t)
	for _, o := range smallPools {
		o.Capacity = 20
		im := filled(t, dev, o, 20)
		im.markUnclean(t)
		tb := im.table(t)
		for k := range im.want {
			it := tb.item([]byte(k))
			_, c, _ := tb.find(&it)
			to, was, ok := tb.vacantSlot(&it)
			if !ok {
				t.Fatal("no free slot")
			}
			tb.publish(to, was, &it, c.block())
			if im.allowsDamage(t, nil) {
				t.Fatal("a key in two slots, as while it moves, is taken for damage")
			}
			im.restore()
		}
	}
}

// Levels contain random words.
func TestGarbage(t *testing.T) {
	dev := openCPU(t)
	for _, o := range smallPools {
		o.Capacity = 20
		im := filled(t, dev, o, 20)
		tb := im.table(t)
		for seed := range uint64(60) {
			rng := rand.New(rand.NewPCG(seed, 3))
			l := tb.live[seed%2]
			damaged := map[string]bool{}
			for k := range im.want {
				it := tb.item([]byte(k))
				at, _, _ := tb.find(&it)
				if at.bucket >= l.base && at.bucket < l.base+tb.bucketWords<<l.bits {
					damaged[k] = true
				}
			}
			for i := range tb.slots << l.bits {
				damaged[fmt.Sprint("slot ", i)] = true
			}
			for w := range tb.bucketWords << l.bits {
				v := rng.Uint64()
				if rng.IntN(2) == 0 { // a word that may refer to a value
					v = uint64(control(v).next(full, tb.values.first+rng.Uint64N(tb.mem.Words()-tb.values.first)))
				}
				tb.mem.Store(l.base+w, v)
			}
			if !im.allowsDamage(t, damaged) {
				t.Fatal("a level of garbage was opened")
			}
			im.restore()
		}
	}
}

// hostileSuperblocks are intact and legal for package pool, but do not describe an index.
var hostileSuperblocks = []struct {
	name   string
	change func(*pool.Superblock)
}{
	{"a level longer than its buckets", func(s *pool.Superblock) { s.Levels[s.Top].Length += pool.Page }},
	{"a level shorter than its buckets", func(s *pool.Superblock) { s.Geometry.KeySize = 128 }},
	{"a level between two units", func(s *pool.Superblock) {
		s.Geometry.Unit = 2 * imageUnit
		moved(s, s.Bottom, pool.Page, 2*pool.Page)
		moved(s, s.Top, 4*pool.Page, 2*pool.Page)
	}},
	{"levels that share a unit", func(s *pool.Superblock) {
		s.Geometry.Unit = 2 * imageUnit
		moved(s, s.Bottom, 0, pool.Page)
		moved(s, s.Top, pool.Page, pool.Page)
	}},
	{"a length that ends within a unit", func(s *pool.Superblock) {
		s.Geometry.Unit = 2 * imageUnit
		moved(s, s.Bottom, 0, 3*pool.Page)
		moved(s, s.Top, 4*pool.Page, 2*pool.Page)
	}},
	{"units of no whole page", func(s *pool.Superblock) { s.Geometry.Unit = imageUnit / 2 }},
	{"units that divide no page", func(s *pool.Superblock) { s.Geometry.Unit = 7 }},
	{"units of one word", func(s *pool.Superblock) { s.Geometry.Unit = 1 }},
	{"units larger than the pool", func(s *pool.Superblock) { s.Geometry.Unit = 1 << 28 }},
	{"values larger than a unit", func(s *pool.Superblock) { s.Geometry.ValueSize = 4096 }},
	{"values as large as a unit", func(s *pool.Superblock) { s.Geometry.ValueSize = 4096 - 8 }},
	{"5 hashes", func(s *pool.Superblock) { s.Geometry.Hashes = 5 }},
	{"32 hashes", func(s *pool.Superblock) { s.Geometry.Hashes, s.Geometry.Slots, s.Geometry.Levels = 32, 1, 1 }},
	{"more ways than 32", func(s *pool.Superblock) { s.Geometry.Slots = 9 }},
	{"more levels than there are", func(s *pool.Superblock) { s.Geometry.Levels, s.Geometry.Slots = 5, 2 }},
	{"less levels than there are", func(s *pool.Superblock) { s.Geometry.Levels = 1 }},
	{"a level that is drained too many", func(s *pool.Superblock) { s.Levels[s.Bottom].State = pool.Draining }},
	{"a redo log of no length", func(s *pool.Superblock) { s.Features.Incompat |= pool.AtomicBatches }},
	{"a redo log that begins within a unit", func(s *pool.Superblock) {
		s.Geometry.Unit = 2 * imageUnit
		moved(s, s.Bottom, 0, 2*pool.Page)
		moved(s, s.Top, 2*pool.Page, 2*pool.Page)
		s.Features.Incompat |= pool.AtomicBatches
		s.Areas[redoArea] = pool.Area{Offset: pool.DataStart + 5*pool.Page, Length: 2 * pool.Page}
	}},
	{"a top of 2^30 buckets", func(s *pool.Superblock) {
		s.Levels[29], s.Levels[30] = s.Levels[s.Bottom], s.Levels[s.Top]
		s.Levels[s.Bottom], s.Levels[s.Top] = pool.Level{}, pool.Level{}
		s.Bottom, s.Top = 29, 30
	}},
}

// moved changes the place of a level.
func moved(s *pool.Superblock, i uint32, offset, length uint64) {
	s.Levels[i].Offset, s.Levels[i].Length = pool.DataStart+offset, length
}

// A superblock that does not describe an index is refused before much memory is allocated.
func TestHostileSuperblocks(t *testing.T) {
	dev := openCPU(t)
	for _, h := range hostileSuperblocks {
		t.Run(h.name, func(t *testing.T) {
			im, err := formatted(t, dev, Options{KeySize: 8, ValueSize: 8, Capacity: 20}, h.change)
			if err != nil {
				t.Fatalf("the pool's package refuses it already: %v", err)
			}
			var before, behind runtime.MemStats
			runtime.ReadMemStats(&before)
			for _, o := range []OpenOptions{{Verify: true}, {Repair: true}, {Resize: Stop}} {
				if x, _, err := im.open(o); err == nil {
					x.Close()
					t.Error("opened")
				} else if !errors.Is(err, op.ErrCorrupt) {
					t.Error(err)
				}
			}
			runtime.ReadMemStats(&behind)
			if n := behind.TotalAlloc - before.TotalAlloc; n > 4<<20 {
				t.Errorf("%d bytes allocated for a pool of %d", n, len(im.bytes))
			}
		})
	}
}

// The version of a slot may wrap around to zero.
func TestVersionsWrap(t *testing.T) {
	im := filled(t, openCPU(t), Options{KeySize: 8, ValueSize: 20, Capacity: 20}, 20)
	tb := im.table(t)
	const ones = (1<<versionBits - 1) << blockBits
	for _, l := range tb.live {
		for b := range uint64(1) << l.bits {
			for slot := range tb.slots {
				at := tb.control(slotRef{l.base + b*tb.bucketWords, slot})
				tb.mem.Store(at, tb.mem.Load(at)|ones)
			}
		}
	}
	x := im.mustOpen(t, OpenOptions{Verify: true})
	im.compare(t, x, func(string) bool { return false })
	const keys, batches, each = 20, 400, 100
	for i := range keys {
		key := denseKey(8, i)
		im.want[string(key)] = string(valueOf(20, key, 2))
		_, err := x.Put(ctx, key, []byte(im.want[string(key)]))
		must(t, err)
	}
	im.compare(t, x, func(string) bool { return false })
	key := denseKey(8, 3)
	it := tb.item(key)
	_, first, _ := tb.find(&it)
	for b := range batches { // 40,000 updates of one slot
		values := bytes.Repeat([]byte{byte(b)}, 20*each)
		_, err := x.Put(ctx, bytes.Repeat(key, each), values)
		must(t, err)
		im.want[string(key)] = string(values[:20])
	}
	if _, last, _ := tb.find(&it); last.version() != (first.version()+batches*each)%(1<<versionBits) {
		t.Errorf("version %d has become %d by %d updates", first.version(), last.version(), batches*each)
	}
	im.compare(t, x, func(string) bool { return false })
	must(t, x.Check(ctx))
	must(t, x.Close())
	im.compare(t, im.mustOpen(t, OpenOptions{Verify: true}), func(string) bool { return false })
}
