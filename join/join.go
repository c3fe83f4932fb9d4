package join

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/internal/observe"
	"github.com/weftgo/weft/internal/op"
)

// Index finds the rows of one side of a join, the build side, that match keys of the other side. An
// Index never changes. All methods may be called from many goroutines.
type Index struct {
	plan      plan
	opts      Options
	n         int
	bytes     int
	host      device.Host // allocates spans and pairs
	openedCPU *cpu.Device // host, if New opened it because the index is on another device
	lookup    lookup

	tracked *observe.Tracked

	mu     sync.Mutex
	users  int
	closed bool
}

// lookup finds rows by key: a table of words on the host or on a GPU, or of numbers of interned
// keys.
type lookup interface {
	probe(ctx context.Context, p *plan, keys []column.Column) (prober, error)
	matches() []uint32 // the rows that spans refer to
	distinct() int
	bytes(ctx context.Context) (int, error)
	free() error
}

// prober finds the matching rows of the build side for rows lo to hi-1 of the other side, at most
// pieceRows.
type prober interface {
	locate(ctx context.Context, lo, hi int, out []span) error
	free() error
}

// New makes an index over the rows of one or several key columns. Keys may repeat any number of
// times. New copies what it needs, so the columns may change afterwards. It panics if columns
// differ in length. For columns without a type, or more than 2^32 - 2 rows, it returns
// [weft.ErrOptions]. Other errors are [device.ErrMemory], [device.ErrUnsupported], and the error of
// the context.
func New(ctx context.Context, dev device.Device, keys []column.Column, opts *Options) (*Index, error) {
	o, err := opts.checkIndex()
	if err != nil {
		return nil, fmt.Errorf("join: New: %w", err)
	}
	ix := &Index{opts: o}
	if err = ix.open(ctx, dev, keys); err != nil {
		return nil, fmt.Errorf("join: New: %w", err)
	}
	ix.tracked = observe.Track(ix, "join", nil, (*Index).sizes)
	return ix, nil
}

// sizes returns the rows and bytes of the index, for statistics of the process.
func (ix *Index) sizes() (rows, bytes int) { return ix.n, ix.bytes }

func (ix *Index) open(ctx context.Context, dev device.Device, keys []column.Column) (err error) {
	if ix.plan, err = planOf(keys, ix.opts.NullsMatch); err != nil {
		return err
	}
	if ix.n, err = ix.plan.check(keys); err != nil {
		return err
	}
	var ok bool
	if ix.host, ok = dev.(device.Host); !ok {
		if ix.openedCPU, err = cpu.Open(nil); err != nil {
			return err
		}
		ix.host = ix.openedCPU
	}
	if ix.lookup, err = ix.plan.build(ctx, dev, ix.host, keys); err == nil {
		if ix.bytes, err = ix.lookup.bytes(ctx); err != nil {
			err = errors.Join(err, ix.lookup.free())
		}
	}
	if err != nil && ix.openedCPU != nil {
		err = errors.Join(err, ix.openedCPU.Close())
	}
	return err
}

// build makes the lookup for the rows of keys.
func (p *plan) build(ctx context.Context, dev device.Device, host device.Host, keys []column.Column) (lookup, error) {
	_, onHost := dev.(device.Host)
	switch {
	case !p.packed:
		return internKeys(ctx, dev, host, p, keys)
	case onHost && p.words.Size() <= 32:
		return build(ctx, host, sourceOf[uint32](p, keys))
	case onHost:
		return build(ctx, host, sourceOf[uint64](p, keys))
	case p.words.Size() <= 32:
		return newRemoteIndex(ctx, dev, host, sourceOf[uint32](p, keys))
	default:
		return newRemoteIndex(ctx, dev, host, sourceOf[uint64](p, keys))
	}
}

func (t *table[K]) probe(_ context.Context, p *plan, keys []column.Column) (prober, error) {
	return newFinder(t, sourceOf[K](p, keys))
}

func (t *table[K]) matches() []uint32 { return t.rows.Host() }

// Len returns the number of rows of the build side.
func (ix *Index) Len() int { return ix.n }

// Distinct returns the number of distinct keys of the build side. Null counts as a key only with
// NullsMatch. For a closed index it returns 0.
func (ix *Index) Distinct() int {
	if ix.acquire() != nil {
		return 0
	}
	n := ix.lookup.distinct()
	ix.release()
	return n
}

// Bytes returns the bytes of memory that the index takes.
func (ix *Index) Bytes() int { return ix.bytes }

// Close frees the index after all calls and iterations in progress have ended. Later calls return
// [weft.ErrClosed]. Close is idempotent.
func (ix *Index) Close() error {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if !ix.closed {
		ix.closed = true
		if ix.tracked != nil { // nil in an IndexOn, which tracks itself
			ix.tracked.Closed()
		}
		return ix.freeUnused()
	}
	return nil
}

// freeUnused frees the index if it is closed and no call uses it.
func (ix *Index) freeUnused() error {
	if !ix.closed || ix.users > 0 {
		return nil
	}
	err := ix.lookup.free()
	if ix.openedCPU != nil {
		err = errors.Join(err, ix.openedCPU.Close())
	}
	return err
}

// acquire keeps the index from being freed until release.
func (ix *Index) acquire() error {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if ix.closed {
		return fmt.Errorf("index %w", op.ErrClosed)
	}
	ix.users++
	return nil
}

func (ix *Index) release() error {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.users--
	return ix.freeUnused()
}

// piece is a range of rows of the other side, with the matching rows of the build side.
type piece struct {
	first int // number of the first row
	spans []span
	rows  []uint32 // the rows that spans refer to
}

// visitPieces finds the matches of the other side piece by piece, in order, until body returns
// false. body may modify the spans.
func (ix *Index) visitPieces(ctx context.Context, keys []column.Column, body func(piece) (more bool)) (err error) {
	n, err := ix.plan.check(keys)
	if err != nil {
		return err
	}
	if err := ix.acquire(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ix.release()) }()
	if err := ctx.Err(); err != nil || n == 0 {
		return err
	}
	spans, free, err := allocTemp[uint64](ix.host, min(n, pieceRows))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, free()) }()
	p, err := ix.lookup.probe(ctx, &ix.plan, keys)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.free()) }()
	for lo := 0; lo < n; lo += pieceRows {
		hi := min(lo+pieceRows, n)
		out := unsafe.Slice((*span)(unsafe.Pointer(unsafe.SliceData(spans))), hi-lo)
		if err := p.locate(ctx, lo, hi, out); err != nil {
			return err
		}
		if !body(piece{lo, out, ix.lookup.matches()}) {
			return nil
		}
	}
	return nil
}

// allocTemp allocates host memory for a short time. Small slices come from Go's heap.
func allocTemp[T device.Elem](host device.Host, n int) (memory []T, free func() error, err error) {
	const maxHeapElems = 1 << 13
	if n <= maxHeapElems {
		return make([]T, n), func() error { return nil }, nil
	}
	s, err := device.Make[T](host, n)
	return s.Host(), s.Free, err
}
