package main

import (
	"context"
	"errors"
	"slices"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/group"
	"github.com/weftgo/weft/intern"
	"github.com/weftgo/weft/join"
)

// ofWeft loads a job into the package of weft that does it.
func ofWeft(j Job) (w Work, err error) {
	dev, err := cpu.Open(nil)
	if err != nil {
		return w, err
	}
	switch j.Does {
	case "group":
		w = weftGroup(dev, j, column.Of(j.Left))
	case "words":
		w, err = weftWords(dev, j)
	case "distinct":
		w = weftDistinct(dev, j)
	case "dedup":
		w = weftDedup(dev, j)
	case "join":
		w = weftJoin(dev, j)
	}
	if err != nil {
		return w, errors.Join(err, dev.Close())
	}
	w.Close = dev.Close
	return w, nil
}

// weftGroup adds all rows at once, or in batches.
func weftGroup(dev *cpu.Device, j Job, keys ...column.Column) Work {
	var r *group.Result
	ctx, values := context.Background(), []column.Column{column.Of(j.Values)}
	aggs := []group.Aggregate{{Func: group.Rows}, {Func: group.Sum}}
	return Work{
		Run: func() (err error) {
			if j.Batches > 1 {
				r, err = groupBatches(ctx, dev, j, aggs)
			} else {
				r, err = group.By(ctx, dev, keys, values, aggs, nil)
			}
			return err
		},
		Result: func() (got Result, err error) {
			counts, sums := column.Values[int64](r.Values[0]), column.Values[int64](r.Values[1])
			for i, n := range counts {
				got.add(total{uint64(n), sums[i]})
			}
			r = nil
			return got, nil
		},
	}
}

func groupBatches(ctx context.Context, dev *cpu.Device, j Job,
	aggs []group.Aggregate) (r *group.Result, err error) {
	g, err := group.New(dev, aggs, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	for b := range j.Batches {
		lo, hi := j.Rows*b/j.Batches, j.Rows*(b+1)/j.Batches
		keys, values := column.Of(j.Left[lo:hi]), column.Of(j.Values[lo:hi])
		if err := g.Add(ctx, []column.Column{keys}, []column.Column{values}); err != nil {
			return nil, err
		}
	}
	return g.Result(ctx)
}

func weftWords(dev *cpu.Device, j Job) (w Work, err error) {
	keys := make([]column.Column, len(j.Texts))
	for i, t := range j.Texts {
		if keys[i], err = column.OfOffsets(t.offsets, t.data); err != nil {
			return w, err
		}
	}
	return weftGroup(dev, j, keys...), nil
}

func weftDedup(dev *cpu.Device, j Job) Work {
	var n int
	return Work{
		Run: func() error {
			lines, err := column.OfOffsets(j.Texts[0].offsets, j.Texts[0].data)
			if err != nil {
				return err
			}
			seen, err := intern.New(dev, nil)
			if err != nil {
				return err
			}
			n, err = seen.Column(context.Background(), lines, make([]uint32, lines.Len()))
			return errors.Join(err, seen.Close())
		},
		Result: func() (Result, error) { return Result{Rows: n}, nil },
	}
}

func weftDistinct(dev *cpu.Device, j Job) Work {
	n := 0
	return Work{
		Run: func() error {
			seen, err := group.New(dev, nil, nil)
			if err != nil {
				return err
			}
			err = seen.Add(context.Background(), []column.Column{column.Of(j.Left)}, nil)
			n = seen.Len()
			return errors.Join(err, seen.Close())
		},
		Result: func() (Result, error) { return Result{Rows: n}, nil },
	}
}

func weftJoin(dev *cpu.Device, j Job) Work {
	var all []join.Pairs // copies, because join reuses the memory of a batch
	return Work{
		Run: func() error {
			ctx := context.Background()
			ix, err := join.New(ctx, dev, []column.Column{column.Of(j.Right)}, nil)
			if err != nil {
				return err
			}
			for p, perr := range ix.Inner(ctx, []column.Column{column.Of(j.Left)}) {
				if perr != nil {
					return errors.Join(perr, ix.Close())
				}
				p.Left, p.Right = slices.Clone(p.Left), slices.Clone(p.Right)
				all = append(all, p)
			}
			return ix.Close()
		},
		Result: func() (got Result, err error) {
			for _, p := range all {
				for i, row := range p.Left {
					got.addPair(pair{row, p.Right[i]})
				}
			}
			all = nil
			return got, nil
		},
	}
}
