package beam

import (
	"fmt"
	"reflect"

	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
)

const (
	// DefaultParts is the default number of partitions.
	DefaultParts = 64

	// DefaultMemory is the default memory limit of a DoFn, in bytes.
	DefaultMemory = 256 << 20
)

// Options configure [Group] and [Distinct]. The zero value and nil are good defaults.
type Options struct {
	// Order names a column of integers without nulls, which orders rows for First and Last.
	// Examples are a time or a row number. The values within a group must be distinct.
	Order string

	// SkipNulls and WrapSums have the meaning of the same fields of group.Options.
	SkipNulls, WrapSums bool

	// Parts is the number of partitions of the keys, and the maximum number of workers that merge
	// at the same time. A worker buffers up to MaxBlock bytes per partition. Default: DefaultParts.
	Parts int

	// Device is the device that groups the rows of a bundle, in the syntax of auto.Open. "auto"
	// selects a GPU if the worker has one. The cores group rows that have byte strings or an Order.
	// A bundle with more groups than device memory holds fails. Default: the cores. Beam's flag
	// --resource_hints requests workers with a GPU: accelerator=type:nvidia-tesla-t4;count:1.
	Device string

	// Memory bounds, in bytes, the groups in one DoFn. If the groups of a bundle exceed it, the
	// bundle emits them and starts with an empty table. Merged groups that exceed it go to a
	// temporary file of the worker. At least group.MinMemory. Default: DefaultMemory.
	Memory int64

	// TempDir is the directory of temporary files on workers. Default: as in group.Options.
	TempDir string
}

// limits returns the number of partitions and the memory limit, with defaults instead of 0. It
// returns an error if parts is invalid.
func limits(parts int, memory int64) (int, int64, error) {
	if parts == 0 {
		parts = DefaultParts
	}
	if memory == 0 {
		memory = DefaultMemory
	}
	p := column.PartitionOptions{Parts: parts}
	return parts, memory, p.Check()
}

// checkBlocks returns an error if the elements of a collection are not blocks, or if the collection
// has windows. With windows, a DoFn could not emit what it combines over a bundle.
func checkBlocks(side string, blocks sdk.PCollection) error {
	switch {
	case !blocks.IsValid():
		return fmt.Errorf("%w: %s is not a collection", weft.ErrOptions, side)
	case blocks.Type().Type() != reflect.TypeFor[[]byte]():
		return fmt.Errorf("%w: %s has elements of type %v; want blocks, as []byte", weft.ErrOptions,
			side,
			blocks.Type())
	case blocks.WindowingStrategy().Fn.Kind != window.GlobalWindows:
		return fmt.Errorf("%w: %s has windows (%v), want the global window", weft.ErrOptions, side,
			blocks.WindowingStrategy())
	}
	return nil
}
