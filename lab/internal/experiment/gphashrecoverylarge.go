package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/weftgo/weft/gphash"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/lab/internal/roofline"
)

var gphashRecoveryLargeExperiment = Experiment{
	Name:  "gphash-recovery-large",
	Title: "Opening a large pool after a crash",
	Doc: `How long it takes until an index of 2^19 keys (on a GPU 85 million, in 10^8 slots) with values of 8 bytes answers when the process
that had it has ended without a word: a copy of its file, made while the index was open and behind a batch of deletes, whose tombs recovery
finds. n is the number of slots. open is all of it, and recovery what is left without mapping the file, into the process and the GPU, and without loading
kernels; parts says how long each took. mirror is opened with a mirror of the slots in the memory of the GPU, plain without, which does not keep what
looking at the slots has read; on a CPU both are the same. The rate is that of the bytes of the levels, and its limit is copying. Each run has a copy
of its own; the number of keys that it finds is compared, and some keys are looked up. Of the time of recovery the target is .15 s at 10^8 slots on a GPU.
In the paper recovery takes up to hundreds of milliseconds, 99 % of which is mapping the memory into that of the GPU. The pool is a file in /dev/shm
where that has room for it, else in the folder for temporary files: host memory stands in for persistent memory.`,
	run: runGPHashRecoveryLarge,
}

const (
	recoveryKeys   = 85_000_000
	recoveryBatch  = 1 << 20
	recoveryTarget = .15 // seconds
	recoverySample = 1 << 16
)

