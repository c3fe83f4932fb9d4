package distinct

import (
	"context"
	"runtime"
	"sync"
	"unsafe"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/group"
	"github.com/weftgo/weft/internal/arena"
	"github.com/weftgo/weft/internal/op"
)

const (
	// pieceSize is the size of a stream's pieces in bytes. With many cores, pieces have coresPiece
	// bytes per core, so that all cores have work.
	pieceSize  = 16 << 20
	coresPiece = 1 << 20
	// rangeSize is the number of bytes of a piece that a worker takes at a time.
	rangeSize = 128 << 10
	// blockItems is the number of items that a worker splits, hashes and counts at a time. Their
	// spans and keys fit in the first-level cache.
	blockItems = 256
	// roundRows bounds the rows of a worker, and thereby their memory. A round ends when a worker
	// has reached it.
	roundRows = 256 << 10
	// rowBytes is the size of a row in bytes, counted twice: in a worker, and in the rows of all
	// workers.
	rowBytes = 2 * (16 + 8)
)

// Options configure a [Counter]. The zero value has the defaults.
type Options struct {
	// Workers is the number of goroutines that count. Default: GOMAXPROCS.
	Workers int
	// Progress, if not nil, is called by [Counter.Read] with the number of bytes counted since the
	// last call.
	Progress func(bytes int)
	// Memory and TempDir have the meaning of the same fields of [group.Options]. Items that exceed
	// Memory go to a temporary file.
	Memory  int64
	TempDir string
}

// Counter counts the distinct items of streams. Only one of its methods may run at a time.
type Counter struct {
	dev       device.Host
	by        Splitter
	opts      Options
	groups    *group.Groups
	workers   []*worker
	rows      rows // rows of one round
	pieceSize int
	roundRows int       // constant roundRows, or less
	spare     [2][]byte // buffers for pieces, reused for the next stream
	bytes     int
	err       error // error of the first failed Read
}

// rows holds items and their counts. Items point into a piece.
type rows struct {
	items  []string
	counts []uint64
}

// New returns a counter of the items that the splitter finds. dev must be a host device.
func New(dev device.Device, by Splitter, opts *Options) (*Counter, error) {
	return newCounter(dev, by, opts, arena.NewHasher())
}

func newCounter(dev device.Device, by Splitter, opts *Options, h arena.Hasher) (*Counter, error) {
	c := &Counter{by: by}
	if opts != nil {
		c.opts = *opts
	}
	n := c.opts.Workers
	if n < 1 {
		n = runtime.GOMAXPROCS(0)
	}
	c.pieceSize, c.roundRows = max(pieceSize, n*coresPiece), roundRows
	o := &group.Options{TempDir: c.opts.TempDir}
	if m := c.opts.Memory; m > 0 {
		// The other three eighths are for pieces and their rows, and later for sorting.
		o.Memory = max(m/8*5, min(m, group.MinMemory))
		c.pieceSize = int(min(int64(c.pieceSize), max(m/32, firstPiece)))
		c.roundRows = int(min(roundRows, m/16/int64(rowBytes*n)))
	}
	var err error
	c.groups, err = group.New(dev, []group.Aggregate{{Func: group.Sum}}, o)
	if err != nil {
		return nil, err
	}
	c.dev = dev.(device.Host) // group.New requires a Host
	c.workers = make([]*worker, n)
	for i := range c.workers {
		c.workers[i] = &worker{hasher: h}
	}
	return c, nil
}

// Close frees the memory of the counter and its temporary file.
func (c *Counter) Close() error { return c.groups.Close() }

// Spilled returns the number of bytes in the temporary file.
func (c *Counter) Spilled() int64 { return c.groups.Spilled() }

// Totals describes all streams that were read.
type Totals struct {
	Items int // number of items, with repetitions
	Bytes int // number of bytes, including separators
}

// Totals returns the totals of all streams read so far.
func (c *Counter) Totals() Totals {
	t := Totals{Bytes: c.bytes}
	for _, w := range c.workers {
		t.Items += w.added
	}
	return t
}

