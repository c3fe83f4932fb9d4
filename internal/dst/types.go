package dst

import "github.com/weftgo/weft"

// types represents keys and values of a structure as 64-bit numbers, so that programs, histories
// and models are compiled only once. The sign bit of signed keys is flipped, so that numbers have
// the order of their keys.
type types struct {
	key func(bits uint64) uint64
	val func(bits uint64) uint64
	// returns an unsigned key that is larger by a 32nd of the range; returns a signed key itself
	after  func(key uint64) uint64
	reduce combining
}

func typesOf[K weft.Key, V weft.Value]() types {
	return types{
		key:    func(bits uint64) uint64 { return keyNumber(K(bits)) },
		val:    func(bits uint64) uint64 { return uint64(V(bits)) },
		after:  func(key uint64) uint64 { return keyNumber(typed[K](key) + (^K(0)>>1)/16) },
		reduce: func(kind weft.OpKind, a, b uint64) uint64 { return uint64(reduced(kind, V(a), V(b))) },
	}
}

func signBit[K weft.Key]() uint64 {
	if ^K(0) < 0 {
		return 1 << 63
	}
	return 0
}

func keyNumber[K weft.Key](k K) uint64 { return uint64(k) ^ signBit[K]() }
func typed[K weft.Key](n uint64) K     { return K(n ^ signBit[K]()) }

func valNumber[V weft.Value](v V) uint64 { return uint64(v) }

func numberColumn[T any](column []T, number func(T) uint64) []uint64 {
	out := make([]uint64, len(column))
	for i, x := range column {
		out[i] = number(x)
	}
	return out
}

func typedColumn[T any](column []uint64, typed func(uint64) T) []T {
	out := make([]T, len(column))
	for i, n := range column {
		out[i] = typed(n)
	}
	return out
}
