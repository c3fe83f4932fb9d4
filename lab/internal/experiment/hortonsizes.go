package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weftgo/weft/cuckoo"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/horton"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/lab/internal/roofline"
)

// The experiments of the paper on Horton tables (Breslow, Zhang, Greathouse, Jayasena and Tullsen,
// 2016) use the figure numbers of its text. The paper measured tables of up to 512 MiB on a Radeon
// R9-290X, which has 1 MiB of cache.

var hortonSizesExperiment = Experiment{
	Name:  "horton-fig12",
	Also:  []string{"horton-fig13"},
	Was:   "horton-sizes",
	Title: "Horton and cuckoo tables from 16 KiB to 8 GiB",
	Doc: `After figures 12 and 13 of the paper of Horton tables: lookups of 32-bit keys with 32-bit values in tables of 16 KiB to 8 GiB
(64 MiB on a CPU; with --full also of 2^31 keys), of buckets of eight slots, at a load of .9, in Horton tables and in cuckoo tables
of both policies whose lookups stop at the first hit: keys that are there, any of them many times (get_hit), and keys
that are not (get_miss). n is the number of lookups, 2^26 (2^19 on a CPU) whatever the size. buckets per hit and per miss
are measured in the table, beside them what theory says; B/op is computed from them, not counted: 64 bytes for a bucket,
4 for the key, 4 for the answer. Beside that stand, for tables of up to 64 KiB, the sectors of 32 bytes and the lines of
128 that the same lookups request of the same table on a simulated GPU: counted there, since machines may refuse the
counters of their profiler, and of the buckets alone. speedup is the rate over that of the cuckoo table with load balancing, the paper's baseline. On its
hardware Horton tables were 1.17 to 1.35 times as fast for hits, 1.73 to 1.89 times for misses, and a lookup moved 82 and
75 bytes by its model. weft's load balancing takes a key's first bucket where both have as many free slots, so that
fewer than half of the keys are in the second, and first fit ends a miss at a bucket that was never full: both read less
than the paper's tables do. Random reads of 64 bytes are limited in a region as large as the table, a power of two.`,
	run:       runHortonSizes,
	plots:     plotHortonSizes,
	published: hortonGains,
}

var (
	hortonHitGains  = []Published{{"R9-290X, hits over load balancing, least", 1.17, "x"}, {"R9-290X, hits over load balancing, most", 1.35, "x"}}
	hortonMissGains = []Published{{"R9-290X, misses over load balancing, least", 1.73, "x"}, {"R9-290X, misses over load balancing, most", 1.89, "x"}}
	hortonGains     = append(slices.Clone(hortonHitGains), hortonMissGains...)
)

const (
	hortonSizesLoad = .9
	smallestTable   = 16 << 10
	bucketBytes     = kindSlots * slabPair
	lookupBytes     = 8 // a key and the result
	// manyKeys is the number of keys in the largest tables of the Horton paper, for which it gives
	// no figures.
	manyKeys = 1 << 31
)

// sizesKinds return the compared kinds of tables. The first is the baseline.
var sizesKinds = []func(r *runner) kind[uint32, uint32]{
	func(r *runner) kind[uint32, uint32] {
		return cuckooKind[uint32, uint32](r, cuckooEven, cuckoo.LoadBalancing)
	},
	func(r *runner) kind[uint32, uint32] {
		return cuckooKind[uint32, uint32](r, cuckooFirst, cuckoo.FirstFit)
	},
	func(r *runner) kind[uint32, uint32] {
		return hortonKind[uint32, uint32](r, hortonLazy, horton.Lazy)
	},
}

