package distinct

import (
	"context"
	"errors"
	"iter"
	"maps"
	"math/rand/v2"
	"sync"

	"github.com/weftgo/weft"
)

// goIndex is a weft.Map over a Go map. Where a batch claims one key several
// times, an arbitrary one of them wins, as on a GPU.
type goIndex struct {
	mu   sync.Mutex
	m    map[uint64]uint32
	rng  *rand.Rand
	fail func(op string) error // asked before each call, if not nil
}

var _ weft.Map[uint64, uint32] = (*goIndex)(nil)

func newGoIndex() *goIndex {
	return &goIndex{m: make(map[uint64]uint32), rng: rand.New(rand.NewPCG(1, 2))}
}

func (x *goIndex) begin(ctx context.Context, op string) error {
	if x.fail != nil {
		if err := x.fail(op); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (x *goIndex) Put(ctx context.Context, keys []uint64, vals []uint32) (inserted int, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.begin(ctx, "Put"); err != nil {
		return 0, err
	}
	before := len(x.m)
	for i, k := range keys {
		x.m[k] = vals[i]
	}
	return len(x.m) - before, nil
}

func (x *goIndex) PutNew(ctx context.Context, keys []uint64, vals []uint32, ok []bool) (inserted int, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.begin(ctx, "PutNew"); err != nil {
		return 0, err
	}
	for _, i := range x.rng.Perm(len(keys)) {
		_, had := x.m[keys[i]]
		ok[i] = !had
		if !had {
			x.m[keys[i]] = vals[i]
			inserted++
		}
	}
	return inserted, nil
}

func (x *goIndex) Get(ctx context.Context, keys []uint64, vals []uint32, found []bool) (hits int, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.begin(ctx, "Get"); err != nil {
		return 0, err
	}
	for i, k := range keys {
		if vals[i], found[i] = x.m[k]; found[i] {
			hits++
		}
	}
	return hits, nil
}

var errUnused = errors.New("the counter does not use this")

func (x *goIndex) Contains(context.Context, []uint64, []bool) (int, error) { return 0, errUnused }
func (x *goIndex) Delete(context.Context, []uint64, []bool) (int, error)   { return 0, errUnused }
func (x *goIndex) Apply(context.Context, []weft.Op[uint64, uint32], []weft.Result[uint32]) error {
	return errUnused
}
func (x *goIndex) Len() int                       { return len(x.m) }
func (x *goIndex) All() iter.Seq2[uint64, uint32] { return maps.All(x.m) }
func (x *goIndex) Err() error                     { return nil }
func (x *goIndex) Clear(context.Context) error    { return errUnused }
func (x *goIndex) Close() error                   { return nil }
