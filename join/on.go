package join

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/gpu/pairs"
	"github.com/weftgo/weft/internal/observe"
)

// IndexOn is an [Index] over one column of integers in device memory, without nulls. Lookups read
// columns on the device without copies, or host keys. All methods may be called from many
// goroutines.
type IndexOn[K weft.Key] struct {
	n       int
	dev     device.Device
	impl    deviceIndex[K]
	closed  atomic.Bool
	tracked *observe.Tracked

	mu      sync.Mutex
	streams []*device.Stream // idle streams for calls with host keys

	piece, chunk int    // bytes of keys and number of pairs to copy at a time; 0: the defaults
	first        uint32 // number of the first row, added to rows in pairs of host keys
}

// deviceIndex is an index on one kind of device.
type deviceIndex[K weft.Key] interface {
	distinct() int
	matches(n int) (deviceMatches[K], error)
	close() error
}

// deviceMatches implements [MatchesOn] on one kind of device.
type deviceMatches[K weft.Key] interface {
	find(s *device.Stream, keys device.Slice[K], outer bool) error
	addTotal(s *device.Stream, n int, to device.Slice[uint64]) error
	counts(s *device.Stream, n int, to device.Slice[uint32]) error
	write(s *device.Stream, n int, first uint64, left, right device.Slice[uint32]) error
	free() error
}

// NewOn makes an index over a column on the device of stream s, after all work submitted to s. It
// waits until the index is complete. The index then does not need the column. Close the index
// before the device. If the column has more rows than row numbers, NewOn returns [weft.ErrOptions].
// Other errors are [device.ErrMemory] and the error of the context.
func NewOn[K weft.Key](ctx context.Context, s *device.Stream, keys device.Slice[K]) (*IndexOn[K], error) {
	if s == nil {
		return nil, fmt.Errorf("join: NewOn: %w: the stream is nil", device.ErrInvalid)
	}
	ix := &IndexOn[K]{n: keys.Len(), dev: s.Device()}
	err := sameDevice(ix.dev, "the keys lie", keys)
	if err != nil {
		return nil, fmt.Errorf("join: NewOn: %w", err)
	}
	if host, ok := ix.dev.(device.Host); ok {
		ix.impl, err = newHostIndex(ctx, host, keys)
	} else {
		ix.impl, err = newGPUIndex(ctx, s, keys)
	}
	if err != nil {
		return nil, fmt.Errorf("join: NewOn: %w", err)
	}
	ix.tracked = observe.Track(ix, "join", nil, func(ix *IndexOn[K]) (rows, bytes int) { return ix.n, 0 })
	return ix, nil
}

// Len returns the number of rows of the build side.
func (ix *IndexOn[K]) Len() int { return ix.n }

// Distinct returns the number of distinct keys of the build side.
func (ix *IndexOn[K]) Distinct() int { return ix.impl.distinct() }

// Close frees the index. Before Close, all work submitted to streams for matches of the index must
// be complete. After Close, the methods of those matches return [weft.ErrClosed]. Close is
// idempotent.
func (ix *IndexOn[K]) Close() error {
	if !ix.closed.Swap(true) {
		ix.tracked.Closed()
	}
	err := ix.impl.close()
	ix.mu.Lock()
	defer ix.mu.Unlock()
	for _, s := range ix.streams {
		err = errors.Join(err, s.Close())
	}
	ix.streams = nil
	return err
}

// sameDevice returns an error if memory is on another device than the index.
func sameDevice[T device.Elem](dev device.Device, subject string, memory device.Slice[T]) error {
	if memory.Len() > 0 && memory.Device() != dev {
		return fmt.Errorf("%w: %s on another device, %s", device.ErrInvalid, subject, memory.Device().Properties().Name)
	}
	return nil
}

// MatchesOn finds the matches of one batch after another. Its methods submit work and never wait.
// They use one stream, or several that the caller orders. Only one goroutine may use it at a time.
type MatchesOn[K weft.Key] struct {
	ix     *IndexOn[K]
	impl   deviceMatches[K]
	cap, n int // rows of capacity, and rows of the batch
	closed bool
}

