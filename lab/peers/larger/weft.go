package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/group"
	"github.com/weftgo/weft/join"
)

// batchRows is the number of rows that are made at a time.
const batchRows = 1 << 16

// multiplier is the factor of the hash of row numbers, modulo 2^32.
const multiplier = 2654435761

// index returns the index of the key of row i.
func (t *task) index(i int64) int64 {
	x := i * multiplier % (1 << 32)
	switch {
	case t.Skew == "half" && i%2 == 0:
		return 0
	case t.Skew == "zipf":
		return int64(math.Pow(float64(t.Keys), float64(x)/(1<<32))) - 1
	}
	return x % t.Keys
}

// batches makes n rows and passes them to f in batches, as columns of keys and values. f must not
// retain the columns.
func batches(dev device.Host, n int64, key func(i int64) int64,
	f func(keys, values []column.Column) error) error {
	keys, values := make([]int64, batchRows), make([]int64, batchRows)
	for lo := int64(0); lo < n; lo += batchRows {
		m := int(min(batchRows, n-lo))
		dev.Parallel(m, 1<<13, func(from, to int) {
			for i := from; i < to; i++ {
				keys[i], values[i] = key(lo+int64(i)), (lo+int64(i))%1000
			}
		})
		err := f([]column.Column{column.Of(keys[:m])}, []column.Column{column.Of(values[:m])})
		if err != nil {
			return err
		}
	}
	return nil
}

func runWeft(t task) (r result, err error) {
	dev, err := cpu.Open(nil)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	start, ctx := time.Now(), context.Background()
	switch t.Job {
	case "group":
		err = t.group(ctx, dev, &r, []group.Aggregate{{Func: group.Rows}, {Func: group.Sum}})
	case "distinct":
		err = t.group(ctx, dev, &r, nil)
	case "join":
		err = t.join(ctx, dev, &r)
	default:
		err = fmt.Errorf("no job %q", t.Job)
	}
	return r, errors.Join(err, r.finish(start))
}

func (t *task) group(ctx context.Context, dev device.Host, r *result,
	aggs []group.Aggregate) error {
	g, err := group.New(dev, aggs, &group.Options{Memory: t.Memory, TempDir: t.Dir})
	if err != nil {
		return err
	}
	err = batches(dev, t.Rows, t.index, func(keys, values []column.Column) error {
		if aggs == nil {
			values = nil
		}
		return g.Add(ctx, keys, values)
	})
	for page, e := range g.Pages(ctx) {
		if err = errors.Join(err, e); err != nil {
			break
		}
		r.Rows += int64(page.Len())
		if aggs == nil {
			continue
		}
		for _, v := range column.Values[int64](page.Values[1]) {
			r.Sum += v
		}
	}
	r.Spilled = g.Spilled()
	return errors.Join(err, g.Close())
}

func (t *task) join(ctx context.Context, dev device.Host, r *result) error {
	j, err := join.NewJoin(dev, join.Inner, &join.Options{Memory: t.Memory, TempDir: t.Dir})
	if err != nil {
		return err
	}
	spread := func(i int64) int64 { return i * multiplier % (1 << 32) }
	err = batches(dev, t.Keys, spread, func(keys, values []column.Column) error {
		return j.Build(ctx, keys, values)
	})
	take := func(rows func(func([]column.Column, error) bool)) error {
		for columns, err := range rows {
			if err != nil {
				return err
			}
			r.Rows += int64(columns[0].Len())
			right := column.Values[int64](columns[1])
			for i, v := range column.Values[int64](columns[0]) {
				r.Sum += v + right[i]
			}
		}
		return nil
	}
	if err == nil {
		err = batches(dev, t.Rows, func(i int64) int64 { return spread(t.index(i)) },
			func(keys, values []column.Column) error { return take(j.Probe(ctx, keys, values)) })
	}
	if err == nil {
		err = take(j.Finish(ctx))
	}
	r.Spilled = j.Spilled()
	return errors.Join(err, j.Close())
}
