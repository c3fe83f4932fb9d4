package group

import (
	"encoding/binary"

	"github.com/weftgo/weft/column"
)

// rest gives dense numbers to keys that codes have no room for.
type rest struct {
	ids   map[string]uint32
	keys  []kept // by key column
	row   []byte // encoded
	one   [1]uint64
	bytes int64
}

// kept are the values of a key column, by number.
type kept struct {
	typ   column.Type
	words []uint64 // ordered values of types of fixed size
	ends  []int64  // of byte strings in data
	data  []byte
	null  []bool
}

// entryBytes is about what an entry of a map takes beside its bytes.
const entryBytes = 48

func newRest(types []column.Type) *rest {
	r := &rest{ids: make(map[string]uint32), keys: make([]kept, len(types))}
	for i, t := range types {
		r.keys[i].typ = t
	}
	return r
}

// intern receives in codes the numbers of the keys of rows, until they would take more than limit bytes. done
// is the number of rows it came to.
func (r *rest) intern(codes []uint64, keys []column.Column, rows []uint32, base int, limit int64) (done int) {
	for i := range codes {
		row := rowOf(rows, base, i)
		r.encode(keys, row)
		id, ok := r.ids[string(r.row)]
		if !ok {
			if r.bytes+r.needs() > limit {
				return i
			}
			r.bytes += r.needs()
			id = uint32(len(r.ids))
			r.ids[string(r.row)] = id
			for j := range r.keys {
				r.keep(&r.keys[j], keys[j], row)
			}
		}
		codes[i] = uint64(id)
	}
	return len(codes)
}

// needs is about the memory that the encoded row needs, if it is new.
func (r *rest) needs() int64 { return 2*int64(len(r.row)) + entryBytes + 16*int64(len(r.keys)) }

// encode makes bytes of a row, others for each other.
func (r *rest) encode(keys []column.Column, row int) {
	r.row = r.row[:0]
	for _, c := range keys {
		switch {
		case c.Null(row):
			r.row = append(r.row, 0)
		case c.Type() == column.Bytes:
			v := c.Bytes(row)
			r.row = binary.AppendUvarint(append(r.row, 1), uint64(len(v)))
			r.row = append(r.row, v...)
		default:
			r.row = binary.LittleEndian.AppendUint64(append(r.row, 1), r.ordered(c, row))
		}
	}
}

func (r *rest) ordered(c column.Column, row int) uint64 {
	r.one[0] = 0
	pack(r.one[:], c, row, 0)
	return r.one[0]
}

// keep adds the value of a row, which has the next number.
func (r *rest) keep(k *kept, c column.Column, row int) {
	null := c.Null(row)
	k.null = append(k.null, null)
	switch {
	case k.typ != column.Bytes && null:
		k.words = append(k.words, 0)
	case k.typ != column.Bytes:
		k.words = append(k.words, plain(k.typ, r.ordered(c, row)))
	default:
		if !null {
			k.data = append(k.data, c.Bytes(row)...)
		}
		k.ends = append(k.ends, int64(len(k.data)))
	}
}

// at is the byte string of a number.
func (k *kept) at(id uint64) []byte {
	begin := int64(0)
	if id > 0 {
		begin = k.ends[id-1]
	}
	return k.data[begin:k.ends[id]]
}
