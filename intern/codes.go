package intern

import (
	"context"
	"errors"
	"sync"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/internal/op"
)

// coded holds columns that all have codes. The codes of a row combine to one number. Rows with
// equal numbers have equal keys, so only distinct rows of a chunk are read and added.
type coded struct {
	cols   []column.Column
	values int // size of the numbers' range
}

const (
	// minCoded is the minimum number of rows for which the memory of all numbers pays.
	minCoded = 1 << 10
	// maxNumbers bounds the range of the numbers. The memory for all of them, four bytes each, fits
	// a second-level cache.
	maxNumbers = 1 << 18
)

// distinctCodes returns the columns as coded. It returns nil if rows should be added without codes:
// a column has no codes, rows are few, or they may have about as many keys as rows.
func distinctCodes(cols []column.Column) *coded {
	c := coded{cols: cols, values: 1}
	for _, col := range cols {
		if !col.HasCodes() || col.Len() < minCoded {
			return nil
		}
		_, dict := col.Codes()
		size := dict.Len() + 1 // and null
		if size > maxNumbers/c.values {
			return nil
		}
		c.values *= size
	}
	if len(cols) == 0 || c.values > cols[0].Len() {
		return nil
	}
	return &c
}

// add gives ids to all rows. addDistinct adds those distinct rows whose ids are not cached.
func (c *coded) add(ctx context.Context, t *Table, method string, ids []uint32,
	addDistinct func(cols []column.Column, ids []uint32) (int, error)) (added int, err error) {
	seen := make([]uint32, c.values) // by number: index of the distinct row, from 1 on
	for lo := 0; lo < len(ids); lo += t.chunk {
		part := ids[lo:min(lo+t.chunk, len(ids))]
		first := c.distinct(t, part, lo, seen)
		keyIDs := make([]uint32, len(first))
		keys := t.codes.keys(t, c, first)
		unknown := t.codes.find(keys, keyIDs)
		rows, fresh := make([]uint32, len(unknown)), make([]uint32, len(unknown))
		for i, at := range unknown {
			rows[i] = first[at]
		}
		n := 0
		if len(unknown) > 0 {
			n, err = addDistinct(c.gather(rows), fresh)
			added += n
		}
		for i, at := range unknown {
			keyIDs[at] = fresh[i]
		}
		if err != nil {
			var p *op.PartialError
			done := lo
			if errors.As(err, &p) {
				done, err = int(rows[p.Done]), p.Err
			}
			for i, at := range ids[lo:done] {
				ids[lo+i] = keyIDs[at]
			}
			clear(ids[done:])
			return added, partial(method, done, err)
		}
		t.codes.put(keys, unknown, keyIDs)
		t.parallel(len(part), func(from, to int) {
			for i, at := range part[from:to] {
				part[from+i] = keyIDs[at]
			}
		})
	}
	return added, nil
}

// distinct finds the distinct rows among len(part) rows from lo on. It writes the index of each
// row's distinct row to part, and returns the row number of each distinct row. seen must be zero,
// and is zero afterwards.
func (c *coded) distinct(t *Table, part []uint32, lo int, seen []uint32) (first []uint32) {
	t.parallel(len(part), func(from, to int) { c.number(part[from:to], lo+from) })
	var numbers []uint32
	for i, v := range part {
		at := seen[v]
		if at == 0 {
			first, numbers = append(first, uint32(lo+i)), append(numbers, v)
			at = uint32(len(first))
			seen[v] = at
		}
		part[i] = at - 1
	}
	for _, v := range numbers {
		seen[v] = 0
	}
	return first
}

// find looks up all rows. findDistinct looks up the distinct rows.
func (c *coded) find(t *Table, method string, ids []uint32, found []bool,
	findDistinct func(cols []column.Column, ids []uint32, found []bool) (int,
		error)) (hits int, err error) {
	if found == nil {
		found = make([]bool, len(ids))
	}
	mustMatch(method, len(ids), len(found))
	seen := make([]uint32, c.values)
	for lo := 0; lo < len(ids); lo += t.chunk {
		part := ids[lo:min(lo+t.chunk, len(ids))]
		first := c.distinct(t, part, lo, seen)
		keyIDs, known := make([]uint32, len(first)), make([]bool, len(first))
		if _, err := findDistinct(c.gather(first), keyIDs, known); err != nil {
			clear(ids[lo:])
			clear(found[lo:])
			return hits, partial(method, lo, err)
		}
		for i, at := range part {
			part[i], found[lo+i] = keyIDs[at], known[at]
			if known[at] {
				hits++
			}
		}
	}
	return hits, nil
}

