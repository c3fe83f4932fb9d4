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
	// DefaultParts is the number of partitions where options have none.
	DefaultParts = 64

	// DefaultMemory is the memory of a DoFn, in bytes, where options have none.
	DefaultMemory = 256 << 20
)

// Options configure [Group] and [Distinct]. The zero value and nil are good defaults.
type Options struct {
	// Order names a column of integers without nulls: the order of rows that First and Last go by,
	// such as a time or a number of the row. No two rows of a group may have the same.
	Order string

	// SkipNulls and WrapSums are those of group.Options.
	SkipNulls, WrapSums bool

	// Parts is the number of partitions of the keys, the most workers that can merge at the same
	// time. A worker has a buffer of up to MaxBlock bytes for each. Default: DefaultParts.
	Parts int

	// Memory bounds, in bytes, the memory of groups in one DoFn. A bundle whose groups exceed it
	// emits them and begins anew; merged groups that exceed it go to a temporary file of the
	// worker. At least group.MinMemory. Default: DefaultMemory.
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

// checkBlocks returns the error of a collection that does not consist of blocks, or that has
// windows, in which DoFns cannot emit what they have combined in a bundle.
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
