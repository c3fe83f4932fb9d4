package batch

import (
	"fmt"

	"github.com/weftgo/weft/device"
)

// MustMatch panics unless an argument is as long as the keys. room and op are
// the package and the method, for the message.
func MustMatch(room, op, name string, keys, n int) {
	if keys != n {
		panic(fmt.Sprintf("%s: %s: %d keys, but len(%s) = %d", room, op, keys, name, n))
	}
}

// MustMatchOptional is MustMatch for a slice that may be nil.
func MustMatchOptional[T any](room, op, name string, keys int, s []T) {
	if s != nil {
		MustMatch(room, op, name, keys, len(s))
	}
}

// MustMatchSlice is MustMatch for a slice on a device that may be empty.
func MustMatchSlice[T device.Elem](room, op, name string, keys int, s device.Slice[T]) {
	if s.Len() != 0 {
		MustMatch(room, op, name, keys, s.Len())
	}
}

// Lies checks that a stream and the columns of a batch belong to a device.
func (b *Batch) Lies(dev device.Device, s *device.Stream) error {
	if s == nil {
		return fmt.Errorf("%w: no stream", device.ErrInvalid)
	}
	if s.Device() != dev {
		return fmt.Errorf("%w: the stream belongs to another device, %s", device.ErrInvalid, s.Device().Properties().Name)
	}
	for _, c := range []Column{b.Keys, b.Vals, b.Kinds, b.Out, b.OK, b.Counts} {
		if err := c.Lies(dev); err != nil {
			return err
		}
	}
	return nil
}

// Lies checks that a column, if it is there, belongs to a device.
func (c Column) Lies(dev device.Device) error {
	if c.Ptr != 0 && c.Dev != dev {
		return fmt.Errorf("%w: a column of the batch lies on another device, %s", device.ErrInvalid, c.Dev.Properties().Name)
	}
	return nil
}
