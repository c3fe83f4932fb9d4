package experiment

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"slices"
	"time"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/gphash"
	"github.com/weftgo/weft/internal/variant"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/lab/internal/roofline"
)

var gphashDeviceExperiment = Experiment{
	Name:  "gphash-device",
	Title: "The persistent index on a GPU, with keys and answers in its memory",
	GPU:   true,
	Doc: `A pool of 8 GiB with 36,700,160 records of 8 and 128 bytes, or as much less as there are fewer records; batches of 2^20 for rates, and of
2^12 for latencies. The rate is that of the median call, between those of the slowest and the fastest one. plain is the paper's mode, whose lookups are
sorted by the regions of the pool but for unsorted; mirror has control words and tags of all slots in the memory of the GPU; cache has 20 % of the
buckets there, by LFU, loaded twice with 2^24 lookups before each, and mirror, cache as many of the values. atomic is batches that are durable as a whole,
and may have slots of the pool follow behind so many operations (tail). no fences is the same without fences of system scope, which loses in a crash what it has
acknowledged. no rounds is the same where a warp has one change of a batch instead of up to 32. search looks for records that are there, all alike, search_miss for some that are not, C by
a Zipf distribution of exponent .99 over records in any order, C, latest over the order in which they were inserted: the hot ones' values lie side by side then, and few of the pool's
pages have any.
insert adds new records to an empty index. The slab hash, with an undo log and without, is that of gphash-baselines, in a pool as large, with half as many
records. All but that hash by SipHash. Of the limits, that of lookups is reading a line of a value over the bus: all over the pool where they are not sorted,
else within 256 MiB. Of C each record of a batch is read once (distinct), some in the cache of values (cached). That of misses beside a mirror is reading one
of four lines there, that of insertions copying the 160 bytes that one takes.` + onDevice + hostPool,
	run: runGPHashDevice,
}

// Sizes of the run that has targets. Other runs scale in proportion.
const (
	headlineKeys  = 35 << 20
	headlineBatch = 1 << 20
	headlinePool  = 8 << 30
)

// headline holds the state of the experiment, which measures one pool after the other.
type headline struct {
	*loaded
	run            *runner
	batch, small   int // operations per batch: for rates, and for latencies
	nCalls, nSmall int // number of calls with batches of either size
	uniform        *workload.Requests
	zipf, insert   *workload.Requests
	latest         *workload.Requests // like zipf, but the newest records are the hot ones
}

func runGPHashDevice(ctx context.Context, r *runner) (err error) {
	n, err := r.gphashKeys(headlineKeys, headlineKeys, 8)
	if err != nil {
		return err
	}
	h := &headline{run: r, batch: min(headlineBatch, max(n/35, 1)), nCalls: r.headlineCalls()}
	h.small = min(defaultBatch, max(h.batch/2, 1))
	h.nSmall = max(min(64, (n/2-h.nCalls*h.batch)/h.small), 1)
	if err := h.limits(ctx, n); err != nil {
		return err
	}
	if err := h.prepare(n); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.deviceBatches.free()) }()
	for _, part := range []func(context.Context) error{h.operations, h.atomic, h.peers} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	judge(r.result.Rows)
	return nil
}

func (r *runner) headlineCalls() int {
	if r.Scale == Quick {
		return 4
	}
	return 16
}

