package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/lab/internal/roofline"
	"github.com/weftgo/weft/linear"
)

// The experiments of David Farrell's article "A Simple GPU Hash Table" (2020) use 32-bit keys and
// values. 31 batches of 2^22 keys fill a table of 2^27 slots. The article used a GTX 1060.
const (
	articleSlots   = 1 << 27
	articleBatches = 31 // 32 batches would fill the table
)

// articleMilliseconds are the times of the batches in Farrell's article.
var articleMilliseconds = []float64{
	11.608448, 11.751424, 11.942592, 12.081120, 12.242560, 12.396448, 12.533024, 12.703328,
	12.884512, 13.033472, 13.239296, 13.392448, 13.624000, 13.875520, 14.126528, 14.399328,
	14.690304, 15.039136, 15.478656, 15.985664, 16.668673, 17.587200, 18.690048, 20.278816,
	22.545408, 26.053312, 31.895008, 42.103294, 61.849056, 105.695999, 240.204636,
}

var insertLoadExperiment = Experiment{
	Name:    "simple-table1",
	Was:     "linear-insert-load",
	Title:   "Inserting batches into a table that fills up",
	Default: true,
	Doc: `After the article "A Simple GPU Hash Table" (Farrell, 2020): a table of 2^27 slots (2^22 on a CPU) for 32-bit
keys and values is filled by batches of a thirty-second of its slots each until 97 % are used. load is the load a
batch started with. The article's own figures, measured on a GTX 1060, are shown beside.`,
	run:   runInsertLoad,
	plots: plotInsertLoad,
}