// Matches allocates matches for batches of up to n rows, with some 20 bytes per row. If n is
// negative or too large, it returns [device.ErrInvalid]. Other errors are [weft.ErrClosed] and
// [device.ErrMemory].
func (ix *IndexOn[K]) Matches(n int) (*MatchesOn[K], error) {
	if n < 0 || n > maxRows {
		return nil, fmt.Errorf("join: Matches: %w: room for %d rows is negative or too large",
			device.ErrInvalid, n)
	}
	if ix.closed.Load() {
		return nil, fmt.Errorf("join: Matches: index %w", device.ErrClosed)
	}
	on, err := ix.impl.matches(n)
	if err != nil {
		return nil, fmt.Errorf("join: Matches: %w", err)
	}
	return &MatchesOn[K]{ix: ix, impl: on, cap: n}, nil
}

// FindOn looks up a batch. [MatchesOn.PairsOn] and [MatchesOn.CountOn] then apply to the pairs of
// an inner join, in the order of [Index.Inner]. If total is given, FindOn adds the number of pairs
// to its first element. FindOn returns [device.ErrInvalid] for keys beyond the capacity, a nil
// stream, streams and memory of other devices, and an empty total.
func (m *MatchesOn[K]) FindOn(s *device.Stream, keys device.Slice[K], total ...device.Slice[uint64]) error {
	return m.find(s, "FindOn", keys, false, total)
}

// FindLeftOn looks up a batch as [MatchesOn.FindOn] does, for the pairs of a left join. A row
// without a match gets a pair with [NoRow].
func (m *MatchesOn[K]) FindLeftOn(s *device.Stream, keys device.Slice[K], total ...device.Slice[uint64]) error {
	return m.find(s, "FindLeftOn", keys, true, total)
}

func (m *MatchesOn[K]) find(s *device.Stream, method string, keys device.Slice[K], outer bool, total []device.Slice[uint64]) error {
	return m.run(method, s, func() error {
		m.n = 0 // until the batch is found
		if keys.Len() > m.cap {
			return fmt.Errorf("%w: %d keys, but there is room for %d", device.ErrInvalid,
				keys.Len(), m.cap)
		}
		if err := sameDevice(m.ix.dev, "the keys lie", keys); err != nil {
			return err
		}
		if len(total) > 0 && total[0].Len() == 0 {
			return fmt.Errorf("%w: total is empty", device.ErrInvalid)
		}
		if len(total) > 0 {
			if err := sameDevice(m.ix.dev, "total lies", total[0]); err != nil {
				return err
			}
		}
		if err := m.impl.find(s, keys, outer); err != nil {
			return err
		}
		m.n = keys.Len()
		if len(total) == 0 {
			return nil
		}
		return m.impl.addTotal(s, m.n, total[0].Sub(0, 1))
	})
}

// run calls f. It returns an error instead if the index or the matches are closed, or if s is not a
// stream of the device.
func (m *MatchesOn[K]) run(method string, s *device.Stream, f func() error) (err error) {
	switch {
	case m.closed || m.ix.closed.Load():
		err = fmt.Errorf("index or matches %w", device.ErrClosed)
	case s == nil:
		err = fmt.Errorf("%w: the stream is nil", device.ErrInvalid)
	case s.Device() != m.ix.dev:
		err = fmt.Errorf("%w: the stream belongs to another device, %s", device.ErrInvalid, s.Device().Properties().Name)
	default:
		err = f()
	}
	if err != nil {
		return fmt.Errorf("join: %s: %w", method, err)
	}
	return nil
}

// CountOn writes the number of pairs of each row of the batch to counts. It panics if counts has
// another length than the batch.
func (m *MatchesOn[K]) CountOn(s *device.Stream, counts device.Slice[uint32]) error {
	return m.run("CountOn", s, func() error {
		if counts.Len() != m.n {
			panic(fmt.Sprintf("join: CountOn: %d results for %d rows", counts.Len(), m.n))
		}
		if err := sameDevice(m.ix.dev, "the counts lie", counts); err != nil || m.n == 0 {
			return err
		}
		return m.impl.counts(s, m.n, counts)
	})
}

// PairsOn writes the pairs of the batch, from pair number first on, to left and right. It stops
// when the columns are full or no pairs are left, so several calls can write many pairs in pieces.
// It panics if the columns differ in length.
func (m *MatchesOn[K]) PairsOn(s *device.Stream, first uint64, left, right device.Slice[uint32]) error {
	if left.Len() != right.Len() {
		panic(fmt.Sprintf("join: PairsOn: room for %d rows of the left side and %d of the right", left.Len(), right.Len()))
	}
	return m.run("PairsOn", s, func() error {
		err := cmp.Or(sameDevice(m.ix.dev, "the left rows lie", left), sameDevice(m.ix.dev, "the right rows lie", right))
		if err != nil || m.n == 0 || left.Len() == 0 {
			return err
		}
		return m.impl.write(s, m.n, first, left, right)
	})
}

