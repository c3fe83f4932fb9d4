package group

import (
	"context"
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/intern"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/rowkey"
)

// dictionary numbers the byte strings of a key column from 1 on, so that a code can hold them next
// to other columns. Null is 0.
//
// Cores cache the numbers of recent short strings. Most key columns have few distinct strings, so
// most rows never reach the table.
type dictionary struct {
	table  *intern.Table
	cores  int                            // maximum number of cores with a cache
	recent []*[recentStrings]recentString // caches by share of rows
	ids    []uint32                       // numbers of the strings of a piece
	// numbered holds the numbers that the table returned.
	numbered []uint32
}

const (
	recentStrings = 1 << 13
	maxRecent     = 16
	// recentShare is the divisor of Options.Memory that bounds the caches of a column.
	recentShare = 32
	// firstLookups is the number of rows looked up before the caches are first updated. Each later
	// step has four times as many rows, up to maxLookups. If most rows miss, the remaining rows
	// skip the caches.
	firstLookups, maxLookups = 1 << 12, 1 << 18
)

// recentString is a string of at most maxRecent bytes, padded with zeros.
type recentString struct {
	first, last  uint64
	size, number uint32 // size is the length plus 1; 0 if the entry is free
}

// newDictionary makes a dictionary of a table. Counted memory excludes the caches.
func (g *Groups) newDictionary(table *intern.Table) *dictionary {
	d := &dictionary{table: table, cores: g.dev.Properties().Units}
	if m := g.opts.Memory; m > 0 {
		size := int64(unsafe.Sizeof([recentStrings]recentString{}))
		d.cores = int(max(1, min(int64(d.cores), m/recentShare/size)))
	}
	return d
}

// prefixMasks holds, for each n, a mask of the first n of sixteen bytes, as two words.
var prefixMasks = func() (m [maxRecent + 1][2]uint64) {
	for n := range m {
		m[n] = [2]uint64{^uint64(0) >> (64 - 8*min(n, 8)), ^uint64(0) >> (64 - 8*max(n-8, 0))}
	}
	return m
}()

// newRecentString returns an entry for a string of at most maxRecent bytes. Its number is not set.
func newRecentString(b []byte) recentString {
	var padded [maxRecent]byte
	copy(padded[:], b)
	return recentString{size: uint32(len(b)) + 1, first: binary.LittleEndian.Uint64(padded[:]),
		last: binary.LittleEndian.Uint64(padded[8:])}
}

// place returns the index of a string in a cache.
func (s *recentString) place() uint64 {
	hi, lo := bits.Mul64(s.first^0x9e3779b97f4a7c15, s.last^0xd6e8feb86659fd93+uint64(s.size))
	return (hi ^ lo) % recentStrings
}

// find returns the number of a string in a core's cache, or 0 if missing. A string has two possible
// entries.
func (s *recentString) find(recent *[recentStrings]recentString) uint32 {
	at := s.place()
	r := &recent[at]
	if r.first != s.first || r.last != s.last || r.size != s.size {
		r = &recent[at^1]
		if r.first != s.first || r.last != s.last || r.size != s.size {
			return 0
		}
	}
	return r.number
}

func (s recentString) insert(recent *[recentStrings]recentString) {
	at := s.place()
	if r := &recent[at]; r.number != s.number {
		recent[at^1], *r = *r, s
	}
}

// assignNumbers returns the numbers of the strings of c. If it stops early, only the first done
// strings have a number.
func (d *dictionary) assignNumbers(ctx context.Context, dev device.Host, c column.Column) (ids []uint32, done int, err error) {
	n, nMisses := c.Len(), 0
	ids = resize(&d.ids, n)
	for size := firstLookups; done < n && err == nil; size = min(4*size, maxLookups) {
		skipCache := c.HasCodes() || nMisses > done/2+firstLookups
		if skipCache {
			size = n - done
		}
		hi := min(done+size, n)
		rows, to := c.Slice(done, hi), ids[done:hi]
		misses := d.lookup(dev, rows, to, skipCache)
		var found int
		found, err = d.lookupTable(ctx, dev, rows, misses, to)
		nMisses, done = nMisses+len(misses), done+found
	}
	return ids, done, err
}

// prepareCaches returns the number of rows per core, for n rows. It creates missing caches as
// copies of the first one.
func (d *dictionary) prepareCaches(n int) (share int) {
	shares := max(1, min(d.cores, n/directRows))
	for len(d.recent) < shares {
		recent := new([recentStrings]recentString)
		if len(d.recent) > 0 {
			*recent = *d.recent[0]
		}
		d.recent = append(d.recent, recent)
	}
	return (n + shares - 1) / shares
}

