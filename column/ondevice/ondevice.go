// Package ondevice hashes, partitions and gathers the rows of columns in device memory. It has the
// functions of package column, for [column.On]. They have their own package, because otherwise each
// program with columns would link their kernels.
package ondevice

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/gpu/parts"
	"github.com/weftgo/weft/internal/op"
)

// Hash writes the hash of each row of key columns to hashes, on the device of stream s. The hash is
// the same as in [column.Hash]. Hash submits the work to s and does not wait. It panics if the
// columns and hashes differ in length.
func Hash(s *device.Stream, keys []column.On, seed uint64, hashes device.Slice[uint64]) error {
	for i, c := range keys {
		if c.Len() != hashes.Len() {
			panic(fmt.Sprintf("ondevice: key column %d has %d rows, but there are %d hashes",
				i, c.Len(), hashes.Len()))
		}
	}
	err := check(s, keys)
	if err == nil {
		err = checkDevice(s, "hashes", hashes.Device())
	}
	if err == nil {
		if host, ok := s.Device().(device.Host); ok {
			column.Hash(host, hostColumns(keys), seed, hashes.Host())
			return nil
		}
		k := keysOf(keys, hashes.Len(), seed)
		err = parts.Hash(s, &k, hashes.Ptr())
	}
	if err != nil {
		return fmt.Errorf("ondevice: Hash: %w", err)
	}
	return nil
}

// Parts holds the rows of each partition in device memory. See [column.Parts] for the fields.
type Parts struct {
	Rows    device.Slice[uint32]
	Offsets device.Slice[uint32]
	Next    int

	owned []device.Slice[uint32]
}

// Free frees the memory. Work that uses the memory must have completed. If p was copied, free only
// one of the copies. Free is idempotent.
func (p *Parts) Free() error {
	var errs []error
	for _, s := range p.owned {
		errs = append(errs, s.Free())
	}
	*p = Parts{Next: p.Next}
	return errors.Join(errs...)
}

// Partition distributes rows of columns on the device of stream s. The rows of each partition,
// their order and the errors are the same as in [column.Partition]. It waits until the stream has
// done the work. The caller must free the result. [Take] gathers the rows of a column.
//
// A call on a GPU temporarily needs 8 to 34 bytes of memory per row besides its result. It needs 8
// for one column and up to 256 partitions. More partitions, several columns, and nulls that are
// dealt need 8 more each. If the context ends, Partition returns its error after the submitted work
// has completed. A GPU numbers at most 2^32 - 2^16 rows. For more, Partition returns
// device.ErrInvalid.
func Partition(
	ctx context.Context, s *device.Stream, keys []column.On, opts column.PartitionOptions,
) (Parts, error) {
	if err := opts.Check(); err != nil {
		return Parts{}, err
	}
	if len(keys) == 0 {
		return Parts{}, fmt.Errorf("ondevice: Partition: %w: no key columns", op.ErrOptions)
	}
	for i, c := range keys {
		if c.Len() != keys[0].Len() {
			panic(fmt.Sprintf("ondevice: key column %d has %d rows and column 0 has %d",
				i, c.Len(), keys[0].Len()))
		}
		if c.Type() == column.None {
			return Parts{}, fmt.Errorf("ondevice: Partition: %w: key column %d has no type",
				op.ErrOptions, i)
		}
	}
	err := check(s, keys)
	if err == nil {
		err = ctx.Err()
	}
	var p Parts
	if err == nil {
		if host, ok := s.Device().(device.Host); ok {
			p, err = partitionHost(host, s, keys, opts)
		} else {
			p, err = partitionGPU(ctx, s, keys, opts)
		}
	}
	if err != nil {
		return Parts{}, fmt.Errorf("ondevice: Partition: %w", err)
	}
	return p, nil
}

func partitionHost(
	host device.Host, s *device.Stream, keys []column.On, opts column.PartitionOptions,
) (p Parts, err error) {
	local, err := column.Partition(host, hostColumns(keys), opts)
	if err != nil {
		return Parts{}, err
	}
	if p.Rows, err = device.Upload(s, local.Rows); err != nil {
		return Parts{}, err
	}
	if p.Offsets, err = device.Upload(s, local.Offsets); err != nil {
		return Parts{}, errors.Join(err, p.Rows.Free())
	}
	p.Next, p.owned = local.Next, []device.Slice[uint32]{p.Rows, p.Offsets}
	return p, nil
}

