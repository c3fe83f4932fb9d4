package spill

import (
	"errors"
	"slices"
	"unsafe"

	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/device"
)

// Store holds rows of several columns outside the Go heap. It grows at its end. Later rows reuse
// the memory of removed rows. Only one goroutine may use a Store at a time.
type Store struct {
	n       int
	columns []storedColumn
}

// storedColumn holds values of fixed size in data. Of byte strings it holds the bytes in data, and
// their ends. Byte string i is data[ends[i]:ends[i+1]].
type storedColumn struct {
	typ   column.Type
	data  *Memory[byte]
	ends  *Memory[int64]
	valid *Memory[byte] // a bit for each value, if nulls is set
	nulls bool
}

// NewStore returns a store without rows. Budget b counts its memory.
func NewStore(b *Budget, types []column.Type) *Store {
	s := &Store{columns: make([]storedColumn, len(types))}
	for i, t := range types {
		s.columns[i] = storedColumn{typ: t, data: emptyMemory[byte](b), ends: emptyMemory[int64](b),
			valid: emptyMemory[byte](b)}
	}
	return s
}

func emptyMemory[T any](b *Budget) *Memory[T] {
	m, err := Make[T](b, 0)
	if err != nil {
		panic(err) // cannot happen: no memory is reserved
	}
	return m
}

// Len returns the number of rows, 0 for a nil store.
func (s *Store) Len() int {
	if s == nil {
		return 0
	}
	return s.n
}

// Bytes returns the memory of the rows. Unused capacity does not count: it takes no memory until it
// is first written.
func (s *Store) Bytes() int64 {
	if s == nil {
		return 0
	}
	n := int64(0)
	for _, c := range s.columns {
		n += c.used(s.n)
		if c.typ == column.Bytes {
			n += 8 * int64(s.n)
		}
	}
	return n
}

// used returns the length of the data of n values.
func (c *storedColumn) used(n int) int64 {
	switch {
	case c.typ != column.Bytes:
		return int64(n * c.typ.Size())
	case n == 0:
		return 0
	}
	return c.ends.Slice[n]
}

// minParallelRows is the minimum number of rows whose columns are copied on several cores.
const minParallelRows = 1 << 12

