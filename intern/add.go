package intern

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/arena"
	"github.com/weftgo/weft/internal/op"
)

const (
	// chunkRows and chunkBytes bound what is worked on at a time, in rows, and in bytes where
	// these are encoded first: a context is looked at in between, and lookups get a turn.
	chunkRows  = 1 << 20
	chunkBytes = 64 << 20
)

// scratch is the memory that calls work in, which a table keeps.
type scratch struct {
	keys    []uint64
	flags   []bool
	found   []bool
	first   []uint32 // rows of new items
	latest  []uint32 // the largest number before each range of rows
	parts   []part
	strings []string
	encoded []byte
	offsets []int64
}

// part is a part of the arena for the new items of a range of rows.
type part struct {
	size int
	to   arena.Writer
}

// Strings gives the strings of a batch ids: those of keys that the table has, and the next of 0, 1, 2, … to the others,
// in the order of their first appearance, whatever the number of cores. ids receives the id of each, and added is how
// many keys are new. Strings are copied.
//
// A call that ends early, because ctx does, there is no memory, or the limit is reached, returns a [weft.PartialError], which
// says how many rows have been done; the ids of the others are 0, and their keys have not been added.
func (t *Table) Strings(ctx context.Context, s []string, ids []uint32) (added int, err error) {
	return t.add(ctx, "Strings", byteStrings, nil, len(s), ids, func(*scratch) feed { return t.ofColumn(column.OfStrings(s)) })
}

// Bytes is [Table.Strings] for slices of bytes, which are copied.
func (t *Table) Bytes(ctx context.Context, s [][]byte, ids []uint32) (added int, err error) {
	return t.add(ctx, "Bytes", byteStrings, nil, len(s), ids, func(to *scratch) feed { return t.ofBytes(to, s) })
}

// Column is [Table.Strings] for a column of byte strings in any form. A value that is null is
// [device.ErrInvalid], and nothing is added: [Table.Rows] has ids for null.
func (t *Table) Column(ctx context.Context, c column.Column, ids []uint32) (added int, err error) {
	if err := checkColumn(c); err != nil {
		return 0, partial("Column", 0, err)
	}
	return t.add(ctx, "Column", byteStrings, nil, c.Len(), ids, func(*scratch) feed { return t.ofColumn(c) })
}

// Rows is [Table.Strings] for the rows of several columns, which have one length: two rows are the same key if they agree
// in each column. Null agrees with null alone, all NaN agree, and -0 agrees with 0. The types of the first call's columns are those of the table;
// columns of other types are [device.ErrInvalid].
func (t *Table) Rows(ctx context.Context, cols []column.Column, ids []uint32) (added int, err error) {
	n := mustAlign("Rows", cols)
	return t.add(ctx, "Rows", rows, cols, n, ids, func(to *scratch) feed { return t.ofRows(to, cols) })
}

// checkColumn wants byte strings without nulls.
func checkColumn(c column.Column) error {
	if c.Type() != column.Bytes && c.Len() > 0 {
		return fmt.Errorf("%w: a column of %v: want byte strings, or call Rows", device.ErrInvalid, c.Type())
	}
	if c.Nulls() == 0 {
		return nil
	}
	i := 0
	for !c.Null(i) {
		i++
	}
	return fmt.Errorf("%w: value %d is null: Rows has ids for null", device.ErrInvalid, i)
}

// mustAlign is the length of columns, which must be one.
func mustAlign(method string, cols []column.Column) int {
	n := 0
	for i, c := range cols {
		if i > 0 && c.Len() != n {
			panic(fmt.Sprintf("intern: %s: column %d has %d rows, column 0 has %d", method, i, c.Len(), n))
		}
		n = c.Len()
	}
	return n
}

func mustMatch(method string, n, outputs int) {
	if n != outputs {
		panic(fmt.Sprintf("intern: %s: %d rows and outputs for %d", method, n, outputs))
	}
}

// add is what all forms of adding share.
func (t *Table) add(ctx context.Context, method string, k kind, cols []column.Column, n int, ids []uint32, from func(*scratch) feed) (added int, err error) {
	mustMatch(method, n, len(ids))
	done := 0
	if err = t.begin(ctx); err == nil {
		before := t.Len()
		done, err = t.addAll(ctx, k, cols, ids, from(&t.scratch))
		added = t.Len() - before
		t.end()
	}
	clear(ids[done:])
	return added, partial(method, done, err)
}

func (t *Table) addAll(ctx context.Context, k kind, cols []column.Column, ids []uint32, from feed) (done int, err error) {
	if err := t.decide(k, cols); err != nil {
		return 0, err
	}
	for done < len(ids) {
		if err := ctx.Err(); err != nil {
			return done, err
		}
		c := from(done)
		n, err := t.addChunk(ctx, c, ids[done:done+c.Len()])
		if done += n; err != nil {
			return done, err
		}
	}
	return done, nil
}

// decide is become for who adds.
func (t *Table) decide(k kind, cols []column.Column) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.become(k, cols); err != nil {
		return err
	}
	return t.agree(cols)
}

// agree wants columns of the types that the table has.
func (t *Table) agree(cols []column.Column) error {
	if t.kind != rows {
		return nil
	}
	if err := t.rows.Check(cols); err != nil {
		return fmt.Errorf("%w: %w", device.ErrInvalid, err)
	}
	return nil
}

// addChunk gives ids to a chunk of items.
func (t *Table) addChunk(ctx context.Context, c column.Column, ids []uint32) (done int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if small, large, data := c.Offsets(); small != nil {
		return addSome(ctx, t, smallItems{small, data}, ids)
	} else if large != nil {
		return addSome(ctx, t, largeItems{large, data}, ids)
	}
	if raw := c.Raw(); raw != nil {
		return addSome(ctx, t, wideItems{c.Width(), raw}, ids)
	}
	return addSome(ctx, t, stringItems(c.Strings()), ids)
}

