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

// dictionary gives the byte strings of a key column numbers from 1 on, so that they fit codes
// beside other columns. Null is 0.
//
// Cores remember the numbers of short strings that came lately: most columns that rows are grouped
// by have few different ones, which never reach the table.
type dictionary struct {
	table  *intern.Table
	cores  int                            // that remember, at most
	recent []*[recentStrings]recentString // of shares of rows
	ids    []uint32                       // of the rows of a piece
	// numbered are the numbers of those that the table was asked for.
	numbered []uint32
}

const (
	recentStrings = 1 << 13
	longestRecent = 16
	// recentShare of Options.Memory holds what cores remember of a column.
	recentShare = 32
	// firstLookups rows are looked up before their numbers are remembered, then four times as many
	// each time. Columns most of whose rows are not remembered go to the table.
	firstLookups, mostLookups = 1 << 12, 1 << 18
)

// recentString is a string of at most longestRecent bytes, with zeros after them.
type recentString struct {
	first, last  uint64
	size, number uint32 // size is the length and 1; 0: the place is free
}

// newDictionary makes a dictionary of a table. The memory of its strings is not that of what cores
// remember.
func (g *Groups) newDictionary(table *intern.Table) *dictionary {
	d := &dictionary{table: table, cores: g.dev.Properties().Units}
	if m := g.opts.Memory; m > 0 {
		size := int64(unsafe.Sizeof([recentStrings]recentString{}))
		d.cores = int(max(1, min(int64(d.cores), m/recentShare/size)))
	}
	return d
}

// masks keep the first n of sixteen bytes, in two words.
var masks = func() (m [longestRecent + 1][2]uint64) {
	for n := range m {
		m[n] = [2]uint64{^uint64(0) >> (64 - 8*min(n, 8)), ^uint64(0) >> (64 - 8*max(n-8, 0))}
	}
	return m
}()

// shortened returns a string of at most longestRecent bytes without its number.
func shortened(b []byte) recentString {
	var padded [longestRecent]byte
	copy(padded[:], b)
	return recentString{size: uint32(len(b)) + 1, first: binary.LittleEndian.Uint64(padded[:]),
		last: binary.LittleEndian.Uint64(padded[8:])}
}

// place is where a string is remembered.
func (s *recentString) place() uint64 {
	hi, lo := bits.Mul64(s.first^0x9e3779b97f4a7c15, s.last^0xd6e8feb86659fd93+uint64(s.size))
	return (hi ^ lo) % recentStrings
}

// find returns the number of a string that a core remembers; 0: it does not. There are two places
// for each.
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

// remember has a core remember a string.
func (s recentString) remember(recent *[recentStrings]recentString) {
	at := s.place()
	if r := &recent[at]; r.number != s.number {
		recent[at^1], *r = *r, s
	}
}

// numbers returns the numbers of strings. Where it stops early, done says how many have theirs.
func (d *dictionary) numbers(ctx context.Context, dev device.Host, c column.Column) (ids []uint32, done int, err error) {
	n, asked := c.Len(), 0
	ids = sized(&d.ids, n)
	for size := firstLookups; done < n && err == nil; size = min(4*size, mostLookups) {
		all := c.HasCodes() || asked > done/2+firstLookups
		if all {
			size = n - done
		}
		hi := min(done+size, n)
		some, to := c.Slice(done, hi), ids[done:hi]
		misses := d.lookup(dev, some, to, all)
		var found int
		found, err = d.ask(ctx, dev, some, misses, to)
		asked, done = asked+len(misses), done+found
	}
	return ids, done, err
}

// shares are the parts of n rows that cores look up, each with what a core remembers: at first, what
// another one does.
func (d *dictionary) shares(n int) (share int) {
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

// lookup receives the numbers of rows that cores remember, and returns the others, or all that are
// not null.
func (d *dictionary) lookup(dev device.Host, c column.Column, ids []uint32, all bool) (misses []uint32) {
	n := c.Len()
	share := d.shares(n)
	missed := make([][]uint32, (n+share-1)/share)
	dev.Parallel(n, share, func(lo, hi int) {
		missed[lo/share] = lookupShare(d.recent[lo/share], c, lo, ids[lo:hi], all)
	})
	return slices.Concat(missed...)
}

// lookupShare is lookup of rows from lo on. It returns the numbers of rows in c.
func lookupShare(recent *[recentStrings]recentString, c column.Column, lo int, ids []uint32, all bool) (misses []uint32) {
	if !all && !c.HasNulls() {
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
		if b := texts[i%lookupTexts]; len(b) <= longestRecent && !all {
			s := shortened(b)
			if ids[i] = s.find(recent); ids[i] != 0 {
				continue
			}
		}
		misses = append(misses, uint32(lo+i))
	}
	return misses
}

// lookupOffsets is lookupShare of strings that lie one after another, none of them null. Most of
// them are read with the bytes after them, and without branches by their length, which the
// processor would mispredict.
func lookupOffsets[O int32 | int64](recent *[recentStrings]recentString, offsets []O, data []byte, lo int, ids []uint32) (misses []uint32) {
	at := int(offsets[0])
	for i, next := range offsets[1 : 1+len(ids)] {
		var s recentString
		end := int(next)
		n := uint(end - at)
		if n <= longestRecent && at+longestRecent <= len(data) {
			b, m := data[at:at+longestRecent], &masks[n]
			s = recentString{size: uint32(n) + 1, first: binary.LittleEndian.Uint64(b) & m[0],
				last: binary.LittleEndian.Uint64(b[8:]) & m[1]}
		} else if n <= longestRecent {
			s = shortened(data[at:end])
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

// lookupTexts are located at a time: a column is large, and each call of its methods copies it.
const lookupTexts = 64

// ask receives the numbers that the table has for some rows, which cores then remember. It returns
// the number of rows, among all, before the first one without a number.
func (d *dictionary) ask(ctx context.Context, dev device.Host, c column.Column, rows, ids []uint32) (done int, err error) {
	n := c.Len()
	if len(rows) == 0 {
		return n, nil
	}
	some, numbers := c, sized(&d.numbered, len(rows))
	if len(rows) < n {
		some = column.Take(dev, c, rows)
	}
	if _, err = d.table.Column(ctx, some, numbers); err != nil {
		var partial *op.PartialError
		if !errors.As(err, &partial) {
			return 0, err
		}
		n, rows, err = int(rows[partial.Done]), rows[:partial.Done], partial.Err
	}
	share, few := d.shares(c.Len()), 2*len(rows) < c.Len() || c.Len() <= firstLookups
	for i, row := range rows {
		number := numbers[i] + 1
		ids[row] = number
		if b := some.Bytes(i); few && len(b) <= longestRecent {
			s := shortened(b)
			s.number = number
			s.remember(d.recent[int(row)/share])
		}
	}
	return n, err
}