// Append copies rows to the end of the store.
func (s *Store) Append(dev device.Host, columns []column.Column) error {
	n := columns[0].Len()
	errs, piece := make([]error, len(columns)), 1
	if n < minParallelRows {
		piece = len(columns)
	}
	dev.Parallel(len(columns), piece, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			c := &s.columns[i]
			if errs[i] = c.grow(s.n, columns[i]); errs[i] == nil {
				c.put(s.n, columns[i])
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s.n += n
	return nil
}

// grow reserves memory for the values of a column from row at on. Memory grows by at least a
// quarter, because the system may have to move it.
func (c *storedColumn) grow(at int, from column.Column) error {
	n := at + from.Len()
	size := c.used(at)
	if c.typ == column.Bytes {
		size += TextBytes(from)
		if err := growTo(c.ends, n+1); err != nil {
			return err
		}
	} else {
		size += int64(from.Len() * c.typ.Size())
	}
	if err := growTo(c.data, int(size)); err != nil {
		return err
	}
	if !c.nulls && !from.HasNulls() {
		return nil
	}
	return growTo(c.valid, (n+7)/8)
}

func growTo[T any](m *Memory[T], n int) error {
	have := len(m.Slice)
	if n <= have {
		return nil
	}
	return m.Grow(max(n, have+have/4, 1<<12))
}

// put writes the values of a column from row at on.
func (c *storedColumn) put(at int, from column.Column) {
	if c.typ == column.Bytes {
		c.putBytes(at, from)
	} else {
		copy(c.data.Slice[at*c.typ.Size():], from.Raw())
	}
	if !c.nulls && !from.HasNulls() {
		return
	}
	valid := c.valid.Slice
	if !c.nulls {
		c.nulls = true
		for i := range (at + 7) / 8 {
			valid[i] = 0xff
		}
	}
	for i := range from.Len() {
		bit := byte(1) << ((at + i) & 7)
		if from.Null(i) {
			valid[(at+i)>>3] &^= bit
		} else {
			valid[(at+i)>>3] |= bit
		}
	}
}

func (c *storedColumn) putBytes(at int, from column.Column) {
	ends := c.ends.Slice[at:]
	switch small, large, data := from.Offsets(); {
	case small != nil:
		putOffsets(c.data.Slice, ends, small[:from.Len()+1], data)
	case large != nil:
		putOffsets(c.data.Slice, ends, large[:from.Len()+1], data)
	default:
		end := ends[0]
		for i := range from.Len() {
			end += int64(copy(c.data.Slice[end:], from.Bytes(i)))
			ends[i+1] = end
		}
	}
}

// putOffsets copies consecutive byte strings to to[ends[0]:], and sets the following ends.
func putOffsets[O int32 | int64](to []byte, ends []int64, offsets []O, data []byte) {
	first, last := offsets[0], offsets[len(offsets)-1]
	copy(to[ends[0]:], data[first:last])
	move := ends[0] - int64(first)
	for i, o := range offsets[1:] {
		ends[i+1] = int64(o) + move
	}
}

// View returns the rows as columns. They are valid until the next call that changes the store.
func (s *Store) View() []column.Column {
	columns := make([]column.Column, len(s.columns))
	for i, c := range s.columns {
		var v column.Column
		var err error
		switch {
		case c.typ != column.Bytes:
			v, err = column.OfRaw(c.typ, c.data.Slice[:c.used(s.n)])
		case s.n == 0:
			v = column.OfStrings([]string{})
		default:
			v, err = column.OfOffsets(c.ends.Slice[:s.n+1], c.data.Slice)
		}
		if err != nil {
			panic(err) // cannot happen: the store has written them
		}
		if c.nulls && s.n > 0 {
			v = v.WithValid(column.OfBits(c.valid.Slice, 0, s.n))
		}
		columns[i] = v
	}
	return columns
}

// ViewNotNull returns the first n columns as if none of their values were null.
func (s *Store) ViewNotNull(n int) []column.Column {
	view := &Store{n: s.n, columns: slices.Clone(s.columns[:n])}
	for i := range view.columns {
		view.columns[i].nulls = false
	}
	return view.View()
}

// ForEachChunk calls f for consecutive chunks of rows, of about size bytes each.
func (s *Store) ForEachChunk(size int64, f func([]column.Column) error) error {
	view, n := s.View(), s.n
	step := int(max(1, size/(s.Bytes()/int64(max(n, 1))+1)))
	for lo := 0; lo < n; {
		hi := min(lo+step, n)
		chunk := Slice(view, lo, hi)
		for hi-lo > 1 && Bytes(chunk) > 2*size { // the chunk has long values
			hi = lo + (hi-lo)/2
			chunk = Slice(view, lo, hi)
		}
		if err := f(chunk); err != nil {
			return err
		}
		lo = hi
	}
	return nil
}

// Rewrite replaces each chunk of rows by the rows that f returns, which must not be more.
func (s *Store) Rewrite(dev device.Host, size int64,
	f func([]column.Column) ([]column.Column, error)) error {
	kept := 0
	err := s.ForEachChunk(size, func(chunk []column.Column) error {
		rewritten, err := f(chunk)
		if err != nil {
			return err
		}
		s.n = kept
		err = s.Append(dev, rewritten)
		kept = s.n
		return err
	})
	s.n = kept
	for _, c := range s.columns {
		c.shrink(s.n)
	}
	return err
}

// shrink frees memory if rows take less than half of it.
func (c *storedColumn) shrink(rows int) {
	if n := int(c.used(rows)); n < len(c.data.Slice)/2 {
		c.data.Shrink(n)
	}
	if rows+1 < len(c.ends.Slice)/2 {
		c.ends.Shrink(rows + 1)
	}
}

// Reset removes all rows and keeps their memory for later rows. It shrinks memory of byte strings
// if less than half is used, because later byte strings may be in another column.
func (s *Store) Reset() {
	if s == nil {
		return
	}
	for i := range s.columns {
		c := &s.columns[i]
		if c.nulls = false; c.typ == column.Bytes {
			c.shrink(s.n)
		}
	}
	s.n = 0
}

// Free removes all rows and frees their memory. It does nothing for a nil store.
func (s *Store) Free() {
	if s == nil {
		return
	}
	for _, c := range s.columns {
		c.data.Free()
		c.ends.Free()
		c.valid.Free()
	}
	s.n = 0
}

// ViewWithNull returns View with an additional row of nulls, which the next Append overwrites.
func (s *Store) ViewWithNull(dev device.Host) ([]column.Column, error) {
	columns := make([]column.Column, len(s.columns))
	for i, c := range s.columns {
		columns[i] = emptyValue(c.typ).WithValid(column.OfBools([]bool{false}))
	}
	if err := s.Append(dev, columns); err != nil {
		return nil, err
	}
	defer func() { s.n-- }()
	return s.View(), nil
}

// emptyValue returns a column with a single value: zero, or an empty byte string.
func emptyValue(t column.Type) column.Column {
	if t == column.Bytes {
		return column.OfStrings([]string{""})
	}
	word := make([]uint64, 1)
	c, err := column.OfRaw(t, unsafe.Slice((*byte)(unsafe.Pointer(&word[0])), t.Size()))
	if err != nil {
		panic(err)
	}
	return c
}
