package enum_test

import (
	"encoding"
	"errors"
	"flag"
	"fmt"
	"io"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/btree"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/cuckoo"
	"github.com/weftgo/weft/gphash"
	"github.com/weftgo/weft/graph/load"
	"github.com/weftgo/weft/group"
	"github.com/weftgo/weft/horton"
	"github.com/weftgo/weft/linear"
)

// reads is a type of weft that flags can have. P is its pointer type.
type reads[T any] interface {
	*T
	encoding.TextUnmarshaler
}

type prints interface {
	comparable
	fmt.Stringer
	encoding.TextMarshaler
}

// Options print and parse: flag.TextVar accepts each value by its name. Another name is an error
// that lists the valid names.
func TestTypes(t *testing.T) {
	check(t, weft.OpGet, weft.OpPut, weft.OpPutNew, weft.OpDelete, weft.OpDeleteAll, weft.OpSum, weft.OpMin, weft.OpMax, weft.OpAnd, weft.OpOr, weft.OpUpdate)
	check(t, weft.Sum, weft.Min, weft.Max, weft.And, weft.Or)
	check(t, weft.CoalesceAuto, weft.CoalesceAlways, weft.CoalesceNever)
	check(t, linear.Keep, linear.Reuse)
	check(t, cuckoo.FirstFit, cuckoo.LoadBalancing)
	check(t, cuckoo.StopAtHit, cuckoo.AllBuckets)
	check(t, horton.Lazy, horton.Eager, horton.Never)
	check(t, btree.Whole, btree.InPlace, btree.OutOfPlace)
	check(t, gphash.Beside, gphash.Stop)
	check(t, gphash.LFU, gphash.LRU, gphash.Random)
	check(t, gphash.SipHash, gphash.Fast)
	check(t, gphash.Process, gphash.PMem)
	check(t, load.Auto, load.MatrixMarket, load.EdgeList, load.CSV, load.DIMACS, load.METIS, load.EL, load.WEL, load.AdjList)
	check(t, load.HeaderAuto, load.HeaderNo, load.HeaderYes)
	check(t, load.IDsAuto, load.IDsSparse, load.IDsDense, load.IDsStrings)
	check(t, group.Rows, group.Count, group.Sum, group.Min, group.Max, group.Mean, group.First, group.Last)
	check(t, column.None, column.Int8, column.Uint64, column.Float32, column.Bool, column.Bytes)
}

func check[T prints, P reads[T]](t *testing.T, values ...T) {
	t.Helper()
	for _, v := range values {
		var got T
		f := flag.NewFlagSet("", flag.ContinueOnError)
		f.SetOutput(io.Discard)
		f.TextVar(P(&got), "x", values[0], "")
		if err := f.Parse([]string{"-x", v.String()}); err != nil || got != v {
			t.Errorf("%T: %v reads as %v, %v", v, v, got, err)
		}
		if text, err := v.MarshalText(); err != nil || string(text) != v.String() {
			t.Errorf("%T: %v is written as %q, %v", v, v, text, err)
		}
		if err := P(&got).UnmarshalText([]byte("none of them")); !errors.Is(err, weft.ErrOptions) || got != v {
			t.Errorf("%T: no name reads as %v, %v", v, got, err)
		}
	}
}
