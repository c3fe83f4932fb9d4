package gphash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	hostcpu "github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/cpu"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/pm"
	"github.com/weftgo/weft/internal/pool"
)

// Index is a persistent hash index. It maps byte strings of one length to byte strings of another.
// Methods take the keys of a batch concatenated in one slice, and the values in another one.
type Index struct {
	core   *core.Table
	engine *engine
}

// Map is a persistent map of integers. It embeds a [weft.Map], which provides the operations on
// pairs. The other methods concern the pool.
type Map[K weft.Key, V weft.Value] struct {
	*weft.Map[K, V]
	core   *core.Table
	engine *engine
}

// Create creates a pool in a new file and opens an empty index in the pool. It returns
// [weft.ErrOptions] if the options are invalid. If the file exists, Create returns an error and
// leaves the file unchanged.
func Create(path string, dev device.Device, o Options) (*Index, error) {
	t, e, err := create(path, dev, &o, byteStrings, false)
	if err != nil {
		return nil, err
	}
	return &Index{t, e}, nil
}

// CreateMap creates a pool in a new file and opens an empty map in the pool. It sets o.KeySize and
// o.ValueSize to the sizes of K and V. See [Create] for the errors.
func CreateMap[K weft.Key, V weft.Value](path string, dev device.Device, o Options) (*Map[K, V], error) {
	w := batch.MapWidths[K, V]()
	o.KeySize, o.ValueSize = w.Key, w.Val
	t, e, err := create(path, dev, &o, core.MapTypes[K, V](), false)
	if err != nil {
		return nil, err
	}
	return &Map[K, V]{weft.NewMap[K, V](t), t, e}, nil
}

func create(path string, dev device.Device, o *Options, types core.Types, records bool) (*core.Table, *engine, error) {
	p, err := createPool(path, dev, o, records)
	if err != nil {
		return nil, nil, fmt.Errorf("gphash: create: %w", err)
	}
	t, e, _, err := openTable(context.Background(), p, dev, OpenOptions{Durability: o.Durability, Resize: o.Resize, AtomicTail: o.AtomicTail, Mirror: o.Mirror, Cache: o.Cache, CachePolicy: o.CachePolicy, Logger: o.Logger}, types)
	if err != nil {
		err = errors.Join(err, pool.Remove(path))
	}
	return t, e, err
}

// createPool checks the options and creates the pool's file. A zero seed becomes a random one.
func createPool(path string, dev device.Device, o *Options, records bool) (*pool.Pool, error) {
	if dev == nil {
		return nil, errNoDevice
	}
	first, err := o.check(records)
	if err != nil {
		return nil, err
	}
	if first.Geometry.Seed == [2]uint64{} {
		first.Geometry.Seed = [2]uint64{rand.Uint64(), rand.Uint64()}
	}
	return pool.CreateWith(path, first, o.Size, poolOptions(dev, &OpenOptions{Durability: o.Durability, AssertPMem: o.AssertPMem}))
}

// poolOptions returns the requirements that the pool package checks when it opens a pool. With
// Repair, a pool that was open at a power loss may be opened, since Repair verifies all values.
func poolOptions(dev device.Device, o *OpenOptions) pool.Requirements {
	_, host := dev.(device.Host)
	return pool.Requirements{PMem: o.Durability == PMem, GPU: !host, Asserted: pool.Assertions(o.AssertPMem), Salvage: o.Repair}
}

// Open opens the index in a pool. It undoes operations that a crash left half done, and continues
// an interrupted resize. Open returns [ErrLocked] if the pool is already open, and
// [weft.ErrCorrupt] if it is damaged. It returns [ErrPowerLost] if the pool was open when the
// machine stopped.
func Open(ctx context.Context, path string, dev device.Device, o OpenOptions) (*Index, *Report, error) {
	t, e, report, err := open(ctx, path, dev, o, byteStrings, false, batch.Widths{})
	if err != nil {
		return nil, report, err
	}
	return &Index{t, e}, report, nil
}

