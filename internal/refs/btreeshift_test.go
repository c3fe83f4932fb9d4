package refs

import (
	"errors"
	"slices"
	"testing"

	"github.com/weftgo/weft/btree"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/gpu"
	"github.com/weftgo/weft/internal/mutate"
	"github.com/weftgo/weft/internal/op"
)

// A single thread finds a key while batches shift it from slot to slot. It reads the state of a
// leaf once before and once after the slots. In a tile each lane does so, and a fault would show
// only if all lanes missed a late store of the state.
func TestShiftsHideNoKeyFromThreads(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	for seed := range uint64(3) {
		if missed := shift(t, seed, nil); missed != 0 {
			t.Errorf("seed %d: %d lookups have missed keys that are there", seed, missed)
		}
	}
	t.Run("tiles in step store a leaf before all can see that it is being changed", func(t *testing.T) {
		rewrite := mutate.Replace(t, "together_32_32", `fence\.acq_rel\.gpu;`, "")
		for seed := uint64(460); seed < 600; seed++ { // earlier seeds find nothing
			if missed := shift(t, seed, rewrite); missed != 0 {
				t.Logf("seed %d: %d lookups have missed keys that are there", seed, missed)
				return
			}
		}
		t.Error("no schedule hides a key")
	})
}

// shift looks up keys of some leaves while smaller keys change, and returns the number of missed
// keys.
func shift(t *testing.T, seed uint64, rewrite func(file, ptx string) string) (missed int) {
	dev := devicetest.OpenSim(t, &sim.Options{Scheduler: sim.Random, Seed: seed, Rewrite: rewrite})
	m := must[*btree.Map[uint32, uint32]](t)(btree.New[uint32, uint32](dev, &btree.Options{Unordered: true}))
	defer m.Close()
	const leaves, each = 8, 8 // of each hundred keys, eight stay, and smaller keys shift them
	var keys, other []uint32
	for i := range uint32(leaves * each) {
		keys = append(keys, 100*(i/each+1)+50+i%each)
		other = append(other, 100*(i/each+1)+i%3)
	}
	must[int](t)(m.Put(t.Context(), keys, keys))
	k := kernel(t, dev, refsBtreeImages, batch.MapWidths[uint32, uint32](), "run")
	writer, reader := devicetest.NewStream(t, dev), devicetest.NewStream(t, dev)
	changed := devicetest.Upload(t, writer, other)
	var asked []*columns[uint32, uint32]
	for range 4 {
		c := upload(t, reader, slices.Repeat([]op.Kind{op.Get}, len(keys)), keys, keys)
		asked = append(asked, c)
		err := errors.Join(m.PutOn(writer, changed, changed),
			m.View(t.Context(), reader, func(r btree.Ref) error {
				return device.Launch(reader, k, gpu.Grid(c.n), gpu.Block, &btreeParams{ref: r, ops: c.ops(singleLane)})
			}),
			m.DeleteOn(writer, changed, device.Slice[bool]{}))
		check(t, err)
	}
	check(t, errors.Join(writer.Sync(t.Context()), reader.Sync(t.Context())))
	for _, c := range asked {
		outcomes, _, _ := c.download(t, reader)
		for _, is := range outcomes {
			if is != present {
				missed++
			}
		}
	}
	return missed
}
