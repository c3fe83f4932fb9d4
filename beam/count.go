package beam

import (
	"context"
	"fmt"

	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

func init() {
	register.DoFn3x1[context.Context, []byte, func(int64), error](&countRows{})
	register.Function2x1(add)
	register.Emitter1[int64]()
}

// Count returns a collection of one int64: the number of rows in all blocks.
func Count(s sdk.Scope, blocks sdk.PCollection) (sdk.PCollection, error) {
	if err := checkBlocks("blocks", blocks); err != nil {
		return sdk.PCollection{}, fmt.Errorf("beam: Count: %w", err)
	}
	s = s.Scope("weft.Count")
	counts := sdk.Flatten(s, sdk.ParDo(s, &countRows{}, blocks), sdk.Create(s, int64(0)))
	return sdk.Combine(s, add, counts), nil
}

func add(a, b int64) int64 { return a + b }

// countRows is the DoFn that counts the rows of a bundle.
type countRows struct{ n int64 }

// StartBundle resets the count.
func (f *countRows) StartBundle(context.Context, func(int64)) error {
	f.n = 0
	return nil
}

// ProcessElement counts the rows of a block.
func (f *countRows) ProcessElement(_ context.Context, block []byte, _ func(int64)) error {
	rec, err := Decode(block)
	if err != nil {
		return err
	}
	defer rec.Release()
	f.n += rec.NumRows()
	return nil
}

// FinishBundle emits the count.
func (f *countRows) FinishBundle(_ context.Context, emit func(int64)) error {
	emit(f.n)
	return nil
}
