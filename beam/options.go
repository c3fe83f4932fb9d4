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

	// DefaultMemory is the default memory of a DoFn, in bytes.
	DefaultMemory = 256 << 20
)

// Options configure [Group] and [Distinct]. The zero value and nil are good defaults.
type Options struct {
	// Order names a column of integers without nulls that orders rows for First and Last, such as a
	// time or a number of the row. Two rows of a group must not have the same.
	Order string

	// SkipNulls and WrapSums are as in group.Options.
	SkipNulls, WrapSums bool

	// Parts is the number of partitions of the keys, and the maximum number of workers that merge
	// at the same time. A worker has a buffer of up to MaxBlock bytes for each. Default:
	// DefaultParts.
	Parts int

	// Device is the device that groups the rows of a bundle, in the syntax of auto.Open: "auto" is
	// a GPU if the worker has one. Rows with byte strings, and those with an Order, use the cores
	// in any case. A bundle with more groups than device memory holds fails. Default: the cores.
	// Beam's flag --resource_hints requests workers with a GPU:
	// accelerator=type:nvidia-tesla-t4;count:1.
	Device string

	// Memory bounds, in bytes, the memory of groups in one DoFn. If the groups of a bundle exceed
	// it, the bundle emits them and starts anew. Merged groups that exceed it go to a temporary
	// file of the worker. At least group.MinMemory. Default: DefaultMemory.
	Memory int64

	// TempDir is the directory of temporary files on workers. Default: as of group.Options.
	TempDir string
}

// limits sets the defaults of the number of partitions and of memory.
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

// checkBlocks returns the error of a collection of other elements than blocks, or with windows, in
// which DoFns cannot emit what they have combined in a bundle.
func checkBlocks(side string, blocks sdk.PCollection) error {
	switch {
	case !blocks.IsValid():
		return fmt.Errorf("%w: %s is no collection", weft.ErrOptions, side)
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
