package experiment

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/roofline"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/linear"
)

var hostExperiment = Experiment{
	Name:    "host",
	Title:   "Batches from Go slices, end to end",
	Default: true,
	Doc: `Put and Get of 64-bit keys and values in Go slices, by the host's clock, with all copies between host and
device. On a GPU the limit is what page-locked copies allow: a Put sends 16 bytes per key, a Get sends 8 and receives
9 (a value and whether it was found) at the same time. Slices of ordinary memory pass through page-locked memory, which
the cores copy; the _registered rows are slices that were page-locked before by Device.Register, as a program does with
buffers it keeps. On a CPU nothing is copied and the memory is the limit.`,
	run: runHost,
}

func runHost(ctx context.Context, r *runner) (err error) {
	n, err := r.keys(1<<20, 1<<26, 2*16+2*(8+8+1))
	if err != nil {
		return err
	}
	r.result.Parameters["keys"] = n
	putLimit, getLimit, err := r.hostLimits(ctx, n)
	if err != nil {
		return err
	}
	r.step("host: keys")
	keys, vals := make([]uint64, n), make([]uint64, n)
	out, found := make([]uint64, n), make([]bool, n)
	workload.Unique(keys, r.Seed, 0)
	workload.Values(vals, keys)

	const load = .5
	m, err := linear.New[uint64, uint64](r.Device, &linear.Options{Capacity: n, MaxLoad: load, Fixed: true, Seed: r.Seed + 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()

	put := func() (int, error) { return m.Put(ctx, keys, vals) }
	get := func() (int, error) { return m.Get(ctx, keys, out, found) }
	type timed struct {
		op, limit string
		clear     bool
		call      func() (int, error)
	}
	calls := []timed{{"put", putLimit, true, put}, {"get", getLimit, false, get}}
	if r.onGPU() {
		calls = append(calls, timed{"put_registered", putLimit, true, put}, timed{"get_registered", getLimit, false, get})
	}
	registered := false
	for _, c := range calls {
		if strings.HasSuffix(c.op, "_registered") && !registered {
			registered = true
			undo, regErr := registerAll(r.Device, device.Bytes(keys), device.Bytes(vals), device.Bytes(out), device.Bytes(found))
			defer func() { err = errors.Join(err, undo()) }()
			if regErr != nil {
				return regErr
			}
		}
		r.step("host: %s", c.op)
		t, err := roofline.Median(ctx, r.Runs, func() (time.Duration, error) {
			if c.clear {
				if err := m.Clear(ctx); err != nil {
					return 0, err
				}
			}
			start := time.Now()
			count, err := c.call()
			t := time.Since(start)
			if err == nil && count != n {
				err = fmt.Errorf("%w: %s counts %d keys, want %d", errWrong, c.op, count, n)
			}
			return t, err
		})
		if err != nil {
			return err
		}
		r.add(Row{
			Structure: "linear", Op: c.op, KeyBits: 64, ValueBits: 64, N: n, Load: load,
			OpsPerS: roofline.Rate(n, t), Seconds: t.Seconds(), Limit: c.limit,
		})
	}
	for i, v := range out {
		if v != vals[i] {
			return fmt.Errorf("%w: key %d has value %d, want %d", errWrong, keys[i], v, vals[i])
		}
	}
	return nil
}

// registerAll page-locks slices. undo, never nil, unlocks what was locked.
func registerAll(dev device.Device, slices ...[]byte) (undo func() error, err error) {
	var undos []func() error
	undo = func() (err error) {
		for _, u := range undos {
			err = errors.Join(err, u())
		}
		return err
	}
	for _, s := range slices {
		u, err := dev.Register(s)
		if err != nil {
			return undo, err
		}
		undos = append(undos, u)
	}
	return undo, nil
}

// hostLimits measures what bounds batches from the host and names it. On a GPU
// the limits are derived from the copies'.
func (r *runner) hostLimits(ctx context.Context, n int) (put, get string, err error) {
	if !r.onGPU() {
		put, get = roofline.CAS64, roofline.Read64
		return put, get, r.limits(ctx, 32*n, put, get)
	}
	if err := r.limits(ctx, 32*n, roofline.HostToDevice, roofline.DeviceToHost, roofline.HostBoth); err != nil {
		return "", "", err
	}
	l := r.result.Limits
	put, get = "host_put_64_64", "host_get_64_64"
	l[put] = l[roofline.HostToDevice] / 16
	l[get] = min(l[roofline.HostToDevice]/8, l[roofline.DeviceToHost]/9, l[roofline.HostBoth]/17)
	return put, get, nil
}