// Close frees the memory. All work submitted for the matches must be complete. Close is idempotent.
func (m *MatchesOn[K]) Close() error {
	m.closed = true
	return m.impl.free()
}

// gpuIndex implements deviceIndex on a GPU.
type gpuIndex[K weft.Key] struct{ *gpuTable[K] }

func newGPUIndex[K weft.Key](ctx context.Context, s *device.Stream, keys device.Slice[K]) (deviceIndex[K], error) {
	t, err := newGPUTable(ctx, s, keys)
	return gpuIndex[K]{t}, err
}

func (x gpuIndex[K]) distinct() int { return x.spans.Len() }

func (x gpuIndex[K]) close() error { return x.free() }

func (x gpuIndex[K]) matches(n int) (deviceMatches[K], error) {
	f, err := x.kernels.NewMatches(n)
	return gpuMatches[K]{x.gpuTable, f}, err
}

type gpuMatches[K weft.Key] struct {
	table *gpuTable[K]
	*pairs.Matches
}

func (m gpuMatches[K]) find(s *device.Stream, keys device.Slice[K], outer bool) error {
	if err := m.table.find(s, keys, m.Spans.Sub(0, keys.Len())); err != nil {
		return err
	}
	return m.Count(s, keys.Len(), outer)
}

func (m gpuMatches[K]) addTotal(s *device.Stream, n int, to device.Slice[uint64]) error {
	return m.AddTotal(s, n, to)
}

func (m gpuMatches[K]) counts(s *device.Stream, n int, to device.Slice[uint32]) error {
	return s.Copy(to.Ptr(), m.Counts().Ptr(), 4*n)
}

func (m gpuMatches[K]) write(s *device.Stream, n int, first uint64, left, right device.Slice[uint32]) error {
	return m.Write(s, n, m.table.rows, first, left, right)
}

func (m gpuMatches[K]) free() error { return m.Free() }

// hostIndex implements deviceIndex on a CPU, whose streams run work at once.
type hostIndex[K weft.Key] struct{ *Index }

func newHostIndex[K weft.Key](ctx context.Context, host device.Host, keys device.Slice[K]) (deviceIndex[K], error) {
	ix := &Index{opts: Options{Piece: defaultPiece}}
	err := ix.open(ctx, host, []column.Column{column.Of(keys.Host())})
	return hostIndex[K]{ix}, err
}

func (x hostIndex[K]) distinct() int { return x.Distinct() }

func (x hostIndex[K]) close() error { return x.Close() }

func (x hostIndex[K]) matches(n int) (deviceMatches[K], error) {
	m := &hostMatches[K]{ix: x.Index}
	var err error
	if m.spans, err = device.Make[uint64](x.host, n); err != nil {
		return nil, err
	}
	return m, nil
}

type hostMatches[K weft.Key] struct {
	ix    *Index
	spans device.Slice[uint64]
	sum   uint64 // number of pairs
	pairs expansion
}

func (m *hostMatches[K]) find(_ *device.Stream, keys device.Slice[K], outer bool) error {
	spans := unsafe.Slice((*span)(unsafe.Pointer(unsafe.SliceData(m.spans.Host()))), keys.Len())
	err := m.ix.visitPieces(context.Background(), []column.Column{column.Of(keys.Host())}, func(p piece) bool {
		copy(spans[p.first:], p.spans)
		m.pairs.rows = p.rows
		return true
	})
	m.pairs.spans = spans
	m.sum = m.pairs.count(m.ix.host, outer)
	return err
}

func (m *hostMatches[K]) addTotal(_ *device.Stream, _ int, to device.Slice[uint64]) error {
	core.AddCount(to, m.sum)
	return nil
}

func (m *hostMatches[K]) counts(_ *device.Stream, _ int, to device.Slice[uint32]) error {
	for i, s := range m.pairs.spans {
		to.Host()[i] = s.n
	}
	return nil
}

func (m *hostMatches[K]) write(_ *device.Stream, _ int, first uint64, left, right device.Slice[uint32]) error {
	if total := m.sum; first < total {
		n := int(min(total-first, uint64(left.Len())))
		m.pairs.write(m.ix.host, first, left.Host()[:n], right.Host()[:n])
	}
	return nil
}

func (m *hostMatches[K]) free() error { return m.spans.Free() }