// worker is the state of one goroutine of a counter.
type worker struct {
	cache
	rows
	hasher arena.Hasher
	added  int // number of items counted
}

func (w *worker) emit(item string, n uint64) {
	w.items = append(w.items, item)
	w.counts = append(w.counts, n)
}

// ranges distributes the ranges of a piece to workers.
type ranges struct {
	by    Splitter
	mu    sync.Mutex
	piece []byte
	next  int
}

// nextRange returns the next range [lo,hi) of whole items. It returns false at the end of the
// piece.
func (r *ranges) nextRange() (lo, hi int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lo = r.next
	if lo == len(r.piece) {
		return 0, 0, false
	}
	hi = r.by.cut(r.piece, min(lo+rangeSize, len(r.piece)))
	r.next = hi
	return lo, hi, true
}

// count counts the items of a piece in rounds. A round ends with the piece, or when workers have
// enough rows. The rows of all workers are then added to the groups together.
func (c *Counter) count(ctx context.Context, data []byte) error {
	r := &ranges{by: c.by, piece: data}
	for r.next < len(data) {
		c.parallel(1+(len(data)-r.next)/rangeSize, func(w *worker) {
			for len(w.items) < max(c.roundRows, 1) && ctx.Err() == nil {
				lo, hi, ok := r.nextRange()
				if !ok {
					return
				}
				w.countRange(c.by, data[:hi], lo)
			}
		})
		if r.next == len(data) {
			c.parallel(len(c.workers), (*worker).flush)
		}
		if err := c.add(ctx); err != nil {
			return err
		}
	}
	return nil
}

// countRange counts the items of b that begin at offset pos or later.
func (w *worker) countRange(by Splitter, b []byte, pos int) {
	if w.buckets == nil {
		w.buckets = make([]bucket, 1<<cacheBits)
	}
	cached := w.skip == 0
	w.skip = max(w.skip-1, 0)
	w.used, w.hits = w.used || cached, 0
	var spans [blockItems]span
	var keys [blockItems]uint64
	before := w.added
	padded := b[:len(b)+pad]
	for pos < len(b) {
		var n int
		n, pos = by.split(b, pos, spans[:])
		w.added += n
		if !cached {
			for _, s := range spans[:n] {
				w.emit(itemAt(padded, s), 1)
			}
			continue
		}
		for i, s := range spans[:n] {
			keys[i] = key(&w.hasher, padded, s)
		}
		for i, s := range spans[:n] {
			w.count(keys[i], itemAt(padded, s))
		}
	}
	if cached && minHits*w.hits < w.added-before {
		w.skip = skipRanges
	}
}

// itemAt returns an item as a string, which is valid as long as its piece.
func itemAt(padded []byte, s span) string { return unsafe.String(&padded[s.off], s.n) }

// add adds the rows of all workers to the groups.
func (c *Counter) add(ctx context.Context) error {
	all := &c.rows
	if len(c.workers) == 1 {
		all = &c.workers[0].rows
	} else {
		all.items, all.counts = all.items[:0], all.counts[:0]
		for _, w := range c.workers {
			all.items = append(all.items, w.items...)
			all.counts = append(all.counts, w.counts...)
		}
	}
	err := c.groups.Add(ctx, []column.Column{column.OfStrings(all.items)},
		[]column.Column{column.Of(all.counts)})
	for _, w := range c.workers {
		w.items, w.counts = w.items[:0], w.counts[:0]
	}
	if err != nil && ctx.Err() == nil {
		return &KeepError{op.Cause(err)}
	}
	return ctx.Err()
}

// KeepError means that items could not be stored, in memory or in the temporary file. All other
// errors come from the stream.
type KeepError struct{ Err error }

func (e *KeepError) Error() string { return e.Err.Error() }
func (e *KeepError) Unwrap() error { return e.Err }

// parallel runs f for the first n workers and waits.
func (c *Counter) parallel(n int, f func(w *worker)) {
	n = min(n, len(c.workers))
	var wg sync.WaitGroup
	for _, w := range c.workers[1:max(n, 1)] {
		wg.Go(func() { f(w) })
	}
	f(c.workers[0])
	wg.Wait()
}
