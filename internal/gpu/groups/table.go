package groups

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"unsafe"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu"
)

const (
	// minSlots is the default number of slots of a table: 2 MiB if a record is one sector.
	minSlots = 1 << 16
	// maxSlots is the maximum number of records. Indices have 32 bits, and one value means none.
	maxSlots = math.MaxUint32 - 1
	// roundRows is the number of rows that a block adds between two checks of the capacity.
	roundRows = 4096
	// smallSlots is the number of slots below which a table grows by a factor of four.
	smallSlots = 1 << 22
	// minProbes and maxProbes limit the probes for a key while the table may overflow. In a table
	// of 10^7 keys at a load of 5/8, one search in 10^10 exceeds maxProbes. Tables of a size that
	// was not requested use minProbes, so that they grow early.
	minProbes, maxProbes = 64, 256
	// launchRows is the maximum number of rows per launch. carryRows is the maximum number of rows
	// that are added before sums are carried over.
	launchRows = 1 << 30
	carryRows  = 1 << 31
)

// Options control the size of a table. A zero field selects the default.
type Options struct {
	Capacity int // expected number of keys
	MinSlots int // minimum number of slots, even if Capacity needs fewer
	Round    int // rows per round of a block, a multiple of 1024; for Numbers, rows per launch
	Cells    int // maximum cells of a local table, an odd number
	Blocks   int // maximum blocks per launch
}

// Table groups rows on a GPU. Only one goroutine at a time may use it.
type Table struct {
	kernels
	keyed  keyKernels
	dev    device.Device
	layout Layout
	round  int
	cells  int
	blocks int

	stream *device.Stream // the table's own stream
	streamOrder

	records device.Slice[uint64]
	desc    table
	fields  device.Slice[uint8]
	keys    device.Slice[uint8]
	head    device.Slice[uint32]
	// number of rounds that each block has done, then number of rows that each has listed
	rounds device.Slice[uint32]
	lists  device.Slice[uint32]

	requested int // slots for the requested capacity
	bound     int // upper bound of the records in use
	rows      int // rows added since sums were carried over
}

