package distinct

import (
	"context"
	"runtime"
	"sync"

	"github.com/weftgo/weft/internal/arena"
	"github.com/weftgo/weft/internal/number"
)

const (
	// pieceSize is the size of a stream's pieces in bytes; coresPiece is the
	// least of it per core, so that many cores have enough to share.
	pieceSize  = 16 << 20
	coresPiece = 1 << 20
	// rangeSize is how much of a piece a worker takes at a time, in bytes.
	rangeSize = 128 << 10
	// blockItems is the number of items that a worker takes through
	// splitting, hashing and counting at a time: their spans and keys stay in
	// the first-level cache.
	blockItems = 256
	// roundMisses ends a round when a worker has that many misses: batches
	// are large enough for a GPU then, and the memory for them is bounded.
	roundMisses = 256 << 10
)

// Options change how a [Counter] works. The zero value is the default.
type Options struct {
	// Workers is the number of goroutines that count; default GOMAXPROCS.
	Workers int
	// Progress, if not nil, is called by [Counter.Read] with the number of
	// bytes counted since the last call.
	Progress func(bytes int)
}

// Counter counts the distinct items of streams. Its methods must not be called
// at the same time.
type Counter struct {
	by        Splitter
	index     Index // from key to item number
	items     items
	workers   []*worker
	batch     batch
	progress  func(int)
	pieceSize int
	spare     [2][]byte // buffers for pieces, kept between streams
	bytes     int
	err       error // of the first Read that failed
}

// items are the distinct items seen so far, by number.
type items struct {
	words  []uint64 // where the bytes are; see key.go
	counts []uint64
	arena  arena.Arena
	// clashes are the numbers of items whose key belongs to another item, which
	// are extras: others have the numbers that the index gives their keys, but for these.
	clashes map[string]uint32
	extras  number.Extras
}

// Index is what a [Counter] needs of an index: it numbers keys 0, 1, 2, … in the order of
// their first appearance, and returns the rows of those that are new; see number.Index.
type Index interface {
	Assign(ctx context.Context, keys []uint64, numbers []uint32) (first []uint32, done int, err error)
}

// New returns a counter of the items that by finds. The counter uses index,
// which must be empty and be used by nobody else, and does not close it.
func New(index Index, by Splitter, opts *Options) *Counter {
	return newCounter(index, by, opts, arena.NewHasher())
}

func newCounter(index Index, by Splitter, opts *Options, h arena.Hasher) *Counter {
	if opts == nil {
		opts = &Options{}
	}
	n := opts.Workers
	if n < 1 {
		n = runtime.GOMAXPROCS(0)
	}
	c := &Counter{
		by:        by,
		index:     index,
		progress:  opts.Progress,
		pieceSize: max(pieceSize, n*coresPiece),
		workers:   make([]*worker, n),
	}
	c.items.clashes = make(map[string]uint32)
	for i := range c.workers {
		c.workers[i] = &worker{items: &c.items, hasher: h, store: arena.NewWriter(&c.items.arena)}
	}
	return c
}

// Totals are the sums over all streams read.
type Totals struct {
	Items    int // items, with repetitions
	Distinct int // distinct items
	Bytes    int // bytes read, separators included
}

// Totals returns the sums over all streams read so far.
func (c *Counter) Totals() Totals {
	t := Totals{Distinct: len(c.items.words), Bytes: c.bytes}
	for _, w := range c.workers {
		t.Items += w.added
	}
	return t
}

// worker is what one goroutine of a counter works with.
type worker struct {
	cache
	hasher arena.Hasher
	items  *items
	store  arena.Writer
	padded []byte // the piece being counted, and pad bytes
	added  int    // items counted so far

	// What resolve does in one round.
	first   int      // where the misses begin in the batch
	clashes []uint32 // misses whose keys belong to other items
}

// item is the item at s of the piece being counted.
func (w *worker) item(s span) []byte { return w.padded[s.off : s.off+s.n] }

// ranges hands out a piece to the workers.
type ranges struct {
	by    Splitter
	mu    sync.Mutex
	piece []byte
	next  int
}

// take returns the next range, [lo,hi), of whole items; false if there is none.
func (r *ranges) take() (lo, hi int, ok bool) {
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

// count counts the items of a piece, in rounds: the workers count until the
// piece ends or they have many misses, which are then resolved together.
func (c *Counter) count(ctx context.Context, data []byte) error {
	r := &ranges{by: c.by, piece: data}
	for r.next < len(data) {
		c.parallel(1+(len(data)-r.next)/rangeSize, func(w *worker) {
			w.padded = data[:len(data)+pad]
			for len(w.misses) < roundMisses && ctx.Err() == nil {
				lo, hi, ok := r.take()
				if !ok {
					return
				}
				w.countRange(c.by, data[:hi], lo)
			}
		})
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.resolve(ctx); err != nil {
			return err
		}
	}
	return nil
}

// countRange counts the items of b from offset pos on.
func (w *worker) countRange(by Splitter, b []byte, pos int) {
	if w.buckets == nil {
		w.buckets = make([]bucket, 1<<cacheBits)
	}
	var spans [blockItems]span
	var keys [blockItems]uint64
	for pos < len(b) {
		var n int
		n, pos = by.split(b, pos, spans[:])
		for i, s := range spans[:n] {
			keys[i] = key(&w.hasher, w.padded, s)
		}
		for i, s := range spans[:n] {
			w.add(keys[i], s)
		}
		w.added += n
		w.sinceFlush += n
	}
}

// parallel runs f for every worker, or for the first n of them if there is no
// more to do, and waits.
func (c *Counter) parallel(n int, f func(w *worker)) {
	n = min(n, len(c.workers))
	var wg sync.WaitGroup
	for _, w := range c.workers[1:max(n, 1)] {
		wg.Go(func() { f(w) })
	}
	f(c.workers[0])
	wg.Wait()
}