func runGPHashRecoveryLarge(ctx context.Context, r *runner) (err error) {
	n, err := r.keysFrom(16, 1<<19, recoveryKeys, 64)
	if err != nil {
		return err
	}
	r.result.Parameters["keys"] = n
	if !r.chosen {
		r.Runs = min(r.Runs, 3)
	}
	r.result.Parameters["runs"] = r.Runs
	if err := r.poolLimits(ctx, min(n*slotSize(8), 1<<28), roofline.Copy); err != nil {
		return err
	}
	crash, err := r.crashed(ctx, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(filepath.Dir(crash.path))) }()
	for _, m := range []struct {
		name string
		open gphash.OpenOptions
	}{{"plain", gphash.OpenOptions{}}, {"mirror", gphash.OpenOptions{Mirror: true}}} {
		if err := crash.measure(ctx, m.name, m.open); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// crash is a copy of a pool's file as a crash would leave it. The last batch before the copy
// deleted keys.
type crash struct {
	*growth
	path     string
	deleted  int
	sampling workload.Permutation
}

// crashed makes an index of n keys and copies its file while the index is open.
func (r *runner) crashed(ctx context.Context, n int) (c *crash, err error) {
	var path string
	x, folder, err := inPool(func(at string) (*gphash.Index, error) {
		path = at
		return gphash.Create(path, r.Device, r.recoveryOptions(n))
	})
	if err != nil {
		return nil, err
	}
	c = &crash{growth: newGrowth(r, x), path: filepath.Join(folder, "crashed")}
	err = c.build(ctx, n)
	if err == nil {
		r.step("gphash-recovery-large: what a crash would leave")
		err = copyFile(c.path, path)
	}
	if err = errors.Join(err, x.Close(), os.Remove(path)); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	return c, nil
}

// recoveryOptions returns the options of a pool that is slightly larger than n keys require.
func (r *runner) recoveryOptions(n int) gphash.Options {
	slots := 24
	for slots/100*85+slots%100*85/100 < n {
		slots *= 2
	}
	const value = 8 + 8 // including its checksum
	size := slots*slotSize(8) + (n+min(n, recoveryBatch))*value/10*11 + loose(min(n, 1<<24))
	return gphash.Options{
		KeySize: 8, ValueSize: 8, Capacity: n, Size: int64(size),
		Seed: [2]uint64{r.Seed + 1, r.Seed + 2},
	}
}

// build inserts n keys and then deletes the last ones.
func (c *crash) build(ctx context.Context, n int) error {
	for c.keys < n {
		c.step("gphash-recovery-large: %d of %d keys", c.keys, n)
		batch := min(recoveryBatch, n-c.keys)
		c.column(batch, func(i uint64) uint64 { return uint64(c.keys) + i })
		for i, k := range c.numbers {
			workload.RecordValue(c.value(i), k, 0)
		}
		inserted, err := c.index.Put(ctx, c.keyColumn, c.vals)
		if err != nil {
			return err
		}
		if c.keys += inserted; inserted != batch {
			return fmt.Errorf("%w: %d of %d new keys were inserted", errWrong, inserted, batch)
		}
	}
	c.deleted = min(recoveryBatch, n/4)
	c.keys -= c.deleted
	c.column(c.deleted, func(i uint64) uint64 { return uint64(c.keys) + i })
	deleted, err := c.index.Delete(ctx, c.keyColumn, nil)
	if err == nil && deleted != c.deleted {
		err = fmt.Errorf("%w: %d of %d keys were deleted", errWrong, deleted, c.deleted)
	}
	if err == nil {
		c.stats, err = c.index.Stats(ctx)
	}
	c.sampling = workload.NewPermutation(uint64(c.keys), c.Seed)
	return err
}

func (c *crash) measure(ctx context.Context, name string, o gphash.OpenOptions) error {
	c.step("gphash-recovery-large: %s", name)
	var runs []opening
	_, err := roofline.Median(ctx, c.Runs, func() (time.Duration, error) {
		run, err := c.open(ctx, o)
		runs = append(runs, run)
		return run.elapsed, err
	})
	if err != nil {
		return err
	}
	runs = runs[1:] // the first run warms up
	all := medianRun(runs, func(o opening) time.Duration { return o.elapsed })
	recovered := medianRun(runs, opening.recovery)
	c.add(c.row(name, "open", all.elapsed, all.parts()))
	only := recovered
	only.times.File, only.times.Map, only.times.Kernels = 0, 0, 0
	row := c.row(name, "recovery", recovered.recovery(), only.parts())
	if c.onGPU() {
		row.Targets = []Target{{Is: row.Seconds, Want: recoveryTarget, Unit: "s", Reached: row.Seconds <= recoveryTarget}}
	}
	c.add(row)
	return nil
}

func (c *crash) row(name, op string, elapsed time.Duration, parts []Part) Row {
	bytes := c.stats.Slots * slotSize(8)
	return Row{
		Structure: name, Op: op, KeyBits: 64, ValueBits: 64, N: c.stats.Slots, Keys: c.keys, Load: c.stats.LoadFactor,
		TableBytes: bytes, Seconds: elapsed.Seconds(), OpsPerS: roofline.Rate(bytes, max(elapsed, 1)), Unit: "B/s", Limit: c.poolCopy(), Parts: parts,
	}
}

// open opens a copy of the file, verifies its contents, and removes the copy.
func (c *crash) open(ctx context.Context, o gphash.OpenOptions) (run opening, err error) {
	path := c.path + ".again"
	if err := copyFile(path, c.path); err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, os.Remove(path)) }()
	start := time.Now()
	x, report, err := gphash.Open(ctx, path, c.Device, o)
	if err != nil {
		return run, err
	}
	run = opening{time.Since(start), report.Times}
	defer func() { err = errors.Join(err, x.Close()) }()
	// Launches free the slots of keys that earlier launches have deleted. Only the slots of the
	// last launch are still tombs.
	if report.Keys != uint64(c.keys) || report.Tombs == 0 || report.Tombs > uint64(c.deleted) {
		return run, fmt.Errorf("%w: %d keys and %d tombs were found, want %d and up to %d", errWrong, report.Keys, report.Tombs, c.keys, c.deleted)
	}
	return run, c.sample(ctx, x)
}

// sample looks up randomly chosen keys and checks their values.
func (c *crash) sample(ctx context.Context, x *gphash.Index) error {
	c.column(min(recoverySample, c.keys), c.sampling.At)
	hits, err := x.Get(ctx, c.keyColumn, c.vals, c.found)
	if err == nil && hits != len(c.numbers) {
		err = fmt.Errorf("%w: %d of %d keys were found", errWrong, hits, len(c.numbers))
	}
	for i, k := range c.numbers {
		if err == nil && !workload.IsRecordValue(c.value(i), k, 0) {
			err = fmt.Errorf("%w: key %d has the value of another one", errWrong, k)
		}
	}
	return err
}
