package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/weftgo/weft/gphash"
	"github.com/weftgo/weft/lab/internal/roofline"
)

var gphashRecoveryExperiment = Experiment{
	Name:  "gphash-fig14-recovery",
	Was:   "gphash-recovery",
	Title: "Opening a pool, after it was closed and after a crash",
	Doc: `After figure 14b of the GPHash paper: how long it takes until an index of up to 2^19 keys (2^20 on a GPU) answers, when its
pool was closed before (open_clean) and when the process that had it has ended without a word (open_crashed: a copy of the
file, made while the index was open). open_verified compares all values with their checksums as well. n is the number of slots,
all of which are looked at: which memory is free is written nowhere. The rate is that of the bytes of the levels, of the values
too where they are verified, and its limit is copying. load is keys over slots. Of the time of each, _recovery is what
is left without mapping the file, into the process and the GPU, and without loading kernels: all slots are read, what a crash has left is mended, free memory
is found; parts says how long each took. In the paper recovery takes up to hundreds of milliseconds, 99 % of
which is mapping the memory into that of the GPU.` + hostMemory,
	run:   runGPHashRecovery,
	plots: plotRecovery,
}

func runGPHashRecovery(ctx context.Context, r *runner) error {
	n, err := r.gphashKeys(1<<19, 1<<20, 32) // keys of 8 bytes, and a copy
	if err != nil {
		return err
	}
	if err := r.poolLimits(ctx, n*slotSize(8), roofline.Copy); err != nil {
		return err
	}
	r.result.Parameters["runs"] = r.Runs
	for _, keys := range r.powers(14, n, map[Scale]int{Quick: 3, Default: r.size(1, 2), Full: 1}) {
		r.step("gphash-fig14-recovery: %d keys", keys)
		if err := gphashRecovery(ctx, r, keys); err != nil {
			return fmt.Errorf("%d keys: %w", keys, err)
		}
	}
	return nil
}

func gphashRecovery(ctx context.Context, r *runner, keys int) (err error) {
	var path string
	x, folder, err := inPool(func(at string) (*gphash.Index, error) {
		path = at
		return gphash.Create(path, r.Device, r.gphashOptions(8, keys, loadBatch))
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	g := newGrowth(r, x)
	crashed := filepath.Join(folder, "crashed")
	err = g.fill(ctx, keys)
	if err == nil {
		err = copyFile(crashed, path)
	}
	if err = errors.Join(err, x.Close()); err != nil {
		return err
	}
	levels, values := g.stats.Slots*slotSize(8), keys*(valueSize+8)
	for _, open := range []struct {
		op, path string
		verify   bool
		bytes    int
	}{{"open_clean", path, false, 0}, {"open_crashed", crashed, false, 0}, {"open_verified", path, true, values}} {
		bytes := levels + open.bytes
		var runs []opening
		elapsed, err := r.repeat(ctx, r.Runs, func() (time.Duration, error) {
			o, err := g.reopen(ctx, open.path, open.op == "open_crashed", open.verify)
			runs = append(runs, o)
			return o.elapsed, err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", open.op, err)
		}
		row := Row{
			Structure: gphashName, Op: open.op, KeyBits: 64, ValueBits: 8 * valueSize, N: g.stats.Slots, Keys: keys, Load: g.stats.LoadFactor,
			TableBytes: bytes, Seconds: elapsed.Seconds(), OpsPerS: roofline.Rate(bytes, elapsed), Unit: "B/s", Limit: r.poolCopy(),
			Parts: medianRun(runs, func(o opening) time.Duration { return o.elapsed }).parts(),
		}
		r.add(row)
		recovered := medianRun(runs, opening.recovery).recovery()
		row.Op, row.Parts, row.Seconds, row.OpsPerS = open.op+"_recovery", nil, recovered.Seconds(), roofline.Rate(bytes, recovered)
		r.add(row)
	}
	return nil
}

// opening records how long it takes to open a pool.
type opening struct {
	elapsed time.Duration
	times   gphash.Times
}

func (o opening) recovery() time.Duration { return o.times.Recovery() }

// parts returns the parts that took any time.
func (o opening) parts() (parts []Part) {
	t := &o.times
	for _, p := range []struct {
		name    string
		elapsed time.Duration
	}{{"file", t.File}, {"map", t.Map}, {"kernels", t.Kernels}, {"replay", t.Replay}, {"mirror", t.Mirror}, {"inspect", t.Inspect}, {"space", t.Space}, {"resize", t.Resize}} {
		if p.elapsed > 0 {
			parts = append(parts, Part{p.name, p.elapsed.Seconds()})
		}
	}
	return parts
}

// medianRun returns the run with the median duration.
func medianRun(runs []opening, duration func(opening) time.Duration) opening {
	sorted := slices.SortedFunc(slices.Values(runs), func(a, b opening) int { return cmp.Compare(duration(a), duration(b)) })
	return sorted[len(sorted)/2]
}

// reopen opens a pool, or a copy of a crashed pool, checks all keys, and closes it. It returns how
// long opening took.
func (g *growth) reopen(ctx context.Context, path string, crashed, verify bool) (o opening, err error) {
	if crashed {
		restored := path + ".again"
		if err := copyFile(restored, path); err != nil {
			return o, err
		}
		path = restored
		defer func() { err = errors.Join(err, os.Remove(restored)) }()
	}
	start := time.Now()
	x, report, err := gphash.Open(ctx, path, g.Device, gphash.OpenOptions{Verify: verify})
	if err != nil {
		return o, err
	}
	o = opening{time.Since(start), report.Times}
	defer func() { err = errors.Join(err, x.Close()) }()
	g.index = x
	if report.Keys != uint64(g.keys) {
		return o, fmt.Errorf("%w: %d keys were found, %d had been inserted", errWrong, report.Keys, g.keys)
	}
	_, err = g.lookups(ctx, 0, g.keys)
	return o, err
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func plotRecovery(res *Result) []Plot {
	p := Plot{Name: res.Experiment, Title: "Opening a pool", XLabel: "slots", YLabel: "seconds", LogX: true, LogY: true}
	for _, row := range res.Rows {
		p.point(row.Op, float64(row.N), row.Seconds)
	}
	return []Plot{p}
}