// codeCache caches the ids of rows of codes. It numbers the values of each column, and combines
// these numbers to the key of a row. If each batch has its own dictionary, a call then reads only
// the bytes of dictionary values, and not the bytes of each distinct row.
type codeCache struct {
	mu     sync.Mutex
	values []map[string]uint32 // by column: numbers of values, from 1 on; 0 is null
	bytes  int                 // total length of the values
	ids    map[uint64]uint32
}

const (
	// maxCachedValues bounds the values per column, and maxCachedBytes their total length.
	maxCachedValues, maxCachedBytes = 1 << 15, 4 << 20
	// maxCachedRows bounds the number of cached ids.
	maxCachedRows = 1 << 18
)

// keys returns the key of each row, or nil if some values have no number.
func (r *codeCache) keys(t *Table, c *coded, rows []uint32) []uint64 {
	if n := len(c.cols); n < 2 || n > 4 || t.opts.MaxBytes > 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids == nil {
		r.ids, r.values = map[uint64]uint32{}, make([]map[string]uint32, len(c.cols))
	}
	keys := make([]uint64, len(rows))
	for j, col := range c.cols {
		codes, dict := col.Codes()
		if dict.Len() > len(rows) { // most rows would add new values
			return nil
		}
		if r.values[j] == nil {
			r.values[j] = map[string]uint32{}
		}
		values := r.values[j]
		numbers := make([]uint32, dict.Len())
		for i := range numbers {
			b := dict.Bytes(i)
			v, ok := values[string(b)]
			if !ok {
				if len(values) >= maxCachedValues || r.bytes+len(b) > maxCachedBytes {
					return nil
				}
				v = uint32(len(values) + 1)
				values[string(b)] = v
				r.bytes += len(b)
			}
			numbers[i] = v
		}
		for i, row := range rows {
			keys[i] <<= 16
			if !col.Null(int(row)) {
				keys[i] |= uint64(numbers[codes[row]])
			}
		}
	}
	return keys
}

// find writes the ids of cached keys, and returns the indexes of the keys that are not cached.
func (r *codeCache) find(keys []uint64, ids []uint32) (unknown []uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range ids {
		if keys != nil {
			if id, ok := r.ids[keys[i]]; ok {
				ids[i] = id
				continue
			}
		}
		unknown = append(unknown, uint32(i))
	}
	return unknown
}

// put caches ids[i] for the key keys[i], for each i in places. It does nothing if keys is nil or
// the cache is full.
func (r *codeCache) put(keys []uint64, places, ids []uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range places {
		if keys != nil && len(r.ids) < maxCachedRows {
			r.ids[keys[i]] = ids[i]
		}
	}
}

func (r *codeCache) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.values, r.bytes, r.ids = nil, 0, nil
}

// number writes the numbers of the rows from lo on.
func (c *coded) number(rows []uint32, lo int) {
	for j, col := range c.cols {
		codes, dict := col.Codes()
		codes = codes[lo : lo+len(rows)]
		if j == 0 {
			copy(rows, codes)
		} else {
			size := uint32(dict.Len() + 1)
			for i, code := range codes {
				rows[i] = rows[i]*size + code
			}
		}
		if !col.HasNulls() {
			continue
		}
		for i, code := range codes {
			if col.Null(lo + i) {
				rows[i] += uint32(dict.Len()) - code
			}
		}
	}
}

// gather returns columns of the given rows, without codes.
func (c *coded) gather(rows []uint32) []column.Column {
	cols := make([]column.Column, len(c.cols))
	for j, col := range c.cols {
		offsets, data := make([]int64, 1, len(rows)+1), []byte(nil)
		valid := make([]bool, len(rows))
		for i, row := range rows {
			if valid[i] = !col.Null(int(row)); valid[i] {
				data = append(data, col.Bytes(int(row))...)
			}
			offsets = append(offsets, int64(len(data)))
		}
		cols[j] = must(column.OfOffsets(offsets, data))
		if col.HasNulls() {
			cols[j] = cols[j].WithValid(column.OfBools(valid))
		}
	}
	return cols
}
