package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/local"
	"github.com/weftgo/weft/mpi/internal/plan"
	"github.com/weftgo/weft/mpi/shard"
)

// maxTried bounds the number of keys of all ranks in a trial.
const maxTried = 40_000_000

// trial is the result of a batch that was tried in this process.
type trial struct {
	Keys     float64 `json:"keys"` // number of keys per rank
	Smallest float64 `json:"smallest_message"`
	Skew     float64 `json:"skew"`
}

// try looks up batches of random keys in a set, with ranks that are goroutines. They run the same
// code as ranks on GPUs and other machines. It returns the sizes of messages and the skew.
func (o *planOptions) try(ctx context.Context, ranks int, batches []plan.Batch) ([]trial, error) {
	host, err := cpu.Open(nil)
	if err != nil {
		return nil, err
	}
	defer host.Close()
	var trials []trial
	for _, b := range batches {
		if b.Keys*float64(ranks) > maxTried {
			continue
		}
		t := trial{Keys: b.Keys}
		err := local.Run(ctx, ranks, func(ctx context.Context, c comm.Comm) error {
			r, err := shard.New(c, host)
			if err != nil {
				return err
			}
			set, err := linear.NewSet[uint64](host, nil)
			if err != nil {
				return err
			}
			s := shard.NewSet(r, set)
			defer s.Close()
			rng, keys := rand.New(rand.NewPCG(uint64(c.Rank()), 1)), make([]uint64, int(b.Keys))
			for i := range keys {
				keys[i] = rng.Uint64()
			}
			if _, err := s.Contains(ctx, keys, nil); err != nil {
				return err
			}
			if stats := r.Stats(); c.Rank() == 0 {
				t.Skew, t.Smallest = stats.Skew, float64(stats.MinMessage)*8
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("%d ranks in this process: %w", ranks, err)
		}
		trials = append(trials, t)
	}
	return trials, nil
}