// OpenMap opens the map of integers in a pool. It returns [weft.ErrFormat] if the pool's keys or
// values do not have the sizes of K and V. See [Open] for recovery and the other errors.
func OpenMap[K weft.Key, V weft.Value](ctx context.Context, path string, dev device.Device, o OpenOptions) (*Map[K, V], *Report, error) {
	t, e, report, err := open(ctx, path, dev, o, core.MapTypes[K, V](), false, batch.MapWidths[K, V]())
	if err != nil {
		return nil, report, err
	}
	return &Map[K, V]{weft.NewMap[K, V](t), t, e}, report, nil
}

func open(ctx context.Context, path string, dev device.Device, o OpenOptions, types core.Types, records bool, widths batch.Widths) (*core.Table, *engine, *Report, error) {
	var err error
	switch _, host := dev.(device.Host); {
	case dev == nil:
		err = errNoDevice
	case o.ReadOnly && o.Repair:
		err = core.Invalid("Repair and ReadOnly exclude each other")
	case o.ReadOnly && !host:
		err = fmt.Errorf("%w: %s maps only pools that it may write; open it on the CPU", device.ErrUnsupported, dev.Properties().Name)
	}
	var p *pool.Pool
	start := time.Now()
	if err == nil {
		p, err = pool.OpenWith(path, o.ReadOnly, poolOptions(dev, &o))
	}
	if err != nil {
		return nil, nil, nil, fmt.Errorf("gphash: open: %w", err)
	}
	file := time.Since(start)
	g := p.Superblock().Geometry
	if l := newLayout(uint64(g.KeySize), uint64(g.ValueSize), 1); l.records() != records {
		err := fmt.Errorf("gphash: open: %w: %s has keys of %v and values of %v bytes, which %s opens", op.ErrFormat, path, l.keyLength(), l.valueLength(),
			map[bool]string{false: "Open", true: "OpenStrings"}[l.records()])
		return nil, nil, nil, errors.Join(err, closeAsFound(p))
	}
	if widths.Key != 0 && (widths.Key != int(g.KeySize) || widths.Val != int(g.ValueSize)) {
		err := fmt.Errorf("gphash: open: %w: %s has keys of %d and values of %d bytes, not %d and %d", op.ErrFormat, path, g.KeySize, g.ValueSize, widths.Key, widths.Val)
		return nil, nil, nil, errors.Join(err, closeAsFound(p))
	}
	t, e, report, err := openTable(ctx, p, dev, o, types)
	if report != nil {
		report.Times.File = file
	}
	return t, e, report, err
}

// closeAsFound closes a pool without changing its clean mark. A pool that was not closed cleanly
// still requires recovery at the next opening.
func closeAsFound(p *pool.Pool) error {
	if p.WasClean() {
		return p.Close()
	}
	return p.Abandon()
}

