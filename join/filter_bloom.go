package join

import (
	"math/bits"
	"unsafe"
)

// bloom is a Bloom filter of hashes. It is blocked, so that a key touches one cache line: Putze,
// Sanders and Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", 2007. A block has 256
// bits, as in Parquet. A key sets two bits in each of the block's four words. This is a sectorized
// filter: Lang et al., "Performance-Optimal Filtering", VLDB 2019, section 3.2. Go tests four words
// of 64 bits faster than eight of 32. A Filter without a bloom passes all keys.
type bloom struct{ blocks []bloomBlock }

type bloomBlock [4]uint64

// newBloom makes a filter of at most the given bytes, but of at least one block.
func newBloom(bytes int) *bloom {
	return &bloom{make([]bloomBlock, max(bytes/int(unsafe.Sizeof(bloomBlock{})), 1))}
}

func (b *bloom) bytes() int {
	if b == nil {
		return 0
	}
	return len(b.blocks) * int(unsafe.Sizeof(bloomBlock{}))
}

// find returns the block that the highest bits of hash h select, and the word g that selects bits
// in the block. The multiplication makes g depend on all bits of h.
func (b *bloom) find(h uint64) (block *bloomBlock, g uint64) {
	i, _ := bits.Mul64(h, uint64(len(b.blocks)))
	return &b.blocks[i], h * 0x9e3779b97f4a7c15 >> 16
}

// twoBits returns a word with at most two bits set, chosen by twelve bits of g.
func twoBits(g uint64) uint64 { return 1<<(g&63) | 1<<(g>>6&63) }

func (b *bloom) add(h uint64) {
	block, g := b.find(h)
	block[0] |= twoBits(g)
	block[1] |= twoBits(g >> 12)
	block[2] |= twoBits(g >> 24)
	block[3] |= twoBits(g >> 36)
}

func (b *bloom) has(h uint64) bool {
	block, g := b.find(h)
	missing := twoBits(g)&^block[0] | twoBits(g>>12)&^block[1]
	return missing|twoBits(g>>24)&^block[2]|twoBits(g>>36)&^block[3] == 0
}

// rate returns the share of absent keys that pass, estimated from a sample of blocks.
func (b *bloom) rate() float64 {
	const sample = 1 << 10
	step := max(len(b.blocks)/sample, 1)
	sum, n := 0., 0
	for i := 0; i < len(b.blocks); i += step {
		pass := 1.
		for _, w := range b.blocks[i] {
			set := float64(bits.OnesCount64(w)) / 64
			pass *= set * set
		}
		sum, n = sum+pass, n+1
	}
	return sum / float64(n)
}
