package intern

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/arena"
	"github.com/weftgo/weft/internal/hostmem"
	"github.com/weftgo/weft/internal/number"
	"github.com/weftgo/weft/internal/observe"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/rowkey"
)

// Options configure a [Table]. The zero value and nil are good defaults.
type Options struct {
	// Capacity is the number of keys for which the index reserves memory. Default 0: it grows.
	Capacity int
	// MaxBytes bounds the memory of the table, on the device and on the host together. While an
	// index grows, the old and the new one both count. A call that might need more stops, and
	// returns weft.ErrFull in a weft.PartialError. The working memory of calls, some 50 MB and
	// encoded rows of up to 64 MB, is kept until Close and not counted. Default 0: no limit.
	MaxBytes int64
	// OffHeap keeps keys in mapped memory. The collector neither scans nor counts it, and Close
	// returns it at once. Then the bytes that At returns are valid until Close, and a table without
	// Close keeps its keys until the process ends. Default: the Go heap, which has the first 2 MiB
	// in any case. The index of a host is mapped from 2 MiB on unless MaxBytes is set, with OffHeap
	// or without. The collector returns it if the table is not closed.
	OffHeap bool
}

// Table gives keys dense ids in the order of their first appearance. Keys are byte strings or rows
// of columns. The first call decides which.
type Table struct {
	parallelFor func(n, grain int, body func(lo, hi int)) // among all cores
	index       number.Index                              // of the keys of items
	opts        Options
	hash        arena.Hasher

	writerLock chan struct{} // holds a token while a call adds
	mu         sync.RWMutex  // protects the fields below; a writer holds it for one chunk
	kind       kind
	rows       *rowkey.Codec // of a table of rows
	// words: rows are 64 bits each and equal to their keys in the index, so no two share one.
	words  bool
	packed rowkey.Words // the layout of words
	plain  bool         // rows are one column of byte strings, and are not encoded
	keys   *keys
	pool   *hostmem.Pool // the memory of keys; nil: the Go heap
	// null is the id of the null row if its item does not show that it is null: of one column of 64
	// bits, or of byte strings; -1: none.
	null int64
	// extras holds the ids of items whose key in the index belongs to another item, ascending. The
	// ids of all others are their numbers, shifted by these.
	extras         number.Extras
	collisions     map[string]uint32 // ids by the bytes of items
	collisionBytes int64             // approximate bytes of that map
	failed         error             // the index and the items no longer agree
	length         atomic.Uint32

	tracked *observe.Tracked
	codes   codeCache
	scratch scratch // of the call that adds
	chunk   int     // rows to process at a time: chunkRows, except in tests
}

// kind is the kind of a table's keys.
type kind uint8

const (
	undecided kind = iota
	byteStrings
	rows
)

func (k kind) String() string {
	return [...]string{undecided: "nothing yet", byteStrings: "byte strings", rows: "rows"}[k]
}

// New makes an empty table on a device, which must outlive it. On a GPU the index is a map of
// package linear, and the bytes of the keys are in host memory. Errors: [weft.ErrOptions],
// [device.ErrMemory], and those of loading kernels.
func New(dev device.Device, opts *Options) (*Table, error) {
	return newTable(dev, opts, arena.NewHasher())
}

func newTable(dev device.Device, opts *Options, h arena.Hasher) (*Table, error) {
	t := &Table{parallelFor: number.Parallel(dev), hash: h, chunk: chunkRows, null: -1,
		writerLock: make(chan struct{}, 1), collisions: make(map[string]uint32)}
	if opts != nil {
		t.opts = *opts
	}
	if t.opts.OffHeap {
		t.pool = new(hostmem.Pool)
	}
	t.keys = newKeys(0, t.pool)
	if o := t.opts; o.MaxBytes < 0 || o.Capacity < 0 || o.Capacity > maxItems {
		return nil, fmt.Errorf("intern: New: %w: Capacity %d, MaxBytes %d: want no negative numbers, and at most %d keys",
			op.ErrOptions, o.Capacity, o.MaxBytes, uint32(maxItems))
	}
	// Before any allocation: an index takes more than a number of four bytes for each key.
	if o := t.opts; o.MaxBytes > 0 && 4*int64(o.Capacity) > o.MaxBytes {
		return nil, fmt.Errorf("intern: New: %w: a table of Capacity %d takes more than MaxBytes, %d", op.ErrOptions, o.Capacity, o.MaxBytes)
	}
	index, err := number.New(dev, t.opts.Capacity, t.opts.MaxBytes > 0)
	if err != nil {
		return nil, fmt.Errorf("intern: New: %w", err)
	}
	t.index = index
	if err := t.checkLimit(); err != nil {
		return nil, fmt.Errorf("intern: New: %w", errors.Join(err, index.Close()))
	}
	t.tracked = observe.Track(t, "intern", nil, (*Table).sizes)
	return t, nil
}

// sizes returns the figures of a table for the accounts of the process.
func (t *Table) sizes() (keys, bytes int) { return t.Len(), 0 }

// Len returns the number of keys, which have ids 0 to Len-1. It never waits. A closed table has 0.
func (t *Table) Len() int { return int(t.length.Load()) }

// At returns the bytes of a key, which must not be changed. They stay valid, with OffHeap until
// Close. It returns nil for an id without a key. In a table of rows they are an encoding; see
// [Table.Columns].
func (t *Table) At(id uint32) []byte {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if int(id) >= t.Len() {
		return nil
	}
	return t.keys.at(id)
}

// Gather writes to keys what [Table.At] returns for each id.
func (t *Table) Gather(ids []uint32, keys [][]byte) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n := uint32(t.Len())
	for i, id := range ids {
		if keys[i] = nil; id < n {
			keys[i] = t.keys.at(id)
		}
	}
}

