package join

import (
	"context"
	"errors"
	"math/bits"
	"sync"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/hash"
)

// table finds the rows of a key in host memory. It sorts rows by bucket and then by key, and the
// rows of a key in ascending order. It stores only where the rows of each bucket and key begin.
//
// A bucket is a range of hashes. If keys lie close together, a bucket is a single key, and a lookup
// compares no keys. The number of buckets is about the number of rows.
//
// A map would find a key in one memory access, but wait for it. Here, build and lookup distribute
// rows to parts that fit a core's cache. This is faster than prefetching in the order of the rows.
// A GPU has other work while it waits, so a map leads from keys to rows there (internal/gpu/pairs).
type table[K word] struct {
	host    device.Host
	direct  bool
	low     K      // if direct, bucket b holds the key low+b
	seed    uint64 // if not direct, seed of the hash
	shift   uint   // if not direct, hash>>shift is the bucket
	buckets uint32
	parts   parts

	// by bucket, and one more: its first group or, if direct, its first row
	dir  device.Slice[uint32]
	keys device.Slice[K] // by group
	// by group, and two more: its first row; empty if each group has one row
	begin device.Slice[uint32]
	rows  device.Slice[uint32] // sorted; rows with nulls last; one more element

	blocks sync.Pool // of type *block[K]

	groups int  // number of distinct keys
	nKeyed int  // number of rows with a key
	nulls  span // rows with nulls, if nulls match
}

// span holds the rows of a key: rows[at:at+n]. If n is 1, at is the row itself.
type span struct{ at, n uint32 }

// parts divides the buckets into ranges. The part of the table for a range fits a core's cache.
type parts struct {
	shift uint // bucket>>shift is the part of a bucket
	n     int
}

// partBuckets is the binary logarithm of the number of buckets in a part. A build writes the memory
// of a part, at most 200 KiB, in random order.
const partBuckets = 13

// maxParts bounds the number of locations that a core writes to in turn while it distributes rows.
const maxParts = 1 << 11

func partsOf(buckets uint32, shift uint) parts {
	for int(buckets>>shift) >= maxParts {
		shift++
	}
	return parts{shift: shift, n: int(buckets>>shift) + 1}
}

// block returns memory to read rows to. The caller must put it back to t.blocks.
func (t *table[K]) block() *block[K] {
	if b, ok := t.blocks.Get().(*block[K]); ok {
		return b
	}
	return new(block[K])
}

// bucketsOf computes the buckets of words. In a direct table, words outside its range get the
// bucket after the last one, which is empty.
func (t *table[K]) bucketsOf(words []K, buckets []uint32) {
	buckets = buckets[:len(words)]
	switch {
	case t.direct:
		low, n := t.low, K(t.buckets)
		for i, k := range words {
			buckets[i] = uint32(min(k-low, n))
		}
	case unsafe.Sizeof(t.low) == 4:
		for i, k := range words {
			buckets[i] = hash.Uint32(uint32(k), t.seed) >> t.shift
		}
	default:
		for i, k := range words {
			buckets[i] = uint32(hash.Uint64(uint64(k), t.seed) >> t.shift)
		}
	}
}

// find looks up words whose buckets are known.
func (t *table[K]) find(words []K, buckets []uint32, out []span) {
	switch {
	case t.nKeyed == 0:
		clear(out)
		return
	case t.direct:
		t.findDirect(buckets, out)
	case t.begin.Len() == 0:
		t.findSingle(words, buckets, out)
		return
	default:
		t.findGroups(words, buckets, out)
	}
	rows := t.rows.Host()
	for i := range out {
		s := out[i]
		row := rows[s.at] // read even if the key has no rows, but then not used
		if s.n == 1 {
			s.at = row
		}
		out[i] = s
	}
}

func (t *table[K]) findDirect(buckets []uint32, out []span) {
	dir := t.dir.Host()
	out = out[:len(buckets)]
	for i, b := range buckets {
		at := dir[b]
		out[i] = span{at, dir[b+1] - at}
	}
}

