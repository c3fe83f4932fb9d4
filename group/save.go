package group

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sync/atomic"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/op"
	"github.com/weftgo/weft/internal/seal"
	"github.com/weftgo/weft/internal/spill"
)

// Saved groups are a stream of little-endian bytes:
//
//	header   "WEFTGRP1", flags (uint32): 1 there are rows, 2 they have ordinals, 4 SkipNulls; the
//	         numbers of aggregates, of key columns and of value columns (uint32 each), CRC-32C
//	layout   function (uint8) and column (uint32) of each aggregate, the types of key columns and
//	         of value columns (uint8 each), CRC-32C
//	page     length (uint64) > 0, CRC-32C of the length, and a page as package spill encodes it,
//	         with the columns that state.go lists
//	…
//	end      0 (uint64), CRC-32C
//
// Several consecutive pages may contain states of the same group.
const (
	magic      = "WEFTGRP1"
	headBytes  = 24
	pageGroups = 1 << 16
	maxColumns = 1 << 16

	// maxRows bounds the total number of rows in groups from streams, so that no count wraps.
	maxRows = 1 << 62

	flagRows, flagOrdered, flagSkipNulls = 1, 2, 4
)

// nCreated counts all Groups. Groups that are merged lock in the order of creation.
var nCreated atomic.Uint64

// Merge adds the groups of others, in this order, as if their rows were added here now. Rows with
// ordinals may be merged in any order. The result is the same as if all rows were added to one
// table, except for the last digits of sums, means and deviations of floats. That difference is at
// most the number of rows of a group, times the sum of their absolute values, times 2^-53.
//
// Merge does not change others. They must have the same aggregates, types, and SkipNulls. Merge
// stops before the first one that differs, and returns [weft.ErrOptions]. After any other error,
// such as the end of the context, groups are merged in part, and all later calls return that error.
func (g *Groups) Merge(ctx context.Context, others ...*Groups) error {
	for _, o := range others {
		if err := g.merge(ctx, o); err != nil {
			return fmt.Errorf("group: Merge: %w", err)
		}
	}
	return nil
}

func (g *Groups) merge(ctx context.Context, o *Groups) error {
	if g == o {
		return fmt.Errorf("%w: groups cannot be merged with themselves", op.ErrOptions)
	}
	a, b := g, o
	if a.lockOrder > b.lockOrder {
		a, b = b, a
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := errors.Join(g.prepareRead(ctx), o.prepareRead(ctx)); err != nil {
		return err
	}
	if err := g.mergeable(o.aggs, o.opts.SkipNulls); err != nil {
		return err
	}
	if o.l == nil {
		return nil
	}
	return g.mergeReady(ctx, o)
}

// mergeReady merges groups that have rows and equal aggregates. The caller holds the locks of both.
func (g *Groups) mergeReady(ctx context.Context, o *Groups) error {
	if o.loaded > maxRows-g.loaded {
		return fmt.Errorf("%w: groups of more than 2^62 rows together cannot be merged", op.ErrFull)
	}
	if err := g.bindTypes(o.l.keys, o.l.values, o.l.ordered); err != nil {
		return err
	}
	g.loaded += o.loaded
	g.failed = o.visitStates(ctx, func(page []column.Column) error { return g.addPage(ctx, page) })
	g.scratch.trim()
	return g.failed
}

// mergeable returns ErrOptions unless g has the given aggregates and the given SkipNulls.
func (g *Groups) mergeable(aggs []Aggregate, skipNulls bool) error {
	if slices.Equal(g.aggs, aggs) && g.opts.SkipNulls == skipNulls {
		return nil
	}
	return fmt.Errorf("%w: groups with different aggregates or SkipNulls cannot be merged",
		op.ErrOptions)
}

// visitStates visits the state of all groups, in memory and in the temporary file.
func (g *Groups) visitStates(ctx context.Context, visit func(page []column.Column) error) error {
	return g.visit(ctx, func(t *Groups) error { return t.visitResidentStates(ctx, pageGroups, visit) })
}

// visitResidentStates visits the state of all groups in memory, n at a time.
func (g *Groups) visitResidentStates(ctx context.Context, n int, visit func(page []column.Column) error) error {
	k := g.interned()
	for lo := 0; lo < g.resident; lo += n {
		page, err := g.statePage(ctx, k, lo, min(lo+n, g.resident))
		if err == nil {
			err = visit(page)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Save writes groups to a stream, with checksums. [Load] reads it on any machine, with any later
// version.
func (g *Groups) Save(ctx context.Context, to io.Writer) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.prepareRead(ctx)
	if err == nil {
		err = g.save(ctx, to)
	}
	if err != nil {
		return fmt.Errorf("group: Save: %w", err)
	}
	return nil
}

func (g *Groups) save(ctx context.Context, to io.Writer) error {
	w := seal.NewWriter(to, 1<<16)
	g.saveHead(&w)
	if g.l != nil {
		var buf []byte
		write := func(page []column.Column) error {
			buf = spill.AppendPage(buf[:0], page)
			w.Plain(appendLength(nil, len(buf)))
			w.Plain(buf) // buf contains its checksum
			return w.Err
		}
		if err := g.visitStates(ctx, write); err != nil {
			return err
		}
	}
	w.Plain(appendLength(nil, 0))
	return w.Flush()
}

// appendLength appends the length of a page and a checksum of the length. Length 0 marks the end.
func appendLength(b []byte, n int) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint64(b, uint64(n))
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[at:], seal.Castagnoli))
}

