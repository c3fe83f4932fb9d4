package experiment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/lab/internal/roofline"
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
	b := newHostBatch[uint64, uint64](r.Seed, n)
	const load = .5
	m, err := linear.New[uint64, uint64](r.Device, &linear.Options{Capacity: n, MaxLoad: load, Fixed: true, Seed: r.Seed + 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	row := Row{Structure: "linear", KeyBits: 64, ValueBits: 64, Load: load}
	if err := b.measure(ctx, r, m, "", putLimit, getLimit, row); err != nil || !r.onGPU() {
		return err
	}
	undo, err := b.register(r.Device)
	defer func() { err = errors.Join(err, undo()) }()
	if err != nil {
		return err
	}
	return b.measure(ctx, r, m, "_registered", putLimit, getLimit, row)
}

// hostTable is a table that accepts batches in Go slices.
type hostTable[K weft.Key, V weft.Value] interface {
	Put(ctx context.Context, keys []K, vals []V) (inserted int, err error)
	Get(ctx context.Context, keys []K, vals []V, found []bool) (hits int, err error)
	Clear(ctx context.Context) error
}

// hostBatch is a batch of distinct keys in Go slices, with columns for the results.
type hostBatch[K weft.Key, V weft.Value] struct {
	keys      []K
	vals, out []V
	found     []bool
}

func newHostBatch[K weft.Key, V weft.Value](seed uint64, n int) hostBatch[K, V] {
	b := hostBatch[K, V]{make([]K, n), make([]V, n), make([]V, n), make([]bool, n)}
	workload.Unique(b.keys, seed, 0)
	workload.Values(b.vals, b.keys)
	return b
}

func (b hostBatch[K, V]) first(n int) hostBatch[K, V] {
	return hostBatch[K, V]{b.keys[:n], b.vals[:n], b.out[:n], b.found[:n]}
}

// register page-locks the batch. undo unlocks the batch and is never nil.
func (b hostBatch[K, V]) register(dev device.Device) (undo func() error, err error) {
	return registerAll(dev, device.Bytes(b.keys), device.Bytes(b.vals), device.Bytes(b.out), device.Bytes(b.found))
}

// measure times Put into the empty table and Get of all keys, and checks the results. It adds a row
// for each operation, based on row. Names of operations end in suffix.
func (b hostBatch[K, V]) measure(ctx context.Context, r *runner, m hostTable[K, V], suffix, putLimit, getLimit string, row Row) error {
	row.N = len(b.keys)
	clear(b.out)
	for _, c := range []struct {
		op, limit string
		prepare   func(context.Context) error
		call      func() (int, error)
	}{
		{"put", putLimit, m.Clear, func() (int, error) { return m.Put(ctx, b.keys, b.vals) }},
		{"get", getLimit, func(context.Context) error { return nil }, func() (int, error) { return m.Get(ctx, b.keys, b.out, b.found) }},
	} {
		row.Op, row.Limit = c.op+suffix, c.limit
		r.step("%s: %s %s of %d keys", r.result.Experiment, row.Structure, row.Op, row.N)
		t, err := r.repeat(ctx, r.Runs, func() (time.Duration, error) {
			if err := c.prepare(ctx); err != nil {
				return 0, err
			}
			start := time.Now()
			count, err := c.call()
			t := time.Since(start)
			if err == nil && count != row.N {
				err = fmt.Errorf("%w: %s counts %d keys, want %d", errWrong, row.Op, count, row.N)
			}
			return t, err
		})
		if err != nil {
			return err
		}
		row.OpsPerS, row.Seconds = roofline.Rate(row.N, t), t.Seconds()
		r.add(row)
	}
	for i, v := range b.out {
		if v != b.vals[i] {
			return fmt.Errorf("%w: key %v has value %v, want %v", errWrong, b.keys[i], v, b.vals[i])
		}
	}
	return nil
}

// registerAll page-locks slices. undo unlocks the slices and is never nil.
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

// hostLimits measures the limits of batches of 64-bit pairs from the host and returns their names.
// On a GPU the limits derive from copies.
func (r *runner) hostLimits(ctx context.Context, n int) (put, get string, err error) {
	if !r.onGPU() {
		put, get = roofline.CAS64, roofline.Read64
		return put, get, r.limits(ctx, 32*n, put, get)
	}
	if err := r.limits(ctx, 32*n, roofline.HostToDevice, roofline.DeviceToHost, roofline.HostBoth); err != nil {
		return "", "", err
	}
	put, get = r.copyLimits(8, 8)
	return put, get, nil
}

// copyLimits computes the limits of batches from the host and returns their names. A Put sends keys
// and values; a Get sends keys and receives values and flags. The limits of copies must have been
// measured.
func (r *runner) copyLimits(key, value int) (put, get string) {
	l, k, v := r.result.Limits, float64(key), float64(value)
	put, get = fmt.Sprintf("host_put_%d_%d", 8*key, 8*value), fmt.Sprintf("host_get_%d_%d", 8*key, 8*value)
	l[put] = l[roofline.HostToDevice] / (k + v)
	l[get] = min(l[roofline.HostToDevice]/k, l[roofline.DeviceToHost]/(v+1), l[roofline.HostBoth]/(k+v+1))
	return put, get
}
