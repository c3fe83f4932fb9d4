package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/horton"
	"github.com/weftgo/weft/internal/bucketmodel"
	"github.com/weftgo/weft/internal/hash"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/lab/internal/roofline"
)

var hortonModelExperiment = Experiment{
	Name:  "horton-fig8",
	Also:  []string{"horton-fig9", "horton-fig10", "horton-fig11", "horton-fig14"},
	Was:   "horton-model",
	Title: "Horton tables beside their model",
	Doc: `After figures 8 to 11 and 14 of the paper of Horton tables: tables of 2^25 slots (2^19 on a CPU) for 32-bit keys and values, of
buckets of 1, 2, 4, 8 and 16 slots, are filled step by step up to the load that they bear: .91, .95 and .96 with 4, 8 and
16 slots, and with fewer what the model allows. load is the one reached; parameters left_out_ count keys that found no
room, if there were any. At each load the table tells how many buckets a lookup reads, which share of buckets is of type
B, and how many remap entries a bucket has; beside it stands what equations 3 to 9 say of that load. (Keys of one tag
share an entry in weft, so that fewer are set than equation 8 has keys remapped: buckets per miss are those of the equation,
entries are what is left when keys share them. Buckets per insert are those of a new key, by a model in which remapped
keys have gone to the emptiest of all buckets.) The rate is that of the insertions which bring a table from one load to
the next. The paper's numbers at a load of .9, 1.15 buckets per hit and 1.05 per miss, are rounded up.`,
	run:       runHortonModel,
	plots:     plotHortonModel,
	published: []Published{hortonPerHit, hortonPerMiss},
}

var (
	hortonPerHit  = Published{"R9-290X, buckets per hit at load 0.9", 1.15, "buckets"}
	hortonPerMiss = Published{"R9-290X, buckets per miss at load 0.9", 1.05, "buckets"}
)

// bucketSlots are the numbers of slots per bucket to measure.
var bucketSlots = []int{1, 2, 4, 8, 16}

// histogramLoads are the loads of figure 8.
var histogramLoads = []float64{.5, .95}

func runHortonModel(ctx context.Context, r *runner) error {
	// Two tables during a rehash, and columns.
	slots, err := r.keys(1<<19, 1<<25, 2*slabPair+2*4+1)
	if err != nil {
		return err
	}
	r.result.Parameters["slots"] = slots
	if err := r.limits(ctx, slabPair*slots, r.writeLimit(slabPair)); err != nil {
		return err
	}
	f := &steps{runner: r, slots: slots}
	f.step("%s: keys", r.result.Experiment)
	if err := f.upload(); err != nil {
		return errors.Join(err, f.free())
	}
	perBucket := bucketSlots
	if r.Scale == Quick {
		perBucket = []int{kindSlots}
	}
	for _, f.perBucket = range perBucket {
		if err = f.run(ctx); err != nil {
			err = fmt.Errorf("%d slots: %w", f.perBucket, err)
			break
		}
	}
	return errors.Join(err, f.free())
}

// steps fills a table of the given number of slots in steps, from load to load.
type steps struct {
	*runner
	slots      int
	perBucket  int // slots per bucket
	host       []uint32
	keys, vals device.Slice[uint32]
	found      device.Slice[bool]
}

func (f *steps) upload() (err error) {
	f.host = make([]uint32, f.slots) // more keys than any load needs
	vals := make([]uint32, f.slots)
	workload.Unique(f.host, f.Seed, 0)
	workload.Values(vals, f.host)
	if f.keys, err = device.Upload(f.stream, f.host); err != nil {
		return err
	}
	if f.vals, err = device.Upload(f.stream, vals); err != nil {
		return err
	}
	f.found, err = device.Make[bool](f.Device, f.slots)
	return err
}

func (f *steps) free() error { return f.runner.free(&f.keys, &f.vals, &f.found) }

