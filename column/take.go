package column

import (
	"unsafe"

	"github.com/weftgo/weft/device"
)

// takeGrain is the number of values that a core copies at a time, a multiple of 8.
const takeGrain = 1 << 14

// Take returns the values of the given rows of a column, in that order. A row may repeat. All cores
// of the device work on it. The result has its own memory, except that a column of [OfCodes] keeps
// its dictionary. Byte strings of different widths get 64-bit offsets. Take panics for a row
// outside the column.
func Take(dev device.Host, c Column, rows []uint32) Column {
	taken := Column{typ: c.typ, n: len(rows)}
	switch {
	case c.typ == None:
		if len(rows) > 0 {
			panic("column: rows requested from a column without rows")
		}
	case c.dict != nil:
		taken.dict, taken.codes = c.dict, takeValues(dev, c.codes, rows)
	case c.typ == Bytes && c.width > 0:
		taken.width, taken.data = c.width, takeWidth(dev, c, rows)
	case c.typ == Bytes:
		taken.large, taken.data = takeBytes(dev, c, rows)
	case c.typ.Size() == 1:
		taken.fixed = takeFixed[uint8](dev, c, rows)
	case c.typ.Size() == 2:
		taken.fixed = takeFixed[uint16](dev, c, rows)
	case c.typ.Size() == 4:
		taken.fixed = takeFixed[uint32](dev, c, rows)
	default:
		taken.fixed = takeFixed[uint64](dev, c, rows)
	}
	if c.HasNulls() {
		taken.valid = takeBits(dev, c.valid, rows)
	}
	return taken
}

func takeFixed[U uint8 | uint16 | uint32 | uint64](
	dev device.Host, c Column, rows []uint32,
) unsafe.Pointer {
	from := unsafe.Slice((*U)(c.fixed), c.n)
	return unsafe.Pointer(unsafe.SliceData(takeValues(dev, from, rows)))
}

func takeValues[T any](dev device.Host, from []T, rows []uint32) []T {
	to := make([]T, len(rows))
	dev.Parallel(len(rows), takeGrain, func(lo, hi int) {
		to := to[lo:hi]
		for i, row := range rows[lo:hi] {
			to[i] = from[row]
		}
	})
	return to
}

func takeWidth(dev device.Host, c Column, rows []uint32) []byte {
	w, from := c.width, c.data[:c.n*c.width:c.n*c.width]
	data := make([]byte, w*len(rows))
	dev.Parallel(len(rows), takeGrain, func(lo, hi int) {
		for i, row := range rows[lo:hi] {
			copy(data[(lo+i)*w:(lo+i+1)*w], from[int(row)*w:][:w])
		}
	})
	return data
}

// takeBytes sums the lengths of the byte strings, and then copies the strings. Both passes find
// several strings before they use one, so that cache misses overlap.
func takeBytes(dev device.Host, c Column, rows []uint32) (offsets []int64, data []byte) {
	offsets = make([]int64, len(rows)+1)
	each := func(body func(at int, texts []string)) {
		dev.Parallel(len(rows), takeGrain, func(lo, hi int) {
			var texts [128]string
			for ; lo < hi; lo += len(texts) {
				n := min(len(texts), hi-lo)
				c.find(rows[lo:lo+n], texts[:n])
				body(lo, texts[:n])
			}
		})
	}
	each(func(at int, texts []string) {
		for i, s := range texts {
			offsets[at+i+1] = int64(len(s))
		}
	})
	for i := range rows {
		offsets[i+1] += offsets[i]
	}
	data = make([]byte, offsets[len(rows)])
	each(func(at int, texts []string) {
		to := data[offsets[at]:]
		for _, s := range texts {
			to = to[copy(to, s):]
		}
	})
	return offsets, data
}

// find writes the byte strings of the given rows to texts, as strings over the same memory. The
// column must not have codes.
func (c Column) find(rows []uint32, texts []string) {
	texts = texts[:len(rows)]
	switch {
	case c.small != nil:
		findOffsets(c.small, c.data, rows, texts)
	case c.large != nil:
		findOffsets(c.large, c.data, rows, texts)
	default:
		for i, row := range rows {
			texts[i] = c.strings[row]
		}
	}
}

func findOffsets[O int32 | int64](offsets []O, data []byte, rows []uint32, texts []string) {
	for i, row := range rows {
		at := data[offsets[row]:offsets[row+1]]
		texts[i] = unsafe.String(unsafe.SliceData(at), len(at))
	}
}

func takeBits(dev device.Host, b Bitmap, rows []uint32) Bitmap {
	taken := make([]byte, (len(rows)+7)/8)
	dev.Parallel(len(rows), takeGrain, func(lo, hi int) {
		for i, row := range rows[lo:hi] {
			if b.At(int(row)) {
				taken[(lo+i)/8] |= 1 << ((lo + i) % 8)
			}
		}
	})
	return Bitmap{bits: taken, n: len(rows)}
}
