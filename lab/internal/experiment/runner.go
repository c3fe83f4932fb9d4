package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/lab/internal/roofline"
)

// runner is one run of an experiment: the device, its stream and stopwatch, and the result so far.
type runner struct {
	Config
	result    *Result
	stream    *device.Stream
	watch     *roofline.Stopwatch
	busyTimer *roofline.BusyTimer // nil unless wanted
	// chosen means that the user has set the number of runs.
	chosen bool
	// parts is the number of parts of the experiment that measure settings in turns; 0: one.
	parts int
	// perStructure means that speedups of settings measured in turns are over the first row of the
	// same structure.
	perStructure bool
	// timings holds the latest runs by their median, for the row that reports it.
	timings map[float64][]time.Duration
}

// open prepares the runner for a device.
func (r *runner) open(dev device.Device) (err error) {
	r.Device = dev
	r.timings = map[float64][]time.Duration{}
	r.result.Device = dev.Properties().Name
	r.result.Parameters = map[string]any{}
	if r.result.Hardware, err = hardware(dev); err != nil {
		return err
	}
	if r.N == 0 && r.onSim() {
		r.N = interpreted
	}
	r.chosen = r.Runs > 0
	if !r.chosen {
		r.Runs = r.size(3, 5)
		if r.Scale == Quick {
			r.Runs = 1
		}
	}
	r.result.Parameters["runs"] = r.Runs
	r.result.Parameters["seed"] = r.Seed
	if r.stream, err = dev.NewStream(); err != nil {
		return err
	}
	r.watch, err = roofline.NewStopwatch(r.stream)
	return err
}

func (r *runner) close(ctx context.Context) error {
	var errs []error
	if r.stream != nil { // work may continue after a cancelled wait
		errs = append(errs, r.stream.Sync(context.WithoutCancel(ctx)))
	}
	if r.watch != nil {
		errs = append(errs, r.watch.Close())
	}
	if r.stream != nil {
		errs = append(errs, r.stream.Close())
	}
	return errors.Join(errs...)
}

// free frees memory that work on the stream may still use: a failing experiment has not waited for
// what it has submitted.
func (r *runner) free(slices ...interface{ Free() error }) error {
	errs := []error{r.stream.Sync(context.Background())}
	for _, s := range slices {
		errs = append(errs, s.Free())
	}
	return errors.Join(errs...)
}

func (r *runner) props() device.Properties { return r.Device.Properties() }

func (r *runner) onGPU() bool { return r.props().Kind != device.CPU }

// onSim reports whether the device is a simulated GPU, which runs an experiment without measuring.
func (r *runner) onSim() bool { return r.props().Kind == device.Sim }

// interpreted is the default number of keys on a simulated GPU. It takes seconds.
const interpreted = 1 << 10

// size returns cpu or gpu, depending on the device.
func (r *runner) size(cpu, gpu int) int {
	if r.onGPU() {
		return gpu
	}
	return cpu
}

// keys returns the number of keys: Config.N, or the default for the device, a sixteenth of it when
// quick. The default is at most as many as fit into 70 % of the free memory at bytes each.
func (r *runner) keys(cpu, gpu, bytes int) (int, error) {
	n := r.N
	if n == 0 {
		n = r.size(cpu, gpu)
		if r.Scale == Quick {
			n /= 16
		}
	}
	mem, err := r.Device.Memory()
	if err != nil {
		return 0, err
	}
	if fit := int(mem.Free/10*7) / bytes; mem.Free > 0 && n > fit {
		if r.N > 0 {
			return 0, fmt.Errorf("%w: %d keys need %d MB, and %d MB are free; choose a smaller --n",
				device.ErrMemory, n, n/1e6*bytes, mem.Free/1e6)
		}
		n = fit
	}
	return n, nil
}

// keysFrom is keys for an experiment that requires at least least.
func (r *runner) keysFrom(least, cpu, gpu, bytes int) (int, error) {
	n, err := r.keys(cpu, gpu, bytes)
	if err == nil && n < least {
		err = errTooFew(n, least)
	}
	return n, err
}

func errTooFew(n, required int) error {
	return fmt.Errorf("%w: %d keys are too few; choose --n %d or more", device.ErrInvalid, n, required)
}

// region returns the size of memory for measuring limits, if no table determines it.
func (r *runner) region() int {
	if r.Scale == Quick {
		return r.size(64<<20, 1<<30)
	}
	return 0 // roofline's default
}

// limits measures limits by name in a region of a size, and adds them to the result. Names that the
// device lacks are left out. Each limit is measured once: the shares of earlier rows would not
// agree with a second measurement. limitsIn supports several regions.
func (r *runner) limits(ctx context.Context, region int, names ...string) error {
	r.step("limits of the memory")
	opts := roofline.Options{Region: region, Only: names}
	if r.Scale == Quick {
		opts.Ops = r.size(1<<18, 1<<24)
	}
	res, err := r.roofline(ctx, opts)
	if err != nil {
		return err
	}
	for name, rate := range res.Limits {
		if _, measured := r.result.Limits[name]; measured {
			return fmt.Errorf("%w: limit %s has rows already, and is measured again", errWrong, name)
		}
		r.result.Limits[name] = rate
	}
	r.result.Parameters["limits_region_bytes"] = res.Region
	return nil
}

