package experiment

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/lab/internal/roofline"
)

var hotKeysExperiment = Experiment{
	Name:  "hotkeys",
	Title: "Mixed batches on one key, and on many",
	Doc: `ApplyOn of n operations on 32-bit pairs in a map that is empty before, in the order of the batch: sums alone (sums), and
equal parts of Get, Put, Delete and PutNew (parts), with a single key and with as many random keys as operations. The
number of keys stands with the operation.`,
	run: runHotKeys,
}

// hotMixes are the compared batches. The operations of a batch take these kinds in rotation.
var hotMixes = []struct {
	op    string
	kinds []weft.OpKind
}{
	{"sums", []weft.OpKind{weft.OpSum}},
	{"parts", []weft.OpKind{weft.OpGet, weft.OpPut, weft.OpDelete, weft.OpPutNew}},
}

func runHotKeys(ctx context.Context, r *runner) error {
	n, err := r.keys(1<<16, 1_000_000, 3*rowBytes+mixedBytes)
	if err != nil {
		return err
	}
	n = max(n, 1)
	r.result.Parameters["operations"] = n
	if err := r.limits(ctx, 3*n*rowBytes, r.writeLimit(rowBytes)); err != nil {
		return err
	}
	for _, keys := range []int{1, n} {
		for _, mix := range hotMixes {
			if err := hotKeys(ctx, r, mix.op, mix.kinds, keys, n); err != nil {
				return fmt.Errorf("%s of %d keys: %w", mix.op, keys, err)
			}
		}
	}
	return nil
}

func hotKeys(ctx context.Context, r *runner, op string, kinds []weft.OpKind, keys, n int) (err error) {
	r.step("hotkeys: %s of %d keys", op, keys)
	b := &batch[uint32, uint32]{r: r}
	defer func() { err = errors.Join(err, b.free()) }()
	if err := b.hot(kinds, keys, n); err != nil {
		return err
	}
	for _, maker := range r.mapMakers() {
		m, err := maker.open(n, false)
		if err != nil {
			return err
		}
		t, err := r.median(ctx, func() error {
			return errors.Join(m.Clear(ctx), r.stream.Copy(b.vals.Ptr(), b.put.Ptr(), 4*n))
		}, func() error { return m.ApplyOn(r.stream, b.kinds, b.keys, b.vals, b.ok) })
		if err == nil {
			err = checkHot(ctx, r, m, op, keys, n)
		}
		if err = errors.Join(err, m.Close()); err != nil {
			return fmt.Errorf("%s: %w", maker.structure, err)
		}
		r.add(Row{
			Structure: maker.structure, Op: fmt.Sprintf("%s_%d", op, keys), KeyBits: 32, ValueBits: 32, N: n,
			Seconds: t.Seconds(), OpsPerS: roofline.Rate(n, t), Limit: r.writeLimit(rowBytes),
		})
	}
	return nil
}

// hot uploads a batch of n operations with kinds in rotation on the given number of keys.
func (b *batch[K, V]) hot(kinds []weft.OpKind, keys, n int) error {
	all, rows, vals := make([]weft.OpKind, n), make([]K, n), make([]V, n)
	for i := range all {
		all[i] = kinds[i%len(kinds)]
		if vals[i] = 1; len(kinds) > 1 {
			vals[i] = V(1 + i) // equal values would hide which Put came last
		}
	}
	workload.Uniform(rows, b.r.Seed, uint64(keys), b.r.Seed+2)
	return b.upload(all, rows, vals)
}

// checkHot verifies the map after a batch. No key may be present twice, and the values must add up
// to at least the number of keys. If op is "sums", they must add up to n.
func checkHot(ctx context.Context, r *runner, m *weft.Map[uint32, uint32], op string, keys, n int) error {
	if err := m.Sync(ctx); err != nil {
		return err
	}
	all, sums := make([]uint32, keys), make([]uint32, keys)
	workload.Unique(all, r.Seed, 0)
	found, err := m.Get(ctx, all, sums, nil)
	if err != nil {
		return err
	}
	sum := 0
	for _, s := range sums {
		sum += int(s)
	}
	if found != m.Len() || sum < found || op == "sums" && sum != n {
		return fmt.Errorf("%w: %d keys of %d hold %d after %d %s", errWrong, found, m.Len(), sum, n, op)
	}
	return nil
}