// lookup writes the cached numbers of strings to ids, and returns the rows that miss. With
// skipCache it returns all rows that are not null.
func (d *dictionary) lookup(dev device.Host, c column.Column, ids []uint32, skipCache bool) (misses []uint32) {
	n := c.Len()
	share := d.prepareCaches(n)
	missed := make([][]uint32, (n+share-1)/share)
	dev.Parallel(n, share, func(lo, hi int) {
		missed[lo/share] = lookupShare(d.recent[lo/share], c, lo, ids[lo:hi], skipCache)
	})
	return slices.Concat(missed...)
}

// lookupShare is lookup for the rows from lo on. It returns row numbers in c.
func lookupShare(recent *[recentStrings]recentString, c column.Column, lo int, ids []uint32, skipCache bool) (misses []uint32) {
	if !skipCache && !c.HasNulls() {
		if small, large, data := c.Offsets(); small != nil {
			return lookupOffsets(recent, small[lo:lo+len(ids)+1], data, lo, ids)
		} else if large != nil {
			return lookupOffsets(recent, large[lo:lo+len(ids)+1], data, lo, ids)
		}
	}
	var texts [lookupTexts][]byte
	valid, nulls := c.Valid(), c.HasNulls()
	for i := range ids {
		if i%lookupTexts == 0 {
			rowkey.Texts(c, lo+i, texts[:min(lookupTexts, len(ids)-i)])
		}
		ids[i] = 0
		if nulls && !valid.At(lo+i) {
			continue
		}
		if b := texts[i%lookupTexts]; len(b) <= maxRecent && !skipCache {
			s := newRecentString(b)
			if ids[i] = s.find(recent); ids[i] != 0 {
				continue
			}
		}
		misses = append(misses, uint32(lo+i))
	}
	return misses
}

// lookupOffsets is lookupShare for consecutive strings without nulls. It reads up to maxRecent
// bytes at each string and masks the rest, because branches by length would be mispredicted.
func lookupOffsets[O int32 | int64](recent *[recentStrings]recentString, offsets []O, data []byte, lo int, ids []uint32) (misses []uint32) {
	at := int(offsets[0])
	for i, next := range offsets[1 : 1+len(ids)] {
		var s recentString
		end := int(next)
		n := uint(end - at)
		if n <= maxRecent && at+maxRecent <= len(data) {
			b, m := data[at:at+maxRecent], &prefixMasks[n]
			s = recentString{size: uint32(n) + 1, first: binary.LittleEndian.Uint64(b) & m[0],
				last: binary.LittleEndian.Uint64(b[8:]) & m[1]}
		} else if n <= maxRecent {
			s = newRecentString(data[at:end])
		}
		at = end
		if s.size > 0 {
			r := &recent[s.place()]
			if r.first == s.first && r.last == s.last && r.size == s.size {
				ids[i] = r.number
				continue
			}
			if ids[i] = s.find(recent); ids[i] != 0 {
				continue
			}
		}
		ids[i] = 0
		misses = append(misses, uint32(lo+i))
	}
	return misses
}

// lookupTexts is the number of strings to locate at a time. It saves calls, because each method
// call copies the large column value.
const lookupTexts = 64

// lookupTable writes the table's numbers of the given rows to ids, and adds them to the caches. It
// returns the number of rows before the first row without a number, among all rows of c.
func (d *dictionary) lookupTable(ctx context.Context, dev device.Host, c column.Column, rows, ids []uint32) (done int, err error) {
	n := c.Len()
	if len(rows) == 0 {
		return n, nil
	}
	missing, numbers := c, resize(&d.numbered, len(rows))
	if len(rows) < n {
		missing = column.Take(dev, c, rows)
	}
	if _, err = d.table.Column(ctx, missing, numbers); err != nil {
		var partial *op.PartialError
		if !errors.As(err, &partial) {
			return 0, err
		}
		n, rows, err = int(rows[partial.Done]), rows[:partial.Done], partial.Err
	}
	share, cacheable := d.prepareCaches(c.Len()), 2*len(rows) < c.Len() || c.Len() <= firstLookups
	for i, row := range rows {
		number := numbers[i] + 1
		ids[row] = number
		if b := missing.Bytes(i); cacheable && len(b) <= maxRecent {
			s := newRecentString(b)
			s.number = number
			s.insert(d.recent[int(row)/share])
		}
	}
	return n, err
}
