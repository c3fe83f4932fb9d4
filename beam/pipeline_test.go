package beam

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	goarrow "github.com/apache/arrow-go/v18/arrow"
	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/group"
	"github.com/weftgo/weft/join"
)

func TestPrism(t *testing.T) { testJobs(t, "prism") }

// jobRows is the number of rows of a job, which has 40 blocks of two columns. jobKeys is the number
// of distinct keys.
const jobRows, jobKeys = 100_000, 5_000

// testJobs runs all jobs on a runner and compares the results with those of packages group and
// join.
func testJobs(t *testing.T, runner string) {
	rng := rand.New(rand.NewPCG(1, 2))
	k := column.Of(randomValues(rng, jobRows, func() int64 { return int64(rng.IntN(jobKeys)) }))
	v := column.Of(randomValues(rng, jobRows, func() int32 { return rng.Int32N(1000) }))
	var blocks [][]byte
	for lo := 0; lo < jobRows; lo += jobRows / 40 {
		hi := lo + jobRows/40
		blocks = append(blocks, must(EncodeColumns([]string{"k", "v"}, []column.Column{k.Slice(lo,
			hi), v.Slice(lo, hi)}))(t)...)
	}
	t.Run("group", func(t *testing.T) { testGroupJob(t, runner, blocks, k, v) })
	t.Run("distinct", func(t *testing.T) {
		want := must(group.By(t.Context(), must(openHost())(t), []column.Column{k, v}, nil, nil,
			nil))(t)
		got := jobTable(t, runner, func(s sdk.Scope) sdk.PCollection {
			return must(Distinct(s, reshuffled(s, blocks), nil, &Options{Parts: 3}))(t)
		})
		sameRows(t, rowsOf(got), rowsOf(want.Keys))
	})
	t.Run("count", func(t *testing.T) {
		for _, blocks := range [][][]byte{blocks, nil} {
			n := len(blocks) * jobRows / 40
			_, err := run(t, runner, func(s sdk.Scope) sdk.PCollection {
				sdk.ParDo0(s, &expect{N: int64(n)}, must(Count(s, reshuffled(s, blocks)))(t))
				return reshuffled(s, nil)
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
	for kind := join.Inner; kind <= join.Anti; kind++ {
		for _, opts := range []*JoinOptions{{Kind: kind}, {Kind: kind, Broadcast: true,
			Device: "auto"}} {
			t.Run(fmt.Sprintf("join/%v/broadcast=%v", kind, opts.Broadcast), func(t *testing.T) {
				testJoinJob(t, runner, opts, blocks, k, v)
			})
		}
	}
}

// expect is a DoFn that fails unless the number is N.
type expect struct{ N int64 }

func (f *expect) ProcessElement(n int64) error {
	if n != f.N {
		return fmt.Errorf("%d rows, want %d", n, f.N)
	}
	return nil
}

// reshuffled returns a collection of blocks that is split into several bundles.
func reshuffled(s sdk.Scope, blocks [][]byte) sdk.PCollection {
	return sdk.Reshuffle(s, source(s, fmt.Sprint("source ", len(sources)), blocks))
}

func jobTable(
	t *testing.T, runner string, build func(s sdk.Scope) sdk.PCollection,
) []column.Column {
	t.Helper()
	blocks := must(run(t, runner, build))(t)
	_, columns, _ := table(t, blocks)
	return columns
}

func testGroupJob(t *testing.T, runner string, blocks [][]byte, k, v column.Column) {
	var aggs []group.Aggregate
	for f := group.Rows; f <= group.Last; f++ {
		aggs = append(aggs, group.Aggregate{Func: f})
	}
	order := make([]uint32, jobRows)
	for i := range order {
		order[i] = uint32(i)
	}
	var withOrder [][]byte
	for i, b := range blocks {
		_, columns, err := DecodeColumns(b)
		if err != nil {
			t.Fatal(err)
		}
		columns = append(columns, column.Of(order[i*jobRows/40:(i+1)*jobRows/40]))
		withOrder = append(withOrder, must(EncodeColumns([]string{"k", "v", "row"}, columns))(t)...)
	}
	want := must(group.By(t.Context(), must(openHost())(t), []column.Column{k}, []column.Column{v},
		aggs, nil))(t)
	got := must(run(t, runner, func(s sdk.Scope) sdk.PCollection {
		return must(Group(s, reshuffled(s, withOrder), []string{"k"}, []string{"v"}, aggs,
			&Options{Order: "row"}))(t)
	}))(t)
	schema, columns, _ := table(t, got)
	if names := fieldNames(schema); names != "k count count:v sum:v min:v max:v mean:v first:v last:v" {
		t.Error(names)
	}
	sameRows(t, rowsOf(columns), rowsOf(append(want.Keys, want.Values...)))
}

func fieldNames(schema *goarrow.Schema) string {
	var names []string
	for _, f := range schema.Fields() {
		names = append(names, f.Name)
	}
	return strings.Join(names, " ")
}

func testJoinJob(
	t *testing.T, runner string, opts *JoinOptions, left [][]byte, k, v column.Column,
) {
	var rightKeys, rightValues []int64
	for i := range int64(jobKeys) {
		for range i % 3 {
			rightKeys, rightValues = append(rightKeys, i), append(rightValues,
				int64(len(rightKeys)))
		}
	}
	keys, values := column.Of(rightKeys), column.Of(rightValues)
	right := must(EncodeColumns([]string{"id", "v"}, []column.Column{keys, values}))(t)
	plan := joinPlan{Kind: opts.Kind}
	want := joinedRows(t, &plan, []column.Column{k}, []column.Column{k, v}, []column.Column{keys},
		[]column.Column{values})
	got := jobTable(t, runner, func(s sdk.Scope) sdk.PCollection {
		return must(Join(s, reshuffled(s, left), reshuffled(s, right), []string{"k"},
			[]string{"id"}, opts))(t)
	})
	sameRows(t, rowsOf(got), want)
}

// Invalid arguments are errors before anything runs.
func TestConstruction(t *testing.T) {
	_, s := sdk.NewPipelineWithRoot()
	blocks := source(s, "none", nil)
	windows := sdk.WindowInto(s, window.NewFixedWindows(time.Minute), blocks)
	sum := []group.Aggregate{{Func: group.Sum}}
	k, v := []string{"k"}, []string{"v"}
	for text, err := range map[string]error{
		"needs Options.Order": second(Group(s, blocks, k, v, []group.Aggregate{{Func: group.First}},
			nil)),
		"last of \"v\" needs": second(Group(s, blocks, k, v, []group.Aggregate{{Func: group.Last}},
			&Options{})),
		"value column 1, but there are 1": second(Group(s, blocks, k, v, []group.Aggregate{{Func: group.Sum,
			Column: 1}}, nil)),
		"no keys":            second(Group(s, blocks, nil, nil, []group.Aggregate{{}}, nil)),
		"want blocks":        second(Group(s, sdk.Create(s, 1), k, v, sum, nil)),
		"not a collection":   second(Group(s, sdk.PCollection{}, k, v, sum, nil)),
		"has windows":        second(Group(s, windows, k, v, sum, nil)),
		"blocks has windows": second(Count(s, windows)),
		"Parts":              second(Distinct(s, blocks, k, &Options{Parts: column.MaxParts + 1})),
		"Memory":             second(Distinct(s, blocks, k, &Options{Memory: 1})),
		"1 left and 2 right": second(Join(s, blocks, blocks, k, []string{"k", "v"}, nil)),
		"0 left and 0 right": second(Join(s, blocks, blocks, nil, nil, nil)),
		"right has windows":  second(Join(s, blocks, windows, k, k, nil)),
		"needs Broadcast":    second(Join(s, blocks, blocks, k, k, &JoinOptions{Device: "auto"})),
		"kind":               second(Join(s, blocks, blocks, k, k, &JoinOptions{Kind: 9})),
		"memory":             second(Join(s, blocks, blocks, k, k, &JoinOptions{Memory: 1})),
	} {
		if !errors.Is(err, weft.ErrOptions) || !strings.Contains(strings.ToLower(err.Error()),
			strings.ToLower(text)) {
			t.Errorf("%v; want ErrOptions with %q", err, text)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// A column that blocks lack fails the pipeline with an error that names the column.
func TestFailures(t *testing.T) {
	numbers := must(EncodeColumns([]string{"k", "v"}, []column.Column{column.Of([]int64{1, 1}),
		column.Of([]int64{1 << 62, 1 << 62})}))(t)
	texts := must(EncodeColumns([]string{"k", "v"}, []column.Column{column.OfStrings([]string{"a"}),
		column.OfStrings([]string{"b"})}))(t)
	grouped := func(aggs []group.Aggregate, keys, values string, opts *Options, blocks ...[]byte) func(s sdk.Scope) sdk.PCollection {
		return func(s sdk.Scope) sdk.PCollection {
			return must(Group(s, reshuffled(s, blocks), strings.Fields(keys),
				strings.Fields(values), aggs, opts))(t)
		}
	}
	joined := func(left, right [][]byte, opts *JoinOptions) func(s sdk.Scope) sdk.PCollection {
		return func(s sdk.Scope) sdk.PCollection {
			return must(Join(s, reshuffled(s, left), reshuffled(s, right), []string{"k"},
				[]string{"k"}, opts))(t)
		}
	}
	sum, first := []group.Aggregate{{Func: group.Sum}}, []group.Aggregate{{Func: group.First}}
	for text, build := range map[string]func(s sdk.Scope) sdk.PCollection{
		"no column \"x\"":         grouped(sum, "x", "v", nil, numbers...),
		"no column \"y\"":         grouped(sum, "k", "y", nil, numbers...),
		"no column \"z\"":         grouped(first, "k", "v", &Options{Order: "z"}, numbers...),
		"order column \"v\"":      grouped(first, "k", "v", &Options{Order: "v"}, texts...),
		"sum of column \"v\"":     grouped(sum, "k", "v", nil, texts...),
		"does not fit 64 bits":    grouped(sum, "k", "v", nil, numbers...),
		"collection differ":       grouped(nil, "k", "v", nil, slices.Concat(numbers, texts)...),
		"a block of 3 bytes":      grouped(sum, "k", "v", nil, []byte("abc")),
		"right side has no block": joined(numbers, nil, &JoinOptions{Kind: join.Left}),
		"so its columns are not": joined(numbers, nil, &JoinOptions{Kind: join.Left,
			Broadcast: true}),
		"block of the left side": joined(texts, numbers, nil),
		"of the left side: ":     joined(texts, numbers, &JoinOptions{Broadcast: true}),
		"right side: invalid":    joined(numbers, slices.Concat(numbers, texts), nil),
		"broadcast the right side": joined(numbers, slices.Concat(numbers, texts),
			&JoinOptions{Broadcast: true}),
	} {
		_, err := run(t, "prism", build)
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v; want an error with %q", err, text)
		}
	}
}
