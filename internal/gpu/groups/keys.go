package groups

import (
	"unsafe"

	"github.com/weftgo/weft/device"
)

// Keys is the layout that packs key columns into 64-bit words. The bits of the values come first,
// followed by one null bit per column if columns may have nulls.
type Keys struct {
	fields []key
	words  int
}

// KeysOf returns the layout of key columns of the given types. If nulls is set, each column has a
// null bit.
func KeysOf(types []Type, nulls bool) Keys {
	k := Keys{fields: make([]key, len(types)), words: 1}
	used := 0 // bits in use in the last word
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

// Words returns the number of words of a key. A [Table] accepts keys of one word.
func (k Keys) Words() int { return k.words }

func (k Keys) descriptors(columns []Column) []key {
	keys := make([]key, len(k.fields))
	for i, f := range k.fields {
		f.column = columns[i].descriptor()
		keys[i] = f
	}
	return keys
}

// KeyOutput locates the column that receives the keys of results.
type KeyOutput struct {
	Column device.Ptr
	Valid  device.Ptr // bitmap of 32-bit words, which the caller zeroes; 0: no nulls
}

func (k Keys) outputs(outputs []KeyOutput) []keyOutput {
	all := make([]keyOutput, len(outputs))
	for i, o := range outputs {
		all[i] = keyOutput{column: o.Column, valid: o.Valid, from: k.fields[i]}
	}
	return all
}

// bytesOf returns the bytes of kernel structs, for a copy to a device.
func bytesOf[T key | field | output | keyOutput](all []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(all))), len(all)*int(unsafe.Sizeof(*new(T))))
}
