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
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/hostmem"
	"github.com/weftgo/weft/internal/number"
	"github.com/weftgo/weft/internal/observe"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/rowkey"
)

// Options configure a [Table]. The zero value and nil are good defaults.
type Options struct {
	// Capacity is the number of keys for which the index reserves memory. Default 0: the index
	// starts small and grows.
	Capacity int
	// MaxBytes bounds the memory of the table, on the device and on the host together. While an
	// index grows, the old and the new index both count. A call that might need more memory stops,
	// and returns weft.ErrFull in a weft.PartialError. The working memory of calls is kept until
	// Close and does not count. It takes some 50 MB, and up to 64 MB for encoded rows. The keys of
	// a file or store may exceed MaxBytes by a sixteenth and 64 KB, because a new table's index
	// differs. Default 0: no limit.
	MaxBytes int64
	// OffHeap keeps keys in mapped memory. The collector neither scans nor counts it, and Close
	// returns it at once. The bytes that At returns are then valid only until Close, and a table
	// without Close keeps its keys until the process ends. By default keys are on the Go heap. The
	// first 2 MiB are there in any case. The index of a host is mapped from 2 MiB on unless
	// MaxBytes is set, independent of OffHeap. The collector frees this index if the table is not
	// closed.
	OffHeap bool
}

// Table gives dense ids to keys, in the order of their first appearance. Keys are byte strings or
// rows of columns. The first call that adds keys decides which.
type Table struct {
	parallelFor func(n, grain int, body func(lo, hi int)) // runs body on all cores
	index       number.Index                              // from hashes to numbers
	opts        Options
	hash        arena.Hasher

	writerLock chan struct{} // holds a token while a call adds
	// protects the fields below; a call that adds holds it for one chunk at a time
	mu   sync.RWMutex
	kind kind
	rows *rowkey.Codec // set in a table of rows
	// words: rows have 64 bits each, which determine their hash, so no two share a hash.
	words  bool
	packed rowkey.Words // the layout of words
	plain  bool         // rows are one column of byte strings, and are not encoded
	keys   *keys
	pool   *hostmem.Pool // memory of keys; nil: the Go heap
	// null is the id of the null row if its item does not show that it is null, and -1 if there is
	// none. This applies to one column of byte strings, or of 64 bits.
	null int64
	// extras holds the ids of items whose hash in the index belongs to another item, ascending. The
	// id of any other item is its number plus the number of smaller extras.
	extras         number.Extras
	collisions     map[string]uint32 // ids by the bytes of items
	collisionBytes int64             // approximate bytes of collisions
	failed         error             // closed, or the index and the items no longer agree
	length         atomic.Uint32

	slack    int64         // bytes by which the keys of a file may exceed MaxBytes
	journal  core.Journal  // or nil; set before the first call
	position atomic.Uint64 // the position in the journal after the last key
	// cut reports that the checkpoint of a store was damaged. The table then lacks keys that the
	// store's log continues.
	cut bool

	tracked *observe.Tracked
	codes   codeCache
	scratch scratch // used by the call that adds
	chunk   int     // maximum rows of a chunk: chunkRows, except in tests
}

type kind uint8

const (
	undecided kind = iota
	byteStrings
	rows
)

func (k kind) String() string {
	return [...]string{undecided: "nothing yet", byteStrings: "byte strings", rows: "rows"}[k]
}

// New makes an empty table on a device, which must outlive the table. On a GPU the index is a map
// of package linear, and the bytes of the keys are in host memory. For invalid options, New returns
// [weft.ErrOptions]. Other errors are [device.ErrMemory] and errors of loading kernels.
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
		return nil, fmt.Errorf("intern: New: %w: Capacity %d, MaxBytes %d: want numbers that are not negative, and at most %d keys",
			op.ErrOptions, o.Capacity, o.MaxBytes, uint32(maxItems))
	}
	// Check before any allocation. An index takes more than four bytes per key.
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

// sizes returns the number of keys, for statistics of the process.
func (t *Table) sizes() (keys, bytes int) { return t.Len(), 0 }

// Len returns the number of keys, which have ids 0 to Len-1. Len never waits. It returns 0 for a
// closed table.
func (t *Table) Len() int { return int(t.length.Load()) }

// At returns the bytes of a key, which must not be changed. They stay valid, but with OffHeap only
// until Close. At returns nil for an id without a key. In a table of rows the bytes are an
// encoding; see [Table.Columns].
func (t *Table) At(id uint32) []byte {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if int(id) >= t.Len() {
		return nil
	}
	return t.keys.at(id)
}

// Gather sets keys[i] to the bytes that [Table.At] returns for ids[i].
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

// Keys returns the keys with ids lo to hi-1, as a column with its own memory. Ids without a key
// panic, as in a slice expression. In a table of rows the keys are encoded; see [Table.Columns].
func (t *Table) Keys(lo, hi int) column.Column {
	t.mu.RLock()
	defer t.mu.RUnlock()
	t.mustContain(lo, hi)
	return t.keys.column(lo, hi, t.parallel)
}

// Columns returns the keys with ids lo to hi-1 of a table of rows, as columns with their own
// memory. The columns have the types of the added rows. NaN and 0 stand for all values equal to
// them. A table of byte strings has one column. Ids without a key panic, as in a slice expression.
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
		panic(fmt.Sprintf("intern: %v in stored rows %d to %d", err, lo, hi))
	}
	return cols
}

// withNull returns a column of keys lo to hi-1 in which the null row is null.
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

// Close frees the table. Later calls return [weft.ErrClosed]. Close is idempotent.
func (t *Table) Close() error {
	if !t.refuseCalls() {
		return nil
	}
	var logErr error
	if t.journal != nil { // takes no locks here, because a checkpoint under way takes them
		logErr = t.journal.Close()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keys, t.extras, t.collisions, t.scratch = newKeys(0, nil), nil, nil, scratch{}
	t.pool.Free()
	t.codes.clear()
	if err := errors.Join(logErr, t.index.Close()); err != nil {
		return fmt.Errorf("intern: Close: %w", err)
	}
	return nil
}

// refuseCalls waits for running calls and makes later calls return ErrClosed. It reports whether it
// is the first to do so.
func (t *Table) refuseCalls() (first bool) {
	t.writerLock <- struct{}{}
	defer func() { <-t.writerLock }()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tracked == nil {
		return false
	}
	t.tracked.Closed()
	t.tracked, t.failed = nil, op.ErrClosed
	t.length.Store(0)
	return true
}

// lockWriter waits until no other call adds.
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

// setKind fixes the kind of the table's keys, or returns an error if they are of another kind.
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
		return fmt.Errorf("%w: a table of %v does not accept %v", device.ErrInvalid, t.kind, k)
	}
	return nil
}

// setCodec makes the table one of rows that codec c encodes. A nil codec changes nothing.
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

// grain is the number of rows in a range that a core takes at a time. Larger ranges would exceed
// its first-level cache, and smaller ones would cost more to hand out.
const grain = 4096

func (t *Table) parallel(n int, body func(lo, hi int)) { t.parallelFor(n, grain, body) }

// id returns the id of an item by its number.
func (t *Table) id(number uint32) uint32 { return t.extras.ID(number) }

// partial wraps the error of an incomplete call in a PartialError.
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

// codecOf returns the codec for rows of columns, or nil if keys are byte strings.
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
