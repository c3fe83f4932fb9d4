package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/group"
	"github.com/weftgo/weft/join"
	"github.com/weftgo/weft/linear"
)

// ofWeft is weft's package for each job.
func ofWeft(j Job) (w Work, err error) {
	dev, err := cpu.Open(nil)
	if err != nil {
		return w, err
	}
	switch j.Name {
	case "group":
		w = weftGroup(dev, j)
	case "distinct":
		w = weftDistinct(dev, j)
	case "dedup":
		w = weftDedup(dev, j)
	case "join":
		w = weftJoin(dev, j)
	default:
		return w, errors.Join(fmt.Errorf("no job %s", j.Name), dev.Close())
	}
	w.Close = dev.Close
	return w, nil
}

func weftGroup(dev *cpu.Device, j Job) Work {
	var r *group.Result
	return Work{
		Run: func() (err error) {
			r, err = group.By(context.Background(), dev, []column.Column{column.Of(j.Left)}, []column.Column{column.Of(j.Values)},
				[]group.Aggregate{{Func: group.Rows}, {Func: group.Sum}}, nil)
			return err
		},
		Result: func() (got Result, err error) {
			counts, sums := column.Values[int64](r.Values[0]), column.Values[int64](r.Values[1])
			for i, n := range counts {
				got.add(total{uint64(n), sums[i]})
			}
			return got, nil
		},
	}
}

func weftDistinct(dev *cpu.Device, j Job) Work {
	n := 0
	return Work{
		Run: func() error {
			seen, err := linear.NewSet[int64](dev, nil)
			if err != nil {
				return err
			}
			n, err = seen.Add(context.Background(), j.Left, nil)
			return errors.Join(err, seen.Close())
		},
		Result: func() (Result, error) { return Result{Rows: n}, nil },
	}
}

func weftJoin(dev *cpu.Device, j Job) Work {
	var left, right []uint32
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
				left, right = append(left, p.Left...), append(right, p.Right...)
			}
			return ix.Close()
		},
		Result: func() (got Result, err error) {
			for i, row := range left {
				got.addPair(pair{row, right[i]})
			}
			left, right = nil, nil
			return got, nil
		},
	}
}
