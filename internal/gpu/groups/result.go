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

// Output locates the column that receives the results of an aggregate. Results have the type of the
// values, with three exceptions: counts are int64, sums have 64 bits, and means are float64.
type Output struct {
	Aggregate
	Column device.Ptr
	Valid  device.Ptr // bitmap of 32-bit words, which the caller zeroes; 0: no nulls
	// OverflowRow receives the index of a result row with a sum that overflows 64 bits, if any.
	// That sum is written modulo 2^64. If no sum overflows, OverflowRow stays as it is; the caller
	// sets it to -1 before.
	OverflowRow int
}

// Len waits for all batches and returns the number of groups.
func (t *Table) Len(ctx context.Context) (int, error) {
	if err := t.stream.Wait(t.changed); err != nil {
		return 0, err
	}
	h, err := t.read(ctx, t.stream)
	if err != nil {
		return 0, err
	}
	// Read the record of the key that looks like no key. The context is ignored, because no work is
	// left to wait for. If it ended the call, the copy would continue and read memory that a
	// growing table frees.
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

// Results locates the columns that receive keys and aggregates.
type Results struct {
	Keys    []KeyOutput
	Outputs []Output
	// First is the row that receives the first group.
	First int
	// Numbers translates key numbers back to keys. It is nil if the table has keys of its own.
	Numbers *Numbers
}

// Result writes the keys and the aggregates of n groups in no order, and waits. n is the result of
// Len.
func (t *Table) Result(ctx context.Context, n int, r Results) (err error) {
	if n == 0 {
		return nil
	}
	s := t.stream
	keys := t.layout.Keys
	if r.Numbers != nil {
		keys = r.Numbers.keys
	}
	descriptors := [][]byte{bytesOf(keys.outputs(r.Keys)), nil}
	// number of rows, and for each output the row of a sum that overflows
	control, err := device.Make[uint64](t.dev, 1+len(r.Outputs))
	if err != nil {
		return err
	}
	descriptors[1] = bytesOf(t.outputs(r.Outputs, control.Ptr()))
	memory, err := device.Make[uint8](t.dev, len(descriptors[0])+len(descriptors[1]))
	defer func() { err = errors.Join(err, s.Sync(context.WithoutCancel(ctx)), control.Free(), memory.Free()) }()
	if err != nil {
		return err
	}
	p := resultParams{
		table: t.desc, keys: memory.Ptr(), outputs: memory.Ptr() + device.Ptr(len(descriptors[0])), count: control.Ptr(), first: uint64(r.First), room: uint64(n),
		nkeys: uint32(len(r.Keys)), noutputs: uint32(len(r.Outputs)),
	}
	if r.Numbers != nil {
		p.rows, p.words = r.Numbers.rows.Ptr(), uint32(keys.words)
	}
	if err := errors.Join(s.Fill(control.Ptr(), 0, 2*control.Len()), memory.CopyFrom(s, slices.Concat(descriptors...))); err != nil {
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
		return fmt.Errorf("%w: %d groups have rows, but %d have a key", op.ErrCorrupt, words[0], n)
	}
	for i, row := range words[1:] {
		if row != 0 {
			r.Outputs[i].OverflowRow = int(row) - 1
		}
	}
	return nil
}

// code returns the kernels' number of f. Kernels do not distinguish FirstOf and LastOf.
func (f Func) code() uint32 { return uint32(min(f, FirstOf)) }

func (t *Table) outputs(outputs []Output, control device.Ptr) []output {
	all := make([]output, len(outputs))
	for i, o := range outputs {
		x := output{column: o.Column, valid: o.Valid, over: control + device.Ptr(8*(1+i)), func_: o.Func.code(), type_: uint32(o.Type)}
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

// Nulls reports whether a column has had null values.
func (t *Table) Nulls(column int) bool { return t.layout.nullsOf(column) >= 0 }
