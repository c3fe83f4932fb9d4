package beam

import (
	"context"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	goarrow "github.com/apache/arrow-go/v18/arrow"
	sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/weftgo/weft/arrow"
	"github.com/weftgo/weft/column"
	"github.com/weftgo/weft/group"
)

// BenchmarkGroup has 10^7 rows in 10^5 groups, in blocks of 64 Ki rows.
const benchRows, benchGroups, benchBlock = 10_000_000, 100_000, 1 << 16

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measure reports the processor time of f in user and kernel mode. It reports the mean and the
// minimum, because other processes share the caches.
func measure(b *testing.B, f func()) {
	var used time.Duration
	least := time.Hour
	for b.Loop() {
		start := processorTime(b)
		f()
		d := processorTime(b) - start
		used, least = used+d, min(least, d)
	}
	b.ReportMetric(used.Seconds()*1000/float64(b.N), "cpu-ms/op")
	b.ReportMetric(least.Seconds()*1000, "least-cpu-ms/op")
}

// BenchmarkGroup compares the processor time of a pipeline on Prism, which runs in this process,
// with the processor time of group.By.
func BenchmarkGroup(b *testing.B) {
	keys, values := make([]int64, benchRows), make([]int64, benchRows)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range keys {
		keys[i], values[i] = int64(rng.IntN(benchGroups))*1_000_003, int64(rng.IntN(1000))
	}
	aggs := []group.Aggregate{{Func: group.Rows}, {Func: group.Sum}}
	b.Run("by", func(b *testing.B) {
		dev := must(openHost())(b)
		measure(b, func() {
			r, err := group.By(context.Background(), dev, []column.Column{column.Of(keys)},
				[]column.Column{column.Of(values)}, aggs, nil)
			if err != nil || r.Len() != benchGroups {
				b.Fatal(r.Len(), err)
			}
		})
	})
	b.Run("prism", func(b *testing.B) {
		blocks := benchBlocks(b, keys, values)
		measure(b, func() {
			out, err := run(b, "prism", func(s sdk.Scope) sdk.PCollection {
				in := source(s, "bench", blocks)
				return must(Group(s, in, []string{"k"}, []string{"v"}, aggs, nil))(b)
			})
			if err != nil {
				b.Fatal(err)
			}
			if _, _, rows := table(b, out); rows != benchGroups {
				b.Fatalf("%d groups", rows)
			}
		})
	})
}

func benchBlocks(b *testing.B, keys, values []int64) (blocks [][]byte) {
	schema := goarrow.NewSchema([]goarrow.Field{{Name: "k", Type: goarrow.PrimitiveTypes.Int64},
		{Name: "v", Type: goarrow.PrimitiveTypes.Int64}}, nil)
	for lo := 0; lo < len(keys); lo += benchBlock {
		hi := min(lo+benchBlock, len(keys))
		columns := []column.Column{column.Of(keys[lo:hi]), column.Of(values[lo:hi])}
		rec := must(arrow.RecordBatch(columns, schema))(b)
		blocks = append(blocks, must(encodeRecords(rec, sizeOf(columns)))(b))
	}
	return blocks
}