// openTable recovers the index in a pool and makes a table of it. If it fails, it closes the pool.
func openTable(ctx context.Context, p *pool.Pool, dev device.Device, o OpenOptions, types core.Types) (*core.Table, *engine, *Report, error) {
	if Durability(p.Durability()) < o.Durability {
		err := fmt.Errorf("gphash: %w: asked for %v, the file system grants %v", ErrNotDurable, o.Durability, p.Durability())
		return nil, nil, nil, errors.Join(err, closeAsFound(p))
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	e, run, report, err := startEngine(ctx, p, dev, o)
	if err == nil {
		if err = p.ClearPowerLost(); err != nil {
			err = errors.Join(err, run.Close())
		}
	}
	if err != nil {
		return nil, nil, report, errors.Join(fmt.Errorf("gphash: open: %w", err), p.Abandon())
	}
	c := core.Config{
		Name: "gphash", Kind: core.Map, Device: dev, Types: types, Logger: o.Logger,
		Widths: e.widths(), Policy: &policy{e, run, o.Resize}, Engine: run, Leases: e.Leases, Strings: e.records(), ValidateLengths: e.validatePair,
	}
	c.NewLike = func(dev device.Device) (*core.Table, error) { return createUnnamed(dev, p.Superblock(), o, types) }
	t, err := core.Open(ctx, c)
	if err != nil {
		return nil, nil, report, errors.Join(err, run.Close(), p.Abandon())
	}
	if g, ok := run.(*gpuEngine); ok {
		g.table = t
	}
	return t, e, report, nil
}

// startEngine recovers a pool. The engine e decides when the index grows, and run executes
// operations. On a CPU both are the same engine.
func startEngine(ctx context.Context, p *pool.Pool, dev device.Device, o OpenOptions) (e *engine, run core.Engine, report *Report, err error) {
	switch {
	case !(o.Cache >= 0 && o.Cache <= 1) || o.CachePolicy > Random: // also refuses NaN
		return nil, nil, nil, core.Invalid("Cache %v is not in [0, 1], or CachePolicy %d is unknown", o.Cache, o.CachePolicy)
	case o.Resize > Stop:
		return nil, nil, nil, core.Invalid("unknown Resize %d", o.Resize)
	}
	if host, ok := dev.(device.Host); ok {
		e, report, err = recoverPool(ctx, p, host, o)
		return e, e, report, err
	}
	if p.Superblock().Features.Incompat&pool.AtomicBatches != 0 {
		o.Mirror = true
	}
	if p.Superblock().Features.Incompat&pool.Records != 0 && o.Mirror && o.Cache > 0 {
		return nil, nil, nil, core.Invalid("Cache %v: with a mirror the cache holds values, which is not supported for byte strings of variable length", o.Cache)
	}
	if o.AtomicTail < 0 || o.AtomicTail > maxTail {
		return nil, nil, nil, core.Invalid("AtomicTail %d is not between 0 and %d", o.AtomicTail, maxTail)
	}
	host, err := hostcpu.Open(nil)
	if err != nil {
		return nil, nil, nil, err
	}
	if e, err = newEngine(p, host); err != nil {
		return nil, nil, nil, errors.Join(err, host.Close())
	}
	g, report, err := newGPUEngine(ctx, dev, e, o)
	return e, g, report, err
}

// widths returns the bytes per key, value and slot. In a pool with records all three are 1.
func (e *engine) widths() batch.Widths {
	if e.records() {
		return batch.Widths{Key: 1, Val: 1, Slot: 1} // columns are counted in bytes
	}
	slot := int(e.bucketWords*pm.Word)/int(e.slots) + int(e.table.valueSize)
	return batch.Widths{Key: int(e.table.keySize), Val: int(e.table.valueSize), Slot: slot}
}

const memoryFolder = "/dev/shm"

// createUnnamed creates an empty index with the geometry of template. Its file is removed at once,
// so the pool disappears when it is closed.
func createUnnamed(dev device.Device, template pool.Superblock, o OpenOptions, types core.Types) (*core.Table, error) {
	parent := "" // default directory for temporary files
	if _, host := dev.(device.Host); !host {
		parent = memoryFolder // GPUs cannot map files on a disk
	}
	dir, err := os.MkdirTemp(parent, "weft")
	if err != nil {
		return nil, fmt.Errorf("gphash: %w", err)
	}
	defer os.RemoveAll(dir)
	g, atomic, tail := template.Geometry, 0, 0
	// The new log has the same capacity. How it is divided between batch and tail may differ.
	if l, err := redoOf(&template, nil); err == nil && l != nil {
		tail = min(o.AtomicTail, l.capacity()-1)
		atomic = min(l.capacity()-tail, maxAtomic)
	}
	t, _, err := create(filepath.Join(dir, "pool"), dev, &Options{
		KeySize: int(g.KeySize), ValueSize: int(g.ValueSize), Slots: int(g.Slots), Hashes: int(g.Hashes), Levels: int(g.Levels),
		Hash: HashID(g.HashID), Size: int64(template.Size), AtomicBatch: atomic, AtomicTail: tail, Resize: o.Resize, Logger: o.Logger,
		Mirror: o.Mirror, Cache: o.Cache, CachePolicy: o.CachePolicy,
		Capacity: int(capacityOf(newLayout(uint64(g.KeySize), uint64(g.ValueSize), uint64(g.Slots)), int(g.Hashes), int(g.Levels), int(template.Top))),
	}, types, false)
	return t, err
}

func recoverPool(ctx context.Context, p *pool.Pool, dev device.Host, o OpenOptions) (*engine, *Report, error) {
	e, err := newEngine(p, dev)
	if err != nil {
		return nil, nil, err
	}
	report, err := e.inspect(ctx, o)
	if err == nil {
		err = timed(&report.Times.Resize, func() error { return e.resume(ctx, o) })
	}
	return e, report, err
}

func newEngine(p *pool.Pool, dev device.Host) (*engine, error) {
	t, err := tableOf(p)
	if err != nil {
		return nil, err
	}
	e := &engine{Engine: cpu.Engine{Device: dev}, table: t, pool: p}
	e.Leases = core.NewLeases(&parts{close: p.Close})
	return e, nil
}

// inspect applies the redo log of a newly opened pool and then inspects the pool's slots.
func (e *engine) inspect(ctx context.Context, o OpenOptions) (*Report, error) {
	in := inspection{table: e.table, cleanUp: !e.pool.ReadOnly(), repair: o.Repair, verify: o.Verify || o.Repair}
	in.Resumed = e.closed > 0
	in.PowerLost = e.pool.PowerLost()
	err := timed(&in.Times.Replay, func() error { return e.replay(&in.Report, o.Repair) })
	if err == nil {
		err = timed(&in.Times.Inspect, func() error { return in.run(ctx, e.Device.Parallel) })
	}
	if saved, ok := e.savedContents(); ok && err == nil {
		in.compare(saved)
	}
	if err == nil {
		err = in.err()
	}
	if err != nil {
		return &in.Report, err
	}
	if in.Damaged > 0 {
		e.changed.Store(true)
	}
	start := time.Now()
	e.values.distributeUnits(e.bits())
	in.Times.Space = time.Since(start)
	e.Parts().(*parts).counters = core.Tally{Live: in.Keys, Used: in.Keys}
	return &in.Report, nil
}

// resume finishes an interrupted resize in mode Stop by moving all remaining keys. In mode Beside
// it does nothing, since later batches move the keys.
func (e *engine) resume(ctx context.Context, o OpenOptions) error {
	if o.Resize != Stop || e.pool.ReadOnly() {
		return nil
	}
	_, err := e.drain(ctx, math.MaxUint64)
	return err
}

// checkGeometry returns an error if the numbers in a pool's geometry do not fit together. Package
// pool only checks that each number is within its bounds.
func checkGeometry(g *pool.Geometry) error {
	l := newLayout(uint64(g.KeySize), uint64(g.ValueSize), uint64(g.Slots))
	switch u := newUnitLayout(uint64(g.Unit), l.fixedValueSize()); {
	case g.Hashes > maxHashes || g.Slots*g.Hashes*g.Levels > 32:
		return fmt.Errorf("%w: %d slots, %d hashes, %d levels", op.ErrCorrupt, g.Slots, g.Hashes, g.Levels)
	case g.Unit%(pool.Page/pm.Word) != 0 || u.perUnit == 0:
		return fmt.Errorf("%w: units of %d words for values of %d bytes", op.ErrCorrupt, g.Unit, g.ValueSize)
	}
	return nil
}

// tableOf returns the table that a superblock describes. No value is marked as in use yet.
func tableOf(p *pool.Pool) (*table, error) {
	s, mem := p.Superblock(), p.Memory()
	g := s.Geometry
	if err := checkGeometry(&g); err != nil {
		return nil, err
	}
	redo, err := redoOf(&s, mem)
	if err != nil {
		return nil, err
	}
	t := &table{
		layout: newLayout(uint64(g.KeySize), uint64(g.ValueSize), uint64(g.Slots)),
		hasher: hasher{HashID(g.HashID), g.Seed},
		mem:    mem, hashes: int(g.Hashes),
		redo: redo,
	}
	t.values = newValues(mem, pool.DataStart/pm.Word, uint64(g.Unit), t.fixedValueSize())
	if a := s.Areas[redoArea]; redo != nil {
		size := t.values.unit * pm.Word
		t.values.space.markLevel((a.Offset-pool.DataStart)/size, a.Length/size)
	}
	for i := int(s.Top); i >= int(s.Bottom); i-- {
		l := s.Levels[i]
		size, n := t.values.unit*pm.Word, t.unitsOf(level{bits: uint(i)})
		first := (l.Offset - pool.DataStart) / size
		if l.Length != n*size || l.Offset != pool.DataStart+first*size {
			return nil, fmt.Errorf("%w: level %d lies at %d and has %d bytes", op.ErrCorrupt, i, l.Offset, l.Length)
		}
		t.values.space.markLevel(first, n)
		t.live = append(t.live, level{l.Offset / pm.Word, uint(i)})
		if l.State == pool.Draining {
			t.closed++
		} else if t.closed > 0 {
			return nil, fmt.Errorf("%w: level %d is open below one that is not", op.ErrCorrupt, i)
		}
	}
	if n := len(t.openLevels()); n != int(g.Levels) {
		return nil, fmt.Errorf("%w: %d levels are open, not %d", op.ErrCorrupt, n, g.Levels)
	}
	return t, nil
}

// ---- operations -------------------------------------------------------------------

func (x *Index) batch(kind op.Kind, method string, keys []byte, columns batch.Columns) *batch.Batch {
	size := int(x.engine.keySize)
	if len(keys)%size != 0 {
		panic(fmt.Sprintf("gphash: %s: %d bytes of keys are not a multiple of %d", method,
			len(keys), size))
	}
	columns[batch.Keys] = batch.Input(keys).WithWidth(size)
	for _, r := range []batch.Role{batch.Vals, batch.Out} {
		if c := &columns[r]; c.Given() {
			if len(c.Host)%int(x.engine.valueSize) != 0 {
				panic(fmt.Sprintf("gphash: %s: %d bytes of values are not a multiple of %d", method,
					len(c.Host), x.engine.valueSize))
			}
			*c = c.WithWidth(int(x.engine.valueSize))
		}
	}
	return &batch.Batch{N: len(keys) / size, Kind: kind, Columns: columns}
}

// Put inserts pairs or replaces the values of existing keys, and returns the number of new keys. If
// a key occurs in several pairs, the last pair wins. When Put returns, the pairs have the
// durability that [Index.Durability] reports.
func (x *Index) Put(ctx context.Context, keys, values []byte) (inserted int, err error) {
	return x.core.Change(ctx, "Put", x.batch(op.Put, "Put", keys, batch.Columns{batch.Vals: batch.Input(values)}))
}

// PutNew inserts the pairs with absent keys and returns their number. If a key occurs in several
// pairs, the first pair is inserted. ok, if not nil, reports which pairs were inserted.
func (x *Index) PutNew(ctx context.Context, keys, values []byte, ok []bool) (inserted int, err error) {
	return x.core.Change(ctx, "PutNew", x.batch(op.PutNew, "PutNew", keys, batch.Columns{
		batch.Vals: batch.Input(values), batch.OK: batch.Optional(ok),
	}))
}

// Update replaces the values of existing keys and returns the number of pairs with an existing key.
// Absent keys stay absent. If a key occurs in several pairs, the last pair wins. found, if not nil,
// reports which keys exist. No other change runs between the search and the replacement.
func (x *Index) Update(ctx context.Context, keys, values []byte, found []bool) (updated int, err error) {
	return x.core.Replace(ctx, "Update", x.batch(op.Put, "Update", keys, batch.Columns{
		batch.Vals: batch.Input(values), batch.OK: batch.Optional(found),
	}))
}

// Get looks up keys and returns the number of keys found. It sets the value of an absent key to
// zero. found, if not nil, reports which keys exist.
func (x *Index) Get(ctx context.Context, keys, values []byte, found []bool) (hits int, err error) {
	return x.core.Get(ctx, "Get", nil, x.batch(op.Get, "Get", keys, batch.Columns{
		batch.Vals: batch.Output(values), batch.OK: batch.Optional(found),
	}))
}

// Contains returns the number of keys that exist. found, if not nil, reports which keys exist.
func (x *Index) Contains(ctx context.Context, keys []byte, found []bool) (hits int, err error) {
	return x.core.Get(ctx, "Contains", nil, x.batch(op.Get, "Contains", keys, batch.Columns{batch.OK: batch.Optional(found)}))
}

// Delete removes keys and returns the number of keys that existed. deleted, if not nil, reports
// which keys existed.
func (x *Index) Delete(ctx context.Context, keys []byte, deleted []bool) (n int, err error) {
	delta, err := x.core.Change(ctx, "Delete", x.batch(op.Delete, "Delete", keys, batch.Columns{batch.OK: batch.Optional(deleted)}))
	return -delta, err
}

// Apply runs a mixed batch of OpGet, OpPut, OpPutNew, OpUpdate and OpDelete in the order of its
// rows. values holds the values for OpPut, OpPutNew and OpUpdate. Apply stores in values the
// results of OpGet, and the existing value if OpPutNew finds its key. All other rows of values
// become zero, except rows of operations that failed for lack of capacity. ok, if not nil, reports
// which keys were found, inserted, updated or deleted.
func (x *Index) Apply(ctx context.Context, kinds []weft.OpKind, keys, values []byte, ok []bool) error {
	if err := checkKinds(kinds); err != nil {
		return err
	}
	given := values
	if _, host := x.core.Device.(device.Host); !host {
		// a GPU needs separate columns for values and results
		given = bytes.Clone(values)
	}
	_, err := x.core.Change(ctx, "Apply", x.batch(op.Get, "Apply", keys, batch.Columns{
		batch.Kinds: batch.Input(kinds), batch.Vals: batch.Input(given), batch.Out: batch.Output(values), batch.OK: batch.Optional(ok),
	}))
	return err
}

func checkKinds(kinds []weft.OpKind) error {
	for i, k := range kinds {
		if k > weft.OpDelete && k != weft.OpUpdate {
			return fmt.Errorf("gphash: Apply: %w: an index does not support kind %d (%v), of operation %d", device.ErrInvalid, k, k, i)
		}
	}
	return nil
}

// KeySize returns the length of keys in bytes.
func (x *Index) KeySize() int { return int(x.engine.keySize) }

// ValueSize returns the length of values in bytes.
func (x *Index) ValueSize() int { return int(x.engine.valueSize) }

// Len returns the number of keys. It never waits for a running batch.
func (x *Index) Len() int { return x.core.Len() }

// All iterates over the pairs in no particular order. Both slices are valid for one iteration of
// the loop. A pair that does not change during the iteration is returned exactly once.
func (x *Index) All(ctx context.Context) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		for p := range x.Pages(ctx) {
			for i := range len(p.Keys) / int(x.engine.keySize) {
				if !yield(row(p.Keys, i, x.engine.keySize), row(p.Values, i, x.engine.valueSize)) {
					return
				}
			}
		}
	}
}