// saveHead writes the header and the layout.
func (g *Groups) saveHead(w *seal.Writer) {
	var flags uint32
	var keys, values []column.Type
	if g.l != nil {
		flags, keys, values = flagRows, g.l.keys, g.l.values
		if g.l.ordered {
			flags |= flagOrdered
		}
	}
	if g.opts.SkipNulls {
		flags |= flagSkipNulls
	}
	head := []byte(magic)
	for _, n := range []uint32{flags, uint32(len(g.aggs)), uint32(len(keys)), uint32(len(values))} {
		head = binary.LittleEndian.AppendUint32(head, n)
	}
	w.Sealed(head)
	var layout []byte
	for _, a := range g.aggs {
		layout = binary.LittleEndian.AppendUint32(append(layout, byte(a.Func)), uint32(a.Column))
	}
	for _, t := range slices.Concat(keys, values) {
		layout = append(layout, byte(t))
	}
	w.Sealed(layout)
}

// Load makes groups from a stream that Save wrote, and reads nothing after its end. The stream
// determines aggregates and SkipNulls, and opts all other options. If the stream is damaged, or
// Save did not write it, Load returns [weft.ErrFormat] with the offset of the damage.
func Load(ctx context.Context, dev device.Device, from io.Reader, opts *Options) (*Groups, error) {
	r := &loader{from: from}
	h, err := r.readHead()
	var g *Groups
	if err == nil {
		g, err = h.newGroups(dev, opts)
	}
	if err == nil {
		err = r.readPages(ctx, g, &h)
	}
	if err != nil {
		if g != nil {
			err = errors.Join(err, g.Close())
		}
		return nil, fmt.Errorf("group: Load: %w", err)
	}
	return g, nil
}

// MergeFrom adds groups from a stream that Save or SaveParts wrote. It reads one page at a time,
// makes no other table, and reads nothing after the end of the stream. See [Groups.Merge] for the
// results.
//
// Groups stay unchanged in two cases. If aggregates, types or SkipNulls differ, MergeFrom returns
// [weft.ErrOptions]. If the stream is damaged before its pages, it returns [weft.ErrFormat]. After
// any other error, such as a damaged page, groups are merged in part, and all later calls return
// that error.
func (g *Groups) MergeFrom(ctx context.Context, from io.Reader) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.prepareRead(ctx)
	if err == nil {
		err = g.mergeFrom(ctx, &loader{from: from})
	}
	if err != nil {
		return fmt.Errorf("group: MergeFrom: %w", err)
	}
	return nil
}

func (g *Groups) mergeFrom(ctx context.Context, r *loader) error {
	h, err := r.readHead()
	if err != nil {
		return err
	}
	if err := g.mergeable(h.aggs, h.has(flagSkipNulls)); err != nil {
		return err
	}
	if h.has(flagRows) {
		if err := g.bindTypes(h.keys, h.values, h.has(flagOrdered)); err != nil {
			return err
		}
	}
	g.failed = op.Cause(r.readPages(ctx, g, &h))
	g.scratch.trim()
	return g.failed
}

// loader reads a stream and counts its bytes.
type loader struct {
	from   io.Reader
	offset int64
}

// damaged returns an error that describes damage at an offset.
func damaged(at int64, format string, args ...any) error {
	return fmt.Errorf("%w: byte %d: %s", op.ErrFormat, at, fmt.Sprintf(format, args...))
}

// read reads n bytes. Its memory grows with the bytes read, because a damaged n may be huge.
func (r *loader) read(n uint64) ([]byte, error) {
	var b bytes.Buffer
	got, err := io.CopyN(&b, r.from, int64(n))
	if r.offset += got; errors.Is(err, io.EOF) {
		return nil, damaged(r.offset, "the stream ends")
	}
	return b.Bytes(), err
}

// readSealed reads n bytes and verifies the checksum that follows them.
func (r *loader) readSealed(n int) ([]byte, error) {
	at := r.offset
	b, err := r.read(uint64(n) + 4)
	if err != nil {
		return nil, err
	}
	if crc32.Checksum(b[:n], seal.Castagnoli) != binary.LittleEndian.Uint32(b[n:]) {
		return nil, damaged(at, "a checksum of %d bytes does not match", n)
	}
	return b[:n], nil
}

// savedHead is the header and the layout of a stream.
type savedHead struct {
	flags        uint32
	aggs         []Aggregate
	keys, values []column.Type
}

func (h *savedHead) has(flag uint32) bool { return h.flags&flag != 0 }