// limits measures the limits of the bus, in a region as large as the pool and in a small one. It
// also measures GPU memory in a region as large as the index's mirror there.
func (h *headline) limits(ctx context.Context, n int) error {
	r := h.run
	measure := func(region int, names ...string) (map[string]float64, error) {
		r.step("gphash-device: limits of %d MiB of memory", region>>20)
		res, err := r.roofline(ctx, roofline.Options{Region: region, Ops: 1 << 23, Only: names})
		if err != nil {
			return nil, err
		}
		return res.Limits, nil
	}
	bus := []string{roofline.MappedRead32, roofline.MappedRead128, roofline.MappedCAS64}
	pool := h.poolBytes(n)
	all, err := measure(pool, append(bus, roofline.HostToDevice, roofline.DeviceToHost)...)
	if err != nil {
		return err
	}
	for name, rate := range all {
		r.result.Limits[name] = rate
	}
	r.result.Limits[writeLimit] = all[roofline.DeviceToHost] / insertBytes
	regions := map[int][]string{mirrorRegion(n): {roofline.Read128}}
	if pool > busRegion {
		regions[busRegion] = bus
	}
	for region, names := range regions {
		some, err := measure(region, names...)
		if err != nil {
			return err
		}
		for name, rate := range some {
			r.result.Limits[roofline.In(name, region)] = rate
		}
	}
	return nil
}

// insertBytes is the number of bytes that an insertion copies over the bus: key, value, checksum,
// and the control word with its record.
const (
	insertBytes = 160
	writeLimit  = roofline.DeviceToHost + "_160"
)

// mirrorRegion returns a power of two that is about the size in bytes of the mirror of an index of
// n records.
func mirrorRegion(n int) int { return 1 << bits.Len(uint(n*slotSize(8))) }

func (h *headline) poolBytes(n int) int { return headlinePool / headlineKeys * n }

func (h *headline) prepare(n int) (err error) {
	h.loaded = &loaded{n: n, session: newSession(h.run, nil, 8, true)}
	for _, q := range []struct {
		to      **workload.Requests
		mix     workload.Mix
		records int
		theta   float64
	}{
		{&h.uniform, workload.Mix{Name: "search", Read: 1}, n, 0}, {&h.zipf, workload.Mix{Name: "C", Read: 1}, n, zipfTheta},
		{&h.insert, workload.Mix{Name: "insert", InsertEvery: 1}, 0, 0}, {&h.latest, workload.Mix{Name: "C, latest", Read: 1, Latest: true}, n, zipfTheta},
	} {
		if *q.to, err = workload.NewRequests(q.mix, uint64(q.records), q.theta, h.run.Seed); err != nil {
			return err
		}
	}
	h.deviceBatches, err = h.run.newDeviceBatches(8, h.batch)
	return err
}

// ---- pools -------------------------------------------------------------------------

