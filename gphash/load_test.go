package gphash

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/weftgo/weft/internal/hash"
)

// The paper's default configuration takes insertions up to a load of .95 before it grows,
// whatever the seed, if other keys make way (figure 7 has .92); with regions, too.
func TestLoadFactor(t *testing.T) {
	smallRegions(t)
	for seed := range uint64(3) {
		path := filepath.Join(memoryDir(t), "pool")
		x, err := Create(path, openCPU(t), Options{KeySize: 8, ValueSize: 8, Capacity: 80_000, Size: 64 << 20, Seed: [2]uint64{seed + 1, 7}})
		must(t, err)
		must(t, os.Remove(path))
		slots := x.engine.slotsIn(x.engine.live)
		load := 0.0
		for n := uint64(0); x.engine.slotsIn(x.engine.live) == slots; n++ {
			load = float64(x.Len()) / float64(slots)
			keys := make([]byte, 8*256)
			for i := range uint64(256) {
				binary.NativeEndian.PutUint64(keys[8*i:], hash.Uint64(n<<8|i, seed))
			}
			_, err := x.Put(ctx, keys, keys)
			must(t, err)
		}
		if t.Logf("seed %d: it grows from %d slots at a load of %.3f", seed, slots, load); load < .94 {
			t.Errorf("seed %d: it grows at a load of %.3f", seed, load)
		}
		must(t, x.Close())
	}
}
