package intern

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/core"
	"github.com/weftgo/weft/internal/op"
)

// recorder is a journal that keeps effects in memory. It checks that each of them was reserved.
type recorder struct {
	table    *Table
	blocks   [][]byte
	reserved int
	waits    int
	faults   []string

	refuse, breaks, unsynced error // errors of Reserve, Append and Wait
	failed                   error
}

// record makes a recorder the journal of a table.
func record(t *Table) *recorder {
	r := &recorder{table: t}
	t.asLogged().SetJournal(r)
	return r
}

func (r *recorder) check(ok bool, format string, args ...any) {
	if !ok {
		r.faults = append(r.faults, fmt.Sprintf(format, args...))
	}
}

func (r *recorder) Reserve(n int) error {
	r.check(len(r.table.writerLock) == 1, "Reserve without the writer lock")
	r.reserved = n
	return errors.Join(r.failed, r.refuse)
}

func (r *recorder) Append(e *core.Effect) error {
	r.check(len(r.table.writerLock) == 1, "Append without the writer lock")
	good := e.Kind == core.AddItems && e.N == len(e.Keys) && e.Last
	r.check(good, "effect %d of %d bytes", e.Kind, e.N)
	r.reserved -= e.N
	r.check(r.reserved >= 0, "%d bytes more than were reserved", -r.reserved)
	if r.breaks == nil {
		r.blocks = append(r.blocks, slices.Clone(e.Keys))
	}
	return r.breaks
}

func (r *recorder) Position() uint64 { return uint64(len(r.blocks)) }

func (r *recorder) Fail(err error) error {
	r.failed = err
	return err
}

func (r *recorder) Readable() error { return r.failed }
func (r *recorder) Slow() bool      { return false }

func (r *recorder) Wait(_ context.Context, position uint64) error {
	r.waits++
	r.check(position == r.Position(), "a call waits for position %d of %d", position, r.Position())
	r.check(len(r.table.writerLock) == 0, "a call waits with the writer lock")
	free := r.table.mu.TryLock()
	if r.check(free, "a call waits with the lock"); free {
		r.table.mu.Unlock()
	}
	if r.failed != nil {
		return r.failed
	}
	return r.unsynced
}

func (r *recorder) Flush(context.Context) error { return r.failed }
func (r *recorder) Close() error                { return r.failed }

// replay replays the blocks from number from on, joined at random.
func (r *recorder) replay(rng *rand.Rand, from int, to core.Logged) error {
	for from < len(r.blocks) {
		n := 1 + rng.IntN(len(r.blocks)-from)
		if err := to.Replay(ctx, itemsEffect(r.blocks[from:from+n]...)); err != nil {
			return err
		}
		from += n
	}
	return nil
}

func itemsEffect(blocks ...[]byte) *core.Effect {
	all := slices.Concat(blocks...)
	return &core.Effect{Kind: core.AddItems, N: len(all), Keys: all}
}

// reopen makes a table from a checkpoint and the blocks from number from on.
func (r *recorder) reopen(t fataler, rng *rand.Rand, dev device.Device, checkpoint []byte, from, bits int) *Table {
	t.Helper()
	table, err := newTable(dev, &Options{OffHeap: rng.IntN(2) == 0}, weak(bits))
	if err != nil {
		t.Fatal(err)
	}
	l := table.asLogged()
	if len(checkpoint) > 0 {
		_, err = l.LoadCheckpoint(ctx, bytes.NewReader(checkpoint), 0, 0)
	}
	if err = errors.Join(err, r.replay(rng, from, l)); err != nil {
		t.Fatal(err)
	}
	return table
}

// The journal has all keys of rows of any types. A checkpoint may have keys of the blocks that are
// replayed after it.
func TestJournalOfAllShapes(t *testing.T) {
	dev := devicetest.Open(t)
	for name, shape := range shapes {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			bits := rapid.SampledFrom([]int{0, 2})
			table := (&recorder{}).reopen(t, rng, dev, nil, 0, bits.Draw(t, "bits"))
			m, journal := newModel(), record(table)
			var checkpoint bytes.Buffer
			from := 0
			for i := range 4 {
				table.chunk = rapid.SampledFrom([]int{1, 3, 10, chunkRows}).Draw(t, "chunk")
				n := rapid.IntRange(1, 300).Draw(t, "rows")
				domain := rapid.SampledFrom([]int{1, 5, 70, 1 << 16}).Draw(t, "domain")
				checkRows(t, table, m, shape(rng, n, domain))
				if i == 1 && rng.IntN(2) == 0 {
					from = rng.IntN(len(journal.blocks) + 1)
					if _, err := table.Save(ctx, &checkpoint); err != nil {
						t.Fatal(err)
					}
				}
			}
			again := journal.reopen(t, rng, dev, checkpoint.Bytes(), from, bits.Draw(t, "bits"))
			m.agreeRows(t, again)
			checkRows(t, again, m, shape(rng, 20, 100))
			if journal.waits != 4 || journal.faults != nil {
				t.Errorf("%d waits; %q", journal.waits, journal.faults)
			}
			if err := errors.Join(table.Close(), again.Close()); err != nil {
				t.Error(err)
			}
		}))
	}
}