// inNewPool creates a pool, calls do, and removes the pool. do may open the pool several times.
func (h *headline) inNewPool(o gphash.Options, do func() error) (err error) {
	x, folder, err := inPool(func(path string) (*gphash.Index, error) {
		h.path = path
		return gphash.Create(path, h.run.Device, o)
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if err := x.Close(); err != nil {
		return err
	}
	return do()
}

// options returns the options of a pool as large as the experiment's text says.
func (h *headline) options(tail int) gphash.Options {
	o := h.run.gphashOptions(8, h.n, h.batch)
	if tail > 0 {
		o.AtomicBatch, o.AtomicTail = h.batch, tail
		o.Size += 32*int64(h.batch+tail) + 2<<20
	}
	o.Size = max(o.Size, int64(h.poolBytes(h.n)))
	return o
}

// setting is a way to open the pool.
type setting struct {
	name    string
	open    gphash.OpenOptions
	variant variant.GPHash
}

// Variants of the index that settings use.
var (
	fullVariant   = variant.GPHash{}
	withoutFences = variant.GPHash{Unfenced: true}
	withoutRounds = variant.GPHash{MaxRound: 1}
)

const noRounds = "no rounds"

// opened opens the pool by a setting and calls do.
func (h *headline) opened(ctx context.Context, s setting, do func(x *gphash.Index) error) error {
	h.run.step("gphash-device: %s", s.name)
	if err := h.with(variant.Context(ctx, s.variant), s.open, do); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return nil
}

// operations measures an index in which each operation is durable by itself.
func (h *headline) operations(ctx context.Context) error {
	mirror := gphash.OpenOptions{Mirror: true}
	return h.inNewPool(h.options(0), func() error {
		for _, s := range []setting{
			{"mirror, " + noFences, mirror, withoutFences}, {"plain, " + noFences, gphash.OpenOptions{}, withoutFences},
			{"mirror, " + noRounds, mirror, withoutRounds}, {"plain, " + noRounds, gphash.OpenOptions{}, withoutRounds},
			{"mirror", mirror, fullVariant}, {"plain", gphash.OpenOptions{}, fullVariant},
		} {
			if err := h.insertions(ctx, s); err != nil {
				return err
			}
		}
		err := h.opened(ctx, setting{"all records", gphash.OpenOptions{}, fullVariant}, func(*gphash.Index) error { return h.fill(ctx) })
		if err != nil {
			return err
		}
		return h.searches(ctx)
	})
}

// atomic measures an index in which each batch is durable as a whole.
func (h *headline) atomic(ctx context.Context) error {
	tails := []struct {
		name string
		ops  int
	}{{"atomic", 0}, {"atomic, tail 2^22", 4 * h.batch}, {"atomic, tail 2^24", 16 * h.batch}}
	return h.inNewPool(h.options(tails[2].ops), func() error {
		for _, t := range tails {
			o := gphash.OpenOptions{Mirror: true, AtomicTail: t.ops}
			for _, s := range []setting{{t.name + ", " + noFences, o, withoutFences}, {t.name, o, fullVariant}} {
				if err := h.insertions(ctx, s); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func (h *headline) peers(ctx context.Context) error {
	for _, p := range persistentPeers {
		if p.name == undoLog || p.name == noUndoLog {
			if err := h.peer(ctx, p); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	return nil
}

func (h *headline) peer(ctx context.Context, p persistentPeer) (err error) {
	h.run.step("gphash-device: %s", p.name)
	x, err := p.in(h.run, 8, h.n/2, h.batch)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	h.session = newSession(h.run, resident{x, h.deviceBatches, nil}, 8, p.ordered)
	if err := h.rows(ctx, p.name, "insert", fixedLimit(writeLimit), h.requests(h.insert)); err != nil {
		return err
	}
	there, err := workload.NewRequests(workload.Mix{Name: "search", Read: 1}, h.session.at, 0, h.run.Seed)
	if err != nil {
		return err
	}
	return h.rows(ctx, p.name, "search", fixedLimit(roofline.MappedRead128), h.requests(there))
}

// ---- rows ----------------------------------------------------------------------------

// runs is a function that runs a number of batches of one size, and returns the time of each call.
type runs func(ctx context.Context, calls, batch int) ([]time.Duration, error)

func (h *headline) requests(q *workload.Requests) runs {
	return func(ctx context.Context, calls, batch int) ([]time.Duration, error) {
		return h.session.run(ctx, q, calls*batch, batch)
	}
}

func (h *headline) misses(ctx context.Context, calls, batch int) (times []time.Duration, err error) {
	for c := range calls {
		rows := h.begin(batch)
		for i := range rows {
			rows[i] = access{weft.OpGet, uint64(h.n + c*batch + i), 0}
		}
		h.session.fill()
		hits, err := h.table.Get(ctx, h.keys, h.vals, h.ok)
		if err == nil && hits != 0 {
			err = fmt.Errorf("%w: %d of %d absent records were found", errWrong, hits, batch)
		}
		if err != nil {
			return nil, err
		}
		times = append(times, h.deviceBatches.callTime())
	}
	return times, nil
}

// limitOf returns the name of what limits the rate of batches of a size, such as roofline.Read128.
type limitOf func(batch int) string

func fixedLimit(limit string) limitOf { return func(int) string { return limit } }

// rows measures an operation in large batches, for rates, and in small batches, for latencies.
func (h *headline) rows(ctx context.Context, structure, op string, limit limitOf, run runs) error {
	for _, size := range []struct{ nCalls, batch int }{{h.nCalls, h.batch}, {h.nSmall, h.small}} {
		times, err := run(ctx, size.nCalls, size.batch)
		if err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
		h.run.add(medianRow(structure, op, size.batch, times, limit(size.batch)))
	}
	return nil
}

// medianRow returns a row that has the rate of the median call.
func medianRow(structure, op string, batch int, times []time.Duration, limit string) Row {
	row := timed(structure, op, 8, len(times)*batch, batch, times, limit)
	row.OpsPerS = float64(batch) / max(row.Latency.P50, 1e-9)
	row.Spread = &Spread{Slowest: float64(batch) / row.Latency.Max, Fastest: roofline.Rate(batch, max(slices.Min(times), 1))}
	return row
}

func (h *headline) insertions(ctx context.Context, s setting) error {
	return h.opened(ctx, s, func(x *gphash.Index) error {
		if err := x.Clear(ctx); err != nil {
			return err
		}
		h.session = newSession(h.run, h.table, 8, true)
		return h.rows(ctx, s.name, "insert", fixedLimit(writeLimit), h.requests(h.insert))
	})
}

func (h *headline) fill(ctx context.Context) error {
	_, err := h.session.run(ctx, h.insert, h.n-int(h.session.at), h.batch)
	return err
}

// searches measures lookups in a pool that contains all records.
func (h *headline) searches(ctx context.Context) error {
	poolLimit := h.run.poolRead()
	search := func(name, limit string) func(*gphash.Index) error {
		return func(*gphash.Index) error {
			return h.rows(ctx, name, "search", fixedLimit(limit), h.requests(h.uniform))
		}
	}
	miss := func(name string) func(*gphash.Index) error {
		return func(*gphash.Index) error {
			return h.rows(ctx, name, "search_miss", fixedLimit(roofline.In(roofline.Read128, mirrorRegion(h.n))), h.misses)
		}
	}
	zipf := func(name, op string, q *workload.Requests) func(*gphash.Index) error {
		return func(*gphash.Index) error { return h.rows(ctx, name, op, h.distinctLimit, h.requests(q)) }
	}
	cached := func(name, op string, q *workload.Requests, values bool) func(*gphash.Index) error {
		return func(x *gphash.Index) error { return h.cached(ctx, x, name, op, q, values) }
	}
	mirror, both := gphash.OpenOptions{Mirror: true}, gphash.OpenOptions{Mirror: true, Cache: cacheShare}
	type part = func(*gphash.Index) error
	for _, m := range []struct {
		setting
		parts []part
	}{
		{setting{"plain, unsorted", gphash.OpenOptions{Unsorted: true}, fullVariant}, []part{search("plain, unsorted", roofline.MappedRead128)}},
		{setting{"plain", gphash.OpenOptions{}, fullVariant}, []part{search("plain", poolLimit), zipf("plain", "C", h.zipf)}},
		{setting{"mirror", mirror, fullVariant}, []part{search("mirror", poolLimit), miss("mirror"), zipf("mirror", "C", h.zipf), zipf("mirror", "C, latest", h.latest)}},
		{setting{"cache", gphash.OpenOptions{Cache: cacheShare}, fullVariant}, []part{cached("cache", "C", h.zipf, false)}},
		{setting{"mirror, cache", both, fullVariant}, []part{cached("mirror, cache", "C", h.zipf, true), cached("mirror, cache", "C, latest", h.latest, true)}},
	} {
		err := h.opened(ctx, m.setting, func(x *gphash.Index) (err error) {
			for i := 0; i < len(m.parts) && err == nil; i++ {
				err = m.parts[i](x)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ---- YCSB C ----------------------------------------------------------------------------

// cacheFills is the number of times that the cache is loaded before a measurement. Each load
// selects what to cache by the reads since the previous load.
const cacheFills = 2

// cacheShare is the share of the buckets, or of the values, in the cache.
const cacheShare = .2

// cached measures YCSB C while the cache holds the most frequent buckets or, with values, the most
// frequent values.
func (h *headline) cached(ctx context.Context, x *gphash.Index, name, op string, q *workload.Requests, values bool) error {
	for range cacheFills {
		if _, err := h.session.run(ctx, q, h.nCalls*h.batch, h.batch); err != nil {
			return err
		}
		if err := x.LoadCache(ctx); err != nil {
			return err
		}
	}
	first := len(h.run.result.Rows)
	if err := h.rows(ctx, name, op, h.distinctLimit, h.requests(q)); err != nil {
		return err
	}
	stats, err := x.Stats(ctx)
	for i := range h.run.result.Rows[first:] {
		row := &h.run.result.Rows[first+i]
		row.Cache, row.HitRatio = figure(cacheShare), figure(stats.CacheHitRate)
		if values {
			h.limitCached(row, stats.CacheHitRate)
		}
	}
	return err
}

// distinctLimit returns the name of the limit of lookups that follow a Zipf distribution. Such
// lookups read each distinct record of a batch once.
func (h *headline) distinctLimit(batch int) string {
	share, bus := h.distinct(batch), h.run.poolRead()
	name := fmt.Sprintf("distinct%.0f_%s", 100*share, bus)
	h.run.result.Limits[name] = h.run.result.Limits[bus] / share
	return name
}

// limitCached sets the limit of a row in which a share of the values is read from GPU memory and
// the others over the bus.
func (h *headline) limitCached(row *Row, hits float64) {
	limits, share := h.run.result.Limits, h.distinct(row.Batch)
	memory := limits[roofline.In(roofline.Read128, mirrorRegion(h.n))]
	row.Limit = fmt.Sprintf("cached%.0f_%s", 100*hits, row.Limit)
	limits[row.Limit] = 1 / share / ((1-hits)/limits[h.run.poolRead()] + hits/memory)
	row.LimitShare = row.OpsPerS / limits[row.Limit]
}

// distinct returns the number of distinct records in a batch over the number of requests.
func (h *headline) distinct(batch int) float64 {
	requests, seen := make([]workload.Request, batch), make(map[uint64]struct{}, batch)
	h.zipf.Fill(requests, 0)
	for _, q := range requests {
		seen[q.Record] = struct{}{}
	}
	return float64(len(seen)) / float64(batch)
}

// ---- targets ----------------------------------------------------------------------------

// headlineTargets are the targets of the large batches. A target is a rate in operations per
// second, or a ratio to another row.
var headlineTargets = []struct {
	structure, op string
	least         float64
	of            string // structure to compare with; "" if least is a rate
}{
	{"plain", "search", 3, "plain, unsorted"},
	{"mirror", "search", 200e6, ""},
	{"cache", "C", 1.4, "plain"},
	{"mirror, cache", "C", 1e9, ""},
	{"plain", "insert", 2, undoLog},
	{"atomic", "insert", 150e6, ""},
	{"atomic", "insert", 3, "plain"},
	{"atomic, tail 2^22", "insert", 150e6, ""},
	{"atomic, tail 2^22", "insert", 3, "plain"},
	{"atomic, tail 2^24", "insert", 150e6, ""},
	{"atomic, tail 2^24", "insert", 3, "plain"},
}

// judge records in each row whether it reaches its targets.
func judge(rows []Row) {
	// returns the row of the large batches, which comes first
	find := func(structure, op string) *Row {
		i := slices.IndexFunc(rows, func(r Row) bool { return r.Structure == structure && r.Op == op })
		if i < 0 {
			return nil
		}
		return &rows[i]
	}
	for _, t := range headlineTargets {
		row := find(t.structure, t.op)
		if row == nil {
			continue
		}
		target := Target{Is: row.OpsPerS, Want: t.least, Unit: "op/s"}
		if t.of != "" {
			other := find(t.of, t.op)
			if other == nil {
				continue
			}
			target = Target{Is: row.OpsPerS / other.OpsPerS, Want: t.least, Unit: "x", Of: t.of}
		}
		target.Reached = target.Is >= target.Want
		row.Targets = append(row.Targets, target)
	}
}