// New returns a table for keys of one word. It returns device.ErrNoKernels if the device runs no
// kernels, and device.ErrUnsupported if a record is too long for a local table.
func New(dev device.Device, l Layout, o Options) (*Table, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	t := &Table{dev: dev, layout: l, round: roundRows, cells: l.cells(), blocks: blocksOfUnit * dev.Properties().Units}
	if o.Round > 0 {
		t.round = o.Round
	}
	if o.Cells > 0 {
		t.cells = min(t.cells, o.Cells)
	}
	if o.Blocks > 0 {
		t.blocks = min(t.blocks, o.Blocks)
	}
	slots := minSlots
	if o.MinSlots > 0 {
		slots = o.MinSlots
	}
	t.requested = slotsOf(o.Capacity)
	if err := t.open(max(slots, t.requested)); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (l *Layout) check() error {
	if l.cells() < 1 {
		return fmt.Errorf("%w: %d words for each group; blocks of threads have room for %d", device.ErrUnsupported, l.words(), localBytes/16)
	}
	return nil
}

// slotsOf returns the number of slots that hold the given number of keys at a load of 5/8. The
// function limit is its inverse.
func slotsOf(keys int) int { return min(keys/5*8+8, maxSlots) }

func limit(slots uint32) int { return int(slots) / 8 * 5 }

func (t *Table) open(slots int) (err error) {
	if t.kernels, err = load(t.dev); err != nil {
		return err
	}
	if t.stream, err = t.dev.NewStream(); err != nil {
		return err
	}
	if err := t.streamOrder.open(t.dev); err != nil {
		return err
	}
	if t.head, err = device.Make[uint32](t.dev, int(unsafe.Sizeof(head{}))/4); err != nil {
		return err
	}
	if t.rounds, err = device.Make[uint32](t.dev, 2*t.blocks); err != nil {
		return err
	}
	if t.lists, err = device.Make[uint32](t.dev, t.blocks*t.round); err != nil {
		return err
	}
	if t.fields, err = device.Make[uint8](t.dev, len(t.layout.Fields)*int(unsafe.Sizeof(field{}))); err != nil {
		return err
	}
	if t.keys, err = device.Make[uint8](t.dev, len(t.layout.Keys.fields)*int(unsafe.Sizeof(key{}))); err != nil {
		return err
	}
	if t.records, t.desc, err = t.make(slots); err != nil {
		return err
	}
	if err := t.clear(t.stream, t.records); err != nil {
		return err
	}
	return t.stream.Sync(context.Background()) // before other streams use it
}

// make allocates records. It adds a record for the one key that looks like an empty record when it
// is stored.
func (t *Table) make(slots int) (device.Slice[uint64], table, error) {
	stride := t.layout.stride()
	records, err := device.Make[uint64](t.dev, (slots+1)*stride)
	return records, table{records: records.Ptr(), seed: rand.Uint64(), slots: uint32(slots), words: uint32(stride)}, err
}

func (t *Table) clear(s *device.Stream, records device.Slice[uint64]) error {
	return errors.Join(s.Fill(records.Ptr(), 0, 2*records.Len()), s.Fill(t.head.Ptr(), 0, t.head.Len()))
}

// Stream returns the table's own stream. Callers may copy results on it.
func (t *Table) Stream() *device.Stream { return t.stream }

// Slots returns the number of records that the table has memory for.
func (t *Table) Slots() int { return int(t.desc.slots) }

// Used returns an upper bound of the number of keys. It adds the number of rows added since the
// last read, and does not wait.
func (t *Table) Used() int { return t.bound }

// GroupBytes returns the memory per key in a table that is about to grow.
func (l *Layout) GroupBytes() int { return 8 * l.stride() * 8 / 5 }

// Close waits for all batches and frees the memory. Further calls do nothing.
func (t *Table) Close() (err error) {
	err = t.streamOrder.close()
	if t.stream != nil {
		err = errors.Join(err, t.stream.Close())
	}
	t.stream = nil
	return errors.Join(err, t.records.Free(), t.fields.Free(), t.keys.Free(), t.head.Free(), t.rounds.Free(), t.lists.Free())
}

// Add submits adding rows, after the previous batch. It waits for the stream if the table may
// overflow, once per 2^31 rows, and when a column has nulls for the first time. After an error the
// table may include any part of the rows.
func (t *Table) Add(s *device.Stream, r Rows) error {
	return t.submit(s, func() error {
		if err := t.countNulls(s, r.Values); err != nil {
			return err
		}
		for lo := 0; lo < r.N; lo += launchRows {
			part := r.Slice(lo, min(r.N-lo, launchRows))
			if err := t.carrySums(s, part.N); err != nil {
				return err
			}
			if err := t.add(s, part); err != nil {
				return err
			}
		}
		return nil
	})
}

// add adds the rows of one launch. If the table overflows, it grows the table and launches the
// kernel again.
func (t *Table) add(s *device.Stream, r Rows) error {
	grid := device.Dim{X: min((r.N+t.round-1)/t.round, t.blocks)}
	err := errors.Join(s.Fill(t.rounds.Ptr(), 0, t.rounds.Len()), t.writeFields(s, r.Values), t.writeKeys(s, r))
	if err != nil {
		return err
	}
	kernel, p, err := t.launchParams(r)
	if err != nil {
		return err
	}
	for {
		maxKeys := limit(t.desc.slots)
		fits := t.bound+r.N <= maxKeys
		p.table, p.limit, p.probes = t.desc, uint32(maxKeys), min(t.probes(), t.desc.slots)
		if fits {
			p.probes = t.desc.slots
		}
		if err := device.Launch(s, kernel, grid, gpu.Block, &p); err != nil {
			return err
		}
		if fits {
			t.bound += r.N
			return t.pickRows(s, r)
		}
		h, err := t.read(context.Background(), s)
		if err != nil {
			return err
		}
		if t.bound = int(h.used); h.full == 0 {
			return t.pickRows(s, r)
		}
		if err := t.grow(s); err != nil {
			return err
		}
	}
}

// launchParams returns the kernel that adds rows, and its parameters except the table.
func (t *Table) launchParams(r Rows) (kernel device.Kernel, p addParams, err error) {
	p = addParams{
		head: t.head.Ptr(), columns: t.keys.Ptr(), fields: t.fields.Ptr(), base: uint64(r.Before), rounds: t.rounds.Ptr(),
		listed: t.rounds.Ptr() + device.Ptr(4*t.blocks), lists: t.lists.Ptr(), n: uint32(r.N), round: uint32(t.round),
		cells: uint32(t.cells), nfields: uint32(len(t.layout.Fields)), ncolumns: uint32(len(r.Keys)), filter: uint32(r.Filter),
	}
	if p.keys = r.Numbers; p.keys != 0 {
		p.numbered = 1
	}
	if t.plain(r) {
		if p.keys, p.key = r.Keys[0].Values, uint32(r.Keys[0].Type); t.layout.simple() {
			return t.sum, p, nil
		}
		return t.kernels.add, p, nil
	}
	if err := t.keyed.load(t.dev); err != nil {
		return nil, p, err
	}
	if t.layout.simple() {
		return t.keyed.sum, p, nil
	}
	return t.keyed.add, p, nil
}

// plain reports whether the fastest kernels support the rows. They need a single key of 32 or 64
// bits, values of 32 or 64 bits, no nulls, and no first or last rows.
func (t *Table) plain(r Rows) bool {
	return r.Numbers == 0 && len(r.Keys) == 1 && !r.nulls() && r.Keys[0].Type.Size() >= 4 &&
		!slices.ContainsFunc(t.layout.Fields, func(f Field) bool { return f.Op >= Nulls || f.Type.Size() < 4 })
}

func (t *Table) writeKeys(s *device.Stream, r Rows) error {
	if len(r.Keys) == 0 {
		return nil
	}
	return t.keys.CopyFrom(s, bytesOf(t.layout.Keys.descriptors(r.Keys)))
}

// pickRows submits storing the values of first and last rows, as far as these rows are in r.
func (t *Table) pickRows(s *device.Stream, r Rows) error {
	if !slices.ContainsFunc(t.layout.Fields, func(f Field) bool { return f.Op == FirstRow || f.Op == LastRow }) {
		return nil
	}
	if err := t.keyed.load(t.dev); err != nil {
		return err
	}
	p := pickParams{table: t.desc, fields: t.fields.Ptr(), base: uint64(r.Before), n: uint32(r.N), nfields: uint32(len(t.layout.Fields))}
	return device.Launch(s, t.keyed.pick, gpu.Wave(t.dev, t.Slots()+1), gpu.Block, &p)
}

// countNulls adds a field that counts nulls for each column that has nulls for the first time.
func (t *Table) countNulls(s *device.Stream, values []Column) error {
	l := Layout{Keys: t.layout.Keys, Fields: slices.Clone(t.layout.Fields)}
	for i, c := range values {
		if c.Valid != 0 && l.nullsOf(i) < 0 {
			l.Fields = append(l.Fields, Field{Op: Nulls, Type: c.Type, Column: i})
		}
	}
	if len(l.Fields) == len(t.layout.Fields) {
		return nil
	}
	if err := l.check(); err != nil {
		return err
	}
	fields, err := device.Make[uint8](t.dev, len(l.Fields)*int(unsafe.Sizeof(field{})))
	if err != nil {
		return err
	}
	before := t.layout
	t.layout = l
	if l.stride() > before.stride() { // Otherwise the record has unused words, which are 0.
		err = t.moveTo(s, t.Slots())
	} else {
		err = s.Sync(context.Background()) // kernels may still read the fields
	}
	if err != nil {
		t.layout = before
		return errors.Join(err, fields.Free())
	}
	old := t.fields
	t.fields, t.cells = fields, min(t.cells, l.cells())
	return old.Free()
}

func (t *Table) probes() uint32 {
	if t.Slots() <= t.requested || t.Slots() >= smallSlots {
		return maxProbes
	}
	return minProbes
}

func (t *Table) writeFields(s *device.Stream, values []Column) error {
	if len(t.layout.Fields) == 0 {
		return nil
	}
	fields := make([]field, len(t.layout.Fields))
	for i, f := range t.layout.Fields {
		at := t.layout.word(i)
		fields[i] = field{op: uint32(f.Op), type_: uint32(f.Type), at: uint32(at), local: uint32(8 * at * (t.cells + 1))}
		if values != nil {
			fields[i].column = values[f.Column].descriptor()
		}
	}
	return t.fields.CopyFrom(s, bytesOf(fields))
}

// read waits for the stream and returns the head of the table, which counts the records in use.
func (t *Table) read(ctx context.Context, s *device.Stream) (h head, err error) {
	err = s.CopyOut(ctx, unsafe.Slice((*byte)(unsafe.Pointer(&h)), unsafe.Sizeof(h)), t.head.Ptr())
	return h, err
}

// grow moves the records to a table that has twice as many slots, or four times as many while the
// table is small.
func (t *Table) grow(s *device.Stream) error {
	slots := 2 * t.Slots()
	if t.Slots() < smallSlots {
		slots *= 2
	}
	if slots > maxSlots {
		if slots = maxSlots; t.Slots() == slots {
			return fmt.Errorf("%w: %d groups", device.ErrMemory, t.bound)
		}
	}
	return t.moveTo(s, slots)
}

// moveTo moves the records to a new table that has the given number of slots and the current
// layout.
func (t *Table) moveTo(s *device.Stream, slots int) error {
	records, to, err := t.make(slots)
	if err != nil {
		return fmt.Errorf("table of %d groups, which moves to one of %d: %w", t.bound, limit(to.slots), err)
	}
	err = t.clear(s, records)
	if err == nil {
		p := moveParams{from: t.desc, to: to, head: t.head.Ptr()}
		err = device.Launch(s, t.move, gpu.Wave(t.dev, t.Slots()+1), gpu.Block, &p)
	}
	if end := s.Sync(context.Background()); err == nil {
		err = end
	}
	if err != nil {
		return errors.Join(err, records.Free())
	}
	old := t.records
	t.records, t.desc = records, to
	return old.Free()
}

// carrySums carries the lower words of sums over into the upper words if n more rows might overflow
// them.
func (t *Table) carrySums(s *device.Stream, n int) error {
	if t.rows += n; t.rows <= carryRows {
		return nil
	}
	t.rows = n
	if err := t.launchCarry(s); err != nil {
		return err
	}
	h, err := t.read(context.Background(), s)
	if err == nil && h.over != 0 {
		err = ErrRange
	}
	return err
}

// ErrRange means that a sum of integers has exceeded 2^94.
var ErrRange = errors.New("a sum has gone over 2^94")

func (t *Table) launchCarry(s *device.Stream) error {
	if err := t.writeFields(s, nil); err != nil {
		return err
	}
	p := carryParams{table: t.desc, head: t.head.Ptr(), fields: t.fields.Ptr(), nfields: uint32(len(t.layout.Fields))}
	return device.Launch(s, t.carry, gpu.Wave(t.dev, t.Slots()+1), gpu.Block, &p)
}
