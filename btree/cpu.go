package btree

import (
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/core"
)

func newCPUEngine(device.Host, batch.Widths, uint64, *Options) (engine, *core.Leases, error) {
	return nil, nil, fmt.Errorf("%w: package btree runs on a GPU only, so far", device.ErrUnsupported)
}
