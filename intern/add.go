package intern

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/arena"
	"github.com/weftgo/weft/internal/number"
	"github.com/weftgo/weft/internal/op"
)

const (
	// chunkRows and chunkBytes bound a chunk of rows, in rows, and in bytes if the rows are encoded
	// first. Between chunks a call checks its context, and lookups may run.
	chunkRows  = 1 << 20
	chunkBytes = 64 << 20
	// firstRows is the size of the first chunk. It is small, so that later chunks find the keys of
	// the first rows instead of entering them again.
	firstRows = 1 << 14
)

// scratch is the working memory of calls. A table keeps it for the calls that add.
type scratch struct {
	keys       []uint64
	flags      []bool // rows that differ from the item with their number
	anyDiffers bool   // findKnown has set some flags
	found      []bool
	unknown    []uint32 // rows that findKnown has not found
	numbers    []uint32 // numbers of the unknown rows
	counts     []int    // number of unknown rows by range
	first      []uint32 // first rows of new items
	regions    []region
	// source column of the rows, if items do not show whether they are null
	nulls   column.Column
	strings []string
	encoded []byte
	offsets []int64
	log     block
}

// release drops references to the caller's memory.
func (s *scratch) release() {
	clear(s.strings)
	s.strings, s.nulls = s.strings[:0], column.Column{}
}

// region is a part of the arena for the new items in a range of rows.
type region struct {
	size int
	to   arena.Writer
}

// Strings gives ids to the strings of a batch. Known keys keep their ids. New keys get the next of
// 0, 1, 2, … in the order of their first appearance, on any number of cores. Strings writes the
// ids of all strings to ids, and returns the number of new keys. It copies the strings.
//
// If a call ends early, because of ctx, memory or the limit, it returns a [weft.PartialError] with
// the number of rows done. The ids of the other rows are 0, and their keys have not been added.
func (t *Table) Strings(ctx context.Context, s []string, ids []uint32) (added int, err error) {
	added, err = t.add(ctx, "Strings", byteStrings, nil, len(s), ids,
		func(to *scratch) chunkFunc { return t.columnChunks(to, column.OfStrings(s)) })
	return added, t.wait(ctx, "Strings", ids, err)
}

// Bytes gives ids to byte slices, which it copies. See [Table.Strings] for the results.
func (t *Table) Bytes(ctx context.Context, s [][]byte, ids []uint32) (added int, err error) {
	added, err = t.add(ctx, "Bytes", byteStrings, nil, len(s), ids,
		func(to *scratch) chunkFunc { return t.byteChunks(to, s) })
	return added, t.wait(ctx, "Bytes", ids, err)
}

// Column gives ids to the values of a column of byte strings in any form. If a value is null,
// Column adds nothing and returns [device.ErrInvalid]. Use [Table.Rows] for columns with nulls. See
// [Table.Strings] for the results.
func (t *Table) Column(ctx context.Context, c column.Column, ids []uint32) (added int, err error) {
	added, err = t.addColumn(ctx, c, ids)
	return added, t.wait(ctx, "Column", ids, err)
}

// addColumn implements Column, without waiting for the journal.
func (t *Table) addColumn(ctx context.Context, c column.Column, ids []uint32) (added int, err error) {
	mustMatch("Column", c.Len(), len(ids))
	if err := checkColumn(c); err != nil {
		clear(ids)
		return 0, partial("Column", 0, err)
	}
	if distinct := distinctCodes([]column.Column{c}); distinct != nil {
		return distinct.add(ctx, t, "Column", ids,
			func(cols []column.Column, ids []uint32) (int, error) { return t.addColumn(ctx, cols[0], ids) })
	}
	return t.add(ctx, "Column", byteStrings, nil, c.Len(), ids, func(s *scratch) chunkFunc { return t.columnChunks(s, c) })
}

// Rows gives ids to the rows of several columns of one length. Two rows are the same key if they
// agree in each column. Null agrees only with null, all NaN agree, and -0 agrees with 0. The first
// call fixes the types of the table's columns. For columns of other types, Rows returns
// [device.ErrInvalid]. See [Table.Strings] for the results.
func (t *Table) Rows(ctx context.Context, cols []column.Column, ids []uint32) (added int, err error) {
	added, err = t.addRows(ctx, cols, ids)
	return added, t.wait(ctx, "Rows", ids, err)
}