func runHortonSizes(ctx context.Context, r *runner) (err error) {
	largest := r.size(64<<20, 8<<30)
	most := tableKeys(largest)
	if r.Scale == Full && r.onGPU() {
		most = manyKeys
	}
	// A rehash to another seed needs memory for a second table. Keys come in pieces.
	bytes := 2*slabPair/hortonSizesLoad + 1.
	n, err := r.keys(most, most, int(bytes))
	if err != nil {
		return err
	}
	sizes := []int{min(n, tableKeys(smallestTable))}
	step := map[Scale]int{Quick: 4, Default: 1, Full: 1}[r.Scale]
	for bytes := smallestTable << step; bytes <= largest && tableKeys(bytes) <= n; bytes <<= step {
		sizes = append(sizes, tableKeys(bytes))
	}
	if n == manyKeys {
		sizes = append(sizes, n)
	}
	r.result.Parameters["keys"] = sizes[len(sizes)-1]
	s, err := newProbes(r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.free()) }()
	for _, n := range sizes {
		if err := s.atSize(ctx, n); err != nil {
			return fmt.Errorf("%d keys: %w", n, err)
		}
	}
	return nil
}

// tableKeys returns the number of keys that fill a table of the given size in bytes.
func tableKeys(bytes int) int { return int(hortonSizesLoad * float64(bytes/slabPair)) }

// probes holds lookups in tables of any size, and a piece of the keys that fill the tables.
type probes struct {
	trial[uint32, uint32]
	keys, vals device.Slice[uint32]
	piece      []uint32 // keys of the piece on the host
}

func newProbes(r *runner) (s *probes, err error) {
	lookups, piece := r.size(1<<19, 1<<26), r.size(1<<19, 1<<24)
	if r.N > 0 {
		lookups, piece = min(lookups, r.N), min(piece, r.N)
	}
	s = &probes{piece: make([]uint32, piece)}
	s.trial = trial[uint32, uint32]{runner: r, keyBits: 32, valueBits: 32, load: hortonSizesLoad, cols: &columns[uint32, uint32]{n: lookups, r: r}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.free())
		}
	}()
	for _, c := range []struct {
		column *device.Slice[uint32]
		n      int
	}{{&s.keys, piece}, {&s.vals, piece}, {&s.cols.hits, lookups}, {&s.cols.miss, lookups}, {&s.cols.out, lookups}} {
		if *c.column, err = device.Make[uint32](r.Device, c.n); err != nil {
			return s, err
		}
	}
	s.cols.flags, err = device.Make[bool](r.Device, lookups)
	return s, err
}

func (s *probes) free() error {
	return errors.Join(s.cols.free(), s.runner.free(&s.keys, &s.vals))
}

// draw uploads lookups of the first n keys, with repetitions, and of absent keys.
func (s *probes) draw(n int) error {
	host := make([]uint32, s.cols.n)
	workload.Uniform(host, s.Seed, uint64(n), s.Seed+1)
	if err := s.cols.hits.CopyFrom(s.stream, host); err != nil {
		return err
	}
	workload.Unique(host, s.Seed, workload.Misses)
	return s.cols.miss.CopyFrom(s.stream, host)
}

func (s *probes) atSize(ctx context.Context, n int) error {
	region := max(regionOf(int(float64(n*slabPair)/hortonSizesLoad)), s.size(loopRegion, smallestTable))
	s.read = roofline.In(roofline.Read64, region)
	if err := s.limitsIn(ctx, region, roofline.Read64); err != nil {
		return err
	}
	if err := s.draw(n); err != nil {
		return err
	}
	base := len(s.result.Rows) // index of the baseline's rows
	for _, on := range sizesKinds {
		k, before := on(s.runner), len(s.result.Rows)
		full, err := k.with(n, hortonSizesLoad, func(t subject[uint32, uint32]) error {
			s.structure, s.table = k.name, t
			return s.measure(ctx, n)
		})
		if err != nil {
			return err
		}
		if full {
			s.result.Rows = s.result.Rows[:before]
			s.result.Parameters["full_"+k.name] = n
			continue
		}
		if n <= tableKeys(countedTable) {
			if err := s.count(ctx, on, n, s.result.Rows[before:]); err != nil {
				return err
			}
		}
		rows := s.result.Rows
		for i := before; i < len(rows) && before > base && rows[base].Structure == cuckooEven; i++ {
			rows[i].Speedup = figure(rows[i].OpsPerS / rows[base+i-before].OpsPerS)
		}
	}
	return nil
}