// findGroup returns the index of the group of key k in bucket b, or missing if there is none. Most
// buckets have at most two keys, which are compared without branches that could be mispredicted.
// The second compared key may belong to another bucket, but then it differs from k. Two copies of
// the first key follow the last key, and no other bucket contains the first key.
func (t *table[K]) findGroup(dir []uint32, keys []K, missing uint32, k K, b uint32) uint32 {
	at, end := dir[b], dir[b+1]
	found := missing
	if keys[at+1] == k {
		found = at + 1
	}
	if keys[at] == k {
		found = at
	}
	if end-at > 2 {
		for i := at + 2; i < end; i++ {
			if keys[i] == k {
				found = i
			}
		}
	}
	return found
}

func (t *table[K]) findSingle(words []K, buckets []uint32, out []span) {
	dir, keys, rows, missing := t.dir.Host(), t.keys.Host(), t.rows.Host(), uint32(t.groups)
	buckets, out = buckets[:len(words)], out[:len(words)]
	for i, k := range words {
		g := t.findGroup(dir, keys, missing, k, buckets[i])
		n := uint32(1)
		if g == missing {
			n = 0
		}
		out[i] = span{rows[g], n}
	}
}

func (t *table[K]) findGroups(words []K, buckets []uint32, out []span) {
	dir, keys, begin, missing := t.dir.Host(), t.keys.Host(), t.begin.Host(), uint32(t.groups)
	buckets, out = buckets[:len(words)], out[:len(words)]
	for i, k := range words {
		g := t.findGroup(dir, keys, missing, k, buckets[i])
		at := begin[g]
		out[i] = span{at, begin[g+1] - at}
	}
}

// prefetch prefetches the directory entries of buckets.
func (t *table[K]) prefetch(buckets []uint32) {
	cpu.Prefetch(unsafe.Pointer(unsafe.SliceData(t.dir.Host())), buckets, 2)
}

// prefetchFirst prefetches the first key or row of at most cpu.Group buckets. The directory entries
// of these buckets must be in the cache.
func (t *table[K]) prefetchFirst(buckets []uint32) {
	var places [cpu.Group]uint32
	dir := t.dir.Host()
	for i, b := range buckets {
		places[i] = dir[b]
	}
	if t.direct {
		cpu.Prefetch(unsafe.Pointer(unsafe.SliceData(t.rows.Host())), places[:len(buckets)], 2)
	} else {
		cpu.Prefetch(unsafe.Pointer(unsafe.SliceData(t.keys.Host())), places[:len(buckets)], uint(bits.TrailingZeros(uint(unsafe.Sizeof(t.low)))))
	}
}

// prefetchPart prefetches a whole part. Reading one line after the other is several times as fast
// as reading in the order of the words.
func (t *table[K]) prefetchPart(p parts, part int) {
	first := min(uint64(part)<<p.shift, uint64(t.buckets))
	last := min(first+1<<p.shift, uint64(t.buckets))
	lo, hi := t.dir.Host()[first], t.dir.Host()[last]
	prefetchAll(t.dir.Host()[first:last])
	if !t.direct {
		prefetchAll(t.keys.Host()[lo:hi])
		if t.begin.Len() > 0 {
			prefetchAll(t.begin.Host()[lo:hi])
			lo, hi = t.begin.Host()[lo], t.begin.Host()[hi]
		}
	}
	prefetchAll(t.rows.Host()[lo:hi])
}

func prefetchAll[T uint32 | uint64](s []T) {
	const line = 64
	bytes := device.Bytes(s)
	for at := 0; at < len(bytes); at += line * len(linesInOrder) {
		n := min((len(bytes)-at+line-1)/line, len(linesInOrder))
		cpu.Prefetch(unsafe.Pointer(&bytes[at]), linesInOrder[:n], 6)
	}
}

var linesInOrder = func() (lines [64]uint32) {
	for i := range lines {
		lines[i] = uint32(i)
	}
	return lines
}()

func (t *table[K]) bytes(context.Context) (int, error) {
	var k K
	return 4*(t.dir.Len()+t.begin.Len()+t.rows.Len()) + int(unsafe.Sizeof(k))*t.keys.Len(), nil
}

func (t *table[K]) distinct() int {
	if t.nulls.n > 0 {
		return t.groups + 1
	}
	return t.groups
}

func (t *table[K]) free() error {
	return errors.Join(t.dir.Free(), t.keys.Free(), t.begin.Free(), t.rows.Free())
}