// Keys returns the keys with ids lo to hi-1, as a column of its own memory. Ids without a key
// panic, as in a slice. In a table of rows they are encodings; see [Table.Columns].
func (t *Table) Keys(lo, hi int) column.Column {
	t.mu.RLock()
	defer t.mu.RUnlock()
	t.mustContain(lo, hi)
	return t.keys.column(lo, hi, t.parallel)
}

// Columns returns the keys with ids lo to hi-1 of a table of rows, as columns of their own memory,
// of the types of the added rows. NaN and 0 stand for all values equal to them. A table of byte
// strings has one column. Ids without a key panic, as in a slice.
func (t *Table) Columns(lo, hi int) []column.Column {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.columns(lo, hi)
}

func (t *Table) columns(lo, hi int) []column.Column {
	t.mustContain(lo, hi)
	if t.kind != rows || t.plain {
		return []column.Column{t.withNull(t.keys.column(lo, hi, t.parallel), lo, hi)}
	}
	cols, err := t.rows.Decode(hi-lo, t.encoded(lo, hi))
	if err != nil {
		panic(fmt.Sprintf("intern: %v in rows %d to %d of its own", err, lo, hi))
	}
	return cols
}

// withNull returns a column of the keys lo to hi-1 with null marked.
func (t *Table) withNull(c column.Column, lo, hi int) column.Column {
	if t.null < int64(lo) || t.null >= int64(hi) {
		return c
	}
	valid := slices.Repeat([]bool{true}, hi-lo)
	valid[t.null-int64(lo)] = false
	return c.WithValid(column.OfBools(valid))
}

// encoded returns a function that reads the encodings of rows lo to hi-1, one at a time.
func (t *Table) encoded(lo, hi int) func(i int) []byte {
	switch {
	case t.plain:
		var row []byte
		return func(i int) []byte {
			if int64(lo+i) == t.null {
				return []byte{1}
			}
			row = append(append(row[:0], 0), t.keys.at(uint32(lo+i))...)
			return row
		}
	case !t.words:
		return func(i int) []byte { return t.keys.at(uint32(lo + i)) }
	}
	width := t.rows.Width()
	out := make([]byte, (hi-lo)*width)
	t.parallel(hi-lo, func(from, to int) {
		for i := from; i < to; i++ {
			word := binary.LittleEndian.Uint64(t.keys.at(uint32(lo + i)))
			t.rows.Unpack(&t.packed, word, int64(lo+i) == t.null, out[i*width:(i+1)*width])
		}
	})
	return func(i int) []byte { return out[i*width:][:width] }
}

func (t *Table) mustContain(lo, hi int) {
	if lo < 0 || lo > hi || hi > t.Len() {
		panic(fmt.Sprintf("intern: keys %d to %d of %d", lo, hi, t.Len()))
	}
}

// Close frees the table. Idempotent; later calls return [weft.ErrClosed].
func (t *Table) Close() error {
	t.writerLock <- struct{}{}
	defer func() { <-t.writerLock }()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tracked != nil {
		t.tracked.Closed()
		t.tracked = nil
	}
	t.failed = op.ErrClosed
	t.length.Store(0)
	t.keys, t.extras, t.collisions, t.scratch = newKeys(0, nil), nil, nil, scratch{}
	t.pool.Free()
	t.codes.clear()
	if err := t.index.Close(); err != nil {
		return fmt.Errorf("intern: Close: %w", err)
	}
	return nil
}

// lockWriter waits for the right to add.
func (t *Table) lockWriter(ctx context.Context) error {
	select {
	case t.writerLock <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		<-t.writerLock
		return err
	}
	return nil
}

func (t *Table) unlockWriter() { <-t.writerLock }

// setKind fixes the kind of the table's keys, or returns an error if a call has another kind.
func (t *Table) setKind(k kind, cols []column.Column) error {
	if t.failed != nil {
		return t.failed
	}
	if t.kind == undecided {
		c, err := codecOf(k, cols)
		if err != nil {
			return err
		}
		t.kind = k
		t.setCodec(c)
	}
	if t.kind != k {
		return fmt.Errorf("%w: a table of %v takes no %v", device.ErrInvalid, t.kind, k)
	}
	return nil
}

// setCodec makes the table one of rows that a codec encodes. A nil codec changes nothing.
func (t *Table) setCodec(c *rowkey.Codec) {
	if c == nil {
		return
	}
	width := c.Width()
	if t.packed, t.words = c.Words(); t.words {
		width = 8
	}
	t.plain = len(c.Types()) == 1 && width == 0
	t.rows, t.keys = c, newKeys(width, t.pool)
}

// grain is the number of rows that a core takes at a time. It is large enough to make taking them
// cheap, and small enough to keep their keys in its first-level cache.
const grain = 4096

// parallel runs body on ranges of [0,n), on all cores.
func (t *Table) parallel(n int, body func(lo, hi int)) { t.parallelFor(n, grain, body) }

// id returns the id of an item by its number.
func (t *Table) id(number uint32) uint32 { return t.extras.ID(number) }

// partial returns the error of a call that is incomplete.
func partial(method string, done int, err error) error {
	if err == nil {
		return nil
	}
	var p *op.PartialError
	if errors.As(err, &p) {
		err = p.Err
	}
	return fmt.Errorf("intern: %s: %w", method, &op.PartialError{Done: done, Err: err})
}

// codecOf returns the codec for rows of columns, or nil if keys are of another kind.
func codecOf(k kind, cols []column.Column) (*rowkey.Codec, error) {
	if k != rows {
		return nil, nil
	}
	c, err := rowkey.New(rowkey.TypesOf(cols))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", device.ErrInvalid, err)
	}
	return c, nil
}
