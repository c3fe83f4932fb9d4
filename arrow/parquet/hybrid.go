package parquet

import (
	"encoding/binary"
	"errors"
)

// hybrid decodes Parquet's RLE/bit-packing hybrid encoding, which stores codes, levels and
// booleans. It consists of runs of one repeated value and runs of bit-packed values. The capacity
// of b must exceed its length by slack bytes.
type hybrid struct {
	b     []byte
	bits  uint
	at    int  // position of the next run
	left  int  // remaining values of the current run
	plain bool // the current run is bit-packed; its next value begins at bit pos
	pos   int
	value uint32 // value of a run that is not bit-packed
}

// slack is the number of bytes that must be readable after encoded values, so that a whole word can
// be loaded at the last byte.
const slack = 16

var errRuns = errors.New("damaged runs")

// begin reads the next run if the current one has no values left.
func (h *hybrid) begin() error {
	for h.left == 0 {
		head, n := binary.Uvarint(h.b[h.at:])
		if n <= 0 {
			return errRuns
		}
		h.at += n
		width := int(h.bits+7) / 8
		h.plain = head&1 != 0
		if !h.plain {
			if width > len(h.b)-h.at || head>>1 > 1<<32 {
				return errRuns
			}
			word := binary.LittleEndian.Uint64(h.b[h.at : h.at+8 : cap(h.b)])
			h.value = uint32(word & (1<<(8*width) - 1))
			h.left = int(head >> 1)
			h.at += width
			continue
		}
		groups := head >> 1 // groups of eight values
		if groups > uint64(len(h.b)-h.at)+1 && h.bits > 0 || groups > 1<<29 {
			return errRuns
		}
		// Some writers omit trailing bytes that the last group does not need.
		h.pos, h.left = 8*h.at, 8*int(groups)
		if have := 8 * (len(h.b) - h.at); h.bits > 0 && int(h.bits)*h.left > have {
			if h.left = have / int(h.bits); h.left == 0 {
				return errRuns
			}
		}
		h.at += min(int(groups)*int(h.bits), len(h.b)-h.at)
	}
	return nil
}

func (h *hybrid) read(dst []uint32) error {
	for len(dst) > 0 {
		if err := h.begin(); err != nil {
			return err
		}
		part := dst[:min(len(dst), h.left)]
		if h.plain {
			h.unpack(part)
		} else {
			for i := range part {
				part[i] = h.value
			}
		}
		h.left -= len(part)
		dst = dst[len(part):]
	}
	return nil
}

func (h *hybrid) skip(n int) error {
	for n > 0 {
		if err := h.begin(); err != nil {
			return err
		}
		m := min(n, h.left)
		if h.plain {
			h.pos += int(h.bits) * m
		}
		h.left -= m
		n -= m
	}
	return nil
}

func (h *hybrid) unpack(dst []uint32) {
	b, bits, pos := h.b[:len(h.b)+slack-8], h.bits, h.pos
	mask := uint64(1)<<bits - 1
	h.pos += int(bits) * len(dst)
	if bits <= 8 && pos%8 == 0 {
		for at := pos / 8; len(dst) >= 8; dst, at = dst[8:], at+int(bits) {
			w, d := binary.LittleEndian.Uint64(b[at:at+8]), dst[:8]
			d[0], d[1] = uint32(w&mask), uint32(w>>bits&mask)
			d[2], d[3] = uint32(w>>(2*bits)&mask), uint32(w>>(3*bits)&mask)
			d[4], d[5] = uint32(w>>(4*bits)&mask), uint32(w>>(5*bits)&mask)
			d[6], d[7] = uint32(w>>(6*bits)&mask), uint32(w>>(7*bits)&mask)
			pos += 8 * int(bits)
		}
	}
	for i := range dst {
		dst[i] = uint32(binary.LittleEndian.Uint64(b[pos>>3:pos>>3+8]) >> (pos & 7) & mask)
		pos += int(bits)
	}
}

// levels decodes n one-bit levels into a zeroed bitmap, beginning at bit lo. It returns the number
// of levels that are 1.
func (h *hybrid) levels(bitmap []byte, lo, n int) (set int, err error) {
	for n > 0 {
		if err := h.begin(); err != nil {
			return set, err
		}
		m := min(n, h.left)
		switch {
		case !h.plain && h.value > 1 || h.bits != 1:
			return set, errRuns
		case h.plain:
			for i := range m {
				bit := h.b[(h.pos+i)>>3] >> ((h.pos + i) & 7) & 1
				bitmap[(lo+i)>>3] |= bit << ((lo + i) & 7)
				set += int(bit)
			}
			h.pos += m
		case h.value == 1:
			fill(bitmap, lo, m)
			set += m
		}
		h.left -= m
		lo, n = lo+m, n-m
	}
	return set, nil
}

func fill(bitmap []byte, lo, n int) {
	for ; n > 0 && lo&7 != 0; lo, n = lo+1, n-1 {
		bitmap[lo>>3] |= 1 << (lo & 7)
	}
	for ; n >= 8; lo, n = lo+8, n-8 {
		bitmap[lo>>3] = 0xff
	}
	for ; n > 0; lo, n = lo+1, n-1 {
		bitmap[lo>>3] |= 1 << (lo & 7)
	}
}
