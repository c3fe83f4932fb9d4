package distinct

import (
	"context"
	"math/rand/v2"
	"sync"
)

// goIndex is an [Index] over a Go map. Where a batch claims one key several
// times, an arbitrary one of them wins, as on a GPU.
type goIndex struct {
	mu   sync.Mutex
	m    map[uint64]uint32
	rng  *rand.Rand
	fail func(op string) error // asked before each call, if not nil
}

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

func (x *goIndex) Len() int { return len(x.m) }
