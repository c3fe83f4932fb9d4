package dst

import "github.com/weftgo/weft"

// types makes keys and values of a structure's types numbers of 64 bits, so that programs,
// histories and their models are compiled once. Keys have the order of their numbers: the sign of
// signed ones is turned.
type types struct {
	key    func(bits uint64) uint64
	val    func(bits uint64) uint64
	after  func(key uint64) uint64 // a key that is larger by a 32nd of all, if keys have no sign
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

// turned is the sign of signed keys.
func turned[K weft.Key]() uint64 {
	if ^K(0) < 0 {
		return 1 << 63
	}
	return 0
}

func keyNumber[K weft.Key](k K) uint64 { return uint64(k) ^ turned[K]() }
func typed[K weft.Key](n uint64) K     { return K(n ^ turned[K]()) }

func valNumber[V weft.Value](v V) uint64 { return uint64(v) }

func numbered[T any](column []T, number func(T) uint64) []uint64 {
	out := make([]uint64, len(column))
	for i, x := range column {
		out[i] = number(x)
	}
	return out
}

func typedIn[T any](column []uint64, typed func(uint64) T) []T {
	out := make([]T, len(column))
	for i, n := range column {
		out[i] = typed(n)
	}
	return out
}