func runInsertLoad(ctx context.Context, r *runner) (err error) {
	f, err := newFilling(ctx, r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	if err := r.limits(ctx, 8*f.slots, r.writeLimit(8)); err != nil {
		return err
	}
	times := make([][]time.Duration, articleBatches)
	for run := range r.Runs + 1 {
		r.step("simple-table1: run %d of %d", run+1, r.Runs+1)
		if err := f.table.Clear(ctx); err != nil {
			return err
		}
		for b := range times {
			t, err := r.watch.Time(ctx, func() error { return f.insert(b) })
			if err != nil {
				return fmt.Errorf("batch %d of %d: %w", b+1, articleBatches, err)
			}
			if run > 0 { // the first run warms up
				times[b] = append(times[b], t)
			}
		}
	}
	if err := f.check(ctx, articleBatches); err != nil {
		return err
	}
	for b, ts := range times {
		slices.Sort(ts)
		t := max(ts[len(ts)/2], 1)
		r.add(Row{
			Structure: "linear", Op: "insert", KeyBits: 32, ValueBits: 32, N: f.batch,
			Load: float64(b*f.batch) / float64(f.slots), Seconds: t.Seconds(),
			OpsPerS: roofline.Rate(f.batch, t), Limit: r.writeLimit(8),
		})
	}
	return nil
}

// filling is a table that batches fill.
type filling struct {
	r            *runner
	slots, batch int
	table        *linear.Map[uint32, uint32]
	keys, vals   device.Slice[uint32]
	found        device.Slice[bool]
}

func newFilling(_ context.Context, r *runner) (f *filling, err error) {
	slots, err := r.keys(1<<22, articleSlots, 8+2*4+1)
	if err != nil {
		return nil, err
	}
	f = &filling{r: r, batch: max(slots/32, 1)}
	f.slots = 32 * f.batch
	r.result.Parameters["slots"] = f.slots
	r.result.Parameters["batch"] = f.batch
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	r.step("%s: keys", r.result.Experiment)
	n := articleBatches * f.batch
	host, vals := make([]uint32, n), make([]uint32, n)
	workload.Unique(host, r.Seed, 0)
	workload.Values(vals, host)
	if f.keys, err = device.Upload(r.stream, host); err != nil {
		return f, err
	}
	if f.vals, err = device.Upload(r.stream, vals); err != nil {
		return f, err
	}
	if f.found, err = device.Make[bool](r.Device, n); err != nil {
		return f, err
	}
	f.table, err = linear.New[uint32, uint32](r.Device, &linear.Options{
		Capacity: f.slots, MaxLoad: 1, Fixed: true, Unordered: true, Seed: r.Seed + 1,
	})
	return f, err
}

func (f *filling) insert(b int) error {
	lo, hi := b*f.batch, (b+1)*f.batch
	return f.table.PutOn(f.r.stream, f.keys.Sub(lo, hi), f.vals.Sub(lo, hi))
}

func (f *filling) check(ctx context.Context, batches int) error {
	return f.has(ctx, 0, batches*f.batch)
}

// has verifies that exactly the keys [lo,hi) are present.
func (f *filling) has(ctx context.Context, lo, hi int) error {
	err := errors.Join(f.table.Sync(ctx), f.table.ContainsOn(f.r.stream, f.keys, f.found))
	if err == nil && lo > 0 {
		err = checkFlags(ctx, f.r, f.found.Sub(0, lo), "lookup of what was deleted", 0)
	}
	if err == nil {
		err = checkFlags(ctx, f.r, f.found.Sub(lo, f.found.Len()), "lookup of what was inserted", hi-lo)
	}
	return err
}

func (f *filling) close() error {
	var err error
	if f.table != nil {
		err = f.table.Close()
	}
	return errors.Join(err, f.r.free(&f.keys, &f.vals, &f.found))
}

func plotInsertLoad(res *Result) []Plot {
	p := Plot{
		Name: "simple-table1", Title: "Insertion by the load a batch starts with",
		XLabel: "load before the batch", YLabel: "insertions per second", LogY: true,
	}
	for _, row := range res.Rows {
		p.point("weft linear, this run", row.Load, row.OpsPerS)
	}
	published := Series{Name: "published: GTX 1060, 2020", Published: true}
	for b, ms := range articleMilliseconds {
		published.X = append(published.X, float64(b)/32)
		published.Y = append(published.Y, articleSlots/32/(ms/1e3))
	}
	p.Series = append(p.Series, published)
	if limit := res.Limits[res.Rows[0].Limit]; limit > 0 {
		last := res.Rows[len(res.Rows)-1].Load
		p.Series = append(p.Series, Series{Name: "limit: " + res.Rows[0].Limit, X: []float64{0, last}, Y: []float64{limit, limit}, Limit: true})
	}
	return []Plot{p}
}

var probeLengthExperiment = Experiment{
	Name:    "simple-probe-length",
	Was:     "linear-probe-length",
	Title:   "How far keys lie from their home slots",
	Default: true,
	Doc: `After the article "A Simple GPU Hash Table" (Farrell, 2020): the mean and the greatest distance in slots between
a key and the slot it hashes to, in a table of 2^27 slots (2^22 on a CPU), half full and 97 % full. The mean doesn't
depend on the size of the table, the greatest does. A search here begins at the first slot of a 32-byte sector, which
is read at once, so at low loads the mean is above the article's though no more memory is read. The rate is that of
filling the table up to there.`,
	run: runProbeLength,
}

// articleProbes are the probe lengths in Farrell's article.
var articleProbes = []struct {
	batches   int
	mean, max float64
}{{16, .4774, 60}, {articleBatches, 10.1757, 6474}}

func runProbeLength(ctx context.Context, r *runner) (err error) {
	f, err := newFilling(ctx, r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	if err := r.limits(ctx, 8*f.slots, r.writeLimit(8)); err != nil {
		return err
	}
	for _, published := range articleProbes {
		n := published.batches * f.batch
		r.step("simple-probe-length: %d keys", n)
		t, err := r.median(ctx, func() error { return f.table.Clear(ctx) }, func() error {
			return f.table.PutOn(r.stream, f.keys.Sub(0, n), f.vals.Sub(0, n))
		})
		if err != nil {
			return err
		}
		if err := f.check(ctx, published.batches); err != nil {
			return err
		}
		stats, err := f.table.Stats(ctx)
		if err != nil {
			return err
		}
		r.add(Row{
			Structure: "linear", Op: "insert", KeyBits: 32, ValueBits: 32, N: n,
			Load: float64(n) / float64(f.slots), Seconds: t.Seconds(), OpsPerS: roofline.Rate(n, t), Limit: r.writeLimit(8),
			MeanProbe: figure(float64(stats.MeanProbe)), MaxProbe: figure(float64(stats.MaxProbe)),
			PublishedMeanProbe: figure(published.mean), PublishedMaxProbe: figure(published.max),
		})
	}
	return nil
}

var articleRatesExperiment = Experiment{
	Name:  "simple-rates",
	Title: "64 million insertions, and deletions of 32 million of these keys",
	Doc: `The rates that the article "A Simple GPU Hash Table" (Farrell, 2020) begins with: 64 million keys of 32 bits with
32-bit values go into an empty table of 2^27 slots (2^22 on a CPU, and half as many keys as slots), and half of these keys are deleted
again, each in one batch. On the article's GTX 1060 that took about 210 and 64 ms.`,
	run: runArticleRates,
}

func runArticleRates(ctx context.Context, r *runner) (err error) {
	f, err := newFilling(ctx, r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	limit := r.writeLimit(8)
	if err := r.limits(ctx, 8*f.slots, limit); err != nil {
		return err
	}
	n := f.slots / 2
	if f.slots == articleSlots {
		n = 64e6
	}
	insert := func() error { return f.table.PutOn(r.stream, f.keys.Sub(0, n), f.vals.Sub(0, n)) }
	remove := func() error { return f.table.DeleteOn(r.stream, f.keys.Sub(0, n/2), device.Slice[bool]{}) }
	for _, m := range []struct {
		op      string
		n       int
		seconds float64 // time in the article
		prepare func() error
		run     func() error
		left    [2]int // range of keys that are present afterwards
	}{
		{"insert", n, .210, func() error { return f.table.Clear(ctx) }, insert, [2]int{0, n}},
		{"delete", n / 2, .064, func() error { return errors.Join(f.table.Clear(ctx), insert()) }, remove, [2]int{n / 2, n}},
	} {
		r.step("simple-rates: %d keys: %s", m.n, m.op)
		t, err := r.median(ctx, m.prepare, m.run)
		if err == nil {
			err = f.has(ctx, m.left[0], m.left[1])
		}
		if err != nil {
			return err
		}
		row := Row{
			Structure: "linear", Op: m.op, KeyBits: 32, ValueBits: 32, N: m.n, Load: float64(n) / float64(f.slots),
			Seconds: t.Seconds(), OpsPerS: roofline.Rate(m.n, t), Limit: limit,
		}
		if f.slots == articleSlots {
			row.PublishedOpsPerS = figure(float64(m.n) / m.seconds)
		}
		r.add(row)
	}
	return nil
}
