package groups

import (
	"unsafe"

	"github.com/weftgo/weft/device"
)

// Keys are key columns as a row of words: columns follow each other in the bits of a word, and those that say what is null
// come behind all.
type Keys struct {
	fields []key
	words  int
}

// KeysOf lays out columns of some types; nulls: each has a bit for null.
func KeysOf(types []Type, nulls bool) Keys {
	k := Keys{fields: make([]key, len(types)), words: 1}
	used := 0 // bits of the last word
	take := func(bits int) (word, shift uint32) {
		if used+bits > 64 {
			k.words, used = k.words+1, 0
		}
		used += bits
		return uint32(k.words - 1), uint32(used - bits)
	}
	for i, t := range types {
		k.fields[i] = key{type_: uint32(t), nullWord: none}
		k.fields[i].word, k.fields[i].shift = take(8 * t.Size())
	}
	for i := range types {
		if nulls {
			k.fields[i].nullWord, k.fields[i].nullShift = take(1)
		}
	}
	return k
}

// Words are those of a key; [Table] has room for one.
func (k Keys) Words() int { return k.words }

// at are the columns as kernels know them.
func (k Keys) at(columns []Column) []key {
	known := make([]key, len(k.fields))
	for i, f := range k.fields {
		f.column = columns[i].known()
		known[i] = f
	}
	return known
}

// KeyOutput is where a key column of results goes.
type KeyOutput struct {
	Column device.Ptr
	Valid  device.Ptr // a bitmap of 32-bit words, all 0 before; 0: nothing is null
}

// outputs are outputs as kernels know them.
func (k Keys) outputs(outputs []KeyOutput) []keyOutput {
	known := make([]keyOutput, len(outputs))
	for i, o := range outputs {
		known[i] = keyOutput{column: o.Column, valid: o.Valid, from: k.fields[i]}
	}
	return known
}

// bytesOf is what kernels know, as it is copied to a device.
func bytesOf[T key | field | output | keyOutput](all []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(all))), len(all)*int(unsafe.Sizeof(*new(T))))
}