// addRows implements Rows, without waiting for the journal.
func (t *Table) addRows(ctx context.Context, cols []column.Column, ids []uint32) (added int, err error) {
	n := mustEqualLen("Rows", cols)
	if distinct := distinctCodes(cols); distinct != nil {
		mustMatch("Rows", n, len(ids))
		return distinct.add(ctx, t, "Rows", ids,
			func(cols []column.Column, ids []uint32) (int, error) { return t.addRows(ctx, cols, ids) })
	}
	return t.add(ctx, "Rows", rows, cols, n, ids, func(to *scratch) chunkFunc { return t.rowChunks(to, cols) })
}

// checkColumn returns an error unless c has byte strings without nulls.
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
	return fmt.Errorf("%w: value %d is null; use Rows, which gives ids to nulls", device.ErrInvalid,
		i)
}

// mustEqualLen returns the length of columns, and panics if their lengths differ.
func mustEqualLen(method string, cols []column.Column) int {
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

// add adds the rows of a batch. open returns a function that reads them in chunks.
func (t *Table) add(ctx context.Context, method string, k kind, cols []column.Column, n int, ids []uint32, open func(*scratch) chunkFunc) (added int, err error) {
	mustMatch(method, n, len(ids))
	done, added, err := t.addAll(ctx, k, cols, ids, open(&t.scratch))
	clear(ids[done:])
	return added, partial(method, done, err)
}

func (t *Table) addAll(ctx context.Context, k kind, cols []column.Column, ids []uint32, next chunkFunc) (done, added int, err error) {
	if err := t.lockWriter(ctx); err != nil {
		return 0, 0, err
	}
	defer t.unlockWriter()
	defer t.scratch.release()
	before := t.Len()
	done, err = t.addChunks(ctx, k, cols, ids, next)
	return done, t.Len() - before, err
}

func (t *Table) addChunks(ctx context.Context, k kind, cols []column.Column, ids []uint32, next chunkFunc) (done int, err error) {
	if err := t.lockAndSetKind(k, cols); err != nil {
		return 0, err
	}
	for done < len(ids) {
		if err := ctx.Err(); err != nil {
			return done, err
		}
		c, nKeys := next(done), t.Len()
		if err := t.reserveLog(c); err != nil {
			return done, err
		}
		if finder, ok := t.index.(number.Finder); ok {
			finder.Expect(len(ids) - done - c.Len())
		}
		n, err := t.addChunk(ctx, c, ids[done:done+c.Len()])
		if failure := t.logKeys(nKeys); failure != nil {
			return done, errors.Join(err, failure)
		}
		if done += n; err != nil {
			return done, err
		}
	}
	return done, nil
}

// lockAndSetKind calls setKind and checkTypes under the lock.
func (t *Table) lockAndSetKind(k kind, cols []column.Column) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.setKind(k, cols); err != nil {
		return err
	}
	return t.checkTypes(cols)
}

// checkTypes returns an error unless the columns have the table's types.
func (t *Table) checkTypes(cols []column.Column) error {
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
	t.setLayout(c.Width())
	if small, large, data := c.Offsets(); small != nil {
		return addPrefix(ctx, t, offsetItems[int32]{small, data}, ids)
	} else if large != nil {
		return addPrefix(ctx, t, offsetItems[int64]{large, data}, ids)
	}
	if raw := c.Raw(); raw != nil {
		return addPrefix(ctx, t, wideItems{c.Width(), raw}, ids)
	}
	return addPrefix(ctx, t, stringItems(c.Strings()), ids)
}

