package groups

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/op"
)

// Output is where a column of results goes: numbers of the type of the values, but int64 for numbers of rows, 64 bits
// for sums and float64 for means.
type Output struct {
	Aggregate
	Column device.Ptr
	Valid  device.Ptr // a bitmap of 32-bit words, all 0 before; 0: nothing is null
	// Over is the row of a sum that does not fit 64 bits, and is written without what lies beyond; -1 if there is none.
	Over int
}

// Len waits for all batches: the number of groups.
func (t *Table) Len(ctx context.Context) (int, error) {
	if err := t.stream.Wait(t.changed); err != nil {
		return 0, err
	}
	h, err := t.read(ctx, t.stream)
	if err != nil {
		return 0, err
	}
	// The record of the key that looks like none. Nothing is left to wait for; a copy that goes on without us would meet a table that grows.
	last := t.records.Sub(t.Slots()*t.layout.stride(), t.records.Len())
	var words [firstWord]uint64
	if err := last.CopyTo(context.WithoutCancel(ctx), t.stream, words[:]); err != nil {
		return 0, err
	}
	if words[1] != 0 {
		return int(h.used) + 1, nil
	}
	return int(h.used), nil
}

// Results are where keys and aggregates go.
type Results struct {
	Keys    []KeyOutput
	Outputs []Output
	// First is the row of the first group.
	First int
	// Numbers: keys are numbers of these.
	Numbers *Numbers
}

// Result writes the keys and the aggregates of n groups, as many as Len has told, in no order, and waits for it.
func (t *Table) Result(ctx context.Context, n int, r Results) (err error) {
	if n == 0 {
		return nil
	}
	s := t.stream
	keys := t.layout.Keys
	if r.Numbers != nil {
		keys = r.Numbers.keys
	}
	known := [][]byte{bytesOf(keys.outputs(r.Keys)), nil}
	control, err := device.Make[uint64](t.dev, 1+len(r.Outputs)) // the number of rows, and sums that do not fit
	if err != nil {
		return err
	}
	known[1] = bytesOf(t.outputs(r.Outputs, control.Ptr()))
	there, err := device.Make[uint8](t.dev, len(known[0])+len(known[1]))
	defer func() { err = errors.Join(err, s.Sync(context.WithoutCancel(ctx)), control.Free(), there.Free()) }()
	if err != nil {
		return err
	}
	p := resultParams{
		table: t.at, keys: there.Ptr(), outputs: there.Ptr() + device.Ptr(len(known[0])), count: control.Ptr(), first: uint64(r.First), room: uint64(n),
		nkeys: uint32(len(r.Keys)), noutputs: uint32(len(r.Outputs)),
	}
	if r.Numbers != nil {
		p.rows, p.words = r.Numbers.rows.Ptr(), uint32(keys.words)
	}
	if err := errors.Join(s.Fill(control.Ptr(), 0, 2*control.Len()), there.CopyFrom(s, slices.Concat(known...))); err != nil {
		return err
	}
	if err := device.Launch(s, t.result, gpu.Wave(t.dev, t.Slots()+1), gpu.Block, &p); err != nil {
		return err
	}
	words := make([]uint64, control.Len())
	if err := control.CopyTo(ctx, s, words); err != nil {
		return err
	}
	if words[0] != uint64(n) {
		return fmt.Errorf("%w: %d groups have rows, and %d have a key", op.ErrCorrupt, words[0], n)
	}
	for i, row := range words[1:] {
		if row != 0 {
			r.Outputs[i].Over = int(row) - 1
		}
	}
	return nil
}

// funcs are functions as kernels number them, which need not know which of the rows is meant.
func (f Func) known() uint32 { return uint32(min(f, First)) }

// outputs are outputs as kernels know them.
func (t *Table) outputs(outputs []Output, control device.Ptr) []output {
	all := make([]output, len(outputs))
	for i, o := range outputs {
		x := output{column: o.Column, valid: o.Valid, over: control + device.Ptr(8*(1+i)), func_: o.Func.known(), type_: uint32(o.Type)}
		if f, ok := o.field(); ok {
			x.at = uint32(t.layout.word(slices.Index(t.layout.Fields, f)))
		}
		if nulls := t.layout.nullsOf(o.Aggregate.Column); o.Func != CountRows && nulls >= 0 {
			x.nulls = uint32(t.layout.word(nulls))
		}
		all[i] = x
	}
	return all
}

// Nulls tells whether values of a column have been null.
func (t *Table) Nulls(column int) bool { return t.layout.nullsOf(column) >= 0 }
