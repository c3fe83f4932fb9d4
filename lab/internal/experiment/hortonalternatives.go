package experiment

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/horton"
	"github.com/weftgo/weft/lab/internal/passes"
	"github.com/weftgo/weft/lab/internal/roofline"
)

var hortonAlternativesExperiment = Experiment{
	Name:  "horton-alternatives",
	Title: "Horton tables: what else could be done",
	GPU:   true,
	Doc: `What the paper of Horton tables leaves to choose from, measured. First ways to look up keys (section 5.2): in a table of 2^25 slots
for 32-bit keys and values, of buckets of eight slots, at loads of .7 and .9, 2^26 keys that are there and as many that
are not. horton is what the package does, and asks whether keys move; the others are kernels of the same reads without
that. at-once: a warp reads the secondary buckets of 32 keys, few as they are, behind their primary ones. buffered: it
gathers keys that go on in a buffer, as the paper does, and reads the secondary buckets of 32 at a time. two-launches:
one launch reads primary buckets and lists the keys that go on, the next reads secondary ones. speedup is the rate over
at-once. Then explicit tags (equation 8), counted in arrays of remap entries that are made of the same keys at loads of .9
and .95: entries of three bits with a tag of 4 bits beside each (nine fit the slot) or 8 (five), instead of 21 entries
that the tag numbers. For each, parameters tell the share of lookups of absent keys that go on in vain (false_reads), keys
that no entry is left for among all keys (no_entry), and the share of slots that are arrays (array_slots).`,
	run: runHortonAlternatives,
}

// memories wraps a device and records the address and size of each allocation.
type memories struct {
	device.Device
	mu     sync.Mutex
	blocks map[int][]device.Ptr // addresses of allocations, by size
}

// Alloc allocates memory and records its address.
func (m *memories) Alloc(size int) (device.Buffer, error) {
	b, err := m.Device.Alloc(size)
	if err == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.blocks[size] = append(m.blocks[size], b.Ptr)
	}
	return b, err
}

// NewStream returns a stream that belongs to m.
func (m *memories) NewStream() (*device.Stream, error) {
	s, err := m.Device.NewStream()
	if err != nil {
		return nil, err
	}
	return device.NewStream(m, s.Driver()), nil
}

func runHortonAlternatives(ctx context.Context, r *runner) error {
	slots, err := r.keys(1<<19, 1<<25, 2*slabPair+8+1)
	if err != nil {
		return err
	}
	slots = max(slots/(2*kindSlots*kindSlots), 1) * 2 * kindSlots * kindSlots // whole tables
	r.result.Parameters["slots"] = slots
	loads := []float64{.7, .9}
	if r.Scale == Quick {
		loads = loads[1:]
	}
	for _, load := range loads {
		if err := waysAt(ctx, r, slots, load); err != nil {
			return fmt.Errorf("load %g: %w", load, err)
		}
	}
	return explicitTags(ctx, r, slots)
}

// ways measures lookups in a table at a known device address.
type ways struct {
	*probes
	at *memories
	l  *passes.Lookups
}

// waysAt measures all ways to look up keys at one load.
func waysAt(ctx context.Context, r *runner, slots int, load float64) (err error) {
	n := int(load * float64(slots))
	w := ways{at: &memories{Device: r.Device, blocks: map[int][]device.Ptr{}}}
	on := *r
	on.Device = w.at
	if on.stream, err = w.at.NewStream(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, on.close(ctx)) }()
	if on.watch, err = roofline.NewStopwatch(on.stream); err != nil {
		return err
	}
	if w.probes, err = newProbes(&on); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.free()) }()
	if w.l, err = passes.New(w.at, w.cols.n); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, on.stream.Sync(context.Background()), w.l.Close()) }()
	w.load = load
	region := regionOf(slots * slabPair)
	w.read = roofline.In(roofline.Read64, region)
	if err := on.limitsIn(ctx, region, roofline.Read64); err != nil {
		return err
	}
	if err := w.draw(n); err != nil {
		return err
	}
	full, err := hortonKind[uint32, uint32](&on, "horton", horton.Lazy).with(n, load, func(t subject[uint32, uint32]) error {
		w.structure, w.table = "horton", t
		return w.measure(ctx, n)
	})
	if full {
		r.result.Parameters["full"] = load
	}
	return err
}

// measure fills the table, and measures the package's lookups and the alternatives.
func (w *ways) measure(ctx context.Context, n int) error {
	if err := w.fillWith(ctx, n); err != nil {
		return err
	}
	var row Row
	if err := w.table.describe(ctx, &row); err != nil {
		return err
	}
	blocks := w.at.blocks[int(*row.BytesPerEntry*float64(n)+.5)]
	if len(blocks) != 1 {
		return fmt.Errorf("%d blocks of memory are as large as the table: it may have taken another seed", len(blocks))
	}
	table := passes.TableOf(blocks[0], int(float64(n)/row.Load+.5), w.Seed+1)
	for _, op := range []string{"get_hit", "get_miss"} {
		before := len(w.result.Rows)
		w.structure = "horton"
		if err := w.lookup(ctx, op); err != nil {
			return err
		}
		for _, way := range passes.Ways {
			if err := w.look(ctx, op, way, table); err != nil {
				return fmt.Errorf("%v: %w", way, err)
			}
		}
		rows := w.result.Rows[before:]
		for i := range rows {
			rows[i].Slots, rows[i].Measured, rows[i].Model = kindSlots, row.Measured, row.Model
			rows[i].Speedup = figure(rows[i].OpsPerS / rows[1].OpsPerS)
		}
	}
	return nil
}

// look measures lookups by an alternative kernel and checks the results.
func (w *ways) look(ctx context.Context, op string, way passes.Way, table passes.Table) error {
	w.structure = way.String()
	w.begin(op)
	keys, hits := w.cols.hits, w.cols.n
	if op == "get_miss" {
		keys, hits = w.cols.miss, 0
	}
	var row Row
	t, err := w.time(ctx, nil, func() error { return w.l.Get(w.stream, way, table, keys, w.cols.out, w.cols.flags) }, &row)
	if err != nil {
		return err
	}
	if err := checkFlags(ctx, w.runner, w.cols.flags, way.String()+" "+op, hits); err != nil {
		return err
	}
	if hits > 0 {
		if err := checkValues(ctx, w.runner, keys, w.cols.out); err != nil {
			return err
		}
	}
	w.report(op, keys.Len(), t, w.read, row)
	return nil
}
