package experiment

import (
	"context"
	"errors"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/workload"
)

// mix holds the shares of operations in a mixed batch that insert a new key, delete a present key,
// and look up a present key. The other operations look up absent keys. The SlabHash paper calls
// such shares Γ (section VI-C).
type mix struct {
	op                  string
	insert, remove, hit float64
}

// evenMix is half lookups and half updates. fewUpdates is the SlabHash paper's Γ2.
var (
	evenMix    = mix{"mixed", .25, .25, .5}
	fewUpdates = mix{"mixed_20", .1, .1, .4}
)

func (m mix) updates() float64 { return m.insert + m.remove }

// mixedBytes is the maximum device memory per operation of a mixed batch: a key, two values, a kind
// and a flag.
const mixedBytes = 8 + 2*8 + 1 + 1

// batch is a mixed batch on the device in random order. No key occurs twice, so results do not
// depend on the order of execution.
type batch[K weft.Key, V weft.Value] struct {
	r *runner
	mix
	kinds device.Slice[weft.OpKind]
	keys  device.Slice[K]
	put   device.Slice[V] // values to insert
	vals  device.Slice[V] // copy of put, which each run overwrites with results
	ok    device.Slice[bool]
	// before is the number of the columns' first keys that the table must contain before the batch.
	// The batch inserts later keys of the columns.
	before int
	// succeed is the number of operations that succeed.
	succeed int
}

// minMixed is the minimum number of keys that a mixed batch never deletes completely.
const minMixed = 16

// newBatch makes a batch of the given size for a table of the columns' first n keys. Before the
// batch the table must contain more keys than the batch deletes and looks up.
func newBatch[K weft.Key, V weft.Value](r *runner, m mix, n, size int) (b *batch[K, V], err error) {
	inserts, removes, hits := int(m.insert*float64(size)), int(m.remove*float64(size)), int(m.hit*float64(size))
	b = &batch[K, V]{r: r, mix: m, before: n - inserts, succeed: inserts + removes + hits}
	if b.before < 1 {
		return nil, errTooFew(n, minMixed)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.free())
		}
	}()
	kinds, keys, vals := make([]weft.OpKind, size), make([]K, size), make([]V, size)
	order := workload.NewPermutation(uint64(max(size, 1)), r.Seed+2)
	for i := range size {
		var counter int
		switch j := int(order.At(uint64(i))); {
		case j < hits:
			kinds[i], counter = weft.OpGet, j
		case j < hits+removes:
			kinds[i], counter = weft.OpDelete, j
		case j < hits+removes+inserts:
			kinds[i], counter = weft.OpPut, b.before+j-hits-removes
		default:
			kinds[i], counter = weft.OpGet, workload.Misses+j
		}
		keys[i] = workload.Key[K](r.Seed, uint64(counter))
	}
	workload.Values(vals, keys)
	return b, b.upload(kinds, keys, vals)
}

func (b *batch[K, V]) upload(kinds []weft.OpKind, keys []K, vals []V) (err error) {
	if b.kinds, err = device.Upload(b.r.stream, kinds); err != nil {
		return err
	}
	if b.keys, err = device.Upload(b.r.stream, keys); err != nil {
		return err
	}
	if b.put, err = device.Upload(b.r.stream, vals); err != nil {
		return err
	}
	if b.vals, err = device.Make[V](b.r.Device, len(keys)); err != nil {
		return err
	}
	b.ok, err = device.Make[bool](b.r.Device, len(keys))
	return err
}

func (b *batch[K, V]) free() error {
	return b.r.free(&b.kinds, &b.keys, &b.put, &b.vals, &b.ok)
}

// mixed measures a mixed batch of the given size. The batch inserts the last of the columns' keys.
// The table must be a mixer.
func (s *trial[K, V]) mixed(ctx context.Context, m mix, size int) (err error) {
	s.begin(m.op)
	b, err := newBatch[K, V](s.runner, m, s.cols.n, size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.free()) }()
	refill := s.refill(ctx, b.before)
	prepare := func() error {
		if err := refill(); err != nil {
			return err
		}
		return s.stream.Copy(b.vals.Ptr(), b.put.Ptr(), b.put.Len()*s.valueBits/8)
	}
	var first Row
	if err := errors.Join(refill(), s.table.describe(ctx, &first)); err != nil {
		return err
	}
	table := s.table.(mixer[K, V])
	t, err := s.median(ctx, prepare, func() error {
		return table.ApplyOn(s.stream, b.kinds, b.keys, b.vals, b.ok)
	})
	if err != nil {
		return err
	}
	if err := s.table.Sync(ctx); err != nil {
		return err
	}
	if err := checkFlags(ctx, s.runner, b.ok, m.op, b.succeed); err != nil {
		return err
	}
	s.report(m.op, size, t, s.mixedLimit(s.read, s.write, m.updates()), Row{Load: first.Load})
	return nil
}