// setLayout adapts the layout of the keys to items of a width, or of several widths if width is 0.
// A table of byte strings stores keys without lengths while all items have one width. With MaxBytes
// or OffHeap it never does. With MaxBytes, the memory of a key of another width would be unknown in
// advance. With OffHeap, the keys of the old layout would stay in memory.
func (t *Table) setLayout(width int) {
	switch {
	case t.kind == rows && !t.plain || width == t.keys.width || t.opts.MaxBytes > 0 ||
		t.opts.OffHeap:
	case t.Len() == 0 && width > arena.MaxShort:
		t.keys = newKeys(width, t.pool)
	case t.keys.width > 0:
		t.keys = t.keys.toVariableWidth(t.Len())
	}
}

// addItems assigns numbers to all items by their hashes in the index, in the order of first
// appearance. Then it compares items that have the same hash. The steps after the index cannot
// fail, so no item is added in part.
func addItems[S source](ctx context.Context, t *Table, items S, ids []uint32) (done int, err error) {
	base, s := t.index.Len(), &t.scratch
	rows, numbers := findKnown(t, items, ids), ids
	if rows != nil {
		s.numbers = resize(s.numbers, len(rows))
		numbers = s.numbers
	}
	if leadingNulls := s.fillNullKeys(len(ids)); leadingNulls < len(ids) {
		s.first, done, err = t.index.Assign(ctx, s.keys[:len(numbers)], numbers)
		if errors.Is(err, op.ErrCorrupt) {
			t.failed = err
			return 0, err
		}
		if len(s.first) > 0 {
			// the leading nulls were given the hash of the first new item
			s.first[0] = max(s.first[0], uint32(leadingNulls))
		}
	} else {
		s.first, done = s.first[:0], len(ids)
		clear(ids)
	}
	if numbers = numbers[:done]; rows != nil {
		done = t.scatterNumbers(rows, numbers, ids)
	}
	ids = ids[:done]
	differ := differing(t, items, ids, rows, numbers, uint32(base))
	if len(differ) > 0 {
		assignIDs(t, items, ids, uint32(base), differ)
	}
	t.keys.grow(t.index.Len() + len(t.extras))
	store(t, items, uint32(base))
	if len(t.extras) > 0 {
		t.numbersToIDs(ids, differ)
	}
	t.length.Store(uint32(t.index.Len() + len(t.extras)))
	return done, err
}

// scatterNumbers copies numbers[i] to all[rows[i]]. numbers may be shorter than rows. It returns
// the number of leading rows of the chunk that then have a number.
func (t *Table) scatterNumbers(rows, numbers, all []uint32) (done int) {
	t.parallel(len(numbers), func(lo, hi int) {
		for i, row := range rows[lo:hi] {
			all[row] = numbers[lo+i]
		}
	})
	first := t.scratch.first
	t.parallel(len(first), func(lo, hi int) {
		for i, at := range first[lo:hi] {
			first[lo+i] = rows[at]
		}
	})
	if len(numbers) < len(rows) {
		return int(rows[len(numbers)])
	}
	return len(all)
}

// fillNullKeys gives each null among n rows the hash of the row before, because null has no hash of
// its own. Leading nulls get the hash of the first row with a value. It returns the number of
// leading nulls.
func (s *scratch) fillNullKeys(n int) (leadingNulls int) {
	if !s.nulls.HasNulls() {
		return 0
	}
	for leadingNulls < n && s.nulls.Null(leadingNulls) {
		leadingNulls++
	}
	if leadingNulls == n {
		return leadingNulls
	}
	last := s.keys[leadingNulls]
	for i := range s.keys {
		if s.nulls.Null(i) {
			s.keys[i] = last
		}
		last = s.keys[i]
	}
	return leadingNulls
}

// store copies the bytes of new items to the table, with an arena region for each range of rows.
func store[S source](t *Table, items S, base uint32) {
	first := t.scratch.first
	regions := resize(t.scratch.regions, (len(first)+grain-1)/grain)
	if t.keys.width == 0 {
		t.parallel(len(first), func(lo, hi int) {
			sum := 0
			var buf [groupRows][]byte
			for at := lo; at < hi; at += groupRows {
				batch := first[at:min(at+groupRows, hi)]
				items.gather(batch, buf[:])
				for _, item := range buf[:len(batch)] {
					sum += t.keys.arenaBytes(item)
				}
			}
			regions[lo/grain].size = sum
		})
		t.keys.reserve(regions)
	}
	t.parallel(len(first), func(lo, hi int) {
		to := &regions[lo/grain].to
		var buf [groupRows][]byte
		for ; lo < hi; lo += groupRows {
			batch := first[lo:min(lo+groupRows, hi)]
			items.gather(batch, buf[:])
			for j, item := range buf[:len(batch)] {
				t.keys.put(t.id(base+uint32(lo+j)), item, to)
			}
		}
	})
	clear(regions) // drops the references to the arena
	t.scratch.regions = regions
}

