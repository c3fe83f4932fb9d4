package weft

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// apply runs a mixed batch from host memory in chunks, so that the memory of its columns does not
// grow with the batch. After ErrFull in one chunk, it runs the other chunks.
func apply[K Key, V Value](ctx context.Context, t *core.Table, ops []Op[K, V], res []Result[V]) error {
	if res != nil && len(res) != len(ops) {
		panic(fmt.Sprintf("%s: Apply: %d operations, but %d results", t.Name, len(ops), len(res)))
	}
	for i, o := range ops {
		if err := t.CheckKind(op.Kind(o.Kind)); err != nil {
			clear(res)
			return t.Partial("Apply", 0, nil, fmt.Errorf("operation %d: %w", i, err))
		}
	}
	c := newColumns[K, V](min(len(ops), core.ChunkOps), res != nil)
	var done int
	var failed []int
	var full error
	for {
		n := min(len(ops)-done, core.ChunkOps)
		_, err := t.Change(ctx, "Apply", c.batch(ops[done:done+n]))
		if res != nil {
			c.results(res[done : done+n])
		}
		var p *PartialError
		if errors.As(err, &p) {
			for _, row := range p.Rows {
				failed = append(failed, done+row)
			}
			done, full = done+p.Done, p.Err
			if p.Done < n || !errors.Is(err, ErrFull) {
				clear(res[min(done, len(res)):])
				return t.Partial("Apply", done, failed, p.Err)
			}
		} else {
			done += n
		}
		if done == len(ops) {
			break
		}
	}
	if full != nil {
		return t.Partial("Apply", done, failed, full)
	}
	return nil
}

// columns holds the columns of one chunk of a mixed batch from host memory. Values found go to the
// column out, because an operation that overflows runs again and then reads its value from vals.
type columns[K Key, V Value] struct {
	keys      []K
	vals, out []V
	kinds     []op.Kind
	ok        []bool
}

func newColumns[K Key, V Value](n int, results bool) *columns[K, V] {
	c := &columns[K, V]{keys: make([]K, n), vals: make([]V, n), kinds: make([]op.Kind, n)}
	if results {
		c.out, c.ok = make([]V, n), make([]bool, n)
	}
	return c
}

// batch fills the columns with ops and returns them as a batch.
func (c *columns[K, V]) batch(ops []Op[K, V]) *batch.Batch {
	n := len(ops)
	for i, o := range ops {
		c.keys[i], c.vals[i], c.kinds[i] = o.Key, o.Value, op.Kind(o.Kind)
	}
	b := &batch.Batch{N: n, Columns: batch.Columns{
		batch.Keys: batch.Input(c.keys[:n]), batch.Vals: batch.Input(c.vals[:n]), batch.Kinds: batch.Input(c.kinds[:n]),
	}}
	if c.ok != nil {
		clear(c.out) // an operation that overflows returns zero
		clear(c.ok)
		b.Columns[batch.Out], b.Columns[batch.OK] = batch.Output(c.out[:n]), batch.Output(c.ok[:n])
	}
	return b
}

func (c *columns[K, V]) results(res []Result[V]) {
	for i := range res {
		res[i] = Result[V]{Value: c.out[i], OK: c.ok[i]}
	}
}