// addItems asks the index for numbers of all items, by their keys, which it gives in the order of
// first appearance, and then looks whether those who share one are the same. No item is left
// half added: what comes after the index cannot fail.
func addItems[S source](ctx context.Context, t *Table, items S, ids []uint32) (done int, err error) {
	base := t.index.Len()
	t.scratch.keys = resize(t.scratch.keys, len(ids))
	hashAll(t, items, t.scratch.keys)
	fresh, err := t.index.Assign(ctx, t.scratch.keys, ids)
	done = len(ids)
	if err != nil {
		done = 0
		var p *op.PartialError
		if errors.As(err, &p) && p.Failed == 0 {
			done = p.Done
		}
	}
	ids = ids[:done]
	if top := t.firsts(ids, uint32(base), fresh); int(top) != t.index.Len() {
		t.failed = fmt.Errorf("the index has %d keys, %d of which have items: %w", t.index.Len(), top, err)
		return 0, t.failed
	}
	odd := differing(t, items, ids, uint32(base))
	t.keys.grow(t.Len() + fresh + len(odd))
	if len(odd) > 0 {
		number(t, items, ids, uint32(base), odd)
	}
	store(t, items, uint32(base))
	if len(t.extras) > 0 {
		t.shift(ids, odd)
	}
	t.length.Store(uint32(t.index.Len() + len(t.extras)))
	return done, err
}

// store keeps the bytes of new items: those of each range in a part of the arena.
func store[S source](t *Table, items S, base uint32) {
	first := t.scratch.first
	parts := resize(t.scratch.parts, (len(first)+grain-1)/grain)
	t.parallel(len(first), func(lo, hi int) {
		sum := 0
		for _, row := range first[lo:hi] {
			sum += stored(items.at(int(row)))
		}
		parts[lo/grain].size = sum
	})
	for i := range parts {
		parts[i].to = t.keys.writer.Reserve(parts[i].size)
	}
	t.parallel(len(first), func(lo, hi int) {
		to := &parts[lo/grain].to
		for j := lo; j < hi; j++ {
			t.keys.put(t.id(base+uint32(j)), items.at(int(first[j])), to)
		}
	})
	clear(parts) // which lead to the arena
	t.scratch.parts = parts
}

// hashAll computes the keys of items.
func hashAll[S source](t *Table, items S, keys []uint64) {
	t.parallel(len(keys), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			keys[i] = t.hash.Key(items.at(i))
		}
	})
}

// firsts finds the first row of each number from base on, and returns the number behind the last. Since numbers are given
// in the order of first appearance, it is the one with a number larger than all before it.
func (t *Table) firsts(numbers []uint32, base uint32, fresh int) (top uint32) {
	t.scratch.first = resize(t.scratch.first, fresh)
	if fresh == 0 {
		return base
	}
	ranges := (len(numbers) + grain - 1) / grain
	latest := resize(t.scratch.latest, ranges+1)
	t.parallel(len(numbers), func(lo, hi int) {
		top := uint32(0)
		for _, v := range numbers[lo:hi] {
			top = max(top, v+1)
		}
		latest[lo/grain+1] = top
	})
	latest[0] = base
	for r := range ranges {
		latest[r+1] = max(latest[r+1], latest[r])
	}
	first := t.scratch.first
	t.parallel(len(numbers), func(lo, hi int) {
		next := latest[lo/grain]
		for i, v := range numbers[lo:hi] {
			if v >= next {
				first[v-base] = uint32(lo + i)
				next = v + 1
			}
		}
	})
	t.scratch.latest = latest
	return latest[ranges]
}

// differing are the rows that have the number of an item which they are not.
func differing[S source](t *Table, items S, numbers []uint32, base uint32) (odd []uint32) {
	var found atomic.Bool
	flags := resize(t.scratch.flags, len(numbers))
	t.scratch.flags = flags
	t.parallel(len(numbers), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			item := items.at(i)
			flags[i] = false
			if len(item) <= arena.MaxShort {
				continue
			}
			v := numbers[i]
			var other []byte
			if v < base {
				other = t.keys.at(t.id(v))
			} else if j := int(t.scratch.first[v-base]); j == i {
				continue
			} else {
				other = items.at(j)
			}
			if !bytes.Equal(item, other) {
				flags[i] = true
				found.Store(true)
			}
		}
	})
	if !found.Load() {
		return nil
	}
	for i, f := range flags {
		if f {
			odd = append(odd, uint32(i))
		}
	}
	return odd
}

// number gives ids to the items of rows whose keys belong to others, in the order in which all items of the batch appear.
func number[S source](t *Table, items S, numbers []uint32, base uint32, odd []uint32) {
	next, row := base, 0
	for _, i := range odd {
		for ; row < int(i); row++ {
			if numbers[row] == next {
				next++
			}
		}
		item := items.at(int(i))
		id, ok := t.clashes[string(item)]
		if !ok {
			id = next + uint32(len(t.extras))
			t.clashes[string(item)] = id
			t.clashed += int64(len(item) + clashBytes)
			t.extras = append(t.extras, id)
			t.keys.put(id, item, &t.keys.writer)
		}
		numbers[i], row = id, int(i)+1
	}
}

// shift makes ids of numbers, but for rows that have theirs.
func (t *Table) shift(numbers []uint32, odd []uint32) {
	flags := t.scratch.flags
	t.parallel(len(numbers), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			if !flags[i] {
				numbers[i] = t.id(numbers[i])
			}
		}
	})
}
