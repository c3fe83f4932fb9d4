package experiment

import (
	"context"
	"errors"
	"time"

	"github.com/weftgo/weft/lab/internal/roofline"
	"github.com/weftgo/weft/linear"
)

var launchExperiment = Experiment{
	Name:    "launch",
	Title:   "What a small batch costs",
	Default: true,
	Doc: `GetOn of 256 keys on the device, by the host's clock. The rate is calls per second, not keys: get_256_issue
submits calls one after another, get_256_wait waits for each. The limit is an empty piece of work submitted the same
way.`,
	run: runLaunch,
}

const (
	smallBatch = 256
	smallCalls = 256 // calls per measurement; fewer than the driver queues
)

func runLaunch(ctx context.Context, r *runner) (err error) {
	if err := r.limits(ctx, 1<<20, roofline.Launch, roofline.LaunchSync); err != nil {
		return err
	}
	r.step("launch: keys")
	const n = 1 << 16 // the table fits in cache, so the cost of the call shows
	m, err := linear.New[uint64, uint64](r.Device, &linear.Options{Capacity: n, MaxLoad: .5, Fixed: true, Seed: r.Seed + 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	cols, err := newColumns[uint64, uint64](r, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cols.free()) }()
	if err := m.PutOn(r.stream, cols.keys, cols.vals); err != nil {
		return err
	}
	keys, out, found := cols.hits.Sub(0, smallBatch), cols.out.Sub(0, smallBatch), cols.flags.Sub(0, smallBatch)
	get := func() error { return m.GetOn(r.stream, keys, out, found) }
	return r.measureCalls(ctx, get, func() error {
		if err := checkFlags(ctx, r, found, "lookup", smallBatch); err != nil {
			return err
		}
		return checkValues(ctx, r, keys, out)
	})
}

// measureCalls times calls that are submitted one after another, and calls that are waited for. It
// checks the results of each.
func (r *runner) measureCalls(ctx context.Context, call, check func() error) error {
	wait := func() (time.Duration, error) {
		start := time.Now()
		err := errors.Join(call(), r.stream.Sync(ctx))
		return time.Since(start), err
	}
	issue := func() (time.Duration, error) {
		start := time.Now()
		for range smallCalls {
			if err := call(); err != nil {
				return 0, err
			}
		}
		t := time.Since(start)
		return t / smallCalls, r.stream.Sync(ctx)
	}
	issueLimit := roofline.Launch
	if !r.onGPU() {
		issueLimit = roofline.LaunchSync // a CPU's streams run work immediately
	}
	for _, c := range []struct {
		op, limit string
		runs      int
		measure   func() (time.Duration, error)
	}{{"get_256_issue", issueLimit, r.Runs, issue}, {"get_256_wait", roofline.LaunchSync, smallCalls, wait}} {
		r.step("launch: %s", c.op)
		t, err := r.repeat(ctx, c.runs, c.measure)
		if err != nil {
			return err
		}
		if err := check(); err != nil {
			return err
		}
		r.add(Row{
			Structure: "linear", Op: c.op, KeyBits: 64, ValueBits: 64, N: smallBatch, Load: .5,
			OpsPerS: roofline.Rate(1, t), Unit: "call/s", Seconds: t.Seconds(), Limit: c.limit,
		})
	}
	return nil
}