func partitionGPU(
	ctx context.Context, s *device.Stream, keys []column.On, opts column.PartitionOptions,
) (Parts, error) {
	work := parts.Partition{
		Keys: keysOf(keys, keys[0].Len(), opts.Seed), Parts: opts.Parts, First: opts.First,
		Deal: opts.Nulls == column.DealNulls,
	}
	for i, c := range keys {
		if opts.Nulls != column.HashNulls && c.HasNulls() {
			work.Nulls = append(work.Nulls, work.Columns[i])
		}
	}
	r, err := work.Run(ctx, s)
	if err != nil {
		return Parts{}, err
	}
	return Parts{
		Rows: r.Rows.Sub(0, r.N), Offsets: r.Offsets, Next: r.Next,
		owned: []device.Slice[uint32]{r.Rows, r.Offsets},
	}, nil
}

// Take gathers the given rows of a column, in that order. It submits the work to stream s and does
// not wait. The caller must free the result, which has a bitmap if the column has one. Rows outside
// the column panic on a host. On a GPU their values are undefined, and null if the column has a
// bitmap.
func Take(s *device.Stream, c column.On, rows device.Slice[uint32]) (column.On, error) {
	err := check(s, []column.On{c})
	if err == nil {
		err = checkDevice(s, "rows", rows.Device())
	}
	if err == nil && c.Type() == column.None {
		err = fmt.Errorf("%w: a column without a type", device.ErrInvalid)
	}
	var taken column.On
	if err == nil {
		if host, ok := s.Device().(device.Host); ok {
			taken, err = column.Upload(s, column.Take(host, c.Host(), rows.Host()))
		} else {
			taken, err = takeGPU(s, c, rows)
		}
	}
	if err != nil {
		return column.On{}, fmt.Errorf("ondevice: Take: %w", err)
	}
	return taken, nil
}

func takeGPU(s *device.Stream, c column.On, rows device.Slice[uint32]) (column.On, error) {
	taken, err := column.MakeOn(s.Device(), c.Type(), rows.Len(), c.HasNulls())
	if err != nil {
		return column.On{}, err
	}
	bits, _ := taken.Valid()
	values := taken.Buffer().Ptr
	err = parts.Take(s, kernelColumn(c), c.Len(), rows.Ptr(), rows.Len(), values, bits.Ptr())
	if err != nil {
		return column.On{}, errors.Join(err, taken.Free())
	}
	return taken, nil
}

// check returns an error for columns that are not on the device of stream s.
func check(s *device.Stream, columns []column.On) error {
	for i, c := range columns {
		if c.Len() == 0 {
			continue
		}
		bits, _ := c.Valid()
		name := fmt.Sprintf("column %d", i)
		if err := errors.Join(checkDevice(s, name, c.Device()), checkDevice(s, name, bits.Device())); err != nil {
			return err
		}
	}
	return nil
}

// checkDevice returns an error for memory on another device than stream s. A nil device stands for
// no memory.
func checkDevice(s *device.Stream, name string, dev device.Device) error {
	if dev == nil || dev == s.Device() {
		return nil
	}
	return fmt.Errorf("%w: %s on another device, %s", device.ErrInvalid, name, dev.Properties().Name)
}

func hostColumns(columns []column.On) []column.Column {
	local := make([]column.Column, len(columns))
	for i, c := range columns {
		local[i] = c.Host()
	}
	return local
}

func keysOf(columns []column.On, n int, seed uint64) parts.Keys {
	k := parts.Keys{N: n, Seed: seed, Columns: make([]parts.Column, len(columns))}
	for i, c := range columns {
		k.Columns[i] = kernelColumn(c)
	}
	return k
}

func kernelColumn(c column.On) parts.Column {
	bits, offset := c.Valid()
	return parts.Column{
		Type: uint8(c.Type()), Values: c.Buffer().Ptr, Valid: bits.Ptr(), Offset: offset,
	}
}
