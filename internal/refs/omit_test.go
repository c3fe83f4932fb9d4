package refs

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/dst"
	"github.com/weftgo/weft/internal/op"
)

// A lookup of the host sees what kernels of a user have been submitted to do.
func TestOmissionsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	calls, err := devicetest.ListCalls("../gpu")
	if err != nil {
		t.Fatal(err)
	}
	others := map[string]string{}
	for _, c := range calls {
		if c.Func != "(*Engine).Update" {
			others[c.Text+" in "+c.Func] = "linear's programs"
		}
	}
	dst.Omit(t, "../gpu", others, func(wrap func(device.Device) device.Device) error { return lookBehindUpdate(t, wrap) })
}

func lookBehindUpdate(t *testing.T, wrap func(device.Device) device.Device) error {
	for seed := range uint64(5) {
		dev := must[*sim.Device](t)(sim.Open(&sim.Options{Scheduler: sim.Random, Seed: seed}))
		defer dev.Close()
		x := openLinear[uint32, uint32](t, wrap(dev), 100, false)
		keys, found := make([]uint32, 100), make([]bool, 100)
		kinds := make([]op.Kind, len(keys))
		for i := range keys {
			keys[i], kinds[i] = uint32(i), op.PutNew
		}
		c := upload(t, x.stream, kinds, keys, keys)
		ctx := context.Background()
		check(t, x.update(ctx, len(keys), func(launch func(ops) error) error { return launch(c.ops(alone)) }))
		hits, err := x.get(ctx, keys, make([]uint32, len(keys)), found)
		if err == nil && hits != len(keys) {
			err = fmt.Errorf("seed %d: %d of %d keys", seed, hits, len(keys))
		}
		c.download(t, x.stream)
		if err := errors.Join(err, x.Close(), x.stream.Close()); err != nil {
			return err
		}
	}
	return nil
}
