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
	busyTimer *roofline.BusyTimer // nil if the experiment measures no busy device
	// chosen means that the user has set the number of runs.
	chosen bool
	// parts is the number of parts of the experiment that call inTurns. 0 means one.
	parts int
	// perStructure makes inTurns compute speedups over the first row of the same structure.
	perStructure bool
	// timings holds runs, keyed by their median. Rows look up the runs that they report.
	timings map[float64][]time.Duration
}

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
	if r.stream != nil { // work may continue after a canceled wait
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

// free waits for the stream and frees memory. A failing experiment may not have waited for work
// that uses the memory.
func (r *runner) free(slices ...interface{ Free() error }) error {
	errs := []error{r.stream.Sync(context.Background())}
	for _, s := range slices {
		errs = append(errs, s.Free())
	}
	return errors.Join(errs...)
}

func (r *runner) props() device.Properties { return r.Device.Properties() }

func (r *runner) onGPU() bool { return r.props().Kind != device.CPU }

// onSim reports whether the device is a simulated GPU, on which times mean nothing.
func (r *runner) onSim() bool { return r.props().Kind == device.Sim }

// interpreted is the default number of keys on a simulated GPU. An experiment then takes seconds.
const interpreted = 1 << 10

// size returns cpu on a CPU and gpu on a GPU.
func (r *runner) size(cpu, gpu int) int {
	if r.onGPU() {
		return gpu
	}
	return cpu
}

// keys returns the number of keys: Config.N or, if that is 0, a default for the device. At scale
// Quick, the default is a sixteenth. Keys of the given size in bytes must fit in 70 % of the free
// memory, so keys lowers the default or returns an error.
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

// keysFrom acts as keys, but returns an error if the number of keys is below a minimum.
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

// region returns the size of the memory in which to measure limits if no table determines it.
func (r *runner) region() int {
	if r.Scale == Quick {
		return r.size(64<<20, 1<<30)
	}
	return 0 // roofline's default
}

// limits measures the named limits in a region of the given size and adds them to the result. It
// skips limits that the device lacks. A limit can be measured only once, because a second
// measurement would contradict the shares in earlier rows. Use limitsIn for several regions.
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

// limitsIn measures the named limits in a region of the given size, a power of two. It adds them
// under names that include the region, unless they exist. It runs fewer operations than limits, but
// enough on a GPU to make launch overhead negligible.
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

// trialRegion is the size of the region in which a trial run measures limits.
const trialRegion = 1 << 20

func (r *runner) roofline(ctx context.Context, opts roofline.Options) (*roofline.Result, error) {
	opts.Runs = r.Runs
	if r.N > 0 && r.N < 1<<18 { // a trial run, not a measurement
		opts.Ops, opts.Region = r.N, trialRegion
	}
	return roofline.Measure(ctx, r.Device, &opts)
}

// repeat calls measure several times and returns the median.
func (r *runner) repeat(ctx context.Context, runs int, measure func() (time.Duration, error)) (time.Duration, error) {
	times, err := roofline.Samples(ctx, runs, measure)
	if err != nil {
		return 0, err
	}
	median := roofline.MedianOf(times)
	r.timings[median.Seconds()] = times
	return median, nil
}

// add appends a row. It sets the row's runs and its share of the limit.
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

// median returns the median time of the work that submit submits to the stream. Unless prepare is
// nil, it runs untimed before each submit.
func (r *runner) median(ctx context.Context, prepare, submit func() error) (time.Duration, error) {
	return r.medianOf(ctx, r.watch.Time, prepare, submit)
}

// medianBusy acts as median, but keeps the GPU busy until all work has been submitted.
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

// readLimit returns the name of the limit of a lookup in a table that has entries of the given
// size. On a GPU this is a 16-byte read for small entries and a 64-byte read for wide ones, on a
// CPU a cache line.
func (r *runner) readLimit(entry int) string {
	if r.onGPU() && entry <= 8 {
		return roofline.Read16
	}
	return roofline.Read64
}

// writeLimit returns the name of the limit of writing an entry of the given size. It is a
// compare-and-swap, as wide as the entry if the device supports that.
func (r *runner) writeLimit(entry int) string {
	if p := r.props(); r.onGPU() && entry > 8 && p.Arch >= 90 {
		return roofline.CAS128
	}
	return roofline.CAS64
}

// mixedLimit adds the limit of a batch with the given share of updates, and returns its name. The
// other operations are lookups. The limit is the harmonic mean of limits read and write, which must
// have been measured.
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

// slabLimit returns the name of the limit of reading a slab of 128 bytes. On a CPU the two lines of
// a slab arrive together, so it is the limit of one line.
func (r *runner) slabLimit() string {
	if r.onGPU() {
		return roofline.Read128
	}
	return roofline.Read64
}
