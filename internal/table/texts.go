package table

import (
	"hash/maphash"

	"github.com/weftgo/weft/column"
)

// texts makes a column of text. As long as few values differ, they are codes into a dictionary,
// which makes later work cheaper. Otherwise they are stored one after the other.
type texts struct {
	offsets []int64 // of the dictionary's values, or of all
	data    []byte

	codes   []uint32
	index   []uint32 // by hash: codes from 1 on
	seed    maphash.Seed
	noCodes bool // in this block and later ones
}

const (
	// maxWords bounds a dictionary, so that it stays in a second-level cache. Its index has four
	// places for each value.
	maxWords, indexSize = 1 << 12, 1 << 14
	// maxWord is the maximum length of a value that is looked up.
	maxWord = 1 << 8
)

// reset begins a column of at most rows rows, in new memory except the index.
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

// add adds a value.
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

// code returns the code of a value, or false if the value is not in the dictionary, which is full.
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

// expand stores all values one after the other.
func (t *texts) expand() {
	all := texts{noCodes: true, offsets: make([]int64, 1, cap(t.codes)+1), data: make([]byte, 0,
		2*cap(t.data))}
	for _, code := range t.codes {
		if int(code)+1 < len(t.offsets) { // there may be only nulls, which have no word
			all.data = append(all.data, t.data[t.offsets[code]:t.offsets[code+1]]...)
		}
		all.offsets = append(all.offsets, int64(len(all.data)))
	}
	*t = all
}

// null adds a row without a value.
func (t *texts) null() {
	if t.noCodes {
		t.offsets = append(t.offsets, int64(len(t.data)))
	} else {
		t.codes = append(t.codes, 0)
	}
}

// truncate drops rows from some row on. The dictionary keeps their values.
func (t *texts) truncate(row int) {
	if t.noCodes {
		t.offsets = t.offsets[:row+1]
		t.data = t.data[:t.offsets[row]]
	} else {
		t.codes = t.codes[:row]
	}
}

// column returns the first rows.
func (t *texts) column(rows int) column.Column {
	if t.noCodes {
		return ofText(t.offsets[:rows+1], t.data)
	}
	if len(t.offsets) == 1 { // all are null
		t.offsets = append(t.offsets, 0)
	}
	c, err := column.OfCodes(t.codes[:rows], ofText(t.offsets, t.data))
	if err != nil {
		panic(err) // codes are those of the dictionary
	}
	return c
}