// hashAll computes the hashes of the items from lo on.
func hashAll[S source](t *Table, items S, lo int, keys []uint64) {
	var buf [groupRows][]byte
	for len(keys) > 0 {
		batch := buf[:min(groupRows, len(keys))]
		items.span(lo, batch)
		for i, item := range batch {
			if t.words {
				keys[i] = arena.Mix(binary.LittleEndian.Uint64(item) ^ t.hash.Seed)
			} else {
				keys[i] = t.hash.Key(item)
			}
		}
		lo, keys = lo+len(batch), keys[len(batch):]
	}
}

// differing returns the rows whose number belongs to another item. Either two items have the same
// hash, or a row is null and its item does not show this. rows are the rows that findKnown has not
// found, with their numbers, or nil for all rows.
func differing[S source](t *Table, items S, ids, rows, numbers []uint32, base uint32) (differ []uint32) {
	s := &t.scratch
	if t.words && !s.nulls.HasNulls() {
		return nil
	}
	var found atomic.Bool
	if s.flags = resize(s.flags, len(ids)); rows == nil {
		clear(s.flags)
	} else {
		found.Store(s.anyDiffers)
	}
	t.parallel(len(numbers), func(lo, hi int) {
		differs := !t.words && compare(t, items, rows, numbers, base, lo, hi)
		if s.nulls.HasNulls() {
			for i := lo; i < hi; i++ {
				s.flags[i] = s.flags[i] || s.nulls.Null(i)
			}
			differs = true
		}
		if differs {
			found.Store(true)
		}
	})
	if !found.Load() {
		return nil
	}
	for i, f := range s.flags {
		if f {
			differ = append(differ, uint32(i))
		}
	}
	return differ
}

// assignIDs gives ids to the items of the rows in differ. New ids follow the order in which all
// items of the batch appear.
func assignIDs[S source](t *Table, items S, numbers []uint32, base uint32, differ []uint32) {
	next, row := base, 0
	for _, i := range differ {
		for ; row < int(i); row++ {
			if numbers[row] == next {
				next++
			}
		}
		if t.scratch.nulls.Null(int(i)) {
			numbers[i] = t.nullID(next)
		} else {
			numbers[i] = t.collisionID(items.at(int(i)), next)
		}
		row = int(i) + 1
	}
}

// nullID returns the id of null. If null is new, nOthers keys of the index came before it.
func (t *Table) nullID(nOthers uint32) uint32 {
	if t.null < 0 {
		id := nOthers + uint32(len(t.extras))
		t.null = int64(id)
		t.extras = append(t.extras, id)
		t.keys.grow(int(id) + 1)
		t.keys.putNull(id)
	}
	return uint32(t.null)
}

// collisionID returns the id of an item whose hash belongs to another item. If the item is new,
// nOthers keys of the index came before it.
func (t *Table) collisionID(item []byte, nOthers uint32) uint32 {
	id, ok := t.collisions[string(item)]
	if !ok {
		id = nOthers + uint32(len(t.extras))
		t.collisions[string(item)] = id
		t.collisionBytes += int64(len(item) + collisionOverhead)
		t.extras = append(t.extras, id)
		t.keys.grow(int(id) + 1)
		t.keys.put(id, item, &t.keys.writer)
	}
	return id
}

// numbersToIDs replaces numbers by ids, except in the rows of differ, which already have ids.
func (t *Table) numbersToIDs(numbers []uint32, differ []uint32) {
	flags := t.scratch.flags
	t.parallel(len(numbers), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			if len(differ) == 0 || !flags[i] {
				numbers[i] = t.id(numbers[i])
			}
		}
	})
}
