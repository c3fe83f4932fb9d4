package groups

import (
	"unsafe"

	"github.com/weftgo/weft/device"
)

// Keys is the layout of key columns in a row of words. Columns are packed into the bits of words,
// followed by the null bits of all columns.
type Keys struct {
	fields []key
	words  int
}

// KeysOf lays out columns of some types; with nulls, each has a null bit.
func KeysOf(types []Type, nulls bool) Keys {
	k := Keys{fields: make([]key, len(types)), words: 1}
	used := 0 // bits of the last word
	takeBits := func(bits int) (word, shift uint32) {
		if used+bits > 64 {
			k.words, used = k.words+1, 0
		}
		used += bits
		return uint32(k.words - 1), uint32(used - bits)
	}
	for i, t := range types {
		k.fields[i] = key{type_: uint32(t), nullWord: none}
		k.fields[i].word, k.fields[i].shift = takeBits(8 * t.Size())
	}
	for i := range types {
		if nulls {
			k.fields[i].nullWord, k.fields[i].nullShift = takeBits(1)
		}
	}
	return k
}

// Words returns the number of words of a key. Keys of a [Table] have one.
func (k Keys) Words() int { return k.words }

// descriptors returns the columns in the kernels' form.
func (k Keys) descriptors(columns []Column) []key {
	keys := make([]key, len(k.fields))
	for i, f := range k.fields {
		f.column = columns[i].descriptor()
		keys[i] = f
	}
	return keys
}

// KeyOutput is the target of a key column of results.
type KeyOutput struct {
	Column device.Ptr
	Valid  device.Ptr // a bitmap of 32-bit words, all 0 before; 0: no nulls
}

// outputs returns outputs in the kernels' form.
func (k Keys) outputs(outputs []KeyOutput) []keyOutput {
	all := make([]keyOutput, len(outputs))
	for i, o := range outputs {
		all[i] = keyOutput{column: o.Column, valid: o.Valid, from: k.fields[i]}
	}
	return all
}

// bytesOf returns the bytes of a kernel struct, for a copy to a device.
func bytesOf[T key | field | output | keyOutput](all []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(all))), len(all)*int(unsafe.Sizeof(*new(T))))
}
