package core

import (
	"reflect"
	"strconv"
	"unsafe"

	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/op"
)

// Type is a type of keys or values as files record it: a letter for the kind of type, and the width
// in bits. A named type is recorded as its underlying type. int and uint are recorded with their
// sizes on this machine.
type Type struct {
	Letter byte // 'u', 'i', 'f' or 's'; 0 for the missing values of a set
	Bits   uint8
}

// Bytes is the type of byte strings, of fixed or variable length.
var Bytes = Type{Letter: 's'}

// Types are the types of the keys and values of a table.
type Types struct{ Key, Val Type }

// MapTypes returns the types of a map or a multimap.
func MapTypes[K op.Key, V op.Value]() Types { return Types{typeOf[K](), typeOf[V]()} }

// SetTypes returns the types of a set.
func SetTypes[K op.Key]() Types { return Types{Key: typeOf[K]()} }

func typeOf[T op.Value]() Type {
	var x T
	t := Type{Letter: 'u', Bits: uint8(unsafe.Sizeof(x) * 8)}
	switch reflect.TypeFor[T]().Kind() {
	case reflect.Int, reflect.Int32, reflect.Int64:
		t.Letter = 'i'
	case reflect.Float32, reflect.Float64:
		t.Letter = 'f'
	}
	return t
}

// Order returns a mask. The exclusive or of the mask and a key's bits is an unsigned number; these
// numbers have the order of the type. The same operation maps them back.
func (t Type) Order() uint64 {
	if t.Letter == 'i' {
		return 1 << (t.Bits - 1)
	}
	return 0
}

// flags returns the batch flags that describe the type of values to kernels and loops.
func (t Type) flags() batch.Flags {
	switch t.Letter {
	case 'i':
		return batch.Signed
	case 'f':
		return batch.Float
	}
	return 0
}

// String returns the type's name, in Go for numbers.
func (t Type) String() string {
	name, ok := map[byte]string{'u': "uint", 'i': "int", 'f': "float"}[t.Letter]
	switch {
	case ok:
		return name + strconv.Itoa(int(t.Bits))
	case t.Letter == 0:
		return "none"
	case t == Bytes:
		return "byte strings"
	}
	return "unknown"
}
