package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/gphash"
	"github.com/weftgo/weft/internal/pool"
	"github.com/weftgo/weft/internal/table/flags"
)

// durabilityFlags holds --durability and --assert-pmem.
type durabilityFlags struct {
	durability string
	assert     []string
}

func (d *durabilityFlags) add(f *pflag.FlagSet) {
	f.StringVar(&d.durability, "durability", "", "durability to require: none, process or pmem (default pmem with --assert-pmem, or none)")
	f.StringSliceVar(&d.assert, "assert-pmem", nil, "memory is persistent, ddio-off (for GPUs) or global-persistent-flush (CXL)")
}

// options returns the durability and the assertions that the flags request.
func (d *durabilityFlags) options(verb string) (durability gphash.Durability, asserted gphash.PMemConditions, err error) {
	for _, condition := range d.assert {
		switch condition {
		case "persistent":
			asserted.Persistent = true
		case "ddio-off":
			asserted.DDIOOff = true
		case "global-persistent-flush":
			asserted.GlobalPersistentFlush = true
		default:
			return 0, asserted, flags.Usage("pool %s --assert-pmem %.60q: want persistent, ddio-off or global-persistent-flush", verb, condition)
		}
	}
	switch {
	case d.durability == "pmem", d.durability == "" && len(d.assert) > 0:
		return gphash.PMem, asserted, nil
	case d.durability != "" && d.durability != "none" && d.durability != "process":
		return 0, asserted, flags.Usage("pool %s --durability %.60q: want none, process or pmem", verb, d.durability)
	case len(d.assert) > 0:
		return 0, asserted, flags.Usage("pool %s --assert-pmem %s: is for --durability pmem, not %s", verb, strings.Join(d.assert, ","), d.durability)
	case d.durability == "process":
		return gphash.Process, asserted, nil
	}
	return 0, asserted, nil
}

// writeBack changes options so that the CPU writes all stores of opening a pool back from its
// caches. It does so because the pool does not record whether an operator asserts that the memory
// is persistent. If so, the stores of recovery must be persistent before later ones. Nothing is
// changed for a GPU, and for a device of persistent memory, which writes back by itself.
func writeBack(path string, dev device.Device, o gphash.OpenOptions) (options gphash.OpenOptions, added bool) {
	_, host := dev.(device.Host)
	stat, err := os.Stat(path)
	if o.Durability == gphash.PMem || o.ReadOnly || !host || err != nil || stat.Mode()&fs.ModeCharDevice != 0 {
		return o, false
	}
	o.Durability, o.AssertPMem.Persistent = gphash.PMem, true
	return o, true
}

// openWrittenBack opens a pool with the options of writeBack. before describes the pool. After a
// power loss it does not change the options, because they would assert that the memory has
// survived.
func openWrittenBack(ctx context.Context, path string, dev device.Device, o gphash.OpenOptions, before *pool.Info) (openedPool, *gphash.Report, error) {
	if grants := gphash.Durability(before.Durability); o.Durability > grants && o.Durability < gphash.PMem {
		return nil, nil, fmt.Errorf("%w: asked for %v, the file system grants %v", gphash.ErrNotDurable, o.Durability, grants)
	}
	if before.PowerLost {
		return openPool(ctx, path, dev, o)
	}
	options, added := writeBack(path, dev, o)
	x, report, err := openPool(ctx, path, dev, options)
	// The write-back instruction of this CPU is unknown.
	if added && errors.Is(err, gphash.ErrNotDurable) {
		return openPool(ctx, path, dev, o)
	}
	return x, report, err
}