// loads returns the loads at the ends of the steps. The last load is the argument most.
func (f *steps) loads(most float64) (loads []float64) {
	parts := map[Scale]float64{Quick: 4, Default: 10, Full: 20}[f.Scale]
	for i := 1.; i/parts < most-1e-9; i++ {
		loads = append(loads, i/parts)
	}
	return append(loads, most)
}

func (f *steps) ends(loads []float64) []int {
	ends := make([]int, len(loads))
	for i, load := range loads {
		ends[i] = max(int(load*float64(f.slots)), 1)
	}
	return ends
}

// run fills a table of one bucket size twice: to read its statistics after each step, and to time
// the steps.
func (f *steps) run(ctx context.Context) (err error) {
	most := hortonBound(f.perBucket)
	loads := f.loads(most)
	ends := f.ends(loads)
	f.step("%s: %d slots", f.result.Experiment, f.perBucket)
	t, err := openHorton[uint32, uint32](f.Device, &horton.Options{
		Capacity: ends[len(ends)-1], MaxLoad: most, Fixed: true, Unordered: true, Slots: f.perBucket, Seed: f.Seed + 1,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	rows, err := f.reportLoads(ctx, t, loads, ends)
	if err != nil {
		return err
	}
	times, err := f.time(ctx, t, ends)
	if err != nil {
		return err
	}
	last := 0
	for i, row := range rows {
		row.N, row.Seconds, row.OpsPerS = ends[i]-last, times[i].Seconds(), roofline.Rate(ends[i]-last, times[i])
		last = ends[i]
		f.add(row)
	}
	return nil
}

// put inserts the keys [lo,hi). It ignores keys that do not fit.
func (f *steps) put(t subject[uint32, uint32], lo, hi int) error {
	return ignoreFull(t.put(f.stream, f.keys.Sub(lo, hi), f.vals.Sub(lo, hi)))
}

// ignoreFull returns nil if err means that some keys did not fit.
func ignoreFull(err error) error {
	if errors.Is(err, weft.ErrFull) {
		return nil
	}
	return err
}

// reportLoads returns a row per load with the statistics of the table.
func (f *steps) reportLoads(ctx context.Context, t subject[uint32, uint32], loads []float64, ends []int) (rows []Row, err error) {
	last := 0
	for i, end := range ends {
		row := Row{Structure: "horton", Op: "insert", KeyBits: 32, ValueBits: 32, Slots: f.perBucket, Limit: f.writeLimit(slabPair)}
		if err := errors.Join(f.put(t, last, end), ignoreFull(t.Sync(ctx)), t.describe(ctx, &row)); err != nil {
			return nil, err
		}
		if slices.Contains(histogramLoads, loads[i]) && f.perBucket == kindSlots {
			row.KeysPerBucket = keysPerBucket(f.host[:end], f.Seed+1, f.slots/kindSlots)
		}
		rows = append(rows, row)
		last = end
	}
	if missing := last - t.Len(); missing > 0 {
		f.result.Parameters[fmt.Sprintf("left_out_%d_slots", f.perBucket)] = missing
	}
	// The results overwrite the values, which they equal.
	if err := t.get(f.stream, f.keys.Sub(0, last), f.vals.Sub(0, last), f.found.Sub(0, last)); err != nil {
		return nil, err
	}
	return rows, checkFlags(ctx, f.runner, f.found.Sub(0, last), "lookup of what was inserted", t.Len())
}

func (f *steps) time(ctx context.Context, t subject[uint32, uint32], ends []int) ([]time.Duration, error) {
	times := make([][]time.Duration, len(ends))
	for range f.Runs {
		if err := t.Clear(ctx); err != nil {
			return nil, err
		}
		last := 0
		for i, end := range ends {
			elapsed, err := f.watch.Time(ctx, func() error { return f.put(t, last, end) })
			if err != nil {
				return nil, err
			}
			times[i] = append(times[i], elapsed)
			last = end
		}
	}
	medians := make([]time.Duration, len(ends))
	for i, ts := range times {
		slices.Sort(ts)
		medians[i] = max(ts[len(ts)/2], 1)
	}
	return medians, ignoreFull(t.Sync(ctx))
}

// keysPerBucket returns a histogram of buckets by the number of keys that have the bucket as
// primary bucket.
func keysPerBucket(keys []uint32, seed uint64, buckets int) (histogram []int) {
	counts := make([]int, max(buckets, 1))
	for _, k := range keys {
		counts[hash.Reduce32(hash.Uint32(k, seed), uint32(len(counts)))]++
	}
	histogram = make([]int, slices.Max(counts)+1)
	for _, n := range counts {
		histogram[n]++
	}
	return histogram
}

// plotHortonModel plots figure 8, figures 9 to 11 for all bucket sizes, and figure 14, which shows
// buckets of eight slots only.
func plotHortonModel(res *Result) []Plot {
	plots := plotKeysPerBucket(res)
	for _, c := range []struct {
		figure, part, title, what string
		yMin                      float64
		of                        func(*Reads) float64
		published                 []Published
	}{
		{"9", "a", "Storage that goes to remap entries", "share of slots", 0, func(m *Reads) float64 { return m.Overhead }, nil},
		{"10", "b", "Lookups of keys that are there", "buckets per lookup", 1, func(m *Reads) float64 { return m.PerHit }, []Published{hortonPerHit}},
		{"11", "c", "Lookups of keys that are not there", "buckets per lookup", 1, func(m *Reads) float64 { return m.PerMiss }, []Published{hortonPerMiss}},
	} {
		all := Plot{Name: "horton-fig" + c.figure, Title: c.title, XLabel: "load", YLabel: c.what, YMin: c.yMin}
		eight := Plot{Name: "horton-fig14" + c.part, Title: c.title + ", 8 slots", XLabel: "load", YLabel: c.what, YMin: c.yMin}
		for _, slots := range bucketSlots {
			all.addWithModel(res.Rows, slots, c.of)
		}
		eight.addWithModel(res.Rows, kindSlots, c.of)
		for _, f := range c.published {
			eight.Series = append(eight.Series, Series{Name: "published: " + f.What, X: []float64{.9}, Y: []float64{f.Value}, Published: true})
		}
		plots = append(plots, all, eight)
	}
	return slices.DeleteFunc(plots, func(p Plot) bool { return len(p.Series) == 0 })
}

// addWithModel adds a line of a measured statistic for buckets of the given number of slots, and a
// line of the model. of returns the statistic to plot.
func (p *Plot) addWithModel(rows []Row, slots int, of func(*Reads) float64) {
	table, model := Series{Name: fmt.Sprintf("%d slots", slots)}, Series{Name: fmt.Sprintf("%d slots, model", slots), Model: true}
	for _, row := range rows {
		if row.Measured != nil && row.Model != nil && row.Slots == slots {
			table.X, table.Y = append(table.X, row.Load), append(table.Y, of(row.Measured))
			model.X, model.Y = append(model.X, row.Load), append(model.Y, of(row.Model))
		}
	}
	if len(table.X) > 0 {
		p.Series = append(p.Series, table, model)
	}
}

func plotKeysPerBucket(res *Result) []Plot {
	p := Plot{Name: "horton-fig8", Title: "Keys whose primary bucket is the same, 8 slots", XLabel: "keys", YLabel: "buckets"}
	for _, row := range res.Rows {
		buckets := 0
		for _, n := range row.KeysPerBucket {
			buckets += n
		}
		counted, model := Series{Name: fmt.Sprintf("load %g", row.Load)}, Series{Name: fmt.Sprintf("load %g, model", row.Load), Model: true}
		for keys, n := range row.KeysPerBucket {
			counted.X, counted.Y = append(counted.X, float64(keys)), append(counted.Y, float64(n))
			share := bucketmodel.Poisson(row.Load*float64(row.Slots), keys)
			model.X, model.Y = append(model.X, float64(keys)), append(model.Y, float64(buckets)*share)
		}
		if buckets > 0 {
			p.Series = append(p.Series, counted, model)
		}
	}
	return []Plot{p}
}
