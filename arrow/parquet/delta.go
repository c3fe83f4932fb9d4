package parquet

import (
	"encoding/binary"
	"errors"
)

var errDelta = errors.New("damaged differences")

// deltas decodes numbers that are stored as differences (DELTA_BINARY_PACKED), and returns the
// bytes after them. More than maxValues numbers are an error. The capacity of b must exceed its
// length by slack bytes.
func deltas(b []byte, maxValues int) (values []int64, rest []byte, err error) {
	end := b[:len(b)+slack]
	at := 0
	uvarint := func() uint64 {
		v, n := binary.Uvarint(b[at:])
		if n <= 0 {
			err = errDelta
			return 0
		}
		at += n
		return v
	}
	zigzag := func() int64 {
		v := uvarint()
		return int64(v>>1) ^ -int64(v&1)
	}
	block, minis, total := uvarint(), uvarint(), uvarint()
	last := zigzag()
	// Each mini-block takes at least one byte. A total of more than 2^20 values is refused if it
	// exceeds 1024 values per byte.
	if err != nil || total > uint64(maxValues) || total > 1<<20 && total > 1024*uint64(len(b)) ||
		minis == 0 || minis > block || block > 1<<24 || block%minis != 0 || block/minis%8 != 0 {
		return nil, nil, errDelta
	}
	if total == 0 {
		return nil, b[at:], nil
	}
	values = append(make([]int64, 0, total), last)
	for len(values) < int(total) {
		least := zigzag()
		if err != nil || int(minis) > len(b)-at {
			return nil, nil, errDelta
		}
		widths := b[at : at+int(minis)]
		at += int(minis)
		for _, width := range widths {
			n := min(int(block/minis), int(total)-len(values))
			if n == 0 {
				break
			}
			if width > 64 || n*int(width) > 8*(len(b)-at) {
				return nil, nil, errDelta
			}
			for i := range n {
				last += least + int64(bitsAt(end, 8*at+i*int(width), uint(width)))
				values = append(values, last)
			}
			at += min(int(block/minis)*int(width)/8, len(b)-at)
		}
	}
	return values, b[at:], nil
}

// bitsAt returns the number in bits pos to pos+width-1 of b.
func bitsAt(b []byte, pos int, width uint) uint64 {
	at, shift := pos>>3, uint(pos&7)
	w := binary.LittleEndian.Uint64(b[at:]) >> shift
	if shift+width > 64 {
		w |= uint64(b[at+8]) << (64 - shift)
	}
	if width == 64 {
		return w
	}
	return w & (1<<width - 1)
}

// deltaTexts decodes byte strings with lengths that are stored as differences
// (DELTA_LENGTH_BYTE_ARRAY).
func deltaTexts(b []byte, maxValues int) (offsets []int, data []byte, err error) {
	lengths, data, err := deltas(b, maxValues)
	if err != nil {
		return nil, nil, err
	}
	offsets = make([]int, 1, len(lengths)+1)
	at := 0
	for _, n := range lengths {
		if n < 0 || n > int64(len(data)-at) {
			return nil, nil, errDelta
		}
		at += int(n)
		offsets = append(offsets, at)
	}
	return offsets, data, nil
}

// frontTexts decodes byte strings that are stored without the prefix that each shares with the
// previous byte string (DELTA_BYTE_ARRAY).
func frontTexts(b []byte, maxValues int) (offsets []int, data []byte, err error) {
	prefixes, rest, err := deltas(b, maxValues)
	if err != nil {
		return nil, nil, err
	}
	ends, suffixes, err := deltaTexts(rest, maxValues)
	if err != nil || len(ends) != len(prefixes)+1 {
		return nil, nil, errDelta
	}
	offsets = make([]int, 1, len(prefixes)+1)
	last := 0
	for i, n := range prefixes {
		start := len(data)
		if n < 0 || n > int64(start-last) || int64(start)+n > maxPage {
			return nil, nil, errDelta
		}
		data = append(data, data[last:last+int(n)]...)
		data = append(data, suffixes[ends[i]:ends[i+1]]...)
		offsets, last = append(offsets, len(data)), start
	}
	return offsets, data, nil
}

// unsplit decodes values of width bytes. For each k, byte k of all values is stored consecutively
// (BYTE_STREAM_SPLIT).
func unsplit(b []byte, width int) []byte {
	n := len(b) / width
	out := make([]byte, n*width)
	for k := range width {
		for i, v := range b[k*n : (k+1)*n] {
			out[i*width+k] = v
		}
	}
	return out
}
