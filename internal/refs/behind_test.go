package refs

import (
	"context"
	"errors"
	"testing"

	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/op"
)

// A host lookup sees the changes of user kernels that were submitted before the lookup.
func TestLookupBehindUpdate(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for seed := range uint64(5) {
		dev := must[*sim.Device](t)(sim.Open(&sim.Options{Scheduler: sim.Random, Seed: seed}))
		defer dev.Close()
		x := openLinear[uint32, uint32](t, dev, 100, false)
		keys, found := make([]uint32, 100), make([]bool, 100)
		kinds := make([]op.Kind, len(keys))
		for i := range keys {
			keys[i], kinds[i] = uint32(i), op.PutNew
		}
		c := upload(t, x.stream, kinds, keys, keys)
		ctx := context.Background()
		check(t, x.update(ctx, len(keys), func(launch func(ops) error) error { return launch(c.ops(singleLane)) }))
		hits, err := x.get(ctx, keys, make([]uint32, len(keys)), found)
		if hits != len(keys) || err != nil {
			t.Errorf("seed %d: %d of %d keys, %v", seed, hits, len(keys), err)
		}
		c.download(t, x.stream)
		check(t, errors.Join(x.Close(), x.stream.Close()))
	}
}
