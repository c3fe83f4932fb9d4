package hash

// These are the constants of the hash of rows, which package column documents. The kernels in
// internal/gpu/parts have the same constants.
const (
	rowGamma = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio, as in SplitMix64

	NullWord = 0xd1b54a32d192ed03 // word hashed for a null
	NaNWord  = 0x7ff8 << 48       // word hashed for every NaN
)

// RowStart returns the hash of a row without columns.
func RowStart(seed uint64) uint64 { return Mix(seed + rowGamma) }

// Mix is the output function of SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom
// Number Generators", 2014), with the constants of Stafford's variant 13. It is a bijection.
func Mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