func row(data []byte, i int, size uint64) []byte { return data[uint64(i)*size : uint64(i+1)*size] }

// Page is a part of an index's pairs. Keys and values are each concatenated in one slice, and both
// slices are valid for one iteration of the loop.
type Page struct{ Keys, Values []byte }

// Pages iterates over the pairs in pages; see [Index.All] for the guarantees. If the iteration
// fails, the last page is empty and comes with the error.
func (x *Index) Pages(ctx context.Context) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		stopped := false
		err := x.core.Pages(ctx, "Pages", nil, func(p *core.Page) bool {
			stopped = !yield(Page{p.Keys.Host, p.Vals.Host}, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(Page{}, err)
		}
	}
}

// Clear removes all pairs. If the process crashes during Clear, pairs may remain, unless the pool
// has Options.AtomicBatch.
func (x *Index) Clear(ctx context.Context) error { return x.core.Clear(ctx) }

// Compact finishes a resize by moving all keys out of the lowest level.
func (x *Index) Compact(ctx context.Context) error { return x.core.Compact(ctx) }

// Check reads the whole index, including values and checksums. It returns the first damage that it
// finds as [weft.ErrCorrupt].
func (x *Index) Check(ctx context.Context) error { return x.core.Check(ctx) }

// Close closes the pool. A second Close does nothing. After Close, the other methods return
// [weft.ErrClosed].
func (x *Index) Close() error { return x.core.Close() }