// Byte strings in all forms, in blocks that end at their limits of keys and bytes.
func TestJournalOfStrings(t *testing.T) {
	dev, rng := devicetest.Open(t), rand.New(rand.NewPCG(1, 2))
	table, m := open(t, dev, 0, nil), newModel()
	journal := record(table)
	many := make([]string, frameKeys+5)
	for i := range many {
		many[i] = fmt.Sprintf("%09d", i)
	}
	x, y := strings.Repeat("x", frameBytes+5), strings.Repeat("y", frameBytes-1)
	large := []string{"a", x, "b", y, "cc"}
	for form, batch := range [][]string{many[:100], large, stringsOf(rng, 3000, 700), many} {
		ids := make([]uint32, len(batch))
		if _, err := addAs(table, form, batch, ids); err != nil {
			t.Fatal(err)
		}
		if want, _ := m.add(batch); !slices.Equal(ids, want) {
			t.Fatalf("form %d: other ids", form)
		}
	}
	other := open(t, dev, 0, nil)
	if _, err := other.Strings(ctx, []string{"new", "a", "newer"}, make([]uint32, 3)); err != nil {
		t.Fatal(err)
	}
	m.add([]string{"new", "a", "newer"})
	if _, err := table.Merge(ctx, other); err != nil {
		t.Fatal(err)
	}
	if journal.waits != 5 || journal.faults != nil {
		t.Errorf("%d waits; %q", journal.waits, journal.faults)
	}
	again := journal.reopen(t, rng, dev, nil, 0, 0)
	m.check(t, again)
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// Ids of rows of codes may come from a cache. A call with only such ids waits, too.
func TestJournalOfCodes(t *testing.T) {
	table, m := open(t, devicetest.Open(t), 0, nil), newModel()
	journal := record(table)
	codes := make([]uint32, 2*minCoded)
	for i := range codes {
		codes[i] = uint32(i % 3)
	}
	c := must(column.OfCodes(codes, column.OfStrings([]string{"a", "a longer one", ""})))
	cols := []column.Column{withNulls(rand.New(rand.NewPCG(3, 3)), c), c}
	for call := 1; call < 4; call++ {
		checkRows(t, table, m, cols)
		if journal.waits != call || journal.faults != nil {
			t.Errorf("%d waits of %d calls; %q", journal.waits, call, journal.faults)
		}
	}
	ids := make([]uint32, len(codes))
	journal.unsynced = op.ErrCorrupt
	_, err := table.Rows(ctx, cols, ids)
	var p *op.PartialError
	if !errors.As(err, &p) || !errors.Is(err, op.ErrCorrupt) || p.Done+int(slices.Max(ids)) != 0 {
		t.Errorf("ids that are not on the disk: %v", err)
	}
}

// What a call returns if the journal refuses keys, or fails before or after them.
func TestJournalErrors(t *testing.T) {
	table := open(t, devicetest.OpenCPU(t, 1), 0, nil)
	journal := record(table)
	table.chunk = 2
	keys := []string{"a", "b", "c", "d", "e"}
	add := func() (done, added int, err error) {
		ids := []uint32{9, 9, 9, 9, 9}
		added, err = table.Strings(ctx, keys, ids)
		done = len(keys)
		if p := (*op.PartialError)(nil); errors.As(err, &p) {
			done = p.Done
		}
		if slices.Max(append(ids[done:], 0)) != 0 {
			t.Errorf("%d rows are done, and ids are %d", done, ids)
		}
		return done, added, err
	}
	ended := &countdown{ctx, 2} // ends after the first chunk
	ids := make([]uint32, 5)
	added, err := table.Strings(ended, keys, ids)
	if n := len(journal.blocks); added != 2 || !errors.Is(err, context.Canceled) || n+journal.waits != 2 {
		t.Errorf("ends early: %d added, %v, %d blocks, %d waits", added, err, n, journal.waits)
	}
	full, broken := errors.New("full"), errors.New("broken")
	journal.refuse = full
	if done, added, err := add(); done != 0 || added != 0 || !errors.Is(err, full) {
		t.Errorf("refused: %d done, %d added, %v", done, added, err)
	}
	journal.refuse, journal.unsynced = nil, broken
	if done, added, err := add(); done != 0 || added != 3 || !errors.Is(err, broken) {
		t.Errorf("not synced: %d done, %d added, %v", done, added, err)
	}
	journal.unsynced, journal.breaks = nil, broken
	keys = []string{"a", "b", "x", "y", "z"}
	done, added, err := add()
	if done != 0 || added != 2 || err == nil || strings.Count(err.Error(), "broken") != 1 {
		t.Errorf("not written: %d done, %d added, %v", done, added, err)
	}
	_, finding := table.FindStrings(ctx, keys, ids, nil)
	_, merging := open(t, devicetest.Open(t), 0, nil).Merge(ctx, table)
	_, saving := table.Save(ctx, new(bytes.Buffer))
	for i, err := range []error{finding, merging, saving} {
		if !errors.Is(err, broken) {
			t.Errorf("call %d after a failure: %v", i, err)
		}
	}
	journal.failed = nil // for Close
}

// Blocks that no table has written, or that follow keys which are missing.
func TestDamagedBlocks(t *testing.T) {
	dev, rng := devicetest.Open(t), rand.New(rand.NewPCG(1, 2))
	table := open(t, dev, 0, nil)
	journal := record(table)
	for _, keys := range [][]string{{"a", "b"}, {"a long key"}} {
		if _, err := table.Strings(ctx, keys, make([]uint32, len(keys))); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(what string, e *core.Effect) {
		t.Helper()
		again := open(t, dev, 0, nil)
		err := again.asLogged().Replay(ctx, e)
		if !errors.Is(err, op.ErrFormat) || !strings.HasPrefix(err.Error(), "intern: replay: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	first, second := journal.blocks[0], journal.blocks[1]
	for i := range first {
		refused("cut short", itemsEffect(first[:max(1, i)]))
		for bit := range 8 {
			b := slices.Clone(first)
			b[i] ^= 1 << bit
			if unused := i > 4 && i < 8; !unused {
				refused(fmt.Sprintf("bit %d of byte %d is turned", bit, i), itemsEffect(b))
			}
		}
	}
	refused("keys are missing", itemsEffect(second))
	twice := slices.Clone(first)
	binary.LittleEndian.PutUint32(twice, 2)
	refused("keys come twice", itemsEffect(first, twice))
	refused("no keys", itemsEffect(make([]byte, blockHeader+4), withCRC(make([]byte, 12))))
	refused("another effect", &core.Effect{Kind: core.PutPairs})
	rowTable := open(t, dev, 0, nil)
	rowJournal := record(rowTable)
	cols := []column.Column{column.Of([]int8{1, 2, 3, 4})}
	if _, err := rowTable.Rows(ctx, cols, make([]uint32, 4)); err != nil {
		t.Fatal(err)
	}
	refused("another kind", itemsEffect(rowJournal.blocks[0], first))
	// Repair: a damaged checkpoint lacks keys, and later blocks are of no use.
	l := open(t, dev, 0, nil).asLogged()
	n, err := l.LoadCheckpoint(ctx, strings.NewReader(magic), 2, 0)
	if n != 0 || !errors.Is(err, op.ErrFormat) {
		t.Errorf("%d keys of a damaged checkpoint, %v", n, err)
	}
	if err := l.Replay(ctx, itemsEffect(second)); err != nil || l.Len() != 0 {
		t.Errorf("%d keys, %v", l.Len(), err)
	}
	if err := journal.replay(rng, 0, l); err != nil || l.Len() != 3 {
		t.Errorf("%d keys, %v", l.Len(), err)
	}
}

// A checkpoint rotates the log while no call adds, and lets calls add while it writes.
func TestCheckpoint(t *testing.T) {
	table := open(t, devicetest.Open(t), 0, nil)
	add := func(key string) error {
		return errOf(table.Strings(ctx, []string{key}, make([]uint32, 1)))
	}
	if err := add("a"); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	n, failure := 0, errors.New("failed")
	rotate := func(uint64) error {
		if len(table.writerLock) == 0 {
			t.Error("rotates without the writer lock")
		}
		return failure
	}
	save := func(write func(io.Writer) (int, error)) error {
		err := add("b")
		if err == nil {
			n, err = write(&file)
		}
		return errors.Join(err, add("c"))
	}
	l := table.asLogged()
	if err := l.Checkpoint(ctx, rotate, save); !errors.Is(err, failure) || n != 0 {
		t.Errorf("%d keys, %v", n, err)
	}
	failure = nil
	if err := l.Checkpoint(ctx, rotate, save); err != nil || n != 2 {
		t.Errorf("%d keys, %v", n, err)
	}
	loaded := open(t, devicetest.Open(t), 0, nil)
	n, err := loaded.asLogged().LoadCheckpoint(ctx, &file, 2, 0)
	if n != 2 || err != nil || string(loaded.At(1)) != "b" {
		t.Errorf("%d keys, %v", n, err)
	}
	if err := errors.Join(table.Close(), table.Close()); err != nil {
		t.Error(err)
	}
	if err := l.Checkpoint(ctx, rotate, save); !errors.Is(err, op.ErrClosed) {
		t.Errorf("of a closed table: %v", err)
	}
}