// limitsIn measures limits in one of several regions, a power of two, and adds them under names
// with the region. It runs fewer operations than limits, but on a GPU enough to make launch
// overhead negligible. Limits that it has measured in that region before are kept.
func (r *runner) limitsIn(ctx context.Context, region int, names ...string) error {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return r.result.Limits[roofline.In(name, region)] > 0 })
	if len(names) == 0 {
		return nil
	}
	r.step("limits of %d KiB of memory", region>>10)
	ops := r.size(1<<18, min(max(region>>5, 1<<22), 100_000_000))
	res, err := r.roofline(ctx, roofline.Options{Region: region, Ops: ops, Only: names})
	if err != nil {
		return err
	}
	for name, rate := range res.Limits {
		r.result.Limits[roofline.In(name, region)] = rate
	}
	return nil
}

// trialRegion is the size of the region of a trial run's limits.
const trialRegion = 1 << 20

func (r *runner) roofline(ctx context.Context, opts roofline.Options) (*roofline.Result, error) {
	opts.Runs = r.Runs
	if r.N > 0 && r.N < 1<<18 { // a trial run, not a measurement
		opts.Ops, opts.Region = r.N, trialRegion
	}
	return roofline.Measure(ctx, r.Device, &opts)
}

// repeat returns the median result of measure over a number of runs.
func (r *runner) repeat(ctx context.Context, runs int, measure func() (time.Duration, error)) (time.Duration, error) {
	times, err := roofline.Samples(ctx, runs, measure)
	if err != nil {
		return 0, err
	}
	median := roofline.MedianOf(times)
	r.timings[median.Seconds()] = times
	return median, nil
}

// add appends a row, with the runs that its median comes from, and computes its share of the limit.
func (r *runner) add(row Row) {
	row.sample(r.timings)
	if limit := r.result.Limits[row.Limit]; limit > 0 {
		row.LimitShare = row.OpsPerS / limit
	}
	r.result.Rows = append(r.result.Rows, row)
}

func (r *runner) step(format string, args ...any) {
	if r.Progress != nil {
		r.Progress(fmt.Sprintf(format, args...))
	}
}

// median returns the median time of work on the stream, each run after an untimed prepare, which
// may be nil.
func (r *runner) median(ctx context.Context, prepare, submit func() error) (time.Duration, error) {
	return r.medianOf(ctx, r.watch.Time, prepare, submit)
}

// medianBusy is median on a GPU that is busy until everything has been submitted.
func (r *runner) medianBusy(ctx context.Context, prepare, submit func() error) (time.Duration, error) {
	return r.medianOf(ctx, r.busyTimer.Time, prepare, submit)
}

func (r *runner) medianOf(ctx context.Context, clock func(context.Context, func() error) (time.Duration, error),
	prepare, submit func() error) (time.Duration, error) {
	return r.repeat(ctx, r.Runs, func() (time.Duration, error) {
		if prepare != nil {
			if err := prepare(); err != nil {
				return 0, err
			}
			if err := r.stream.Sync(ctx); err != nil {
				return 0, err
			}
		}
		return clock(ctx, submit)
	})
}

// readLimit returns the name of the limit of a lookup in a table of entries of a size: on a GPU one
// 16-byte read for small entries and one 64-byte bucket for wide ones, on a CPU one cache line.
func (r *runner) readLimit(entry int) string {
	if r.onGPU() && entry <= 8 {
		return roofline.Read16
	}
	return roofline.Read64
}

// writeLimit returns the name of the limit of publishing an entry of a size: one compare-and-swap,
// as wide as the entry if the device supports it.
func (r *runner) writeLimit(entry int) string {
	if p := r.props(); r.onGPU() && entry > 8 && p.Arch >= 90 {
		return roofline.CAS128
	}
	return roofline.CAS64
}

// mixedLimit adds to the result the limit of a batch with a share of updates, the rest being
// lookups, and returns its name. It is the harmonic mean of the two limits, which must have been
// measured.
func (r *runner) mixedLimit(read, write string, updates float64) string {
	if updates == 1 {
		return write
	}
	name := fmt.Sprintf("mixed_%s_%s", read, write)
	if updates != .5 {
		name = fmt.Sprintf("mixed%.0f_%s_%s", 100*updates, read, write)
	}
	r.result.Limits[name] = 1 / ((1-updates)/r.result.Limits[read] + updates/r.result.Limits[write])
	return name
}

// slabLimit returns the name of the limit of reading a slab of 128 bytes. On a CPU its two lines
// arrive together, so it is that of one.
func (r *runner) slabLimit() string {
	if r.onGPU() {
		return roofline.Read128
	}
	return roofline.Read64
}
