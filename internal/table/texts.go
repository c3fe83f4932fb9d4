package table

import (
	"hash/maphash"

	"github.com/weftgo/weft/column"
)

// texts makes a column of text. While distinct values are few, it stores codes into a dictionary,
// which makes later work cheaper. Otherwise it stores all values consecutively.
type texts struct {
	offsets []int64 // offsets in data of the dictionary's values, or of all values
	data    []byte

	codes   []uint32
	index   []uint32 // hash table of codes plus 1; 0 if free
	seed    maphash.Seed
	noCodes bool // no codes in this block and later ones
}

const (
	// maxWords bounds the dictionary, so that it fits in a second-level cache. Its hash table has
	// four slots per value.
	maxWords, indexSize = 1 << 12, 1 << 14
	// maxWord bounds the length of values in the dictionary.
	maxWord = 1 << 8
)

// reset begins a column of at most the given number of rows. It allocates new memory, except for
// the index.
func (t *texts) reset(rows int) {
	*t = texts{index: t.index, seed: t.seed, noCodes: t.noCodes, data: make([]byte, 0, cap(t.data))}
	if t.noCodes {
		t.offsets = make([]int64, 1, rows+1)
		return
	}
	t.offsets, t.codes = make([]int64, 1), make([]uint32, 0, rows)
	if t.index == nil {
		t.index, t.seed = make([]uint32, indexSize), maphash.MakeSeed()
	}
	clear(t.index)
}

func (t *texts) add(value []byte) {
	if !t.noCodes {
		if code, ok := t.code(value); ok {
			t.codes = append(t.codes, code)
			return
		}
		t.expand()
	}
	t.data = append(t.data, value...)
	t.offsets = append(t.offsets, int64(len(t.data)))
}

// code returns the code of a value, and adds the value to the dictionary if needed. It returns
// false if the dictionary is full or the value too long.
func (t *texts) code(value []byte) (code uint32, ok bool) {
	if len(value) > maxWord {
		return 0, false
	}
	at := maphash.Bytes(t.seed, value) % indexSize
	for ; t.index[at] != 0; at = (at + 1) % indexSize {
		code := t.index[at] - 1
		if string(t.data[t.offsets[code]:t.offsets[code+1]]) == string(value) {
			return code, true
		}
	}
	n := len(t.offsets) - 1
	if n == maxWords {
		return 0, false
	}
	t.index[at] = uint32(n + 1)
	t.data = append(t.data, value...)
	t.offsets = append(t.offsets, int64(len(t.data)))
	return uint32(n), true
}

// expand switches from codes to consecutive values.
func (t *texts) expand() {
	all := texts{noCodes: true, offsets: make([]int64, 1, cap(t.codes)+1), data: make([]byte, 0,
		2*cap(t.data))}
	for _, code := range t.codes {
		if int(code)+1 < len(t.offsets) { // nulls may refer to a dictionary without values
			all.data = append(all.data, t.data[t.offsets[code]:t.offsets[code+1]]...)
		}
		all.offsets = append(all.offsets, int64(len(all.data)))
	}
	*t = all
}

func (t *texts) null() {
	if t.noCodes {
		t.offsets = append(t.offsets, int64(len(t.data)))
	} else {
		t.codes = append(t.codes, 0)
	}
}

// truncate drops the given row and later ones. Their values remain in the dictionary.
func (t *texts) truncate(row int) {
	if t.noCodes {
		t.offsets = t.offsets[:row+1]
		t.data = t.data[:t.offsets[row]]
	} else {
		t.codes = t.codes[:row]
	}
}

func (t *texts) column(rows int) column.Column {
	if t.noCodes {
		return ofText(t.offsets[:rows+1], t.data)
	}
	if len(t.offsets) == 1 { // all rows are null
		t.offsets = append(t.offsets, 0)
	}
	c, err := column.OfCodes(t.codes[:rows], ofText(t.offsets, t.data))
	if err != nil {
		panic(err) // all codes are in the dictionary
	}
	return c
}