func (h *savedHead) newGroups(dev device.Device, opts *Options) (*Groups, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	o.SkipNulls = h.has(flagSkipNulls)
	g, err := New(dev, h.aggs, &o)
	if err != nil || !h.has(flagRows) {
		return g, err
	}
	if err := g.bindTypes(h.keys, h.values, h.has(flagOrdered)); err != nil {
		return g, damaged(headBytes+4, "%v", err)
	}
	return g, nil
}

// readHead reads the header and the layout.
func (r *loader) readHead() (h savedHead, err error) {
	head, err := r.readSealed(headBytes)
	if err != nil {
		return h, err
	}
	if string(head[:8]) != magic {
		return h, damaged(0, "it does not begin like saved groups")
	}
	var n [4]uint32
	for i := range n {
		n[i] = binary.LittleEndian.Uint32(head[8+4*i:])
	}
	flags, aggs, keys, values := n[0], n[1], n[2], n[3]
	if flags > flagRows|flagOrdered|flagSkipNulls || aggs > maxColumns || keys > maxColumns ||
		values > maxColumns {
		return h, damaged(8, "flags %#x, %d aggregates, %d keys and %d values", flags, aggs,
			keys, values)
	}
	at := r.offset
	b, err := r.readSealed(int(5*aggs + keys + values))
	if err != nil {
		return h, err
	}
	h.flags, h.aggs = flags, make([]Aggregate, aggs)
	for i := range h.aggs {
		h.aggs[i] = Aggregate{Func(b[0]), int(binary.LittleEndian.Uint32(b[1:]))}
		b = b[5:]
	}
	types := make([]column.Type, len(b))
	for i, t := range b {
		if t > byte(column.Bytes) {
			return h, damaged(at, "type %d", t)
		}
		types[i] = column.Type(t)
	}
	h.keys, h.values = types[:keys:keys], types[keys:]
	return h, nil
}

// readPages adds all pages of the stream to g.
func (r *loader) readPages(ctx context.Context, g *Groups, h *savedHead) error {
	for {
		at := r.offset
		b, err := r.readSealed(8)
		if err != nil {
			return err
		}
		n := binary.LittleEndian.Uint64(b)
		if n == 0 {
			return nil
		}
		if n > 1<<40 {
			return damaged(at, "a page of %d bytes", n)
		}
		if !h.has(flagRows) {
			return damaged(at, "a page of groups without rows")
		}
		if b, err = r.read(n); err != nil {
			return err
		}
		page, err := spill.DecodePage(b)
		if err != nil {
			return fmt.Errorf("the page at byte %d: %w", at+12, err)
		}
		if err := g.checkPage(page); err != nil {
			return damaged(at+12, "%v", err)
		}
		if err := g.addPage(ctx, page); err != nil {
			return err
		}
	}
}

// checkPage returns an error for a page that groups of this layout cannot have written. Checksums
// do not detect a forged page.
func (g *Groups) checkPage(page []column.Column) error {
	types := slices.Concat(g.l.keys, g.mergeLayout.values)
	if len(page) != len(types) {
		return fmt.Errorf("%d columns, want %d", len(page), len(types))
	}
	state := g.l.stateColumns()
	for i, c := range page {
		if c.Type() != types[i] {
			return fmt.Errorf("column %d has %v, want %v", i, c.Type(), types[i])
		}
		if k := i - len(g.l.keys); k >= 0 && c.HasNulls() && state[k].source < 0 {
			return fmt.Errorf("column %d has nulls", i)
		}
	}
	return g.checkCounts(page[len(g.l.keys):], state)
}

// checkCounts returns an error for groups without rows, with more nulls than rows, or with
// impossible sums. It adds the rows to g.loaded.
func (g *Groups) checkCounts(page []column.Column, state []stateColumn) error {
	rows := column.Values[uint64](page[0])
	for i, n := range rows {
		if n == 0 || n > maxRows-g.loaded {
			return fmt.Errorf("group %d has %d rows, those before it %d", i, n, g.loaded)
		}
		g.loaded += n
	}
	var nulls []uint64 // nulls of the source of the following columns
	for k, c := range state {
		if c.slot.kind == addNulls {
			nulls = column.Values[uint64](page[k])
			for i, n := range nulls {
				if n > rows[i] {
					return fmt.Errorf("group %d has %d rows and %d nulls", i, rows[i], n)
				}
			}
		}
		if c.slot.kind == addCarry {
			for i, carry := range column.Values[int64](page[k]) {
				if n := int64(rows[i]); carry > n || carry < -n {
					return fmt.Errorf("group %d has %d rows and a sum of %d times 2^64", i, n,
						carry)
				}
			}
		}
		if c.source < 0 {
			continue
		}
		for i := range rows {
			if page[k].Null(i) != (nulls[i] == rows[i]) {
				return fmt.Errorf("group %d has %d rows and %d nulls, and a value that does not fit them", i,
					rows[i], nulls[i])
			}
		}
	}
	return nil
}