// count sets the requests in rows to those that a simulated GPU counts.
func (s *probes) count(ctx context.Context, on func(*runner) kind[uint32, uint32], n int, rows []Row) error {
	s.begin("counting")
	hit, miss, err := countRequests(ctx, on, s.Seed, n, hortonSizesLoad)
	for i := range rows {
		rows[i].Requested = &hit
		if rows[i].Op == "get_miss" {
			rows[i].Requested = &miss
		}
	}
	return err
}

func (s *probes) fillWith(ctx context.Context, n int) error {
	s.begin("filling")
	vals := make([]uint32, len(s.piece))
	for lo := 0; lo < n; lo += len(s.piece) {
		size := min(len(s.piece), n-lo)
		workload.Unique(s.piece[:size], s.Seed, uint64(lo))
		workload.Values(vals[:size], s.piece[:size])
		if err := errors.Join(s.keys.CopyFrom(s.stream, s.piece[:size]), s.vals.CopyFrom(s.stream, vals[:size])); err != nil {
			return err
		}
		if err := s.table.put(s.stream, s.keys.Sub(0, size), s.vals.Sub(0, size)); err != nil {
			return err
		}
	}
	return s.table.Sync(ctx)
}

// measure fills a table, and measures lookups of present and of absent keys.
func (s *probes) measure(ctx context.Context, n int) error {
	if err := s.fillWith(ctx, n); err != nil {
		return err
	}
	var told Row
	if err := s.table.describe(ctx, &told); err != nil {
		return err
	}
	before := len(s.result.Rows)
	for _, op := range []string{"get_hit", "get_miss"} {
		if err := s.lookup(ctx, op); err != nil {
			return err
		}
	}
	for i, reads := range []float64{told.Measured.PerHit, told.Measured.PerMiss} {
		row := &s.result.Rows[before+i]
		row.Slots, row.Measured, row.Model = kindSlots, told.Measured, told.Model
		row.TableBytes = int(*told.BytesPerEntry*float64(n) + .5)
		row.BytesPerOp = figure(reads*bucketBytes + lookupBytes)
	}
	return nil
}

// plotHortonSizes plots figures 12 and 13: the rates of both lookups, their memory traffic, and the
// speedup over the baseline, by the size of the table.
func plotHortonSizes(res *Result) []Plot {
	var plots []Plot
	for _, c := range []struct {
		op, figure, what string
		gains            []Published
	}{
		{"get_hit", "12", "keys that are there", hortonHitGains},
		{"get_miss", "13", "keys that are not there", hortonMissGains},
	} {
		name := func(part string) string { return "horton-fig" + c.figure + part }
		rates := sizesPlot(name("a"), "Lookups of "+c.what, "lookups per second")
		moved := sizesPlot(name("b"), "Memory moved by lookups of "+c.what+", computed", "bytes per lookup")
		gains := sizesPlot(name("-speedup"), "Lookups of "+c.what+", over load balancing", "speedup")
		of := func(row Row) bool { return row.Op == c.op }
		for _, row := range res.Rows {
			if !of(row) {
				continue
			}
			x := float64(row.TableBytes)
			rates.point(row.Structure, x, row.OpsPerS)
			moved.point(row.Structure, x, *row.BytesPerOp)
			if row.Speedup != nil {
				gains.point(row.Structure, x, *row.Speedup)
			}
		}
		if len(rates.Series) > 0 {
			plots = append(plots, rates, moved)
		}
		if len(gains.Series) > 0 {
			for _, f := range c.gains {
				gains.level(f)
			}
			plots = append(plots, gains)
		}
	}
	return plots
}

func sizesPlot(name, title, what string) Plot {
	return Plot{Name: name, Title: title, XLabel: "bytes of the table", YLabel: what, LogX: true}
}
