package group

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
)

// ResultOn is groups as columns of one length in device memory, in no order. It is the caller's to free.
type ResultOn[K KeyOn] struct {
	// Keys are the keys, each once.
	Keys device.Slice[K]

	values []columnOn
}

// Len is the number of groups.
func (r *ResultOn[K]) Len() int { return r.Keys.Len() }

// Type is the type of the values of an aggregate, as [Func] tells it.
func (r *ResultOn[K]) Type(aggregate int) column.Type { return r.values[aggregate].typ() }

// Free returns the memory of all columns. Work that uses it must have completed. Idempotent.
func (r *ResultOn[K]) Free() error {
	err := r.Keys.Free()
	for _, c := range r.values {
		err = errors.Join(err, c.free())
	}
	return err
}

// ValuesOn is the column of an aggregate, which stays that of the result. A T that is not its type panics, as in [column.Values].
func ValuesOn[T column.Fixed, K KeyOn](r *ResultOn[K], aggregate int) device.Slice[T] {
	c := r.values[aggregate]
	if t := column.TypeOf[T](); t != c.typ() {
		panic(fmt.Sprintf("group: values of %v asked of aggregate %d, which has %v", t, aggregate, c.typ()))
	}
	s, err := device.Wrap[T](r.Keys.Device(), c.buffer(), r.Len())
	if err != nil {
		panic(err) // it is memory of that device, of that length
	}
	return s
}

// columnOn is a column of some type in device memory.
type columnOn interface {
	typ() column.Type
	buffer() device.Buffer
	free() error
	// at receives the values in memory of the host, each at its place.
	at(ctx context.Context, s *device.Stream, places []int) (column.Column, error)
}

type columnOf[T column.Fixed] struct{ device.Slice[T] }

func (c *columnOf[T]) typ() column.Type { return column.TypeOf[T]() }

func (c *columnOf[T]) buffer() device.Buffer {
	return device.Buffer{Ptr: c.Ptr(), Size: c.Len() * c.typ().Size(), Host: device.Bytes(c.Host())}
}

func (c *columnOf[T]) free() error { return c.Free() }

func (c *columnOf[T]) at(ctx context.Context, s *device.Stream, places []int) (column.Column, error) {
	there := make([]T, c.Len())
	if err := c.CopyTo(ctx, s, there); err != nil {
		return column.Column{}, err
	}
	values := make([]T, len(there))
	for i, v := range there {
		values[places[i]] = v
	}
	return column.Of(values), nil
}

// newColumnOn makes a column of n values of a type that aggregates on a device have.
func newColumnOn(dev device.Device, t column.Type, n int) (columnOn, error) {
	switch t {
	case column.Int32:
		return newColumnOf[int32](dev, n)
	case column.Uint32:
		return newColumnOf[uint32](dev, n)
	case column.Int64:
		return newColumnOf[int64](dev, n)
	case column.Uint64:
		return newColumnOf[uint64](dev, n)
	case column.Float32:
		return newColumnOf[float32](dev, n)
	}
	return newColumnOf[float64](dev, n)
}

func newColumnOf[T column.Fixed](dev device.Device, n int) (columnOn, error) {
	s, err := device.Make[T](dev, n)
	return &columnOf[T]{s}, err
}
