package join

import (
	"context"
	"errors"
	"math"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/intern"
)

// interned is an index over keys that do not fit a word: byte strings, and wide combinations of
// columns. Package intern numbers the keys, and a host table holds the rows of each number.
type interned struct {
	host device.Host
	keys *intern.Table
	rows *table[uint32]
}

// internKeys makes an index over the rows of keys. The interned keys lie on dev.
func internKeys(ctx context.Context, dev device.Device, host device.Host, p *plan, keys []column.Column) (*interned, error) {
	x := &interned{host: host}
	var err error
	if x.keys, err = intern.New(dev, nil); err != nil {
		return nil, err
	}
	if err := x.build(ctx, p, keys); err != nil {
		return nil, errors.Join(err, x.keys.Close())
	}
	return x, nil
}

func (x *interned) build(ctx context.Context, p *plan, keys []column.Column) error {
	ids, err := device.Make[uint32](x.host, keys[0].Len())
	if err != nil {
		return err
	}
	if p.text() {
		_, err = x.keys.Column(ctx, text(keys[0]), ids.Host())
	} else {
		_, err = x.keys.Rows(ctx, keys, ids.Host())
	}
	if err == nil {
		x.rows, err = build(ctx, x.host, numbersOf(p, keys, ids.Host()))
	}
	return errors.Join(err, ids.Free())
}

// text reports whether the key is one byte string, and null is no key.
func (p *plan) text() bool { return len(p.types) == 1 && !p.nulls }

// text returns a column in which no row is null. Rows that were null get the bytes that lie there,
// and later steps leave these rows out.
func text(c column.Column) column.Column {
	if !c.HasNulls() {
		return c
	}
	all := make([]byte, (c.Len()+7)/8)
	for i := range all {
		all[i] = 0xff
	}
	return c.WithValid(column.OfBits(all, 0, c.Len()))
}

// numbersOf returns a source of the numbers of rows. Rows with nulls have one only if nulls match.
func numbersOf(p *plan, keys []column.Column, ids []uint32) *source[uint32] {
	s := &source[uint32]{plan: p, n: len(ids), cols: keys, words: ids}
	for _, c := range keys {
		s.nulls = s.nulls || c.HasNulls() && !p.nulls
	}
	return s
}

func (x *interned) matches() []uint32 { return x.rows.matches() }

func (x *interned) distinct() int { return x.rows.distinct() }

func (x *interned) free() error { return errors.Join(x.keys.Close(), x.rows.free()) }

func (x *interned) bytes(ctx context.Context) (int, error) {
	keys, err := x.keys.Memory(ctx)
	if err != nil {
		return 0, err
	}
	rows, err := x.rows.bytes(ctx)
	return int(keys) + rows, err
}

// internedFinder looks up the numbers of keys, and then their rows.
type internedFinder struct {
	*interned
	plan  *plan
	cols  []column.Column
	ids   device.Slice[uint32]
	found device.Slice[bool]
	rows  *finder[uint32]
}

func (x *interned) probe(_ context.Context, p *plan, keys []column.Column) (_ prober, err error) {
	f := &internedFinder{interned: x, plan: p, cols: keys}
	n := min(keys[0].Len(), pieceRows)
	if f.ids, err = device.Make[uint32](x.host, n); err == nil {
		f.found, err = device.Make[bool](x.host, n)
	}
	if err == nil {
		f.rows, err = newFinder(x.rows, numbersOf(p, keys, f.ids.Host()))
	}
	if err != nil {
		return nil, errors.Join(err, f.ids.Free(), f.found.Free())
	}
	return f, nil
}

func (f *internedFinder) free() error {
	return errors.Join(f.rows.free(), f.ids.Free(), f.found.Free())
}

func (f *internedFinder) locate(ctx context.Context, lo, hi int, out []span) (err error) {
	cols := make([]column.Column, len(f.cols))
	for i, c := range f.cols {
		cols[i] = c.Slice(lo, hi)
	}
	ids, found := f.ids.Host()[:hi-lo], f.found.Host()[:hi-lo]
	if f.plan.text() {
		_, err = f.keys.FindColumn(ctx, text(cols[0]), ids, found)
	} else {
		_, err = f.keys.FindRows(ctx, cols, ids, found)
	}
	if err != nil {
		return err
	}
	for i, ok := range found {
		if !ok {
			ids[i] = math.MaxUint32 // no key has this number
		}
	}
	f.rows.src = numbersOf(f.plan, cols, ids)
	return f.rows.locate(ctx, 0, hi-lo, out)
}
